from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lightning_perfwatch.reporters.evidence_facts import evidence_facts
from lightning_perfwatch.reporters.wording import Fact


@pytest.mark.parametrize(
    ("key", "value", "name", "words"),
    [
        ("wait_s", 0.0995, "wait", "99.5 ms"),
        ("host_s_per_step", 0.000279, "host", "279 µs per step"),
        ("kernel_median_us", 4.64, "kernel median", "4.64 µs"),
        ("tokens_per_s", 12_345.6, "tokens", "12,346 per s"),
        ("calls_per_step", 1.5, "calls", "1.5 per step"),
        ("wait_share", 0.4676, "wait", "47 %"),
        ("peak_bytes", 1_500_000_000, "peak", "1.5 GB"),
        ("freed_bytes", 12, "freed", "12 B"),
        ("num_workers", 0, "workers", "0"),
        ("needed_workers", np.int64(2), "needed workers", "2"),
        ("persistent", False, "persistent", "no"),
        ("call", ".item()", "call", ".item()"),
        ("chain", ["aten::mul", "aten::add"], "chain", "aten::mul, aten::add"),
        ("empty", [], "empty", "empty"),
        ("hostile", "\x1b[31m\n<b>", "hostile", "[31m <b>"),
        ("_s", 1.0, "s", "1.00 s"),
        ("huge", 10**400, "huge", "1" + "0" * 198 + "…"),
    ],
)
def test_a_number_is_told_with_the_unit_of_its_key(key: str, value: Any, name: str, words: str) -> None:
    assert list(evidence_facts({key: value})) == [Fact(name, words)]


def test_what_was_not_measured_is_left_out() -> None:
    assert list(evidence_facts({"fetch_s": None})) == []


def test_long_evidence_is_cut() -> None:
    (fact,) = evidence_facts({"by_name": {f"operator {number}": number for number in range(100)}})

    assert len(fact.value) == 200
    assert fact.value.endswith("…")


def test_a_share_beside_the_same_in_seconds_says_that_it_is_one() -> None:
    facts = list(evidence_facts({"wait_s": 0.0995, "load_share": 0.25, "wait_share": 0.4676}))
    assert facts == [Fact("wait", "99.5 ms"), Fact("load", "25 %"), Fact("wait share", "47 %")]

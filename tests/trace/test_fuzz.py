"""Damaged traces: each gives a trace that can be broken down, or one sentence; nothing else, and soon."""

import gzip
import json
import random
import time
import warnings
from pathlib import Path

import pytest

from lightning_perfwatch.trace import (
    TraceError,
    annotation_at,
    breakdown,
    copy_costs,
    filled_share,
    host_breakdown,
    host_loops,
    idle_stalls,
    launches_in_steps,
    longest_communication,
    read_trace,
    step_breakdowns,
    top_launchers,
    top_ops,
    waits_in_steps,
    window_of,
)
from tests.trace.factories import document, frame, memory, phase
from tests.trace.mutations import mutate
from tests.trace.random_traces import random_events
from tests.trace.recording import record

TRACES = Path(__file__).parents[3] / "shared" / "traces"
NUM_MUTATIONS = 30  # of each real trace; a benchmark runs many more
# Small enough that a mutation is read in some milliseconds; the events of every kind of file are in them.
REAL = (
    "bert_small_h100",
    "copies_pageable_a100",
    "gpu_bound_cuda_graphs_rtx3060",
    "lightning_cpu_legacy_list",
    "sparse_a2a_rank2_v100",
)
LIMIT_S = 5.0  # per mutation; the slowest takes a tenth of a second


def analyse(path: Path) -> None:
    """Everything that a report reads from a trace."""
    recorded = read_trace(path)
    result = breakdown(recorded)
    assert result.window_s >= 0
    top_ops(recorded)
    for device in step_breakdowns(recorded):
        assert len(device) == len(recorded.steps)
    host_breakdown(recorded)
    top_launchers(recorded)
    top_launchers(recorded, by="module")
    copy_costs(recorded)
    launches_in_steps(recorded)
    waits_in_steps(recorded)
    host_loops(recorded)
    filled_share(recorded, 0)
    annotation_at(recorded, idle_stalls(recorded, 0, window_of(recorded)).mean(axis=1))
    longest_communication(recorded)


def assert_report_or_sentence(content: bytes, folder: Path) -> None:
    path = folder / "worker.1.pt.trace.json.gz"
    path.write_bytes(content)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            analyse(path)
    except TraceError as error:
        sentence = str(error)
        assert sentence.startswith(str(path))
        assert sentence.endswith(".")
        assert "\n" not in sentence
    assert time.perf_counter() - began < LIMIT_S


def test_whole_traces_are_no_errors(tmp_path: Path) -> None:
    path = tmp_path / "whole.json"
    path.write_text(json.dumps(document(*random_events(1))))
    analyse(path)


def test_same_seed_gives_the_same_damage() -> None:
    data = json.dumps(document(*random_events(1))).encode()
    for content in (data, gzip.compress(data, mtime=0)):
        first, again, other = (mutate(content, random.Random(seed)) for seed in (3, 3, 4))
        assert first == again
        assert len({first, other, content}) == 3


@pytest.mark.parametrize("seed", range(200))
def test_mutated_synthetic_traces(seed: int, tmp_path: Path) -> None:
    events = [
        *random_events(seed),
        frame("nn.Module: Net_0", 0, 50),
        memory(5, 512),
        phase("B", "open", 3),
        phase("E", "open", 9),
    ]
    data = json.dumps(document(*events, distributedInfo={"rank": 0}), indent=seed % 2 or None).encode()
    content = gzip.compress(data, mtime=0) if seed % 3 == 0 else data
    assert_report_or_sentence(mutate(content, random.Random(seed)), tmp_path)


@pytest.mark.skipif(not TRACES.is_dir(), reason="the shared traces are not on this machine")
@pytest.mark.parametrize("name", REAL)
def test_mutated_real_traces(name: str, tmp_path: Path) -> None:
    data = (TRACES / f"{name}.pt.trace.json.gz").read_bytes()
    plain = gzip.decompress(data)
    rng = random.Random(name)
    for number in range(NUM_MUTATIONS):
        assert_report_or_sentence(mutate(data if number % 3 == 0 else plain, rng), tmp_path)


def test_mutated_traces_recorded_here(tmp_path: Path) -> None:
    record(tmp_path / "t.json", 2, with_stack=True, profile_memory=True, record_shapes=True)
    data, rng = (tmp_path / "t.json").read_bytes(), random.Random(38)
    for _ in range(NUM_MUTATIONS):
        assert_report_or_sentence(mutate(data, rng), tmp_path)

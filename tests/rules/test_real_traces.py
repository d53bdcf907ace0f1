"""What the rules say of real traces of other people's devices: the truth that INDEX.tsv beside them tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightning_perfwatch.diagnosis import diagnose
from lightning_perfwatch.evidence import TRACE_ALONE, Evidence
from lightning_perfwatch.finding import Severity
from lightning_perfwatch.rank_traces import RankTraces
from lightning_perfwatch.rules import build_rules
from lightning_perfwatch.trace import read_trace

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="the folder with real traces is not here")

RULES = (
    "checkpoint-stall", "dataloader-starvation", "device-copy", "exposed-communication", "host-sync", "launch-bound",
    "logging-sync", "slow-hook", "step-jitter", "straggler-rank", "underfilled-device", "unpinned-copy",
    "validation-stall", "worker-restart",
)  # fmt: skip

W, C = Severity.WARNING, Severity.CRITICAL
EXPECTED: dict[str, list[tuple[str, Severity, float]]] = {
    "bert_small_h100": [("launch-bound", C, 0.91)],
    "bert_small_mi300": [("launch-bound", C, 0.86)],
    "copies_pageable_a100": [("unpinned-copy", C, 0.476)],
    "copies_pinned_a100": [],  # for 99 % of the time it only copies, but both ways at once: nothing is left to overlap
    "cpu_only_gloo_rank34": [("exposed-communication", C, 0.806)],
    "gpu_bound_cuda_graphs_rtx3060": [],
    "lightning_cpu_legacy_list": [],  # a fifth of the time, but 43 µs for a batch: no worker is faster
    "moe_forward_b200": [("launch-bound", W, 0.18), ("exposed-communication", W, 0.119)],
    "resnet50_workers0_v100": [("dataloader-starvation", C, 0.334)],
    "resnet50_workers4_v100": [("launch-bound", W, 0.236)],
    "resnet_ddp_a100": [("launch-bound", C, 0.75), ("exposed-communication", W, 0.059)],
    "sparse_a2a_rank0_v100": [("exposed-communication", C, 0.921)],
    "sparse_a2a_rank2_v100": [("slow-hook", C, 0.913)],
}


def path_of(name: str) -> Path:
    return TRACES / f"{name}.pt.trace.json.gz"


@needs_traces
@pytest.mark.parametrize("name", EXPECTED)
def test_findings_are_those_that_are_true(name: str) -> None:
    evidence = Evidence(trace=read_trace(path_of(name)), missing=TRACE_ALONE)
    found = diagnose(evidence, build_rules({}, RULES))
    told = [finding for finding in found.findings if finding.severity is not Severity.INFO]
    assert [(finding.rule, finding.severity) for finding in told] == [(rule, how) for rule, how, _ in EXPECTED[name]]
    assert [finding.share for finding in told] == [pytest.approx(share, abs=0.01) for *_, share in EXPECTED[name]]
    assert not any("failed" in reason for reason in found.skipped.values())


@needs_traces
def test_all_traces_have_an_expectation() -> None:
    assert {path.name.partition(".")[0] for path in TRACES.glob("*.gz")} == set(EXPECTED)


@needs_traces
def test_details_that_the_traces_tell() -> None:
    def only(name: str, rule: str) -> tuple[str, str]:
        evidence = Evidence(trace=read_trace(path_of(name)), missing=TRACE_ALONE)
        (finding,) = diagnose(evidence, build_rules({}, [rule])).findings
        return finding.summary, str(finding.where)

    summary, _ = only("resnet50_workers0_v100", "dataloader-starvation")
    assert "num_workers=0 loads every batch in the training process" in summary
    summary, where = only("bert_small_h100", "launch-bound")
    assert "60 kernels per step of 5 µs" in summary
    assert where == "transformers/models/bert/modeling_bert.py:364 · Linear"
    summary, where = only("sparse_a2a_rank2_v100", "slow-hook")
    assert where == "# running sparse arch"
    summary, where = only("moe_forward_b200", "host-sync")
    assert "20 times per step" in summary


@needs_traces
def test_the_rank_that_the_others_wait_for_is_the_cause_and_their_waiting_its_symptom() -> None:
    paths = [path_of("sparse_a2a_rank0_v100"), path_of("sparse_a2a_rank2_v100")]
    report = RankTraces(paths, build_rules({}, RULES)).report()
    (finding,) = report.findings
    assert (finding.rule, finding.where.rank, finding.severity) == ("straggler-rank", 2, Severity.CRITICAL)
    assert finding.share == pytest.approx(0.91, abs=0.01)
    assert finding.evidence["part"] == "host_stall"
    assert "straggler-rank" not in report.skipped

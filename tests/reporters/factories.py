"""Reports to render: an ordinary run, a bare trace, and one whose every name is hostile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lightning_perfwatch.counts import Counted, Interval
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.measurements import Excerpt, Mark, Overhead, RankSummary, RunInfo, Window
from lightning_perfwatch.report import Phase, Report, StepTime, Throughput
from lightning_perfwatch.trace import DeviceBreakdown, OpTotal, Timeline
from lightning_perfwatch.trace.timeline import MOST_EVENTS, Lane

HOSTILE = (
    "<script>alert('x')</script> | a `b` **c** __d__ [e](javascript:f) \x1b[31m\nline two \u202e\ud800 & %s {{ 7*7 }}"
)

PHASE_MS = {
    "data_wait": 12.3,
    "transfer": 0.0,
    "forward": 9.1,
    "backward": 14.2,
    "optimizer": 3.0,
    "callbacks": 0.9,
    "other": 0.5,
}


def phases(**phase_ms: float) -> dict[str, Phase]:
    step_ms = sum(phase_ms.values())
    return {name: Phase(share=ms / step_ms, s_per_step=ms / 1e3) for name, ms in phase_ms.items()}


def run_info(**changes: Any) -> RunInfo:
    return replace(
        RunInfo(
            device_type="cpu",
            device_name="Some CPU",
            device_is_asynchronous=False,
            num_cpus=2,
            model="GPT",
            num_parameters=825_344,
            precision="32-true",
        ),
        **changes,
    )


def finding(**changes: Any) -> Finding:
    return replace(
        Finding(
            rule="dataloader-starvation",
            severity=Severity.WARNING,
            share=0.31,
            summary="The step waits 12.3 ms of 40.0 ms for its batch.",
            advice="Set num_workers=4 on the training DataLoader.",
            where=Where(file="/home/me/my project/train.py", line=12, op="Loader.next"),
            evidence={"data_wait_s": 0.0123},
        ),
        **changes,
    )


def op_total(**changes: Any) -> OpTotal:
    return replace(OpTotal(name="aten::mm", self_s=0.0501, share=0.41, calls_per_step=12.0, clock="host"), **changes)


def device(**changes: Any) -> DeviceBreakdown:
    known = DeviceBreakdown(
        index=0,
        name="NVIDIA H100",
        busy_share=0.83,
        idle_share=0.17,
        kernels_per_step=120.0,
        kernel_median_us=4.64,
        copy_share=0.02,
        pageable_copy_share=0.0,
        communication_share=0.0,
        exposed_communication_share=0.0,
        data_idle_share=None,
        sync_idle_share=None,
        launch_idle_share=None,
        other_idle_share=None,
    )
    return replace(known, **changes)


def rank(number: int, **changes: Any) -> RankSummary:
    return replace(RankSummary(number, "node", 1000.0, 10.0, 0.04, 0.3), **changes)


def intervals(*per_s: float, with_clock: bool = True) -> tuple[Interval, ...]:
    """Intervals of ten steps and one second with these tokens each; the first one is not clean."""
    return tuple(
        Interval(
            last_step=10 * number + 9,
            num_steps=10,
            duration_s=1.0,
            samples=80,
            tokens=round(tokens),
            clean=number > 0,
            end_s=1.2 * number + 1.0 if with_clock else None,
        )
        for number, tokens in enumerate(per_s)
    )


def marks() -> tuple[Mark, ...]:
    """A window, two validations and a checkpoint that took no time to speak of."""
    return (
        Mark("window", step=20, begin_s=2.3, duration_s=0.4),
        Mark("validation", step=30, begin_s=3.5, duration_s=0.6),
        Mark("checkpoint", step=30, begin_s=4.1, duration_s=0.001),
        Mark("validation", step=60, begin_s=7.0, duration_s=0.5),
    )


def lane(*events: tuple[int, float, float, int], name: str = "thread 1", kind: str = "thread", **more: Any) -> Lane:
    """A lane of events: name's number, begin and duration in microseconds, depth."""
    columns: list[Any] = [tuple(column) for column in zip(*events, strict=True)] or [(), (), (), ()]
    name_ids, begin_us, duration_us, depths = columns
    return Lane(name, kind, name_ids, begin_us, duration_us, depths, **more)


def timeline(**changes: Any) -> Timeline:
    """A step of 40 ms on a GPU: phases, the loader, a thread with nested operators, a stream."""
    known = Timeline(
        step=22,
        duration_us=40_000.0,
        names=("data_wait", "forward", "backward", "Loader.next", "aten::linear", "aten::addmm", "sgemm_128x64"),
        lanes=(
            lane((0, 0, 12_300, 0), (1, 12_300, 9_100, 0), (2, 21_400, 14_200, 0), name="phases", kind="phases"),
            lane((3, 100, 12_000, 0), name="loader", kind="loader"),
            lane((4, 13_000, 5_000, 0), (5, 13_500, 4_000, 1), (4, 19_000, 900, 0)),
            lane((6, 14_000, 4_500, 0), (6, 20_000, 800, 0), name="device 0, stream 7", kind="stream", device=0),
        ),
    )
    return replace(known, **changes)


def long_timeline(num_events: int = MOST_EVENTS) -> Timeline:
    """A step of 400 ms with this many events, nested up to five deep, in eight lanes."""
    random = np.random.default_rng(0)
    names = tuple(f"aten::operator_{number}(Tensor self, int dim, bool keepdim=False)" for number in range(500))
    lanes = []
    for number in range(8):
        count = num_events // 8 + (number < num_events % 8)
        begin_us = np.sort(random.random(count)) * 400_000
        duration_us = np.minimum(random.exponential(40, count), 400_000 - begin_us)
        name_ids = random.integers(0, len(names), count).tolist()
        depths = random.integers(0, 5, count).tolist()
        events = zip(name_ids, begin_us.tolist(), duration_us.tolist(), depths, strict=True)
        lanes.append(lane(*events, name=f"thread {number}"))
    return Timeline(step=30, duration_us=400_000.0, names=names, lanes=tuple(lanes))


def excerpts(file: str = "/home/me/my project/train.py", line: int = 12) -> dict[str, Excerpt]:
    lines = ("def loader():", "    # no workers", "    return DataLoader(", "        dataset,", "    )", "")
    return {f"{file}:{line}": Excerpt(file, line - 2, lines)}


def drawn(**changes: Any) -> Report:
    """A run with all that can be drawn."""
    counted = Counted(
        num_batches=70,
        num_optimizer_steps=70,
        samples=560,
        tokens=71_000,
        intervals=intervals(4_000, 9_900, 10_240, 11_010.4, 9_000, 10_500, 10_480),
    )
    return report(**{"counted": counted, "marks": marks(), "timeline": timeline(), "excerpts": excerpts(), **changes})


def report(**changes: Any) -> Report:
    """A whole run with one finding; every field can be replaced."""
    return replace(
        Report(
            run=run_info(),
            throughput=Throughput(
                tokens_per_s=12_345.6,
                samples_per_s=96.4,
                steps_per_s=24.9,
                step_time_s=StepTime(p50=0.0391, p95=0.0522, mean=0.04, num_steps=240),
                tokens_per_s_rank=12_345.6,
                samples_per_s_rank=96.4,
            ),
            phases=phases(**PHASE_MS),
            windows=(Window(first_step=20, num_steps=3, planned_steps=3, trace="w.1.pt.trace.json.gz"),),
            top_ops=(
                op_total(),
                op_total(name="aten::addmm", share=0.2),
                op_total(name="aten::gelu", share=0.1),
                op_total(name="aten::fourth", share=0.05),
            ),
            findings=(finding(),),
            skipped={"host-sync": "no step was audited", "slow-hook": "no step was audited"},
            overhead=Overhead(hooks_s=0.0055, num_steps=240, capture_s=1.2),
            wall_s={"training": 10.0, "validation": 1.5, "checkpoint": 0.0, "epoch_start": 0.5},
            counted=Counted(num_batches=250, num_optimizer_steps=250, samples=2000, tokens=256_000),
            notes=("Tokens were counted from the batch's input_ids.",),
            window_s=0.122,
            directory="/logs/version_0/perfwatch",
        ),
        **changes,
    )


def hostile_report() -> Report:
    return report(
        run=run_info(model=HOSTILE, device_name=HOSTILE, precision=HOSTILE),
        phases=phases(**{HOSTILE: 1.0, "forward": 1.0}),
        top_ops=(op_total(name=HOSTILE), op_total(name="x" * 5000)),
        findings=(
            finding(
                rule=HOSTILE,
                summary=HOSTILE,
                advice=HOSTILE,
                where=Where(file=HOSTILE, line=1, op=HOSTILE, module=HOSTILE),
            ),
        ),
        skipped={HOSTILE: HOSTILE},
        ranks=(rank(0, host=HOSTILE), rank(1)),
        wall_s={"training": 1.0, HOSTILE: 1.0},
        notes=(HOSTILE, ""),
        windows=(Window(1, 1, 2, trace=HOSTILE, partial=True, reason=HOSTILE),),
        directory=HOSTILE,
        marks=(*marks(), Mark(HOSTILE, 1, 1.0, 1.0)),
        counted=Counted(20, 20, 160, 200, intervals=intervals(100.0, 120.0)),
        timeline=timeline(
            names=(
                HOSTILE,
                "</script><script>alert(1)</script>",
                "$$x^2$$",
                "<img src=x onerror=alert(1)>",
                "",
                "a",
                "b",
            ),
            lanes=(
                lane(
                    (0, 0, 9_000, 0), (1, 9_000, 9_000, 0), (2, 18_000, 9_000, 0), (3, 27_000, 9_000, 0), name=HOSTILE
                ),
            ),
        ),
        excerpts={f"{HOSTILE}:1": Excerpt(HOSTILE, 1, (HOSTILE, "\t</code></pre><script>alert(1)</script>"))},
    )


REPORTS = {
    "empty": Report(),
    "bare trace": Report(top_ops=(op_total(),), skipped={"host-sync": "a trace alone does not tell"}, window_s=0.25),
    "devices": report(
        devices=(device(name=None, kernels_per_step=None, kernel_median_us=None), device(index=1)),
        throughput=Throughput(mfu=0.41),
    ),
    "nothing found": report(findings=()),
    "full": report(ranks=(rank(0), rank(1)), findings=(finding(), finding(share=None), finding(share=1.0))),
    "no step measured": report(throughput=Throughput(), phases={}, overhead=Overhead(0.0, 0), windows=()),
    "steps of no length": report(
        throughput=Throughput(step_time_s=StepTime(0.0, 0.0, 0.0, 1)),
        phases={name: Phase(0.0, 0.0) for name in PHASE_MS},
    ),
    "hostile names": hostile_report(),
    "drawn": drawn(),
    "all severities": drawn(
        findings=tuple(finding(severity=severity) for severity in Severity),
        ranks=(rank(0), rank(1)),
        devices=(device(),),
    ),
    "drawn by step": drawn(counted=Counted(20, 20, None, None, intervals=intervals(1.0, 2.0, with_clock=False))),
    "timeline without events": report(timeline=Timeline(None, 0.0, (), (lane(),))),
}

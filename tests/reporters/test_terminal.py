from __future__ import annotations

import io
import re

import pytest

from lightning_perfwatch.counts import Flops
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.measurements import Overhead, Window
from lightning_perfwatch.report import Report, Throughput
from lightning_perfwatch.reporters import terminal
from lightning_perfwatch.reporters.cells import width_of
from tests.reporters.emulator import Emulator
from tests.reporters.factories import (
    HOSTILE,
    PHASE_MS,
    device,
    finding,
    hostile_report,
    op_total,
    phases,
    rank,
    report,
    run_info,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def without_style(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def lines_with(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip().startswith(start)]


def test_a_healthy_run_is_told_so_and_nothing_else_is_asked_of_the_user() -> None:
    text = terminal.render(report(findings=(), skipped={}))

    assert "No bottleneck found." in text
    assert "WARNING" not in text
    assert "skipped" not in text


def test_what_is_unknown_is_not_given_as_zero() -> None:
    text = terminal.render(Report(run=run_info(), overhead=None))

    assert re.findall(r"(tokens/s|samples/s|steps/s|step time) +not measured", text) == [
        "tokens/s",
        "samples/s",
        "steps/s",
        "step time",
    ]
    assert "the mean step" not in text
    assert "PerfWatch itself" not in text
    assert not re.search(r"\b0\b", text)


def test_the_use_of_the_device_is_told_with_the_peak_it_is_of() -> None:
    speed = Throughput(mfu=0.41, model_tflops_per_s=405.7)
    flops = Flops(4e12, "counted", "bf16", 989.5e12, "NVIDIA H100 datasheet, H100 SXM")

    (line,) = lines_with(terminal.render(report(throughput=speed, flops=flops)).replace("\n" + " " * 25, " "), "model")
    assert " ".join(line.split()) == (
        "model FLOPs 406 TFLOP/s, MFU 41 % of 990 TFLOP/s in bf16 (NVIDIA H100 datasheet, H100 SXM)"
    )
    alone = terminal.render(report(throughput=Throughput(model_tflops_per_s=0.0123)))
    assert "0.0123 TFLOP/s\n" in alone
    assert "MFU" not in alone


def test_an_ordinary_run_fits_on_a_screen() -> None:
    text = terminal.render(report(findings=(finding(), finding(rule="host-sync", share=0.1))), width=100)

    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 100


def test_the_step_is_split_into_parts_that_add_up_to_it() -> None:
    text = terminal.render(report())
    split = text.split("the mean step")[1].split("slowest operations")[0].splitlines()[1:]
    found = [re.match(r"  (\S.*?) {2,}([\d.]+) ms +(<?[\d.]+) %", line) for line in split if line.strip()]
    parts = {match[1]: (float(match[2]), match[3]) for match in found if match}

    assert list(parts) == [
        "data wait",
        "transfer",
        "forward",
        "backward",
        "optimizer",
        "callbacks and logging",
        "other",
        "step",
    ]
    total_ms, _ = parts.pop("step")
    assert sum(ms for ms, _ in parts.values()) == pytest.approx(total_ms)
    assert parts["data wait"] == (12.3, "31")
    assert parts["transfer"] == (0.0, "0")


def test_bars_are_as_long_as_the_shares_and_anything_above_zero_is_seen() -> None:
    text = terminal.render(report(phases=phases(data_wait=50.0, transfer=0.0, forward=49.99, other=0.01)))
    bars = {line.split()[0]: line.rpartition("%")[2].strip() for line in text.splitlines() if " ms " in line}

    assert bars["data"] == "█" * 15
    assert bars["transfer"] == ""
    assert bars["other"] == "▏"


def test_a_finding_says_cost_place_and_advice() -> None:
    text = terminal.render(report())

    assert "  WARNING   dataloader-starvation  31 % of the step, up to 1.4x faster" in text
    assert "    The step waits 12.3 ms of 40.0 ms for its batch." in text
    assert "    at  /home/me/my project/train.py:12 · Loader.next" in text
    assert "    fix Set num_workers=4 on the training DataLoader." in text
    assert "No bottleneck" not in text


@pytest.mark.parametrize(
    ("share", "cost"),
    [
        (None, "cost not measured"),
        (1.0, "100 % of the step"),
        (0.02, "2.0 % of the step"),
        (0.5, "50 % of the step, up to 2.0x faster"),
    ],
)
def test_the_gain_is_told_where_there_is_one(share: float | None, cost: str) -> None:
    text = terminal.render(report(findings=(finding(share=share),)))

    assert lines_with(text, "WARNING") == [f"  WARNING   dataloader-starvation  {cost}"]


@pytest.mark.parametrize(
    ("share_is", "words"), [("upper bound", "up to 2.0x"), ("estimate", "about 2.0x"), ("lower bound", "at least 2.0x")]
)
def test_the_gain_is_told_as_what_it_is(share_is: str, words: str) -> None:
    text = terminal.render(report(findings=(finding(share=0.5, share_is=share_is),)))

    assert lines_with(text, "WARNING") == [f"  WARNING   dataloader-starvation  50 % of the step, {words} faster"]


def test_what_lies_between_steps_is_a_part_of_the_run() -> None:
    text = terminal.render(report(findings=(finding(share=0.5, share_of="run"),)))

    assert lines_with(text, "WARNING") == ["  WARNING   dataloader-starvation  50 % of the run, up to 2.0x faster"]


def test_findings_stand_in_the_order_of_the_report() -> None:
    found = (finding(severity=Severity.CRITICAL, rule="b"), finding(rule="a"), finding(rule="c", share=None))
    text = terminal.render(report(findings=found))

    assert re.findall(r"(?:CRITICAL|WARNING) +(\w)", text) == ["b", "a", "c"]


def test_only_the_three_slowest_operations_are_listed() -> None:
    text = terminal.render(report())

    assert re.search(r"aten::mm +50\.1 ms +41 %", text)
    assert "aten::gelu" in text
    assert "aten::fourth" not in text


def test_a_long_operation_name_is_cut_to_the_width() -> None:
    text = terminal.render(report(top_ops=(op_total(name="void kernel<" + "a" * 300),)), width=80)

    assert all(len(line) <= 80 for line in lines_with(text, "void kernel"))


def test_time_outside_steps_is_one_line_with_its_share_of_the_wall_clock() -> None:
    (line,) = lines_with(terminal.render(report()), "outside steps")

    assert line.split(maxsplit=2)[2] == "validation 1.50 s, epoch start 500 ms (goodput 83 % of 12.0 s wall clock)"


def test_a_device_says_how_busy_it_was_and_nothing_that_is_unknown() -> None:
    unknown = device(name=None, kernels_per_step=None, kernel_median_us=None)
    several = device(index=1, communication_share=0.1, exposed_communication_share=0.04, kernels_per_step=7.5)
    text = terminal.render(report(devices=(unknown, several)))

    assert [line.split(maxsplit=2)[2] for line in lines_with(text, "device")] == [
        "busy 83 %, copies 2.0 %",
        "NVIDIA H100, busy 83 %, 7.5 kernels per step, median kernel 4.64 µs, copies 2.0 %, "
        "communication 10 %, exposed 4.0 %",
    ]


def test_skipped_rules_share_a_line_with_their_reason() -> None:
    (line,) = lines_with(terminal.render(report()), "rules skipped")

    assert line.split(maxsplit=2)[2] == "host-sync, slow-hook: no step was audited"


def test_every_reason_for_a_skipped_rule_has_a_line() -> None:
    text = terminal.render(report(skipped={"host-sync": "no step was audited", "gc-pause": "not measured"}))

    assert [line.split(maxsplit=2)[2] for line in lines_with(text, "rule skipped")] == [
        "host-sync: no step was audited",
        "gc-pause: not measured",
    ]


def test_ranks_are_listed_only_if_there_are_several_and_not_without_end() -> None:
    assert "rank 0" not in terminal.render(report(ranks=(rank(0),)))

    text = terminal.render(report(ranks=tuple(rank(number) for number in range(64))))
    assert "node, tokens/s 1,000, samples/s 10, step 40.0 ms, data wait 30 %" in text
    assert len(lines_with(text, "rank ")) == 8
    assert "56, in the report" in text


def test_own_cost_is_given_per_step_and_for_the_profiles() -> None:
    (line,) = lines_with(terminal.render(report()), "PerfWatch itself")

    assert line.split(maxsplit=2)[2] == "22.9 µs per step (0.1 % of it), 1.20 s to start, stop and write profiles"
    without_steps = terminal.render(report(overhead=Overhead(hooks_s=0.0, num_steps=0)))
    assert lines_with(without_steps, "PerfWatch itself")[0].endswith("not measured")


def test_files_are_named_with_their_whole_path() -> None:
    directory = "/logs/" + "long/" * 40
    text = terminal.render(report(directory=directory.rstrip("/")))

    for name in ("w.1.pt.trace.json.gz", "report.json", "report.html", "evidence.json"):
        assert f"{directory}{name}\n" in text


@pytest.mark.parametrize(
    ("windows", "said"),
    [
        ((), "none: no window was profiled"),
        ((Window(9, 0, 3, reason="another profiler was running"),), "none: another profiler was running"),
        (
            (Window(9, 2, 3, trace="t", partial=True, reason="the fit ended"),),
            "/d/t (2 of 3 steps; the fit ended)",
        ),
        ((Window(9, 3, 3, trace="s"), Window(20, 3, 3, trace="t")), "/d/t (and 1 earlier)"),
    ],
)
def test_the_trace_or_the_reason_for_none_is_told(windows: tuple[Window, ...], said: str) -> None:
    (line,) = lines_with(terminal.render(report(windows=windows, directory="/d")), "trace ")

    assert line.split(maxsplit=1)[1] == said


def test_rates_of_several_ranks_tell_the_own_part() -> None:
    speed = Throughput(tokens_per_s=2000.0, tokens_per_s_rank=990.0, samples_per_s_rank=5.0)
    text = terminal.render(report(throughput=speed))

    assert re.search(r"tokens/s +2,000 \(this rank 990\)\n", text)
    assert re.search(r"samples/s +not measured on all ranks; 5 on this one\n", text)


def test_a_rank_is_part_of_the_place_only_among_several() -> None:
    found = (finding(where=Where(file="a.py", line=3, rank=1)),)

    assert lines_with(terminal.render(report(findings=found)), "at ") == ["    at  a.py:3"]
    several = terminal.render(report(findings=found, ranks=(rank(0), rank(1))))
    assert lines_with(several, "at ") == ["    at  a.py:3 · rank 1"]


def test_a_name_can_not_steer_the_terminal_or_forge_a_line() -> None:
    plain = without_style(terminal.render(hostile_report(), color=True, width=1000))

    assert "\x1b" not in plain
    assert "[31m" in plain
    assert "\u202e" not in plain
    assert not lines_with(plain, "line two")
    assert "[e](javascript:f)" in plain, "rich must not read names as markup"


def test_a_pipe_gets_plain_text_and_a_terminal_gets_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    pipe, tty = io.StringIO(), Terminal()

    terminal.show(report(), pipe)
    terminal.show(report(), tty)

    assert pipe.getvalue() == terminal.render(report())
    assert "\x1b[" in tty.getvalue()


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    tty = Terminal()

    terminal.show(report(), tty)

    assert not re.search(r"\x1b\[[\d;]*3\dm", tty.getvalue())


def test_the_report_is_as_wide_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with Emulator(columns=67) as emulator:
        terminal.show(report(findings=(finding(summary="word " * 40),), directory=None), emulator.stream)
        assert 60 < max(map(len, emulator.lines)) <= 67
        assert "\n".join(emulator.lines[1:]) in terminal.render(
            report(findings=(finding(summary="word " * 40),), directory=None), width=67
        )


NAMES = {
    "plain": "aten::mm",
    "long": "void kernel<" + "a" * 300,
    "Chinese": "卷积层" * 60,
    "emoji": "🚀🔥" * 60,
    "hostile": HOSTILE * 3,
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
@pytest.mark.parametrize("width", [40, 63, 64, 80, 100, 200])
def test_every_line_fits_and_only_places_and_paths_are_longer(width: int, name: str) -> None:
    shown = report(
        top_ops=(op_total(name=name), op_total(name="aten::addmm")),
        phases=phases(**PHASE_MS, **{name: 1.0}),
        ranks=(rank(0), rank(1)),
        devices=(device(),),
    )
    lines = terminal.render(shown, width=width).splitlines()

    longer = [line for line in lines if width_of(line) > width]
    assert all("/" in line for line in longer), longer
    assert not [line for line in lines if width_of(line) > 120 and "/" not in line and " ms " not in line]
    figures = [line for line in lines if re.search(r"\d [mµ]?s +<?[\d.]+ %$", line)]
    assert len({width_of(line) for line in figures[-2:]}) == 1, "the operations' columns are not aligned"


def test_wide_terminals_show_long_operation_names_whole() -> None:
    name = "void kernel<" + "a" * 130 + ">"

    assert name in terminal.render(report(top_ops=(op_total(name=name),)), width=200)
    assert name not in terminal.render(report(top_ops=(op_total(name=name),)), width=120)


def test_a_pipe_has_one_fact_in_each_line_and_breaks_none() -> None:
    summary, advice = "It waits. " * 60, "Set this. " * 60
    text = terminal.render(report(findings=(finding(summary=summary, advice=advice),), notes=("long note " * 60,)))

    for fact in (summary, f"fix {advice}", "note" + " " * 19 + "long note " * 60):
        assert f"  {fact.strip()}\n" in text


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_colour_is_forced_into_a_pipe_as_rich_does(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv(variable, "1")
    pipe = io.StringIO()

    terminal.show(report(), pipe)

    assert re.search(r"\x1b\[[\d;]*3\dm", pipe.getvalue())
    assert without_style(pipe.getvalue()) == terminal.render(report())


def test_what_rich_takes_for_no_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "0")
    monkeypatch.setenv("COLUMNS", "100")
    tty = Terminal()

    terminal.show(report(), tty)

    assert terminal.render(report(), width=100) in tty.getvalue()
    assert not re.search(r"\x1b\[[\d;]*m", tty.getvalue())


def test_a_notebook_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    cell = io.StringIO()

    terminal.show(report(), cell)

    assert cell.getvalue() == terminal.render(report())


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((), "no bottleneck found."),
        ((finding(),), "1 finding dataloader-starvation (31 % of the step, up to 1.4x faster)."),
        (
            (finding(), finding(share=None)),
            "2 findings, first dataloader-starvation (31 % of the step, up to 1.4x faster).",
        ),
    ],
)
def test_a_window_is_told_in_one_line(found: tuple[Finding, ...], said: str) -> None:
    assert terminal.window_line(report(findings=found)) == f"PerfWatch profiled steps 20 to 22: {said}"
    assert "\n" not in terminal.window_line(hostile_report())


def test_an_encoding_without_the_characters_costs_them_and_not_the_report() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", newline="\n")

    terminal.show(report(notes=(HOSTILE,)), stream)
    stream.flush()

    assert b"tokens/s" in raw.getvalue()
    assert b"22.9 us per step" in raw.getvalue()
    assert re.search(rb"data wait +12.3 ms +31 % +#{9}-\n", raw.getvalue())
    assert re.search(rb"optimizer +3.0 ms +7.5 % +##-\n", raw.getvalue())


def test_a_number_stays_with_its_unit() -> None:
    lines = terminal.render(report(findings=(finding(summary="12 ms or 3 % " * 30),)), width=100).splitlines()

    assert not [line for line in lines if re.search(r"\d$", line) and " or " in line]
    assert not [line for line in lines if re.match(r" +(ms|%)", line)]

"""Numbers and names in words: the one way in which every reporter writes a duration, a share or a name.

Pure functions from values to text. Knows nothing of reports.
"""

from __future__ import annotations

from dataclasses import dataclass

from lightning_perfwatch.counts import Flops

NOT_MEASURED = "not measured"

_LABELS = {"callbacks": "callbacks and logging", "capture": "profiling"}


@dataclass(frozen=True)
class Fact:
    """A name and what is known of it."""

    name: str
    value: str


def clean(text: str) -> str:
    """``text`` on one line without control characters, so that a hostile name can't steer a terminal."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())


def label(key: str) -> str:
    """A key of the report as a reader calls it: ``data_wait`` is "data wait"."""
    return clean(_LABELS.get(key, key.replace("_", " ")))


def amount(value: float) -> str:
    """A count or rate with as many digits as matter: "12,345", "96.4", "0.012"."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def large(value: float) -> str:
    """A large count in words: "1.2 M"."""
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return amount(value)


def percent(share: float) -> str:
    """A share of 0..1: "31 %", "3.1 %", "<0.1 %"."""
    percentage = share * 100
    if percentage == 0 or percentage >= 9.95:
        return f"{percentage:.0f} %"
    return "<0.1 %" if 0 < percentage < 0.05 else f"{percentage:.1f} %"


def utilisation(model_tflops_per_s: float | None, mfu: float | None, flops: Flops | None) -> str | None:
    """How much of a device the model uses: "403 TFLOP/s, MFU 41 % of 990 TFLOP/s in bf16 (its datasheet)"."""
    said = [] if model_tflops_per_s is None else [f"{amount(model_tflops_per_s)} TFLOP/s"]
    if mfu is not None:
        peak_flops_per_s = None if flops is None else flops.peak_flops_per_s
        of_peak = "" if peak_flops_per_s is None else f" of {amount(peak_flops_per_s / 1e12)} TFLOP/s"
        kind = f" in {flops.dtype}" if flops is not None and flops.dtype and of_peak else ""
        source = f" ({flops.peak_source})" if flops is not None and flops.peak_source and of_peak else ""
        said.append(f"MFU {percent(mfu)}{of_peak}{kind}{source}")
    return clean(", ".join(said)) or None


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best: "1.23 s", "12.3 ms", "45 µs"."""
    scale, unit = _unit(seconds)
    value = seconds * scale
    if value == 0:
        return "0 s"
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{decimals}f} {unit}"


def durations(seconds: list[float], total: float) -> list[str]:
    """All of them in the unit and with the decimals that suit ``total``, so that they add up visibly."""
    scale, unit = (1e3, "ms") if 1 <= total < 10 else _unit(total)
    decimals = 3 if total * scale < 1 else 2 if total * scale < 10 else 1
    return [f"{value * scale:,.{decimals}f} {unit}" for value in seconds]


def _unit(seconds: float) -> tuple[float, str]:
    size = abs(seconds)
    if size >= 1:
        return 1.0, "s"
    return (1e3, "ms") if size >= 1e-3 else (1e6, "µs")

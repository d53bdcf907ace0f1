"""How often something happens and how long it takes, in words, and how much rarer it should be. Knows numbers only."""

import math


def how_often(count: int, per_step: float | None) -> str:
    """ "once per step", "2.5 times per step"; "50 times in the trace" without steps."""
    number = f"{count:,}" if per_step is None else _number(per_step)
    return ("once" if number == "1" else f"{number} times") + (" in the trace" if per_step is None else " per step")


def how_many(count: int, noun: str, per_step: float | None) -> str:
    """ "1 kernel per step", "2,000 kernels per step"; "50 kernels in the trace" without steps."""
    number = f"{count:,}" if per_step is None else _number(per_step)
    return f"{number} {noun if number == '1' else noun + 's'}" + (" in the trace" if per_step is None else " per step")


def how_long(seconds: float) -> str:
    """ "1.5 s", "120 ms"."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1e3:.0f} ms"


def times_rarer(share: float, wanted_share: float) -> float:
    """How many times less often something has to come that takes ``share`` of a run, to take ``wanted_share`` of it.

    What comes ``k`` times less often takes a ``k``-th beside the same rest of the run.
    """
    return share * (1 - wanted_share) / (wanted_share * max(1 - share, 1e-3))


def rounded_up(value: float) -> int:
    """To two digits: 1234 is 1300."""
    scale: int = 10 ** max(0, math.floor(math.log10(max(value, 1.0))) - 1)
    return math.ceil(value / scale) * scale


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

"""How often something happens, in words: per step, or in a trace that has none. Knows numbers only."""


def how_often(count: int, per_step: float | None) -> str:
    """ "once per step", "2.5 times per step"; "50 times in the trace" without steps."""
    number = f"{count:,}" if per_step is None else _number(per_step)
    return ("once" if number == "1" else f"{number} times") + (" in the trace" if per_step is None else " per step")


def how_many(count: int, noun: str, per_step: float | None) -> str:
    """ "1 kernel per step", "2,000 kernels per step"; "50 kernels in the trace" without steps."""
    number = f"{count:,}" if per_step is None else _number(per_step)
    return f"{number} {noun if number == '1' else noun + 's'}" + (" in the trace" if per_step is None else " per step")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"

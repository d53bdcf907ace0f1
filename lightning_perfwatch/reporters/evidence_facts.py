"""The raw numbers behind a finding, in words: what a key's unit suffix says is written out.

Owns the reading of unit suffixes. Knows no rule and none of its keys.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lightning_perfwatch.reporters.wording import Fact, amount, clean, duration, label, percent

_MOST_CHARS = 200


def evidence_facts(evidence: Mapping[str, Any]) -> Iterable[Fact]:
    """Each entry that was measured, by its key's suffix: ``wait_s: 0.0995`` is "wait: 99.5 ms".

    A share beside the same in another unit says that it is one.
    """
    known = {key: value for key, value in evidence.items() if value is not None}
    num_named = Counter(_split(key)[0] for key in known)
    for key, value in known.items():
        name, words = _split(key)
        said = words(float(value)) if _is_number(value) else _other(value)
        shown = key if words is percent and num_named[name] > 1 else name
        yield Fact(label(shown) or label(key), clean(said) or "empty")


def _split(key: str) -> tuple[str, Callable[[float], str]]:
    """The name without its unit, and how a number of that unit is written."""
    for suffix, words in _UNITS.items():
        if key.endswith(suffix):
            return key.removesuffix(suffix), words
    return key.removeprefix("num_"), amount


def _is_number(value: Any) -> bool:
    """Python's and numpy's numbers, but no truth values."""
    if isinstance(value, bool | str) or not hasattr(value, "__float__") or getattr(value, "ndim", 0) != 0:
        return False
    return not isinstance(value, int) or abs(value) <= sys.float_info.max


def _other(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple) and all(isinstance(item, str | int) for item in value):
        said = ", ".join(str(item) for item in value)
    else:
        said = value if isinstance(value, str) else json.dumps(value, default=str)
    return said if len(said) <= _MOST_CHARS else said[: _MOST_CHARS - 1] + "…"


def _size(num_bytes: float) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(num_bytes) >= size:
            return f"{num_bytes / size:.3g} {unit}"
    return f"{num_bytes:.0f} B"


_UNITS: dict[str, Callable[[float], str]] = {
    "_per_s": lambda value: f"{amount(value)} per s",
    "_s_per_step": lambda value: f"{duration(value)} per step",
    "_us_per_step": lambda value: f"{duration(value / 1e6)} per step",
    "_bytes_per_step": lambda value: f"{_size(value)} per step",
    "_per_step": lambda value: f"{amount(value)} per step",
    "_share": percent,
    "_bytes": _size,
    "_s": duration,
    "_ms": lambda value: duration(value / 1e3),
    "_us": lambda value: duration(value / 1e6),
    "_ns": lambda value: duration(value / 1e9),
}

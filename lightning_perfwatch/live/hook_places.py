"""Where the code of a hook stands.

Only looks up; measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import CodeType
from typing import Any

from lightning_perfwatch.measurements import HookTime


def located(times: Iterable[HookTime] | None, trainer: Any, module: Any) -> tuple[HookTime, ...] | None:
    """``times`` with the file and line of each hook that is defined in a callback or in the module."""
    if times is None:
        return None
    owners = {type(owner).__name__: owner for owner in (*trainer.callbacks, module)}
    return tuple(_located(time, owners.get(time.name.partition(" ")[0])) for time in times)


def _located(time: HookTime, owner: Any) -> HookTime:
    function = getattr(type(owner), time.hook, None)
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    if owner is None or not isinstance(code, CodeType):
        return time
    return replace(time, file=code.co_filename, line=code.co_firstlineno)

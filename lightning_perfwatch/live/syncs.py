"""Finds the call sites that make the host wait for the device, by watching a few steps of the training thread.

Owns whose frame is to blame. Is active in audited steps only; knows no rule.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from site import getsitepackages, getusersitepackages
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from lightning_perfwatch.live.waits import WAITING_CALLS, spoken, waits
from lightning_perfwatch.measurements import SyncSite, SyncSites

_PROFILED_CALLS = WAITING_CALLS - {"__bool__", "__int__", "__float__", "__index__", "__complex__"}
_STANDARD_LIBRARY = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_INSTALLED = tuple(
    {
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        getusersitepackages(),
        *getsitepackages(),
        str(Path(torch.__file__).parents[1]),  # wherever it was found
    }
)
_PACKAGE = str(Path(__file__).parents[1])
_LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric", "torchmetrics", "lightning_utilities")


class _Site(NamedTuple):
    call: str
    owner: str
    device_type: str
    file: str | None
    line: int | None
    function: str | None


@dataclass
class _Seen:
    spent_ns: int = 0
    count: int = 0
    last_step: int = -1
    num_steps: int = 0


class SyncAudit:
    """Watches the steps between ``begin_step`` and ``end_step`` of the thread that calls them.

    Where nothing has been compiled in this process, a function mode sees every call. A function mode makes
    ``torch.compile`` compile its regions once more, and a dispatch mode makes it run them uncompiled, which changes
    the results; so where something has been compiled the interpreter's profile hook watches instead, which sees
    method calls such as ``.item()`` and ``print(tensor)`` but not ``float(tensor)`` or ``if tensor:``.
    """

    def __init__(self) -> None:
        self._seen: dict[_Site, _Seen] = {}
        self._num_steps = 0
        self._complete = True
        self._mode: _Watch | None = None
        self._hooked = False

    def begin_step(self) -> None:
        """Watch from here."""
        if self._mode is not None or self._hooked:
            return
        if not has_compiled():
            self._mode = _Watch(self._record)
            self._mode.__enter__()  # type: ignore[no-untyped-call]
        elif sys.getprofile() is None:
            self._complete = False
            self._hooked = True
            sys.setprofile(self._on_profile_event)

    def end_step(self) -> None:
        """Watch no longer; safe to call at any time."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            self._mode = None
            self._num_steps += 1
        elif self._hooked:
            sys.setprofile(None)
            self._hooked = False
            self._num_steps += 1

    def sites(self) -> SyncSites | None:
        """What was seen, the most expensive first; None if no step could be watched."""
        if self._num_steps == 0:
            return None
        sites = [
            SyncSite(
                call=site.call,
                owner=site.owner,
                device_type=site.device_type,
                calls_per_step=seen.count / self._num_steps,
                s_per_step=seen.spent_ns / 1e9 / self._num_steps,
                in_every_step=seen.num_steps == self._num_steps,
                file=site.file,
                line=site.line,
                function=site.function,
                code=_source_line(site.file, site.line),
            )
            for site, seen in self._seen.items()
        ]
        return SyncSites(
            self._num_steps, tuple(sorted(sites, key=lambda site: -site.s_per_step)), complete=self._complete
        )

    def _record(self, call: str, tensor: torch.Tensor | None, frame: FrameType | None, spent_ns: int) -> None:
        owner, blamed = find_owner(frame)
        site = _Site(
            call=spoken(call),
            owner=owner,
            device_type="unknown" if tensor is None else tensor.device.type,
            file=None if blamed is None else blamed.f_code.co_filename,
            line=None if blamed is None else blamed.f_lineno,
            function=None if blamed is None else blamed.f_code.co_name,
        )
        seen = self._seen.setdefault(site, _Seen())
        seen.count += 1
        seen.spent_ns += spent_ns
        if seen.last_step != self._num_steps:
            seen.last_step = self._num_steps
            seen.num_steps += 1

    def _on_profile_event(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            if getattr(arg, "__name__", None) in _PROFILED_CALLS:
                owner = getattr(arg, "__self__", None)
                if isinstance(owner, torch.Tensor) and not _is_nested(frame):
                    self._record(arg.__name__, owner, frame, 0)
        elif event == "call" and frame.f_code in _PRINTED:
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch.Tensor) and not _is_nested(frame.f_back):
                self._record("__format__", owner, frame.f_back, 0)


class _Watch(TorchFunctionMode):
    """Passes every torch call on and reports those that wait."""

    def __init__(self, record: Callable[[str, torch.Tensor | None, FrameType | None, int], None]) -> None:
        super().__init__()
        self._record = record

    def __torch_function__(
        self,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if not waits(name, args, kwargs):
            return func(*args, **kwargs)
        tensor = next((arg for arg in args if isinstance(arg, torch.Tensor)), None)
        start_ns = perf_counter_ns()
        result = func(*args, **kwargs)
        self._record(name, tensor, sys._getframe(1), perf_counter_ns() - start_ns)
        return result


def has_compiled() -> bool:
    """Whether ``torch.compile`` has compiled anything in this process so far."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and dynamo.counters["stats"]["unique_graphs"] > 0


def find_owner(frame: FrameType | None) -> tuple[str, FrameType | None]:
    """Whose call it is, and the innermost frame of the user's own code that led to it.

    The owner is the first of these that the stack meets from inside out: the user, Lightning, an optimizer of torch
    or another library; the rest of torch is passed through.
    """
    owner: str | None = None
    while frame is not None:
        kind = _kind_of_code(frame.f_code)
        if kind == "user":
            return owner or "user", frame
        if kind == "perfwatch":
            return "perfwatch", None
        if owner is None and kind in ("lightning", "optimizer", "library"):
            owner = kind
        frame = frame.f_back
    return owner or "torch", None


_kinds: dict[str, str] = {}


def _kind_of_code(code: CodeType) -> str:
    file = code.co_filename  # the key, since equal code of two files is equal
    kind = _kinds.get(file)
    if kind is None:
        kind = _kinds[file] = _kind_of_file(file)
    return kind


def _kind_of_file(file: str) -> str:
    """``user``, ``perfwatch``, ``lightning``, ``optimizer``, ``torch``, ``library`` or ``python``."""
    if _is_below(file, _PACKAGE):
        return "perfwatch"
    for root in _INSTALLED:
        if _is_below(file, root):
            return _kind_of_package(Path(file).relative_to(root).parts)
    if file.startswith("<frozen") or any(_is_below(file, root) for root in _STANDARD_LIBRARY):
        return "python"
    return "user"


def _is_below(file: str, directory: str) -> bool:
    return file.startswith(directory + os.sep)


def _kind_of_package(parts: tuple[str, ...]) -> str:
    if parts[0] in _LIGHTNING:
        return "lightning"
    if parts[0] != "torch":
        return "library"
    return "optimizer" if parts[1] == "optim" else "torch"


def _is_nested(frame: FrameType | None) -> bool:
    """Whether a waiting call of torch itself is running already, such as ``item`` inside of ``__format__``."""
    while frame is not None and _kind_of_code(frame.f_code) == "torch":
        if frame.f_code in _PRINTED:
            return True
        frame = frame.f_back
    return False


_PRINTED = frozenset((torch.Tensor.__format__.__code__, torch.Tensor.__repr__.__code__))


def _source_line(file: str | None, line: int | None) -> str | None:
    if file is None or line is None:
        return None
    return linecache.getline(file, line).strip() or None

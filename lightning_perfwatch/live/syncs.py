"""Finds the call sites that make the host wait for the device, by watching a few steps of the training thread.

Owns whose frame is to blame. Is active in audited steps only; knows no rule.
"""

from __future__ import annotations

import linecache
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter_ns
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode

from lightning_perfwatch.live.owners import Stack, find_owner, kind_of_code, stack_of, users_frame
from lightning_perfwatch.live.waits import FACTORIES, WAITING_CALLS, spoken, waits
from lightning_perfwatch.sync_sites import CallSite, SyncSite, SyncSites

_PROFILED_CALLS = WAITING_CALLS - {"__bool__", "__int__", "__float__", "__index__", "__complex__"}


_BUSIEST = 10


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

    Where ``torch.compile`` is not used in this process, a function mode sees every call. A function mode makes
    ``torch.compile`` compile its regions once more, and a dispatch mode makes it run them uncompiled, which changes
    the results; so where it is used the interpreter's profile hook watches instead, which sees
    method calls such as ``.item()`` and ``print(tensor)`` but not ``float(tensor)`` or ``if tensor:``.
    """

    def __init__(self) -> None:
        self._seen: dict[_Site, _Seen] = {}
        self._calls: Counter[tuple[CodeType, int]] = Counter()
        self._num_steps = 0
        self._complete = True
        self._mode: _Watch | None = None
        self._hook: Callable[[FrameType, str, Any], None] | None = None
        self._events: list[tuple[str, str, Stack]] = []

    def begin_step(self) -> None:
        """Watch from here."""
        if self.is_open:
            return
        if not may_compile():
            self._mode = _Watch(self._record, self._calls)
            self._mode.__enter__()  # type: ignore[no-untyped-call]
        elif sys.getprofile() is None:
            self._complete = False
            self._hook = _make_hook(self._events)
            sys.setprofile(self._hook)

    @property
    def is_open(self) -> bool:
        """Whether a step is being watched."""
        return self._mode is not None or self._hook is not None

    def end_step(self) -> None:
        """Watch no longer; safe to call at any time."""
        if self._mode is not None:
            _remove_mode(self._mode)
            self._mode = None
            self._num_steps += 1
        elif self._hook is not None:
            if sys.getprofile() is self._hook:  # else the user has set one of their own meanwhile
                sys.setprofile(None)
            self._hook = None
            for call, device_type, stack in self._events:
                if not _is_nested(stack):
                    self._record(call, device_type, stack, 0)
            self._events.clear()
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
        busiest = [
            CallSite(code.co_filename, line, code.co_name, count / self._num_steps)
            for (code, line), count in self._calls.most_common(_BUSIEST)
        ]
        return SyncSites(
            self._num_steps,
            tuple(sorted(sites, key=lambda site: -site.s_per_step)),
            complete=self._complete,
            busiest=tuple(busiest),
        )

    def _record(self, call: str, device_type: str, stack: Stack, spent_ns: int) -> None:
        owner, blamed = find_owner(stack)
        code, line = blamed or (None, None)
        site = _Site(
            call=spoken(call),
            owner=owner,
            device_type=device_type,
            file=None if code is None else code.co_filename,
            line=line,
            function=None if code is None else code.co_name,
        )
        seen = self._seen.setdefault(site, _Seen())
        seen.count += 1
        seen.spent_ns += spent_ns
        if seen.last_step != self._num_steps:
            seen.last_step = self._num_steps
            seen.num_steps += 1


def _make_hook(events: list[tuple[str, str, Stack]]) -> Callable[[FrameType, str, Any], None]:
    """A profile function that notes waiting calls in ``events``.

    It runs inside of compiled regions too, where torch.compile would compile every Python function that it calls: so
    it calls none, and its own code is marked to be left alone.
    """
    names, printed, tensor_type, skipped = _PROFILED_CALLS, _PRINTED, torch.Tensor, None

    def hook(frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call":
            tensor = getattr(arg, "__self__", skipped)
            call = arg.__name__
            if not isinstance(tensor, tensor_type) or call not in names:
                return
            inner: FrameType | None = frame
        elif event == "call" and frame.f_code in printed:
            tensor = frame.f_locals.get("self")
            if not isinstance(tensor, tensor_type):
                return
            call = "__format__"
            inner = frame.f_back
        else:
            return
        stack = []
        while inner is not None:
            stack.append((inner.f_code, inner.f_lineno))
            inner = inner.f_back
        events.append((call, tensor.device.type, stack))

    from torch._dynamo.decorators import skip  # loaded already wherever torch.compile is used

    skip(hook)
    return hook


def _remove_mode(mode: TorchFunctionMode) -> None:
    """Take ``mode`` off the stack of modes, from under those that the user has entered since."""
    stack = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    if any(other is mode for other in stack):
        above = []
        while (top := _pop_mode()) is not mode:  # type: ignore[no-untyped-call]
            above.append(top)
        for other in reversed(above):
            _push_mode(other)  # type: ignore[no-untyped-call]


class _Watch(TorchFunctionMode):
    """Passes every torch call on and reports those that wait.

    Tensors that are made in the step without a device, and what is made of them alone, stay on the host wherever the
    model is: their calls wait for nothing.
    """

    def __init__(
        self, record: Callable[[str, str, Stack, int], None], calls: Counter[tuple[CodeType, int]] | None = None
    ) -> None:
        super().__init__()
        self._record = record
        self._calls = calls
        self._of_host: dict[int, weakref.ref[torch.Tensor]] = {}

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._calls is not None and (place := users_frame(sys._getframe(1))) is not None:
            self._calls[place] += 1
        name = getattr(func, "__name__", "")
        tensors = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, torch.Tensor)]
        waiting = waits(name, args, kwargs)
        start_ns = perf_counter_ns()
        result = func(*args, **kwargs)
        if waiting and not (tensors and self._are_of_host(tensors)):
            device_type = tensors[0].device.type if tensors else "unknown"
            self._record(name, device_type, stack_of(sys._getframe(1)), perf_counter_ns() - start_ns)
        elif isinstance(result, torch.Tensor) and self._stays_on_host(name, tensors, kwargs):
            self._of_host[id(result)] = weakref.ref(result)
        return result

    def _stays_on_host(self, name: str, tensors: list[torch.Tensor], kwargs: dict[str, Any]) -> bool:
        if tensors:
            return self._are_of_host(tensors) and not _moves(name)
        return name in FACTORIES and kwargs.get("device") is None

    def _are_of_host(self, tensors: list[torch.Tensor]) -> bool:
        known = (self._of_host.get(id(tensor)) for tensor in tensors)
        return all(ref is not None and ref() is tensor for ref, tensor in zip(known, tensors, strict=True))


def _moves(name: str) -> bool:
    return name in ("to", "cuda", "xpu", "type", "type_as", "to_device")


def has_compiled() -> bool:
    """Whether ``torch.compile`` has compiled anything in this process so far."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and dynamo.counters["stats"]["unique_graphs"] > 0


def may_compile() -> bool:
    """Whether ``torch.compile`` has been asked for in this process: what is not compiled yet may be soon."""
    eval_frame = sys.modules.get("torch._dynamo.eval_frame")
    backends = () if eval_frame is None else eval_frame.cached_backends.values()
    return has_compiled() or any(callable(backend) for backend in backends)  # others only switch compiling off


_PRINTED = frozenset((torch.Tensor.__format__.__code__, torch.Tensor.__repr__.__code__))


def _source_line(file: str | None, line: int | None) -> str | None:
    if file is None or line is None:
        return None
    return linecache.getline(file, line).strip() or None


def _is_nested(stack: Stack) -> bool:
    """Whether a waiting call of torch itself is running already, such as ``item`` inside of ``__format__``."""
    for code, _ in stack:
        if kind_of_code(code) != "torch":
            return False
        if code in _PRINTED:
            return True
    return False

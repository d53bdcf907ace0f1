"""What is known of the training data loader: its settings, and where one batch's loading time goes.

Owns the look into a ``DataLoader``. Never loads a batch of its own: that would change the run.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from functools import partial
from time import perf_counter_ns, thread_time_ns
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, Subset
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from lightning_perfwatch.measurements import LoaderInfo, LoadProbe

_DEEPEST = 4


def find_loader(loaders: Any) -> Any:
    """The first ``DataLoader`` in a loader, a ``CombinedLoader`` or any nest of them; else the first thing in it."""
    leaves = list(_leaves(loaders))
    return next((leaf for leaf in leaves if isinstance(leaf, DataLoader)), leaves[0] if leaves else None)


def _leaves(loaders: Any, depth: int = 0) -> Iterable[Any]:
    flattened = vars(loaders).get("_flattened") if hasattr(loaders, "__dict__") else None  # a CombinedLoader's
    if isinstance(flattened, list):
        loaders = flattened
    if isinstance(loaders, dict):
        loaders = list(loaders.values())
    if isinstance(loaders, (list, tuple)):
        for loader in loaders if depth < _DEEPEST else ():
            yield from _leaves(loader, depth + 1)
    elif loaders is not None:
        yield loaders


def describe_loader(loader: Any) -> LoaderInfo | None:
    """The settings of ``loader``; only its kind if it is no ``DataLoader``, None if there is none."""
    if loader is None:
        return None
    if not isinstance(loader, DataLoader):
        return LoaderInfo(kind=type(loader).__name__)
    code = _loading_code(loader.dataset)
    return LoaderInfo(
        kind=type(loader).__name__,
        num_workers=loader.num_workers,
        batch_size=loader.batch_size,
        persistent_workers=loader.persistent_workers,
        pin_memory=loader.pin_memory,
        prefetch_factor=loader.prefetch_factor,
        dataset=type(loader.dataset).__name__,
        collate=_name_of(loader.collate_fn),
        sized=not isinstance(loader.dataset, IterableDataset),
        dataset_file=None if code is None else code.co_filename,
        dataset_line=None if code is None else code.co_firstlineno,
    )


def _name_of(function: Any) -> str:
    return function.__qualname__ if isinstance(function, (FunctionType, MethodType)) else type(function).__name__


class LoadWatch:
    """Splits the loading of one batch in this process into fetching samples and collating them.

    Works on a ``DataLoader`` without workers, through the interpreter's profile hook and only while one batch is
    fetched; does nothing if that hook is taken or the batch is loaded elsewhere.
    """

    def __init__(self, loader: Any) -> None:
        self._watchable = isinstance(loader, DataLoader) and loader.num_workers == 0
        self._loader = loader
        self._collate = _code_of(loader.collate_fn) if self._watchable else None
        self._fetches: list[CodeType] = [
            _MapDatasetFetcher.fetch.__code__,
            _IterableDatasetFetcher.fetch.__code__,
        ]
        self._depth = 0
        self._fetch_since_ns = 0
        self._collate_since_ns = 0
        self._fetch_ns = 0
        self._collate_ns = 0
        self._cpu_since_ns = 0
        self._cpu_ns = 0
        self._hooked = False

    def begin(self) -> None:
        """The loop asks for a batch."""
        if self._watchable and sys.getprofile() is None:
            self._fetch_ns = self._collate_ns = self._cpu_ns = self._depth = 0
            self._hooked = True
            sys.setprofile(self._on_event)

    def end(self) -> None:
        """The loop has its batch; safe to call at any time."""
        if self._hooked:
            self._hooked = False
            if sys.getprofile() == self._on_event:  # else the user has set one of their own meanwhile
                sys.setprofile(None)

    def probe(self) -> LoadProbe | None:
        """What the last watched batch took; None if none was seen."""
        if self._fetch_ns == 0 or self._collate is None:
            return None
        dataset_code = _loading_code(self._loader.dataset)
        return LoadProbe(
            fetch_s=max(0, self._fetch_ns - self._collate_ns) / 1e9,
            collate_s=self._collate_ns / 1e9,
            dataset_file=None if dataset_code is None else dataset_code.co_filename,
            dataset_line=None if dataset_code is None else dataset_code.co_firstlineno,
            collate_file=self._collate.co_filename,
            collate_line=self._collate.co_firstlineno,
            cpu_s=self._cpu_ns / 1e9,
        )

    def _on_event(self, frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if code is self._collate:
            if event == "call":
                self._depth += 1
                if self._depth == 1:
                    self._collate_since_ns = perf_counter_ns()
            elif event == "return":
                self._depth -= 1
                if self._depth == 0:
                    self._collate_ns += perf_counter_ns() - self._collate_since_ns
        elif code in self._fetches:
            if event == "call":
                self._fetch_since_ns = perf_counter_ns()
                self._cpu_since_ns = thread_time_ns()
            elif event == "return":
                self._fetch_ns += perf_counter_ns() - self._fetch_since_ns
                self._cpu_ns += thread_time_ns() - self._cpu_since_ns


def _loading_code(dataset: Any) -> CodeType | None:
    """The code of the user's dataset that gives its samples."""
    while isinstance(dataset, Subset):  # what random_split makes
        dataset = dataset.dataset
    names = ("__iter__",) if isinstance(dataset, IterableDataset) else ("__getitems__", "__getitem__")
    return next((code for name in names if (code := _code_of(getattr(type(dataset), name, None)))), None)


def _code_of(function: Any) -> CodeType | None:
    """The code that runs when ``function`` is called; looks at what is stored and asks no object of the user's."""
    if isinstance(function, partial):
        return _code_of(function.func)
    if isinstance(function, MethodType):
        return function.__func__.__code__ if isinstance(function.__func__, FunctionType) else None
    if isinstance(function, FunctionType):
        return function.__code__
    call = inspect.getattr_static(type(function), "__call__", None)
    return call.__code__ if isinstance(call, FunctionType) else None

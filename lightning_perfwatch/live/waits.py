"""Which calls of torch make the host wait for the device, told by their names and arguments.

Knows nothing of who calls them or when.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

WAITING_CALLS = frozenset(
    (
        "item", "tolist", "numpy", "cpu", "nonzero", "argwhere", "masked_select", "unique", "unique_consecutive",
        "is_nonzero", "equal", "allclose", "bincount",
        "__bool__", "__int__", "__float__", "__index__", "__complex__", "__contains__", "__array__",
        "__format__", "__repr__", "__str__",
    )
)  # fmt: skip
"""Tensor methods and torch functions whose result needs the values on the host, by their name.

``to`` and ``copy_`` wait only when they copy from a device to the host, indexing only with a boolean mask, ``where``
only with one argument, ``repeat_interleave`` only without ``output_size``; these are told apart by their arguments.
"""


FACTORIES = frozenset(
    (
        "arange", "as_tensor", "bernoulli", "empty", "eye", "from_numpy", "full", "linspace", "logspace", "multinomial",
        "normal", "ones", "rand", "randint", "randn", "randperm", "tensor", "zeros",
    )
)  # fmt: skip
"""Functions of torch that make a tensor on the host unless they are given a device."""


def waits(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the torch function or method ``name`` called like this needs the device to be done."""
    return name in WAITING_CALLS or (name in CONDITIONAL and CONDITIONAL[name](args, kwargs))


_SPOKEN = {
    "__bool__": "bool(tensor)", "__int__": "int(tensor)", "__float__": "float(tensor)", "__index__": "use as an index",
    "__format__": "printing a tensor", "__repr__": "printing a tensor", "__str__": "printing a tensor",
    "__contains__": "in tensor", "__array__": "conversion to numpy", "__getitem__": "indexing with a boolean mask",
    "__setitem__": "assignment through a boolean mask", "__complex__": "complex(tensor)",
}  # fmt: skip


def spoken(call: str) -> str:
    """How a user would call what torch calls ``call``."""
    return _SPOKEN.get(call) or f".{call}()"


def _copies_to_host(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if kwargs.get("non_blocking") or _is_on_host(args[0]):
        return False
    return any(_is_on_host(target) for target in (*args[1:], kwargs.get("device"), kwargs.get("tensor")))


def _copies_into_host(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether ``args[0].copy_(source)`` moves values of a device to the host."""
    source = args[1] if len(args) > 1 else kwargs.get("other")
    blocks = not (kwargs.get("non_blocking") or (len(args) > 2 and args[2]))
    return blocks and _is_on_host(args[0]) and isinstance(source, torch.Tensor) and not _is_on_host(source)


def _is_on_host(place: Any) -> bool:
    """Whether a tensor, a device or the name of one is the host's."""
    device = getattr(place, "device", place)
    return isinstance(device, (str, torch.device)) and str(device).partition(":")[0] == "cpu"


def _has_mask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    index = args[1] if len(args) > 1 else None
    parts = index if isinstance(index, tuple) else (index,)
    return any(isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8) for part in parts)


def _assigns_values_by_mask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Filling a mask with one number needs no value on the host; assigning a tensor does."""
    value = args[2] if len(args) > 2 else None
    return _has_mask(args, kwargs) and isinstance(value, torch.Tensor) and value.dim() > 0


def _is_nonzero(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether ``where`` is asked for places rather than to choose between values."""
    return len(args) + len(kwargs) == 1


def _must_count(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether ``repeat_interleave`` has to add up a tensor of repeats to know how long its result is."""
    repeats = kwargs.get("repeats", args[1] if len(args) > 1 else args[0] if args else None)
    return kwargs.get("output_size") is None and isinstance(repeats, torch.Tensor)


CONDITIONAL: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], bool]] = {
    "to": _copies_to_host,
    "copy_": _copies_into_host,
    "__getitem__": _has_mask,
    "__setitem__": _assigns_values_by_mask,
    "where": _is_nonzero,
    "repeat_interleave": _must_count,
}

"""Whose code a stack of frames is: the user's, Lightning's, an optimizer's, another library's or torch's own.

Looks at file names only; runs nothing.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from site import getsitepackages, getusersitepackages
from types import CodeType, FrameType

import torch

Stack = list[tuple[CodeType, int]]
"""Frames from the inside out, as code and line."""


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


def stack_of(frame: FrameType | None) -> Stack:
    """``frame`` and those that called it."""
    stack = []
    while frame is not None:
        stack.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return stack


def users_frame(frame: FrameType | None) -> tuple[CodeType, int] | None:
    """Code and line of the user's that calls torch by itself; None where Lightning or an optimizer lies between."""
    while frame is not None:
        kind = kind_of_code(frame.f_code)
        if kind == "user":
            return frame.f_code, frame.f_lineno
        if kind in ("lightning", "optimizer", "perfwatch"):
            return None
        frame = frame.f_back
    return None


def find_owner(stack: Stack) -> tuple[str, tuple[CodeType, int] | None]:
    """Whose call it is, and the innermost frame of the user's own code that led to it.

    The owner is the first of these that the stack meets from inside out: the user, Lightning, an optimizer of torch
    or another library; the rest of torch is passed through.
    """
    owner: str | None = None
    for code, line in stack:
        kind = kind_of_code(code)
        if kind == "user":
            return owner or "user", (code, line)
        if kind == "perfwatch":
            return "perfwatch", None
        if owner is None and kind in ("lightning", "optimizer", "library"):
            owner = kind
    return owner or "torch", None


_kinds: dict[str, str] = {}


def kind_of_code(code: CodeType) -> str:
    """``user``, ``perfwatch``, ``lightning``, ``optimizer``, ``torch``, ``library`` or ``python``."""
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

"""What interrupts a training step from inside the process: garbage collections and compilations, as immutable data.

Owns their shapes and units. Knows nothing of how they are seen or judged.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GcPauses:
    """Garbage collections of one generation inside of ``num_steps`` steady steps.

    ``step_s`` is what those steps took in all. ``num_called`` collections, with ``called_s`` of ``total_s``, were
    called for by code (``gc.collect()``), the costliest of them at ``file`` and ``line``.
    """

    generation: int
    num_collections: int
    total_s: float
    max_s: float
    num_steps: int
    step_s: float
    num_called: int = 0
    called_s: float = 0.0
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Compilation:
    """One compilation by torch.compile while training went on.

    ``step`` counts training batches from 0. ``reason`` is dynamo's: why what was compiled before did not fit; None for
    a function's first compilation, and where the version of torch does not tell. ``file`` and ``line`` are where the
    function is defined. ``step_s`` is what that step took on the host without its wait for data
    and its callbacks; None where it is no longer known.
    """

    step: int
    function: str
    compile_s: float
    reason: str | None = None
    file: str | None = None
    line: int | None = None
    step_s: float | None = None

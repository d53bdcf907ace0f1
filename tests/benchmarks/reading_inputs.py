"""How much the benchmark of the trace engine reads, and the synthetic traces that it reads.

Owns the sizes at which targets are checked. Knows no target.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.synthetic import write_trace


@dataclass(frozen=True)
class Sizes:
    """How much of everything; ``*_mb`` are 1e6 bytes of JSON."""

    table_mb: tuple[float, ...] = (1, 10, 100, 350, 1000, 2000)
    reference_mb: float = 350
    largest_mb: float = 2000
    tools_mb: float = 350
    num_events: int = 500_000
    num_ranks: int = 4
    num_rounds: int = 3
    num_starts: int = 10


QUICK = Sizes(
    table_mb=(1, 5, 20, 40),
    reference_mb=20,
    largest_mb=40,
    tools_mb=5,
    num_events=20_000,
    num_ranks=2,
    num_rounds=1,
    num_starts=3,
)


@dataclass(frozen=True)
class Settings:
    """What the benchmark was asked for; ``python`` has the other tools, ``folder`` takes the inputs."""

    sizes: Sizes
    python: str
    folder: Path
    num_mutations: int

    def trace(self, size_mb: float, *, with_shapes: bool = False) -> Path:
        """The synthetic trace of this size, made on first use."""
        path = self.folder / f"{size_mb:g}_mb{'_with_shapes' if with_shapes else ''}.pt.trace.json"
        if not path.exists():
            write_trace(path, size_mb, with_shapes=with_shapes)
        return path

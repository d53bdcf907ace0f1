"""Damaged traces through the whole command: only a report or one sentence may come out.

Run as ``python -m tests.benchmarks.fuzzing FIRST_SEED NUM_PROCESSES NUM_MUTATIONS``: takes every NUM_PROCESSES-th
seed and prints a JSON line for each offender and one with the counts at the end. Knows nothing of how a trace is
damaged, which is ``tests.trace.mutations``'.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import random
import resource
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from lightning_perfwatch import cli
from tests.benchmarks.measuring import ROOT
from tests.benchmarks.synthetic import write_trace
from tests.trace.mutations import mutate

REAL_TRACES = ROOT.parent / "shared" / "traces"
REPORT, SENTENCE, OFFENCE, END = "reports", "sentences", "offences", "end"

_LARGEST_BYTES = 1_500_000  # of JSON: ten thousand of these take two processes a few minutes
_MEMORY_BYTES = 4 << 30
_PACKED_EVERY = 4


def main(arguments: Sequence[str]) -> int:
    """Try the seeds; offenders and counts go to stdout as JSON lines."""
    first, num_processes, num_mutations = map(int, arguments)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        originals = _originals(folder)
        for seed in range(first, num_mutations, num_processes):
            sys.stderr.write(f"{seed}\n")  # if this process dies, its last seed is known
            outcome, said = attempt(originals, seed, folder)
            counts[outcome] += 1
            if outcome == OFFENCE:
                _tell({"seed": seed, "said": said[-2000:]})
    _tell({END: True, **counts})
    return 0


def attempt(originals: Sequence[bytes], seed: int, folder: Path) -> tuple[str, str]:
    """What the command makes of the mutation that belongs to ``seed``: the kind of outcome, and what was said."""
    generator = random.Random(seed)
    original = generator.choice(originals)
    packed = seed % _PACKED_EVERY == 0
    path = folder / ("t.pt.trace.json.gz" if packed else "t.pt.trace.json")
    path.write_bytes(mutate(gzip.compress(original, 1) if packed else original, generator))
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("always")
            status = cli.main(["analyze", str(path), "--format", "json"])
    except BaseException:  # noqa: BLE001 - whatever it is, it must not have come out
        return OFFENCE, traceback.format_exc()
    return _judged(status, out.getvalue(), err.getvalue())


def _judged(status: int, out: str, err: str) -> tuple[str, str]:
    is_sentence = err.startswith("perfwatch: ") and err.endswith(".\n") and err.count("\n") == 1
    if status == cli.EXIT_UNREADABLE and not out and is_sentence:
        return SENTENCE, err
    with contextlib.suppress(ValueError):
        if status == cli.EXIT_OK and not err and json.loads(out)["schema_version"]:
            return REPORT, ""
    return OFFENCE, f"status {status}, {len(out)} characters on stdout, on stderr: {err}"


def _originals(folder: Path) -> list[bytes]:
    """The real traces that are not too large, and one that is made here."""
    made = folder / "made.json"
    write_trace(made, 0.2)
    unpacked = [gzip.decompress(path.read_bytes()) for path in sorted(REAL_TRACES.glob("*.trace.json.gz"))]
    return [made.read_bytes(), *(content for content in unpacked if len(content) <= _LARGEST_BYTES)]


def _tell(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How fast the machine is while a run goes on, by a fixed piece of work on the thread that trains.

Owns that work. Uses nothing of torch's, so that no mode or setting of the user's reaches it and nothing of the
training's state is touched.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque

import numpy as np

from lightning_perfwatch.resources import Pace

WORK = 1
"""The number of the work: another one whenever it changes, so that its times are not compared."""
MOST_READINGS = 4096
"""The newest ones are kept."""

_SEED = 7
_CUT_SHARE = 0.1


class PaceWatch:
    """Times the work where an interval ends, when a step has just filled the caches with something else.

    The work is a bit of everything: arithmetic in vectors and in matrices, bytes, memory and Python objects, 0.5 to
    1 ms. While other tenants of the machine made a small GPT's step up to 20 % slower on two CPU cores of a virtual
    machine, such work grew with it: of the spread of step times over 20 runs, 3.5 and 5.8 %, it left 1.2 to 1.6 %. One
    kind of work alone left 1.4 to 3.6 %, and work that finds its caches filled 2.4 to 5 %.
    """

    def __init__(self) -> None:
        self._work = _Work()
        self._work.do()  # the first time is the dearest
        self._work_s: deque[float] = deque(maxlen=MOST_READINGS)

    def edge(self, num_steps: int, *, counts: bool) -> None:
        """The steps since the last edge are over; a reading is taken if they stand for the run."""
        del num_steps
        if not counts:
            return
        begun_s = time.thread_time()  # waits, for a CPU or for Python's lock, are what the run does to itself
        self._work.do()
        self._work_s.append(time.thread_time() - begun_s)

    def use(self) -> Pace | None:
        """The mean of the readings without the longest and the shortest tenth; None without a reading."""
        num_readings = len(self._work_s)
        if num_readings == 0:
            return None
        num_cut = min(max(1, round(num_readings * _CUT_SHARE)), (num_readings - 1) // 2)
        kept_s = sorted(self._work_s)[num_cut : num_readings - num_cut]
        return Pace(num_readings, sum(kept_s) / len(kept_s), f"{WORK}, numpy {np.__version__}")


class _Work:
    def __init__(self) -> None:
        draws = np.random.default_rng(_SEED)
        self._left, self._right = draws.standard_normal((2, 48, 48), dtype=np.float32)
        self._first, self._second = draws.standard_normal((2, 64, 64), dtype=np.float32)
        self._product = np.empty((64, 64), dtype=np.float32)
        self._bytes = draws.bytes(60_000)
        self._from = np.ones(150_000, dtype=np.float32)
        self._to = np.empty_like(self._from)
        self._text = json.dumps({str(number): [number, {"twice": 2 * number}] for number in range(150)})

    def do(self) -> None:
        for _ in range(3):
            np.einsum("ij,jk->ik", self._left, self._right)
        for _ in range(24):  # as large as a BLAS multiplies without its threads
            np.matmul(self._first, self._second, out=self._product)
        hashlib.sha256(self._bytes).digest()
        np.copyto(self._to, self._from)
        json.loads(self._text)

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from lightning_perfwatch.live.ranks import RankPart, gather
from lightning_perfwatch.measurements import RankSummary, Window

PART = RankPart(RankSummary(0, "node", 10.0, 1.0, 0.1, 0.2), (Window(3, 2, 2, rank=0),))


def test_a_process_alone_has_its_own_part_and_asks_nobody() -> None:
    assert gather(PART, 1) == [PART]
    assert gather(PART, 2) == [PART]  # a strategy whose processes torch.distributed does not know


SCRIPT = """
import pickle, sys
import torch
from lightning_perfwatch.live.ranks import RankPart, gather
from lightning_perfwatch.measurements import RankSummary, Window
rank, rendezvous, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
part = RankPart(RankSummary(rank, "node", 1.0, None, None, None), (Window(1, 2, 3, rank=rank),))
parts = gather(RankPart() if rank == 0 else part, 2)
pickle.dump(parts, open(out, "wb"))
torch.distributed.destroy_process_group()
"""


def test_every_process_gets_all_parts_in_the_order_of_ranks_also_of_one_that_is_off(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "meet"), str(tmp_path / f"{rank}.pkl")], cwd=Path(__file__).parents[2]
        )
        for rank in range(2)
    ]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]

    expected = [
        RankPart(),
        RankPart(RankSummary(1, "node", 1.0, None, None, None), (Window(1, 2, 3, rank=1),)),
    ]
    for rank in range(2):
        assert pickle.loads((tmp_path / f"{rank}.pkl").read_bytes()) == expected

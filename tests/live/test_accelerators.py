from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lightning_perfwatch.live import accelerators
from lightning_perfwatch.live.accelerators import find_accelerators


def test_asking_starts_no_device() -> None:
    found = find_accelerators()
    assert found.usable == {} or torch.cuda.is_available() or torch.xpu.is_available() or accelerators._num_mps()
    assert not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    assert found.build in ("cpu", "cuda", "rocm", "xpu")


def test_what_the_driver_knows_is_told_without_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(accelerators, "_DRIVER", tmp_path)
    assert find_accelerators().num_nvidia == 2
    monkeypatch.setattr(accelerators, "_DRIVER", tmp_path / "nothing")
    assert find_accelerators().num_nvidia == 0

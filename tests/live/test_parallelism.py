from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from lightning_perfwatch.live.parallelism import describe_parallelism, find_data_parallel


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


class Model(nn.Module):
    """``unused`` has no part in the result."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(self.used(x))


def trainer_of(model: nn.Module) -> Any:
    return SimpleNamespace(strategy=SimpleNamespace(model=model))


def test_a_model_in_no_wrapper_has_none() -> None:
    assert describe_parallelism(trainer_of(Model())) is None
    assert find_data_parallel(Model()) is None


@pytest.mark.usefixtures("group")
def test_the_wrapper_tells_its_settings_and_what_it_found() -> None:
    wrapper = DistributedDataParallel(Model(), find_unused_parameters=True, gradient_as_bucket_view=True)
    before = describe_parallelism(trainer_of(wrapper))
    assert before is not None
    assert before.unused_parameter_bytes is None  # it has not looked yet
    for _ in range(3):
        wrapper(torch.ones(2, 4)).sum().backward()
    found = describe_parallelism(trainer_of(wrapper))
    assert found is not None
    assert (found.wrapper, found.backend) == ("DistributedDataParallel", "gloo")
    assert (found.find_unused_parameters, found.static_graph, found.gradient_as_bucket_view) == (True, False, True)
    assert (found.parameter_bytes, found.unused_parameter_bytes) == (160, 80)
    assert found.bucket_cap_bytes == 25 * 2**20
    assert found.exposed_s is not None and 0 <= found.exposed_s < 10


def test_one_process_that_serves_several_devices_is_found_in_the_model() -> None:
    spread = nn.DataParallel(nn.Linear(2, 2))
    spread.device_ids = [0]  # with one device or none it does nothing
    assert find_data_parallel(nn.Sequential(spread)) is None
    spread.device_ids = [0, 1]
    found = find_data_parallel(nn.Sequential(spread))
    assert found is not None
    assert found.wrapper == "DataParallel"

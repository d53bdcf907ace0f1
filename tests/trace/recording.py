"""Traces that torch writes here, on the CPU: a small fit under the profiler."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule


class Net(torch.nn.Module):
    """Two layers, one of them in a container."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 16)
        self.rest = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(16, 4))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.rest(self.first(batch))
        return result


def fit_step(model: Net, optimizer: torch.optim.Optimizer) -> None:
    model(torch.ones(8, 16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def record(
    path: Path, active: int = 3, inside: Callable[[], object] = lambda: None, stepped: bool = True, **options: Any
) -> profile:
    """Write one window of `active` steps to `path`; `inside` runs in each. Without `stepped` no step is announced."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    phases = schedule(wait=0, warmup=1, active=active, repeat=1) if stepped else None
    profiler = profile(activities=[ProfilerActivity.CPU], schedule=phases, **options)
    with profiler:
        for _ in range(active + stepped):
            fit_step(model, optimizer)
            inside()
            if stepped:
                profiler.step()
    profiler.export_chrome_trace(str(path))
    return profiler

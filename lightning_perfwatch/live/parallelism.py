"""How the model is wrapped for several devices, as the wrapper tells.

Owns the reading of the wrappers' own records. Changes none of its settings and starts no collective.
"""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from lightning_perfwatch.resources import DataParallelism


def describe_parallelism(trainer: Any) -> DataParallelism | None:
    """The settings of the wrapper around the model and what it last saw; None without one."""
    wrapper = trainer.strategy.model
    if not isinstance(wrapper, DistributedDataParallel):
        return None
    told: dict[str, Any] = wrapper._get_ddp_logging_data()  # type: ignore[no-untyped-call]
    has_looked = bool(told.get("iteration"))  # it looks at its first ten exchanges, and at every hundredth
    return DataParallelism(
        wrapper="DistributedDataParallel",
        backend=told.get("backend_name"),
        find_unused_parameters=bool(wrapper.find_unused_parameters),
        static_graph=bool(wrapper.static_graph),
        gradient_as_bucket_view=bool(wrapper.gradient_as_bucket_view),
        bucket_cap_bytes=told.get("bucket_cap_bytes"),
        parameter_bytes=told.get("total_parameter_size_bytes"),
        unused_parameter_bytes=told.get("unused_parameter_size") if has_looked else None,
        exposed_s=_exposed_s(told),
    )


def _exposed_s(told: dict[str, Any]) -> float | None:
    """Seconds of the last exchange that was timed in which the backward pass had nothing more to compute."""
    exchange_ns, hidden_ns = told.get("backward_comm_time"), told.get("backward_compute_comm_overlap_time")
    if not exchange_ns or hidden_ns is None:
        return None
    return max(0, int(exchange_ns) - int(hidden_ns)) / 1e9


def find_data_parallel(module: nn.Module) -> DataParallelism | None:
    """A part of the model that is spread over several devices by the threads of one process; None without one."""
    spread = any(isinstance(part, nn.DataParallel) and len(part.device_ids) > 1 for part in module.modules())
    return DataParallelism("DataParallel") if spread else None

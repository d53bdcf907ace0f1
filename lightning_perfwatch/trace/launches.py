"""Who launches the work of a device: how often, by which part of the code. Knows no idle time and no threshold."""

from dataclasses import dataclass

import numpy as np

from lightning_perfwatch.trace.columns import DeviceSpans
from lightning_perfwatch.trace.operators import kernels_in_steps
from lightning_perfwatch.trace.optimizer_time import inside, optimizer_intervals
from lightning_perfwatch.trace.places import CodePlace, code_place
from lightning_perfwatch.trace.trace import Trace


@dataclass(frozen=True)
class Launches:
    """Kernels launched in the complete steps (in all of a trace without steps), and who launches most of them.

    `module` is the class of module, `operator` the operator, whose calls launch most kernels; the shares are of all
    launched kernels. `optimizer_share` is launched by an optimizer. None where nothing is known;
    so is `per_step` without steps.
    """

    num_kernels: int
    per_step: float | None
    module: str | None
    module_share: float | None
    operator: str | None
    operator_share: float | None
    optimizer_share: float
    place: CodePlace | None


def launches_in_steps(trace: Trace) -> Launches | None:
    """None for a trace without a kernel whose launch was recorded."""
    kernels = trace.kernels.take(kernels_in_steps(trace))
    calls = trace.launches(kernels)
    kernels, calls = kernels.take(calls >= 0), calls[calls >= 0]
    if len(kernels) == 0:
        return None
    runtime = trace.runtime.take(calls)
    module, module_share = _most(_module_classes(trace, kernels), len(kernels))
    ops = trace.launching_ops(kernels)
    operator, operator_share = _most([trace.names[name] for name in trace.ops.name[ops[ops >= 0]]], len(kernels))
    return Launches(
        num_kernels=len(kernels),
        per_step=trace.per_step(len(kernels)),
        module=module,
        module_share=module_share,
        operator=operator,
        operator_share=operator_share,
        optimizer_share=float(inside(optimizer_intervals(trace), runtime).mean()),
        place=code_place(trace, runtime),
    )


def _module_classes(trace: Trace, kernels: DeviceSpans) -> list[str]:
    """For each kernel that a module's call launched, the module's class without torch's number for the instance."""
    ops = trace.launching_ops(kernels)
    rows = trace.modules_of(trace.ops.take(ops[ops >= 0]))
    paths = trace.modules.path[rows[rows >= 0]]
    return [trace.modules.paths[path].rpartition("/")[2].rpartition("_")[0] for path in paths.tolist()]


def _most(names: list[str], count: int) -> tuple[str | None, float | None]:
    names = [name for name in names if name]
    if not names:
        return None, None
    found, number = np.unique(np.array(names), return_counts=True)
    return str(found[np.argmax(number)]), float(number.max()) / count

"""What is good to have beside the measuring itself: TensorBoard, the GPU's clocks, a compiler.

Pure: facts in, checks out. None of these is essential.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lightning_perfwatch.checkup.check import Check, missing, ok, warning
from lightning_perfwatch.checkup.facts import MachineFacts


def _tensorboard(facts: MachineFacts) -> Iterable[Check]:
    version = facts.packages.get("tensorboard")
    if version is None:
        yield missing("TensorBoard", "it is not installed", "Install it: pip install tensorboard.")
    elif not facts.has_tensorboard_tab:
        remedy = "Install lightning-perfwatch anew in this environment, with pip."
        yield warning("TensorBoard", f"{version}, but the PerfWatch tab is not registered", remedy)
    else:
        yield ok("TensorBoard", f"{version}, with the PerfWatch tab")
    profiler = facts.packages.get("torch-tb-profiler")
    if profiler is None:
        remedy = "Install it for TensorBoard's own view of a trace: pip install torch-tb-profiler."
        yield missing("torch-tb-profiler", "it is not installed", remedy)
    else:
        yield ok("torch-tb-profiler", profiler)


def _throttling(facts: MachineFacts) -> Iterable[Check]:
    name = "throttling"
    nvml = facts.packages.get("nvidia-ml-py") or facts.packages.get("pynvml")
    has_cuda = facts.torch.devices is not None and facts.torch.devices.type == "cuda"
    if (has_cuda or facts.nvidia.num_gpus) and not _is_amd(facts):
        if nvml is None:
            remedy = "Install it, to be told of GPUs that slow down by heat: pip install nvidia-ml-py."
            yield missing(name, "nvidia-ml-py is not installed", remedy)
        else:
            yield ok(name, f"the GPU's clocks can be read by nvidia-ml-py {nvml}")
    elif facts.processors.has_thermal_counter:
        yield ok(name, "the CPU counts how often heat slows it down")
    else:
        remedy = "Nothing has to be done; only slowing down by heat can't be told here."
        yield missing(name, "the CPU's counter of it can't be read, as in most virtual machines", remedy)


def _is_amd(facts: MachineFacts) -> bool:
    return facts.torch.build is not None and facts.torch.build.built_for == "rocm"


def _compiler(facts: MachineFacts) -> Iterable[Check]:
    if facts.compiler is None:
        remedy = "Install one (apt install g++), or name it in CXX; torch.compile needs it."
        yield missing("C++ compiler", "neither CXX nor the path has one", remedy)
    else:
        yield ok("C++ compiler", facts.compiler)


EXTRA_CHECKS: tuple[Callable[[MachineFacts], Iterable[Check]], ...] = (_tensorboard, _throttling, _compiler)

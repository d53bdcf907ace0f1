"""What the answers of torch and lightning mean for measuring.

Pure: facts in, checks out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lightning_perfwatch.checkup.check import Check, missing, ok, warning
from lightning_perfwatch.checkup.facts import MachineFacts


def _torch(facts: MachineFacts) -> Iterable[Check]:
    build = facts.torch.build
    if build is None:
        reason = f"import torch fails here: {facts.torch.failures.get('build', 'no answer')}"
        remedy = "Install it: pip install torch." if "No module named 'torch'" in reason else _MEND_TORCH
        yield missing("torch", reason, remedy, is_essential=True)
        return
    version = f" {build.built_for_version}" if build.built_for_version else ""
    yield ok("torch", f"{build.version}, built for {_KINDS[build.built_for]}{version}")


_MEND_TORCH = "Make python -c 'import torch' work in this environment, for example by installing torch anew."
_KINDS = {"cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU", "cpu": "CPUs only"}


def _device(facts: MachineFacts) -> Iterable[Check]:
    if facts.torch.build is None:
        return
    name, devices, nvidia = "device", facts.torch.devices, facts.nvidia
    if devices is None:
        reason = facts.torch.failures.get("devices", "no answer")
        yield missing(name, f"torch fails when it looks for devices: {reason}", _MEND_DRIVER, is_essential=True)
    elif devices.type is not None:
        driver = f", driver {nvidia.driver_version}" if nvidia.driver_version and devices.type == "cuda" else ""
        names = [
            f"{devices.names.count(each)} x {each}" if devices.names.count(each) > 1 else each
            for each in dict.fromkeys(devices.names)
        ]
        yield ok(name, f"{devices.type}: {', '.join(names)}{driver}")
    elif nvidia.num_gpus:
        seen = f"the NVIDIA driver {nvidia.driver_version or ''} has {nvidia.num_gpus} GPU(s) that torch can't use"
        remedy = _MEND_DRIVER if facts.torch.build.built_for == "cuda" else "Install a torch that is built for CUDA."
        yield missing(name, " ".join(seen.split()), remedy, is_essential=True)
    else:
        yield ok(name, "no accelerator, training runs on the CPU")


_MEND_DRIVER = "Install a driver that is new enough for this torch, and see that CUDA_VISIBLE_DEVICES hides no GPU."


def _profiler(facts: MachineFacts) -> Iterable[Check]:
    if facts.torch.build is None:
        return
    name, recording = "profiler", facts.torch.recording
    if recording is None:
        reason = facts.torch.failures.get("recording", "no answer")
        yield missing(name, f"torch.profiler fails: {reason}", _MEND_TORCH, is_essential=True)
        return
    activities = ", ".join(recording.activities)
    if not recording.num_operators:
        detail = f"torch.profiler recorded no operator (activities: {activities or 'none'})"
        yield missing(name, detail, "Install a torch that is built with Kineto.", is_essential=True)
    elif recording.num_kernels == 0:
        said = f": {facts.torch.complaints[0]}" if facts.torch.complaints else ""
        detail = f"torch.profiler recorded no kernel of the device (activities: {activities}){said}"
        yield missing(name, detail, _FREE_THE_TRACER, is_essential=True)
    else:
        kernels = f" and {recording.num_kernels} kernels" if recording.num_kernels else ""
        yield ok(name, f"activities {activities}: {recording.num_operators} operators{kernels} recorded in a trial")


_FREE_THE_TRACER = (
    "End other profilers of the GPU (Nsight, DCGM), and install a torch whose profiler.supported_activities() "
    "name the device."
)


def _lightning(facts: MachineFacts) -> Iterable[Check]:
    installed = facts.packages.get("lightning")
    if facts.torch.lightning is not None:
        yield ok("lightning", facts.torch.lightning.version)
    elif installed is None:
        yield missing("lightning", "it is not installed", "Install it: pip install lightning.", is_essential=True)
    elif facts.torch.build is None:
        yield warning("lightning", f"{installed} is installed, and can't be tried without torch", "Mend torch first.")
    else:
        reason = facts.torch.failures.get("lightning", "no answer")
        detail = f"import lightning.pytorch fails, {installed} is installed: {reason}"
        remedy = "Install a release of lightning that fits this torch: pip install -U lightning."
        yield missing("lightning", detail, remedy, is_essential=True)


TORCH_CHECKS: tuple[Callable[[MachineFacts], Iterable[Check]], ...] = (_torch, _device, _profiler, _lightning)

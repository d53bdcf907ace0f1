"""How torch, the model and the optimizers are set up, as they tell themselves.

Owns the reading of these settings. Measures nothing, starts no device, draws no random number, calls no user code.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from lightning_perfwatch.settings import DropoutLayer, OptimizerSettings, Settings

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}
_MOST_NAMED = 20


def describe_settings(trainer: Any, module: Any) -> Settings:
    """The settings now; what can't be told, in this version of torch or of this model, is None or left out."""
    modules = _told(lambda: list(module.named_modules())) or []
    dropouts = _told(lambda: _dropouts(modules)) or ()
    convolutions = [layer for _, layer in modules if isinstance(layer, _CONVOLUTIONS)]
    return Settings(
        # Once a user has mixed them with the settings that torch 2.9 brought, torch refuses to tell these.
        float32_matmul_precision=_told(torch.get_float32_matmul_precision),
        allow_tf32_matmul=_told(lambda: bool(torch.backends.cuda.matmul.allow_tf32)) or _told(_new_tf32_matmul),
        allow_tf32_cudnn=_told(lambda: bool(torch.backends.cudnn.allow_tf32)),
        cudnn_benchmark=_told(lambda: bool(torch.backends.cudnn.benchmark)),
        cudnn_deterministic=_told(lambda: bool(torch.backends.cudnn.deterministic)),
        sdp_backends=_told(_sdp_backends),
        autocast_dtype=_told(lambda: _autocast_dtype(trainer)),
        optimizers=_told(lambda: tuple(_optimizer(optimizer) for optimizer in trainer.optimizers)) or (),
        dropouts=dropouts[:_MOST_NAMED],
        num_dropouts=len(dropouts),
        num_multihead_attentions=sum(isinstance(layer, nn.MultiheadAttention) for _, layer in modules),
        num_convolutions=len(convolutions),
        channels_last=_told(lambda: _channels_last(convolutions)),
        num_threads=_told(torch.get_num_threads),
        cpu_bf16=_told(cpu_bf16),
        device_capability=_told(_device_capability),
    )


def _told(ask: Callable[[], _T]) -> _T | None:
    """The answer; None where torch or the Trainer refuses it."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - a setting that can't be read is not known, whatever the reason
        log.debug("PerfWatch can't read a setting: %s: %s", type(error).__name__, error)
        return None


def _dropouts(modules: list[tuple[str, nn.Module]]) -> tuple[DropoutLayer, ...]:
    return tuple(
        DropoutLayer(name, float(layer.p)) for name, layer in modules if isinstance(layer, _DROPOUTS) and layer.p > 0
    )


def _new_tf32_matmul() -> bool:
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


def _sdp_backends() -> tuple[str, ...]:
    enabled = {
        "flash": torch.backends.cuda.flash_sdp_enabled,
        "mem_efficient": torch.backends.cuda.mem_efficient_sdp_enabled,
        "math": torch.backends.cuda.math_sdp_enabled,
        "cudnn": torch.backends.cuda.cudnn_sdp_enabled,
    }
    return tuple(name for name, is_enabled in enabled.items() if is_enabled())  # type: ignore[no-untyped-call]


def _autocast_dtype(trainer: Any) -> str | None:
    """That of the usual names of precision; those of plugins of other origin are not known."""
    precision = str(trainer.precision)
    if precision.startswith("bf16"):
        return "bfloat16"
    if precision.startswith("16"):
        return "float16"
    return {"32-true": "float32", "64-true": "float64"}.get(precision)


def _optimizer(optimizer: Any) -> OptimizerSettings:
    kind = type(optimizer)
    defaults = optimizer.defaults
    return OptimizerSettings(
        name=kind.__name__,
        is_torchs=kind.__module__.startswith("torch.optim"),
        num_parameter_tensors=sum(len(group["params"]) for group in optimizer.param_groups),
        fused=_flag(defaults.get("fused")),
        foreach=_flag(defaults.get("foreach")),
        capturable=_flag(defaults.get("capturable")),
    )


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _channels_last(convolutions: Sequence[nn.Module]) -> bool | None:
    """Whether most of the weights that have such a layout lie so; None without any."""
    weights = [layer._parameters.get("weight") for layer in convolutions]
    # A weight of one channel or of 1 x 1 lies in both ways at once.
    told = [
        weight.is_contiguous(memory_format=_LAYOUTS[weight.ndim])
        for weight in weights
        if weight is not None and weight.ndim in _LAYOUTS
        if not (weight.is_contiguous() and weight.is_contiguous(memory_format=_LAYOUTS[weight.ndim]))
    ]
    return 2 * sum(told) > len(told) if told else None


def cpu_bf16() -> str | None:
    """The instructions by which this CPU multiplies bfloat16 in hardware; None if it does not."""
    if torch.cpu._is_amx_tile_supported():
        return "amx"
    return "avx512_bf16" if torch.cpu._is_avx512_bf16_supported() else None


def _device_capability() -> tuple[int, int] | None:
    """Asked only where CUDA runs already: asking would start it."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None
    major, minor = torch.cuda.get_device_capability()
    return int(major), int(minor)

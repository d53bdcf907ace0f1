"""How torch, the model and the optimizers are set up for a run, as immutable data.

Owns the shape only. Knows nothing of how it is found out or judged. Not known is None, never a default.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OptimizerSettings:
    """One optimizer: ``fused``, ``foreach`` and ``capturable`` as it was told, None where it chooses itself.

    ``is_torchs`` is True for the classes of ``torch.optim`` themselves, which know these settings.
    """

    name: str
    is_torchs: bool
    num_parameter_tensors: int
    fused: bool | None = None
    foreach: bool | None = None
    capturable: bool | None = None


@dataclass(frozen=True)
class DropoutLayer:
    """A dropout module with a probability above 0, by its name in the model."""

    name: str
    probability: float


@dataclass(frozen=True)
class Settings:
    """What was set when it was last looked at: at the end of a window, or of the fit.

    ``sdp_backends`` are the enabled backends of scaled_dot_product_attention (``flash``, ``mem_efficient``, ``math``,
    ``cudnn``). ``autocast_dtype`` is the type that Lightning's precision plugin computes in, such as ``bfloat16``.
    ``channels_last`` says whether the convolutions' weights lie so, None without any. ``cpu_bf16`` is the instruction
    set with which the CPU multiplies bfloat16, ``amx`` or ``avx512_bf16``. ``device_capability`` is CUDA's, such as
    (9, 0). ``dropouts`` are those with p > 0, at most 20 of ``num_dropouts``.
    """

    float32_matmul_precision: str | None = None
    allow_tf32_matmul: bool | None = None
    allow_tf32_cudnn: bool | None = None
    cudnn_benchmark: bool | None = None
    cudnn_deterministic: bool | None = None
    sdp_backends: tuple[str, ...] | None = None
    autocast_dtype: str | None = None
    optimizers: tuple[OptimizerSettings, ...] = ()
    dropouts: tuple[DropoutLayer, ...] = ()
    num_dropouts: int = 0
    num_multihead_attentions: int = 0
    num_convolutions: int = 0
    channels_last: bool | None = None
    num_threads: int | None = None
    cpu_bf16: str | None = None
    device_capability: tuple[int, int] | None = None

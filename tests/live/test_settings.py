from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from lightning_perfwatch import evidence as evidence_module
from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.live.settings import describe_settings
from lightning_perfwatch.settings import DropoutLayer, OptimizerSettings


class Model(LightningModule):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)


class OwnAdamW(torch.optim.AdamW):
    pass


def stand_in(**changes: Any) -> Any:
    """What is asked of a Trainer."""
    return SimpleNamespace(**{"optimizers": [], "precision": "32-true", **changes})


def test_a_real_trainers_settings(tmp_path: Path) -> None:
    trainer = Trainer(accelerator="cpu", precision="bf16-mixed", logger=False, enable_checkpointing=False)
    found = describe_settings(trainer, Model(nn.Linear(3, 2)))
    assert found.autocast_dtype == "bfloat16"
    assert found.float32_matmul_precision == torch.get_float32_matmul_precision()
    assert found.num_threads == torch.get_num_threads()
    assert found.sdp_backends == ("flash", "mem_efficient", "math", "cudnn")
    assert (found.cudnn_benchmark, found.cudnn_deterministic, found.allow_tf32_cudnn) == (False, False, True)
    assert (found.allow_tf32_matmul, found.device_capability, found.channels_last) == (False, None, None)


def test_backends_that_are_off_are_left_out() -> None:
    with sdpa_kernel(SDPBackend.MATH):
        assert describe_settings(stand_in(), Model()).sdp_backends == ("math",)


def test_optimizers_with_what_they_were_told() -> None:
    weights = [nn.Parameter(torch.ones(1)) for _ in range(3)]
    optimizers = [
        torch.optim.AdamW(weights, fused=True),
        torch.optim.SGD([{"params": weights[:1]}, {"params": weights[1:]}], 0.1, foreach=False),
        OwnAdamW(weights),
        torch.optim.LBFGS(weights),
    ]
    assert describe_settings(stand_in(optimizers=optimizers), Model()).optimizers == (
        OptimizerSettings("AdamW", True, 3, fused=True, capturable=False),
        OptimizerSettings("SGD", True, 3, foreach=False),
        OptimizerSettings("OwnAdamW", False, 3, capturable=False),
        OptimizerSettings("LBFGS", True, 3),
    )


def test_dropout_attention_and_convolutions_of_the_model() -> None:
    layers = [nn.Dropout(0.0), nn.Dropout(0.1), nn.Sequential(nn.Dropout2d(0.2)), nn.MultiheadAttention(4, 2)]
    found = describe_settings(stand_in(), Model(*layers, nn.Conv2d(3, 8, 3), nn.ConvTranspose1d(2, 2, 2)))
    assert found.dropouts == (DropoutLayer("layers.1", 0.1), DropoutLayer("layers.2.0", 0.2))
    assert (found.num_dropouts, found.num_multihead_attentions, found.num_convolutions) == (2, 1, 2)
    assert found.channels_last is False
    many = describe_settings(stand_in(), Model(*(nn.Dropout(0.5) for _ in range(30))))
    assert (len(many.dropouts), many.num_dropouts) == (20, 30)


def test_the_layout_of_the_convolutions() -> None:
    model = Model(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 1))
    assert describe_settings(stand_in(), model).channels_last is False
    assert describe_settings(stand_in(), model.to(memory_format=torch.channels_last)).channels_last is True
    assert describe_settings(stand_in(), Model(nn.Conv2d(1, 8, 1))).channels_last is None  # lies in both ways


def test_layers_without_a_shape_yet_leave_only_the_layout_unknown() -> None:
    found = describe_settings(stand_in(), Model(nn.LazyConv2d(8, 3), nn.Dropout(0.1)))
    assert (found.channels_last, found.num_convolutions, found.num_dropouts) == (None, 1, 1)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("bf16-true", "bfloat16"), ("16-mixed", "float16"), ("32-true", "float32"), ("64-true", "float64"), ("fp8", None)],
)
def test_the_type_that_is_computed_in(precision: str, dtype: str | None) -> None:
    assert describe_settings(stand_in(precision=precision), Model()).autocast_dtype == dtype


def test_what_a_trainer_does_not_tell_is_not_known() -> None:
    found = describe_settings(object(), Model(nn.Dropout(0.1)))
    assert (found.autocast_dtype, found.optimizers, found.num_dropouts) == (None, (), 1)


def test_mixing_torchs_old_and_new_settings_of_tf32_breaks_nothing() -> None:
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    try:
        found = describe_settings(stand_in(), Model())
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    assert found.allow_tf32_matmul is True


def test_nothing_is_drawn_and_no_device_is_started() -> None:
    model = Model(nn.Dropout(0.1), nn.Conv2d(3, 3, 3))
    state = torch.get_rng_state()
    describe_settings(stand_in(), model)
    assert torch.equal(state, torch.get_rng_state())
    assert not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]


def test_they_are_stored_with_the_evidence() -> None:
    optimizer = torch.optim.AdamW([nn.Parameter(torch.ones(1))], fused=True)
    found = describe_settings(stand_in(optimizers=[optimizer]), Model(nn.Dropout(0.1)))
    found = replace(found, device_capability=(9, 0))
    stored = evidence_module.from_json(evidence_module.to_json(Evidence(settings=found)))
    assert stored.settings == found

"""The healthy cases: the same models with nothing wrong, in the settings in which people train."""

from __future__ import annotations

from tests.faults.case import Case

_GPT = "model.dropout=0 data.batch_size=8"
_CLASSIFIER = "model=classifier data=jpegs"
_GAN = "model=gan data=pictures"
_TWO_RANKS = "trainer.accelerator=cpu trainer.devices=2 ++trainer.strategy=ddp"

HEALTHY = (
    Case("gpt", _GPT, is_quick=True),
    Case("gpt, one worker", f"{_GPT} data.num_workers=1"),
    Case("gpt, two workers", f"{_GPT} data.num_workers=2"),
    Case("gpt, small batches", f"{_GPT} data.batch_size=4"),
    Case("gpt, large batches", f"{_GPT} data.batch_size=32 trainer.max_steps=45"),
    Case("gpt, four batches accumulated", f"{_GPT} ++trainer.accumulate_grad_batches=4 trainer.max_steps=20"),
    Case("gpt, bf16-mixed", f"{_GPT} ++trainer.precision=bf16-mixed"),
    Case("gpt, compiled", f"{_GPT} model.num_layers=2 compile={{}}", needs_compiler=True),
    Case("gpt, read as a stream", f"{_GPT} ++data.streamed=true"),
    Case("gpt, on one CPU", _GPT, cpus=1),
    Case("gpt, clipped gradients", f"{_GPT} ++trainer.gradient_clip_val=1.0"),
    Case("gpt, several epochs with workers that live on", f"{_GPT} data.num_workers=1 data.max_bytes=50_000"),
    Case("gpt, validated once", f"{_GPT} trainer.val_check_interval=50 trainer.limit_val_batches=2"),
    Case("gpt, without a progress bar", f"{_GPT} ++trainer.enable_progress_bar=false"),
    Case("gpt on two ranks", f"{_GPT} {_TWO_RANKS}"),
    Case("classifier, one worker", _CLASSIFIER),
    Case("classifier, two workers", f"{_CLASSIFIER} data.num_workers=2"),
    Case("classifier, pictures in memory", f"{_CLASSIFIER} ++data.in_memory=true data.num_workers=0"),
    Case("gan", _GAN),
    Case("gan, large batches", f"{_GAN} data.batch_size=64"),
    Case("gan, one worker", f"{_GAN} data.num_workers=1 data.batch_size=64"),
)

"""The planted cases: one fault each, over a GPT, an image classifier and a GAN.

Owns what is wrong with each run and what else is true of it. ``configs/experiment/<rule>.yaml`` holds the fault
itself; the variants change that.
"""

from __future__ import annotations

from tests.faults.case import Case

_CLASSIFIER = "model=classifier data=jpegs"
_GAN = "model=gan data=pictures"

LOADING = (
    Case(
        "gpt, no workers and a slow disk",
        "experiment=dataloader_starvation",
        "dataloader-starvation",
        fix="data.num_workers=2",
        is_quick=True,
    ),
    Case(
        "gpt, too few workers",
        "experiment=dataloader_starvation ++data.load_time_s=0.025 data.num_workers=1",
        "dataloader-starvation",
        fix="data.num_workers=2",
    ),
    Case(
        "gpt, collate in Python",
        "model.dropout=0 data._target_=faults.loading.SlowCollateText",
        "dataloader-starvation",
        fix="data._target_=data.TextDataModule",
    ),
    Case(
        "classifier, JPEGs without workers",
        f"{_CLASSIFIER} data.num_workers=0 data.jpeg_size=384 data.num_pictures=500 model.width=16",
        "dataloader-starvation",
        fix="++data.in_memory=true data.num_workers=0",
    ),
    Case(
        "classifier, blur in one worker",
        f"{_CLASSIFIER} data._target_=faults.loading.BlurredImages data.jpeg_size=384"
        " data.num_pictures=500 model.width=16",
        "dataloader-starvation",
        fix="data.num_workers=2",
    ),
    Case(
        "gan, no workers and a slow disk",
        f"{_GAN} data.in_memory=false ++data.load_time_s=0.003",
        "dataloader-starvation",
        fix="data.num_workers=2",
    ),
    Case(
        "gpt, workers anew in each epoch",
        "experiment=worker_restart",
        "worker-restart",
        fix="++data.persistent_workers=true",
        is_outside=True,
    ),
    Case(
        "classifier, workers anew in each epoch",
        f"{_CLASSIFIER} data.num_workers=2 ++data.persistent_workers=false ++trainer.limit_train_batches=5",
        "worker-restart",
        fix="++data.persistent_workers=true",
        is_outside=True,
    ),
)

SYNCING = (
    Case("gpt, loss.item()", "experiment=host_sync", "host-sync", fix="model._target_=gpt.GPT", is_quick=True),
    Case("gpt, print(loss)", "experiment=host_sync model._target_=faults.syncing.PrintingGPT", "host-sync"),
    Case("gpt, if isnan(loss)", "experiment=host_sync model._target_=faults.syncing.BranchingGPT", "host-sync"),
    Case("classifier, .cpu().numpy()", f"{_CLASSIFIER} model._target_=faults.syncing.CountingClassifier", "host-sync"),
    Case("gan, float(loss)", f"{_GAN} model._target_=faults.syncing.FloatingGAN", "host-sync"),
    Case("gpt, loss in the progress bar", "experiment=logging_sync", "logging-sync"),
    Case("gan, losses in the progress bar", f"{_GAN} model._target_=faults.syncing.ProgressBarGAN", "logging-sync"),
)

COMPUTING = (
    Case(
        "gpt, attention token by token",
        "experiment=launch_bound",
        "launch-bound",
        ("slow-attention",),
        fix="model._target_=gpt.GPT",
    ),
    Case(
        "classifier, contrast patch by patch",
        f"{_CLASSIFIER} model._target_=faults.computing.PatchLoopClassifier",
        "launch-bound",
        fix="model._target_=classifier.Classifier",
    ),
    Case(
        "gan, distances pair by pair",
        f"{_GAN} model._target_=faults.computing.PairLoopGAN",
        "launch-bound",
        fix="model._target_=gan.GAN",
    ),
    Case(
        "gpt, dropout in attention",
        "experiment=slow_attention",
        "slow-attention",
        ("dropout-cost", "memory-bound-ops"),
        fix="model.attention_dropout=0",
    ),
    Case(
        "gpt, attention written out",
        "experiment=slow_attention ++model.attention_dropout=0 model._target_=faults.attention.HandWrittenAttentionGPT",
        "slow-attention",
        ("memory-bound-ops",),
        fix="model._target_=gpt.GPT",
    ),
    Case(
        "gpt, a learned bias in attention",
        "experiment=slow_attention model.attention_dropout=0 model._target_=faults.attention.BiasedAttentionGPT",
        "slow-attention",
        ("memory-bound-ops",),
        fix="model._target_=faults.attention.DetachedBiasGPT",
    ),
    Case(
        "gpt, fast attention switched off",
        "experiment=slow_attention model.attention_dropout=0 model._target_=faults.attention.ReferenceAttentionGPT",
        "slow-attention",
        ("memory-bound-ops",),
        fix="model._target_=gpt.GPT",
    ),
    Case("gpt, dropout", "experiment=dropout_cost", "dropout-cost", fix="model.dropout=0"),
    Case(
        "classifier, dropout",
        f"{_CLASSIFIER} model._target_=faults.computing.DroppingClassifier",
        "dropout-cost",
        fix="model._target_=classifier.Classifier",
    ),
    Case("gpt, GELU written out", "experiment=memory_bound_ops", "memory-bound-ops", fix="model._target_=gpt.GPT"),
    Case(
        "classifier, Mish written out",
        f"{_CLASSIFIER} model._target_=faults.computing.WrittenOutClassifier model.width=16 data.batch_size=16",
        "memory-bound-ops",
        fix="model._target_=faults.computing.MishClassifier",
    ),
    Case(
        "gpt, large matrices in fp32",
        "experiment=full_precision_matmul",
        "full-precision-matmul",
        fix="trainer.precision=bf16-mixed",
        needs_bf16=True,
    ),
)

UPDATING = (
    Case(
        "gpt, parameters one by one",
        "experiment=unfused_optimizer",
        "unfused-optimizer",
        fix="model.fused_optimizer=true",
    ),
    Case(
        "gan, parameters one by one",
        f"{_GAN} model.fused_optimizer=null model.width=96 data.batch_size=2",
        "unfused-optimizer",
        fix="model.fused_optimizer=true",
    ),
    Case(
        "classifier, parameters one by one",
        f"{_CLASSIFIER} model.fused_optimizer=null model.width=64 data.batch_size=1",
        "unfused-optimizer",
        fix="model.fused_optimizer=true",
    ),
    Case(
        "gpt, gradients filled with zeros", "experiment=zero_grad_fill", "zero-grad-fill", fix="model._target_=gpt.GPT"
    ),
    Case(
        "gpt, growing lengths compiled",
        "experiment=recompilation",
        "recompilation",
        ("step-jitter",),
        fix="compile.dynamic=true",
    ),
    Case(
        "gpt, a counter compiled",
        "experiment=recompilation data._target_=data.TextDataModule model._target_=faults.training.SteppingGPT",
        "recompilation",
        ("step-jitter",),
        fix="model._target_=gpt.GPT",
    ),
    Case("gpt, graphs kept", "experiment=memory_growth trainer.max_steps=120", "memory-growth"),
    Case(
        "gan, graphs kept",  # two optimizers: each batch counts as two steps
        f"{_GAN} model._target_=faults.computing.PictureKeepingGAN trainer.max_steps=240",
        "memory-growth",
    ),
)

BESIDE = (
    Case(
        "gpt, a callback sorts the weights",
        "experiment=slow_hook",
        "slow-hook",
        fix="~callbacks.weight_quantiles",
        is_quick=True,
    ),
    Case(
        "gpt, its own hook sorts gradients",
        "model.dropout=0 model._target_=faults.callbacks.GradientQuantilesGPT",
        "slow-hook",
        fix="model._target_=gpt.GPT",
    ),
    Case(
        "classifier, a callback writes pictures",
        f"{_CLASSIFIER} ++callbacks.writer._target_=faults.callbacks.PictureWriter",
        "slow-hook",
        ("host-sync",),
        fix="~callbacks.writer",
    ),
    Case("gpt, garbage collected by hand", "experiment=gc_pause", "gc-pause", fix="model._target_=gpt.GPT"),
    Case(
        "classifier, garbage collected in a callback",
        f"{_CLASSIFIER} ++callbacks.garbage._target_=faults.callbacks.CollectGarbage",
        "gc-pause",
        ("slow-hook",),
        fix="~callbacks.garbage",
    ),
    Case(
        "gan, garbage collected by hand",
        f"{_GAN} model._target_=faults.callbacks.CollectingGAN",
        "gc-pause",
        fix="model._target_=gan.GAN",
    ),
    Case(
        "gpt, validation after every fifth batch",
        "experiment=validation_stall",
        "validation-stall",
        fix="trainer.val_check_interval=60",
        is_outside=True,
    ),
    Case(
        "classifier, validation after every fourth batch",
        f"{_CLASSIFIER} trainer.val_check_interval=4 trainer.limit_val_batches=8",
        "validation-stall",
        fix="trainer.val_check_interval=60",
        is_outside=True,
    ),
    Case(
        "gpt, a checkpoint after every second batch",
        "experiment=checkpoint_stall",
        "checkpoint-stall",
        fix="callbacks.checkpoint.every_n_train_steps=60",
        is_outside=True,
    ),
    Case(
        "gan, a checkpoint after every batch",
        f"{_GAN} model.width=64 data.batch_size=8"
        " ++callbacks.checkpoint._target_=lightning.pytorch.callbacks.ModelCheckpoint"
        " ++callbacks.checkpoint.every_n_train_steps=2",
        "checkpoint-stall",
        fix="callbacks.checkpoint.every_n_train_steps=120",
        is_outside=True,
    ),
    Case("gpt, a stall every tenth batch", "experiment=step_jitter", "step-jitter", fix="model._target_=gpt.GPT"),
    Case(
        "classifier, a review every twelfth batch",
        f"{_CLASSIFIER} model._target_=faults.computing.ReviewingClassifier",
        "step-jitter",
        fix="model._target_=classifier.Classifier",
    ),
    Case(
        "gpt, 32 threads",
        "experiment=cpu_oversubscription",
        "cpu-oversubscription",
        fix="num_threads=1",
    ),
    Case(
        "classifier, 8 threads on one CPU",
        f"{_CLASSIFIER} data.num_workers=0 num_threads=8",
        "cpu-oversubscription",
        cpus=1,
        fix="num_threads=1",
    ),
)

RANKS = (
    Case(
        "gpt on two ranks, one late",
        "experiment=straggler_rank",
        "straggler-rank",
        ("exposed-communication",),
        fix="++model.delay_s=0",
    ),
    Case(
        "gpt on two ranks, one with a slow disk",
        "experiment=straggler_rank model._target_=gpt.GPT data._target_=faults.loading.UnevenText"
        " ++data.load_time_s=0.02",
        "straggler-rank",
        ("exposed-communication", "dataloader-starvation"),
        fix="++data.load_time_s=0",
    ),
    Case(
        "gpt on two ranks, large gradients",
        "experiment=exposed_communication",
        "exposed-communication",
        fix="++trainer.accumulate_grad_batches=8 trainer.max_steps=8",
    ),
    Case(
        "gpt on two ranks, unused parameters looked for",
        "experiment=ddp_settings",
        "ddp-settings",
        ("exposed-communication", "launch-bound"),
        fix="trainer.strategy=ddp",
    ),
)

PLANTED = LOADING + SYNCING + COMPUTING + UPDATING + BESIDE + RANKS

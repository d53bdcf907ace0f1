"""Faults of the data: loading that costs more than training, in the ways in which it usually does."""

import torch
from data import TextDataModule
from images import ImageDataModule, Jpegs
from PIL import Image, ImageFilter
from torch import Tensor


def collate_with_masks(samples: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Stack the samples, with the causal mask of each (B, T, T) written out as Python lists."""
    masks = [[[key <= query for key in range(len(s["labels"]))] for query in range(len(s["labels"]))] for s in samples]
    return {
        "input_ids": torch.stack([sample["input_ids"] for sample in samples]),
        "labels": torch.stack([sample["labels"] for sample in samples]),
        "attention_mask": torch.tensor(masks),
    }


class SlowCollateText(TextDataModule):
    """Text whose batches are put together in Python."""

    collate = staticmethod(collate_with_masks)


class BlurredJpegs(Jpegs):
    """Pictures that are turned and blurred at full size before they are scaled down."""

    def augment(self, picture: Image.Image) -> Image.Image:
        """The picture, turned and blurred."""
        return picture.rotate(15, Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(4))


class BlurredImages(ImageDataModule):
    """Pictures with an expensive augmentation."""

    dataset_type = BlurredJpegs


class UnevenText(TextDataModule):
    """Text of which every rank but the first has its part on a slow disk; `load_time_s` is for those."""

    def setup(self, stage: str) -> None:
        """As for all text, without the sleep on the first rank."""
        super().setup(stage)
        if self.trainer is not None and self.trainer.global_rank == 0:
            self.train_blocks.dataset.load_time_s = 0.0  # type: ignore[attr-defined]  # it is TextBlocks


class GrowingText(TextDataModule):
    """Text whose batches get longer during training, as in a curriculum: one token more every eight batches."""

    def on_after_batch_transfer(self, batch: dict[str, Tensor], dataloader_idx: int) -> dict[str, Tensor]:
        """The batch, cut to the length of the day."""
        step = 0 if self.trainer is None else self.trainer.global_step
        length = self.block_size // 2 + step // 8
        return {name: tokens[:, :length] for name, tokens in batch.items()}

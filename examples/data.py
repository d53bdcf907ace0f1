"""Byte-level text from the source files of the running Python's standard library, as a LightningDataModule.

Real text that every machine has, so nothing is downloaded. It knows nothing of the model.
"""

import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset


def stdlib_files() -> Iterator[Path]:
    """Python files of the standard library, always in the same order; no tests and no installed packages."""
    root = Path(sysconfig.get_path("stdlib"))
    # Names and not a walk: the folder of the standard library also holds site-packages.
    for name in sorted(sys.stdlib_module_names):
        module = root / f"{name}.py"
        if module.is_file():
            yield module
        yield from sorted((root / name).rglob("*.py"))


def stdlib_text(max_bytes: int) -> Tensor:
    """The first `max_bytes` of the standard library's source, (N,) uint8: one token per byte.

    Raises:
        ValueError: if this Python comes without source files.
    """
    text = bytearray()
    for path in stdlib_files():
        text += path.read_bytes()
        if len(text) >= max_bytes:
            break
    if not text:
        raise ValueError(f"no source files in {sysconfig.get_path('stdlib')}: run this with an unpacked Python")
    return torch.frombuffer(text[:max_bytes], dtype=torch.uint8)


class TextBlocks(Dataset[dict[str, Tensor]]):
    """Text cut into blocks that don't overlap.

    Args:
        text: (N,) uint8.
        block_size: tokens per sample.
        load_time_s: seconds to sleep per sample, as a read from a slow disk or a network would.
    """

    def __init__(self, text: Tensor, block_size: int, load_time_s: float = 0.0) -> None:
        if len(text) <= block_size:
            raise ValueError(f"block_size={block_size} needs more than the {len(text)} bytes of text there are")
        self.text = text
        self.block_size = block_size
        self.load_time_s = load_time_s

    def __len__(self) -> int:
        return (len(self.text) - 1) // self.block_size  # the last label needs one byte more

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """One sample: `input_ids` and `labels`, both (T,) int64, the labels one token later."""
        if self.load_time_s:
            time.sleep(self.load_time_s)
        start = index * self.block_size
        block = self.text[start : start + self.block_size + 1].long()
        return {"input_ids": block[:-1], "labels": block[1:]}


class Stream(IterableDataset[dict[str, Tensor]]):
    """Samples one after another, of which nobody knows how many there are."""

    def __init__(self, blocks: Dataset[dict[str, Tensor]], indices: Sequence[int]) -> None:
        self.blocks = blocks
        self.indices = indices

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """All samples in order."""
        return (self.blocks[index] for index in self.indices)


class TextDataModule(LightningDataModule):
    """Train and validation loaders over the standard library's source.

    Args:
        batch_size: sequences per batch.
        block_size: tokens per sequence.
        num_workers: loader processes. 0 is enough for text in memory (0.3 ms for 16 sequences of 128 tokens);
            with `load_time_s` it makes training wait for every sample.
        load_time_s: seconds of simulated decoding or I/O per sample; 0 simulates none.
        max_bytes: how much text to read.
        val_every: one block in so many is kept for validation.
        persistent_workers: whether workers live on from one epoch to the next.
        streamed: read the training text in order and without a known length, for `num_workers` of 0.
    """

    collate: Callable[[list[dict[str, Tensor]]], dict[str, Tensor]] | None = None
    """How a subclass makes a training batch of samples; None stacks them."""

    def __init__(
        self,
        *,
        batch_size: int,
        block_size: int,
        num_workers: int = 0,
        load_time_s: float = 0.0,
        max_bytes: int = 4_000_000,
        val_every: int = 10,
        persistent_workers: bool = True,
        streamed: bool = False,
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.block_size = block_size
        self.num_workers = num_workers
        self.load_time_s = load_time_s
        self.max_bytes = max_bytes
        self.val_every = val_every
        self.persistent_workers = persistent_workers
        self.streamed = streamed

    def setup(self, stage: str) -> None:
        """Read the text and split it; `stage` makes no difference."""
        blocks = TextBlocks(stdlib_text(self.max_bytes), self.block_size, self.load_time_s)
        # Spread over the text and not its end: the last modules are of another kind than the first (tables of
        # encodings against algorithms), and a loss on them would say little about the training.
        val = range(0, len(blocks), self.val_every)
        self.val_blocks = Subset(blocks, val)
        self.train_blocks = Subset(blocks, [index for index in range(len(blocks)) if index not in val])

    def train_dataloader(self) -> DataLoader[dict[str, Tensor]]:
        """Shuffled batches of full size."""
        return self._loader(self.train_blocks, train=True)

    def val_dataloader(self) -> DataLoader[dict[str, Tensor]]:
        """Batches of the blocks that training never sees, in order."""
        return self._loader(self.val_blocks, train=False)

    def _loader(self, blocks: Subset[dict[str, Tensor]], train: bool) -> DataLoader[dict[str, Tensor]]:
        streamed = train and self.streamed
        return DataLoader(
            Stream(blocks.dataset, blocks.indices) if streamed else blocks,
            batch_size=self.batch_size,
            shuffle=train and not streamed,
            drop_last=train,
            num_workers=self.num_workers,
            collate_fn=self.collate if train else None,
            persistent_workers=self.persistent_workers and self.num_workers > 0,
            pin_memory=torch.cuda.is_available(),
        )

"""Pictures of coloured shapes as JPEG files, and the LightningDataModule that decodes them with Pillow.

The files are drawn once and kept in the system's temporary folder, so nothing is downloaded. It knows nothing of the
model.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from PIL import Image, ImageDraw
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

Batch = tuple[Tensor, Tensor]
"""Pictures (B, 3, S, S) float32 in -1..1, and their classes (B,) int64."""

NUM_CLASSES = 4


def draw(number: int, size: int) -> Image.Image:
    """Picture `number`, always the same: a shape of class `number % NUM_CLASSES` on a noisy background."""
    random = np.random.default_rng(number)
    noise = random.normal(128, 30, (size, size, 3)).clip(0, 255).astype(np.uint8)
    picture = Image.fromarray(noise)
    left, top = (int(edge) for edge in random.integers(0, size // 2, 2))
    box = (left, top, left + size // 2, top + size // 2)
    red, green, blue = (int(channel) for channel in random.integers(0, 255, 3))
    pen = ImageDraw.Draw(picture)
    match number % NUM_CLASSES:
        case 0:
            pen.ellipse(box, fill=(red, green, blue))
        case 1:
            pen.rectangle(box, fill=(red, green, blue))
        case 2:
            pen.ellipse(box, outline=(red, green, blue), width=size // 10)
        case _:
            pen.rectangle(box, outline=(red, green, blue), width=size // 10)
    return picture


def jpeg_folder(num_pictures: int, size: int) -> Path:
    """The folder with `<number>.jpeg` for each picture, drawn unless it is there already."""
    folder = Path(tempfile.gettempdir()) / f"shapes-{num_pictures}-of-{size}px"
    folder.mkdir(exist_ok=True)
    for number in range(num_pictures):
        path = folder / f"{number}.jpeg"
        if not path.exists():
            with tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file:
                draw(number, size).save(file, "jpeg", quality=90)
            Path(file.name).replace(path)  # whole or not at all, whoever else draws it
    return folder


class Jpegs(Dataset[tuple[Tensor, int]]):
    """Pictures that are decoded and scaled down when they are asked for.

    Args:
        folder: of `jpeg_folder`.
        num_pictures: how many of them.
        size: edge of a sample in pixels.
        load_time_s: seconds to sleep per sample, as a read from a slow disk or a network would.
    """

    def __init__(self, folder: Path, num_pictures: int, size: int, load_time_s: float = 0.0) -> None:
        self.folder = folder
        self.num_pictures = num_pictures
        self.size = size
        self.load_time_s = load_time_s

    def __len__(self) -> int:
        return self.num_pictures

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One sample: (3, S, S) float32 in -1..1, and its class."""
        if self.load_time_s:
            time.sleep(self.load_time_s)
        with Image.open(self.folder / f"{index}.jpeg") as file:
            picture = self.augment(file.convert("RGB")).resize((self.size, self.size))
        pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
        return pixels / 127.5 - 1, index % NUM_CLASSES

    def augment(self, picture: Image.Image) -> Image.Image:
        """The picture as it is trained on, before it is scaled."""
        return picture


class InMemory(Dataset[tuple[Tensor, int]]):
    """The samples of another dataset, loaded once."""

    def __init__(self, samples: Dataset[tuple[Tensor, int]], num_samples: int) -> None:
        self.samples = [samples[index] for index in range(num_samples)]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """One sample, as the other dataset gives it."""
        return self.samples[index]


class ImageDataModule(LightningDataModule):
    """Train and validation loaders over pictures of shapes.

    Args:
        batch_size: pictures per batch.
        size: edge of a sample in pixels.
        jpeg_size: edge of a picture in its file; decoding takes a time proportional to its square.
        num_pictures: how many there are, one in ten of them for validation.
        num_workers: loader processes.
        persistent_workers: whether they live on from one epoch to the next.
        in_memory: decode all pictures once, before training.
        load_time_s: seconds of simulated I/O per sample.
    """

    dataset_type: type[Jpegs] = Jpegs

    def __init__(
        self,
        *,
        batch_size: int,
        size: int,
        jpeg_size: int,
        num_pictures: int,
        num_workers: int = 0,
        persistent_workers: bool = True,
        in_memory: bool = False,
        load_time_s: float = 0.0,
    ) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.size = size
        self.jpeg_size = jpeg_size
        self.num_pictures = num_pictures
        self.num_workers = num_workers
        self.persistent_workers = persistent_workers
        self.in_memory = in_memory
        self.load_time_s = load_time_s

    def prepare_data(self) -> None:
        """Draw the files."""
        jpeg_folder(self.num_pictures, self.jpeg_size)

    def setup(self, stage: str) -> None:
        """Split the pictures; `stage` makes no difference."""
        folder = jpeg_folder(self.num_pictures, self.jpeg_size)
        pictures: Dataset[tuple[Tensor, int]] = self.dataset_type(
            folder, self.num_pictures, self.size, self.load_time_s
        )
        if self.in_memory:
            pictures = InMemory(pictures, self.num_pictures)
        numbers = range(self.num_pictures)
        self.val_pictures = Subset(pictures, [n for n in numbers if n // NUM_CLASSES % 10 == 0])
        self.train_pictures = Subset(pictures, [n for n in numbers if n // NUM_CLASSES % 10])

    def train_dataloader(self) -> DataLoader[tuple[Tensor, int]]:
        """Shuffled batches of full size."""
        return self._loader(self.train_pictures, train=True)

    def val_dataloader(self) -> DataLoader[tuple[Tensor, int]]:
        """Batches of the pictures that training never sees, in order."""
        return self._loader(self.val_pictures, train=False)

    def _loader(self, pictures: Subset[tuple[Tensor, int]], train: bool) -> DataLoader[tuple[Tensor, int]]:
        return DataLoader(
            pictures,
            batch_size=self.batch_size,
            shuffle=train,
            drop_last=train,
            num_workers=self.num_workers,
            persistent_workers=self.persistent_workers and self.num_workers > 0,
            pin_memory=torch.cuda.is_available(),
        )

"""The pictures: the same every time, decoded to what a network reads, kept apart for validation."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from images import NUM_CLASSES, ImageDataModule, Jpegs, draw, jpeg_folder


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_picture_is_the_same_every_time_and_unlike_the_next() -> None:
    assert np.array_equal(np.array(draw(3, 32)), np.array(draw(3, 32)))
    assert not np.array_equal(np.array(draw(3, 32)), np.array(draw(4, 32)))


def test_files_are_drawn_once(temporary: Path) -> None:
    folder = jpeg_folder(5, 32)
    assert sorted(path.name for path in folder.iterdir()) == [f"{number}.jpeg" for number in range(5)]
    assert folder.is_relative_to(temporary)
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert jpeg_folder(5, 32) == folder
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times


def test_a_sample_is_decoded_scaled_and_labelled(temporary: Path) -> None:
    pixels, label = Jpegs(jpeg_folder(6, 32), 6, 16)[5]
    assert (pixels.shape, pixels.dtype, label) == ((3, 16, 16), torch.float32, 5 % NUM_CLASSES)
    assert -1 <= float(pixels.min()) < float(pixels.max()) <= 1


@pytest.mark.parametrize("in_memory", [False, True])
def test_validation_pictures_are_of_all_classes_and_kept_out_of_training(temporary: Path, in_memory: bool) -> None:
    module = ImageDataModule(batch_size=8, size=16, jpeg_size=16, num_pictures=80, in_memory=in_memory)
    module.prepare_data()
    module.setup("fit")
    train, val = set(module.train_pictures.indices), set(module.val_pictures.indices)
    assert (len(train), len(val), train & val) == (72, 8, set())
    assert {number % NUM_CLASSES for number in val} == set(range(NUM_CLASSES))
    pictures, labels = next(iter(module.train_dataloader()))
    assert (pictures.shape, labels.shape) == ((8, 3, 16, 16), (8,))

"""The example's data: real text in a fixed order, labels one token later, cheap unless told otherwise."""

import sysconfig
from pathlib import Path

import pytest
import torch
from data import TextBlocks, TextDataModule, stdlib_files, stdlib_text


def text_data(batch_size: int = 4, num_workers: int = 0, max_bytes: int = 10_000) -> TextDataModule:
    module = TextDataModule(batch_size=batch_size, block_size=32, num_workers=num_workers, max_bytes=max_bytes)
    module.setup("fit")
    return module


def test_text_is_the_same_every_time() -> None:
    text = stdlib_text(max_bytes=200_000)
    assert len(text) == 200_000
    assert torch.equal(text, stdlib_text(max_bytes=200_000))
    assert torch.equal(text[:1000], stdlib_text(max_bytes=1000))


def test_text_is_python_source() -> None:
    assert b"import " in bytes(stdlib_text(max_bytes=50_000).tolist())


def test_files_are_the_standard_librarys_own() -> None:
    paths = [path.relative_to(sysconfig.get_path("stdlib")) for path in stdlib_files()]
    assert Path("argparse.py") in paths
    assert Path("json/decoder.py") in paths
    assert not {"site-packages", "dist-packages"} & {path.parts[0] for path in paths}


def test_python_without_source_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("data.sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(ValueError, match="no source files"):
        stdlib_text(max_bytes=100)


def test_labels_are_inputs_shifted_by_one() -> None:
    blocks = TextBlocks(torch.arange(10, dtype=torch.uint8), block_size=3)
    samples = [(s["input_ids"].tolist(), s["labels"].tolist()) for s in map(blocks.__getitem__, range(len(blocks)))]
    assert samples == [([0, 1, 2], [1, 2, 3]), ([3, 4, 5], [4, 5, 6]), ([6, 7, 8], [7, 8, 9])]


def test_text_shorter_than_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="block_size=8 needs more than the 8 bytes"):
        TextBlocks(torch.zeros(8, dtype=torch.uint8), block_size=8)


@pytest.mark.parametrize(("load_time_s", "sleeps"), [(0.0, []), (0.25, [0.25, 0.25])])
def test_only_simulated_loading_sleeps(
    monkeypatch: pytest.MonkeyPatch, load_time_s: float, sleeps: list[float]
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("data.time.sleep", slept.append)
    blocks = TextBlocks(torch.zeros(9, dtype=torch.uint8), block_size=4, load_time_s=load_time_s)
    assert len([blocks[0], blocks[1]]) == 2
    assert slept == sleeps


def test_batches_are_full_and_token_shaped() -> None:
    batches = list(text_data(batch_size=4).train_dataloader())
    assert len(batches) == 280 // 4  # 10,000 bytes hold 312 blocks of 32 with their labels; 32 are held out
    for batch in batches:
        assert {key: (value.shape, value.dtype) for key, value in batch.items()} == {
            "input_ids": ((4, 32), torch.int64),
            "labels": ((4, 32), torch.int64),
        }


def test_training_is_shuffled_by_the_seed_and_validation_is_not() -> None:
    def first(loader: torch.utils.data.DataLoader[dict[str, torch.Tensor]], seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        batch: dict[str, torch.Tensor] = next(iter(loader))
        return batch["input_ids"]

    train, val = text_data().train_dataloader(), text_data().val_dataloader()
    assert torch.equal(first(train, 1), first(train, 1))
    assert not torch.equal(first(train, 1), first(train, 2))
    assert torch.equal(first(val, 1), first(val, 2))


def test_validation_text_is_kept_out_of_training() -> None:
    module = text_data()
    train, val = set(module.train_blocks.indices), set(module.val_blocks.indices)
    assert not train & val
    assert len(train | val) == 312
    assert len(val) == 32


def test_workers_load_the_same_batches() -> None:
    in_process = list(text_data(max_bytes=2000).val_dataloader())
    in_worker = list(text_data(max_bytes=2000, num_workers=1).val_dataloader())
    assert [b["labels"].tolist() for b in in_worker] == [b["labels"].tolist() for b in in_process]

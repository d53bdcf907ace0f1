from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset
from torch.utils.data.dataloader import default_collate

from lightning_perfwatch.live.loading import LoadWatch, describe_loader, find_loader
from lightning_perfwatch.measurements import LoaderInfo, LoadProbe
from tests.live.factories import HostClock

SAMPLE_MS, COLLATE_MS = 4.0, 30.0
CLOCK, CPU_CLOCK = HostClock(), HostClock()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lightning_perfwatch.live.loading.perf_counter_ns", CLOCK)
    monkeypatch.setattr("lightning_perfwatch.live.loading.thread_time_ns", CPU_CLOCK)


class Samples(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        CLOCK.pass_ms(SAMPLE_MS)
        return torch.zeros(2)


class ManySamples(Samples):
    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        return [self[index] for index in indices]


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(8):
            CLOCK.pass_ms(SAMPLE_MS)
            yield torch.zeros(2)


def slow_collate(samples: list[Any]) -> Any:
    CLOCK.pass_ms(COLLATE_MS)
    return default_collate(samples)


def collate_by(ms: float, samples: list[Any]) -> Any:
    CLOCK.pass_ms(ms)
    return default_collate(samples)


def nested_collate(samples: Any) -> Any:
    CLOCK.pass_ms(COLLATE_MS / 2)
    return [nested_collate(sample) for sample in samples] if isinstance(samples[0], list) else samples


class Collator:
    def __call__(self, samples: list[Any]) -> Any:
        return slow_collate(samples)

    def collate(self, samples: list[Any]) -> Any:
        return slow_collate(samples)


def loader_of(dataset: Any, collate: Any = slow_collate, **arguments: Any) -> DataLoader[Any]:
    return DataLoader(dataset, **{"batch_size": 4, "collate_fn": collate, **arguments})


def watched(loader: Any, num_batches: int = 1) -> LoadProbe | None:
    watch = LoadWatch(loader)
    batches = iter(loader)
    for _ in range(num_batches):
        watch.begin()
        next(batches)
        watch.end()
    return watch.probe()


def milliseconds(probe: LoadProbe | None) -> tuple[float, float]:
    assert probe is not None
    return round(probe.fetch_s * 1e3, 6), round(probe.collate_s * 1e3, 6)


def line_of(function: Any) -> int:
    return inspect.getsourcelines(function)[1]


@pytest.mark.parametrize("dataset", [Samples(), ManySamples(), Stream()])
def test_loading_is_split_into_fetching_and_collating(dataset: Any) -> None:
    assert milliseconds(watched(loader_of(dataset))) == (4 * SAMPLE_MS, COLLATE_MS)


@pytest.mark.parametrize("collate", [functools.partial(collate_by, COLLATE_MS), Collator(), Collator().collate])
def test_any_kind_of_collate_function_is_recognised(collate: Any) -> None:
    assert milliseconds(watched(loader_of(Samples(), collate))) == (4 * SAMPLE_MS, COLLATE_MS)


def test_a_collate_function_that_calls_itself_is_counted_once() -> None:
    nest: Any = [[1], [2]]

    assert milliseconds(watched(DataLoader(nest, batch_size=2, collate_fn=nested_collate))) == (0.0, 1.5 * COLLATE_MS)


def test_the_last_batch_watched_counts_and_not_their_sum() -> None:
    assert milliseconds(watched(loader_of(Samples()), num_batches=2)) == (4 * SAMPLE_MS, COLLATE_MS)


def test_the_probe_says_where_the_code_is() -> None:
    probe = watched(loader_of(Samples()))

    assert probe is not None
    assert (probe.dataset_file, probe.dataset_line) == (__file__, line_of(Samples.__getitem__))
    assert (probe.collate_file, probe.collate_line) == (__file__, line_of(slow_collate))


@pytest.mark.parametrize(
    ("dataset", "function"),
    [
        (ManySamples(), ManySamples.__getitems__),
        (Stream(), Stream.__iter__),
        (Subset(Samples(), [0, 1, 2, 3]), Samples.__getitem__),
        (Subset(Subset(ManySamples(), [0, 1, 2, 3]), [0, 1, 2, 3]), ManySamples.__getitems__),
    ],
)
def test_the_users_own_dataset_is_to_blame_however_it_is_wrapped(dataset: Any, function: Any) -> None:
    probe = watched(loader_of(dataset))

    assert probe is not None
    assert (probe.dataset_file, probe.dataset_line) == (__file__, line_of(function))


def test_data_that_is_no_code_of_anyone_has_no_place() -> None:
    probe = watched(loader_of([torch.zeros(2)] * 4))

    assert probe is not None
    assert (probe.dataset_file, probe.dataset_line) == (None, None)


def test_torchs_own_collate_function_is_the_default() -> None:
    probe = watched(DataLoader(Samples(), batch_size=4))

    assert probe is not None
    assert probe.collate_file == inspect.getsourcefile(default_collate)
    assert milliseconds(probe) == (4 * SAMPLE_MS, 0.0)


def test_the_profile_function_is_there_for_the_fetch_alone() -> None:
    watch = LoadWatch(loader_of(Samples()))
    assert sys.getprofile() is None
    watch.begin()
    assert sys.getprofile() is not None
    watch.end()
    assert sys.getprofile() is None
    watch.end()


def test_the_profile_function_of_the_user_stays_and_nothing_is_watched() -> None:
    seen: list[str] = []

    def own(frame: Any, event: str, arg: Any) -> None:
        seen.append(frame.f_code.co_name)

    sys.setprofile(own)
    try:
        probe = watched(loader_of(Samples()))
        assert sys.getprofile() is own
    finally:
        sys.setprofile(None)

    assert probe is None
    assert seen.count("slow_collate") == 2  # call and return


@pytest.mark.parametrize("loader", [[1, 2, 3], None, loader_of(Samples(), num_workers=1)])
def test_what_is_not_loaded_here_is_not_watched(loader: Any) -> None:
    watch = LoadWatch(loader)
    watch.begin()

    assert sys.getprofile() is None
    watch.end()
    assert watch.probe() is None


def test_an_exhausted_loader_tells_nothing() -> None:
    watch = LoadWatch(loader_of(Samples()))
    batches = iter(loader_of(Samples(), batch_size=8))
    next(batches)
    watch.begin()
    with pytest.raises(StopIteration):
        next(batches)
    watch.end()

    assert watch.probe() is None


def test_a_dataset_that_fails_raises_its_own_error() -> None:
    class Failing(Samples):
        def __getitem__(self, index: int) -> torch.Tensor:
            raise KeyError("no such file")

    watch = LoadWatch(loader_of(Failing()))
    watch.begin()
    with pytest.raises(KeyError, match="no such file"):
        next(iter(loader_of(Failing())))
    watch.end()

    assert sys.getprofile() is None


FIRST, SECOND = loader_of(Samples()), loader_of(Samples())


@pytest.mark.parametrize(
    ("loaders", "expected"),
    [
        (FIRST, FIRST),
        ([FIRST, SECOND], FIRST),
        ({"a": {"b": (FIRST,)}, "c": SECOND}, FIRST),
        ([range(3), {"b": SECOND}], SECOND),
        (CombinedLoader({"a": SECOND, "b": FIRST}, "max_size"), SECOND),
        (CombinedLoader([range(3), FIRST], "sequential"), FIRST),
        (range(3), range(3)),
        ([], None),
        (None, None),
    ],
)
def test_the_first_data_loader_of_a_nest_is_the_one(loaders: Iterable[Any], expected: Any) -> None:
    assert find_loader(loaders) is expected or find_loader(loaders) == expected


def test_a_loaders_settings() -> None:
    loader = loader_of(Samples(), num_workers=2, persistent_workers=True, prefetch_factor=5)

    assert describe_loader(loader) == LoaderInfo(
        kind="DataLoader",
        num_workers=2,
        batch_size=4,
        persistent_workers=True,
        pin_memory=False,
        prefetch_factor=5,
        dataset="Samples",
        collate="slow_collate",
        sized=True,
        dataset_file=__file__,
        dataset_line=Samples.__getitem__.__code__.co_firstlineno,
    )


@pytest.mark.parametrize(
    ("collate", "name"),
    [(Collator(), "Collator"), (Collator().collate, "Collator.collate"), (functools.partial(slow_collate), "partial")],
)
def test_a_collate_function_has_a_name_whatever_it_is(collate: Any, name: str) -> None:
    info = describe_loader(loader_of(Stream(), collate, batch_size=None))

    assert info is not None
    assert (info.collate, info.sized, info.batch_size, info.prefetch_factor) == (name, False, None, None)


def test_what_is_no_data_loader_has_a_kind_and_nothing_has_none() -> None:
    assert describe_loader([1, 2]) == LoaderInfo(kind="list")
    assert describe_loader(None) is None


def test_the_probe_tells_how_much_of_the_loading_is_computing() -> None:
    class Decoding(Samples):
        def __getitem__(self, index: int) -> torch.Tensor:
            CPU_CLOCK.pass_ms(3.0)
            return super().__getitem__(index)

    probe = watched(loader_of(Decoding(), collate=default_collate), num_batches=2)
    assert probe is not None
    assert probe.cpu_s == pytest.approx(4 * 3.0 / 1e3)
    assert probe.fetch_s == pytest.approx(4 * SAMPLE_MS / 1e3, abs=1e-4)

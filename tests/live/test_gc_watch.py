import gc
from collections.abc import Iterator

import pytest

from lightning_perfwatch.interruptions import GcPauses
from lightning_perfwatch.live.gc_watch import GcWatch


@pytest.fixture
def watch() -> Iterator[GcWatch]:
    """A watch in a process whose collector does nothing by itself."""
    gc.disable()
    found = GcWatch()
    found.start()
    yield found
    found.stop()
    gc.enable()


def generation(watch: GcWatch, number: int) -> GcPauses:
    pauses = watch.pauses(0.001)
    assert pauses is not None
    return pauses[number]


def test_without_a_step_nothing_is_known(watch: GcWatch) -> None:
    gc.collect()
    assert watch.pauses(0.001) is None


def test_steps_without_a_collection_have_none(watch: GcWatch) -> None:
    watch.step_ended(counts=True)
    assert [(one.num_collections, one.total_s, one.step_s) for one in watch.pauses(0.001) or ()] == [
        (0, 0.0, 0.001)
    ] * 3


def test_a_collection_belongs_to_the_step_in_which_it_was(watch: GcWatch) -> None:
    gc.collect()
    watch.step_ended(counts=False)
    gc.collect()
    gc.collect(0)
    watch.step_ended(counts=True)
    oldest = generation(watch, 2)
    assert (oldest.num_collections, oldest.num_steps, oldest.step_s) == (1, 1, 0.001)
    assert 0 < oldest.max_s == oldest.total_s
    assert generation(watch, 0).num_collections == 1
    assert generation(watch, 1).num_collections == 0


def test_a_call_of_the_collector_is_told_by_its_line(watch: GcWatch) -> None:
    def collect() -> None:
        gc.collect()

    collect()
    watch.step_ended(counts=True)
    found = generation(watch, 2)
    assert (found.num_called, found.file, found.line) == (1, __file__, collect.__code__.co_firstlineno + 1)
    assert found.called_s == found.total_s


def test_a_collection_that_nobody_called_for_has_no_line(watch: GcWatch) -> None:
    threshold = gc.get_threshold()
    try:
        gc.set_threshold(1, 1, 1)
        gc.enable()
        kept: list[list[list[int]]] = [[[] for _ in range(10)] for _ in range(2000)]
    finally:
        gc.disable()
        gc.set_threshold(*threshold)
    assert len(kept) == 2000
    watch.step_ended(counts=True)
    pauses = watch.pauses(0.001)
    assert pauses is not None
    assert sum(one.num_collections for one in pauses) > 0
    assert all((one.num_called, one.file, one.line) == (0, None, None) for one in pauses)


def test_stopping_takes_the_listener_out_and_can_be_repeated() -> None:
    before = list(gc.callbacks)
    watch = GcWatch()
    watch.start()
    assert len(gc.callbacks) == len(before) + 1
    watch.stop()
    watch.stop()
    assert gc.callbacks == before

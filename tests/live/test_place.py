from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.loggers.logger import DummyLogger

from lightning_perfwatch.live.place import Place, find_place, is_tensorboard, log_directory


class Strategy:
    """Rank 0 speaks, the others hear what rank 0 has said."""

    def __init__(self, said: Any = None) -> None:
        self.said = said
        self.num_broadcasts = 0

    def broadcast(self, value: Any) -> Any:
        self.num_broadcasts += 1
        return value if self.said is None else self.said


class WandbLike:
    """A logger that has no ``log_dir``."""

    def __init__(self, save_dir: Any, name: str | None = "project", version: Any = "run1") -> None:
        self.save_dir = save_dir
        self.name = name
        self.version = version


class Broken:
    @property
    def log_dir(self) -> str:
        raise ConnectionError("no server")


def trainer(root: Path, *loggers: Any, rank: int = 0, strategy: Strategy | None = None) -> Any:
    return SimpleNamespace(
        loggers=list(loggers), default_root_dir=str(root), global_rank=rank, strategy=strategy or Strategy()
    )


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, to see what is left in it."""
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def test_the_directory_given_is_the_run_directory_itself(tmp_path: Path) -> None:
    wanted = tmp_path / "deep" / "runs"

    assert find_place(trainer(tmp_path, CSVLogger(tmp_path / "csv")), wanted) == Place(wanted)
    assert wanted.is_dir()
    assert list(wanted.iterdir()) == []


def test_a_relative_directory_is_made_absolute(here: Path) -> None:
    assert find_place(trainer(here), "runs") == Place(here / "runs")


def test_without_a_logger_it_lies_below_the_trainers_directory(tmp_path: Path) -> None:
    assert find_place(trainer(tmp_path / "root"), None) == Place(tmp_path / "root" / "perfwatch")


def test_it_lies_beside_a_loggers_files(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path, name="csv", version=3)

    assert find_place(trainer(tmp_path / "root", logger), None).path == Path(logger.log_dir) / "perfwatch"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_among_loggers_tensorboards_is_preferred_so_that_its_tab_finds_the_traces(tmp_path: Path) -> None:
    tensorboard = TensorBoardLogger(tmp_path / "tb")
    loggers = [CSVLogger(tmp_path / "csv"), WandbLike(tmp_path), tensorboard]

    place = find_place(trainer(tmp_path, *loggers), None)

    assert place.path == Path(tensorboard.log_dir) / "perfwatch"
    assert [is_tensorboard(logger) for logger in loggers] == [False, False, True]


@pytest.mark.parametrize(
    ("name", "version", "below"),
    [
        ("project", "run1", "project/run1"),
        ("project", 3, "project/version_3"),
        (None, "run1", "run1"),
        ("project", None, "project"),
        (None, None, ""),
        ("", "", ""),
    ],
)
def test_a_logger_without_a_directory_of_its_own_has_one_below_where_it_saves(
    tmp_path: Path, here: Path, name: str | None, version: Any, below: str
) -> None:
    logger = WandbLike(tmp_path / "wandb", name, version)

    assert find_place(trainer(tmp_path, logger), None).path == tmp_path / "wandb" / below / "perfwatch"
    assert not list(tmp_path.rglob("*None*"))


@pytest.mark.parametrize("logger", [DummyLogger(), WandbLike(None), SimpleNamespace(log_dir=None, save_dir=None)])
def test_a_logger_that_saves_nowhere_leaves_the_trainers_directory(tmp_path: Path, here: Path, logger: Any) -> None:
    assert find_place(trainer(tmp_path / "root", logger), None) == Place(tmp_path / "root" / "perfwatch")
    assert list(here.iterdir()) == []


def test_a_logger_that_saves_nowhere_does_not_hide_one_that_does(tmp_path: Path) -> None:
    assert log_directory(trainer(tmp_path, WandbLike(None), WandbLike(tmp_path / "w"))) == str(
        tmp_path / "w" / "project" / "run1"
    )


@pytest.mark.parametrize("remote", ["s3://bucket/runs", "gs://b", "hdfs://host:1/x"])
def test_a_remote_path_is_refused_with_a_remedy_and_not_made_here(tmp_path: Path, here: Path, remote: str) -> None:
    given = find_place(trainer(tmp_path), remote)
    by_logger = find_place(trainer(tmp_path, WandbLike(remote)), None)

    for place in (given, by_logger):
        assert place.path is None
        assert place.reason is not None
        assert "is a remote path: give PerfWatch a local dir" in place.reason
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("below", [".", "sub", "sub/sub"])
def test_a_file_in_the_way_is_a_reason(tmp_path: Path, below: str) -> None:
    file = tmp_path / "afile"
    file.write_text("mine")

    place = find_place(trainer(tmp_path), file / below)

    assert place.path is None
    assert place.reason is not None
    assert "can't be written" in place.reason
    assert "give PerfWatch another dir" in place.reason
    assert file.read_text() == "mine"


@pytest.mark.parametrize("directory", ["/proc/nope", "/proc/self", "nul\0byte", "x" * 300])
def test_what_can_not_be_written_is_a_reason(tmp_path: Path, here: Path, directory: str) -> None:
    place = find_place(trainer(tmp_path), directory)

    assert place.path is None
    assert place.reason is not None
    assert "can't be written" in place.reason


def test_a_directory_that_can_be_made_but_not_written_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write anywhere, so the refusal is played."""

    def refuse(path: Path, _: bytes) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "write_bytes", refuse)

    place = find_place(trainer(tmp_path), tmp_path / "ro")

    assert place.path is None
    assert "Permission denied" in str(place.reason)


def test_a_logger_that_fails_is_a_reason_and_the_other_ranks_still_get_their_answer(tmp_path: Path) -> None:
    strategy = Strategy()

    place = find_place(trainer(tmp_path, Broken(), strategy=strategy), None)

    assert place == Place(None, "the loggers tell no directory (ConnectionError: no server): give PerfWatch a dir")
    assert strategy.num_broadcasts == 1


def test_other_ranks_take_rank_zeros_choice_and_make_nothing(tmp_path: Path) -> None:
    chosen = str(tmp_path / "chosen by rank 0")
    strategy = Strategy(said=(chosen, None))

    place = find_place(trainer(tmp_path, Broken(), rank=1, strategy=strategy), tmp_path / "own")

    assert place == Place(Path(chosen))
    assert strategy.num_broadcasts == 1
    assert list(tmp_path.iterdir()) == []

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lightning_perfwatch.window_requests import LISTENING_NAME, REQUEST_NAME, Listening, WindowRequests

ME = Listening(os.getpid(), socket.gethostname(), "once a second")


def test_a_request_is_seen_once_until_another_comes(tmp_path: Path) -> None:
    training, asker = WindowRequests(tmp_path), WindowRequests(tmp_path)
    assert not training.is_new()
    assert asker.ask()
    assert [training.is_new(), training.is_new()] == [True, False]
    assert not asker.ask()
    training.take()
    assert not training.is_new()
    assert asker.ask()
    assert training.is_new()


def test_every_process_sees_the_same_request(tmp_path: Path) -> None:
    first, second = WindowRequests(tmp_path), WindowRequests(tmp_path)
    WindowRequests(tmp_path).ask()

    assert [first.is_new(), second.is_new(), first.is_new(), second.is_new()] == [True, True, False, False]


def test_what_the_training_says_is_read_back_and_removed_at_the_end(tmp_path: Path) -> None:
    requests = WindowRequests(tmp_path)
    assert requests.listening() is None
    said = replace(ME, first_step=12, num_steps=5, is_closed=True, trace="a.json")
    requests.say(said)
    requests.ask()

    assert WindowRequests(tmp_path).listening() == said
    requests.end()
    assert list(tmp_path.iterdir()) == []
    requests.end()


def test_where_nothing_can_be_written_the_training_goes_on_and_the_asker_is_told(tmp_path: Path) -> None:
    requests = WindowRequests(tmp_path / "nowhere")
    requests.say(ME)
    requests.take()
    requests.end()
    assert not requests.is_new()
    with pytest.raises(FileNotFoundError, match=REQUEST_NAME):
        requests.ask()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"pid": 1, "host": "x", "every": "y", "mood": "good"}',
        "\0",
        "[" * 100_000,
        '{"pid": "1", "host": "x", "every": "y"}',
        '{"pid": null, "host": "x", "every": "y"}',
        '{"pid": 1, "host": "x", "every": "y", "first_step": "a"}',
    ],
    ids=range(9),
)
def test_a_file_of_another_kind_is_told_in_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / LISTENING_NAME).write_text(content)
    with pytest.raises(ValueError, match=f"{LISTENING_NAME} is no PerfWatch file of this version"):
        WindowRequests(tmp_path).listening()


def test_only_a_process_of_this_machine_is_known_to_be_gone() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()

    assert not ME.is_gone
    assert replace(ME, pid=child.pid).is_gone
    assert not replace(ME, pid=child.pid, host="another").is_gone
    assert all(replace(ME, pid=number).is_gone for number in (10**30, 0, -1))

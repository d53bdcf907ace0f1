"""The real TensorBoard over HTTP, with the plugin of this working tree, and run directories to show.

Owns how it is started and ended. Knows nothing of what a test asks.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tensorboard import default, program

from lightning_perfwatch.report import Report
from lightning_perfwatch.run_directory import RunDirectory
from lightning_perfwatch.tensorboard_plugin.plugin import PerfWatchPlugin


@dataclass(frozen=True)
class Answer:
    """What came back for a request."""

    status: int
    headers: Message
    text: str

    @property
    def document(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Board:
    """A TensorBoard that answers at ``url``, which has no slash at its end."""

    url: str

    @property
    def tab(self) -> str:
        """The address of the tab alone, as TensorBoard loads it into its own page."""
        return f"{self.url}/data/plugin_entry.html?name=perfwatch"

    def get(self, route: str, **query: str) -> Answer:
        """What PerfWatch's plugin answers."""
        return self.get_of(f"perfwatch{route}", **query)

    def get_of(self, route: str, **query: str) -> Answer:
        """What a plugin answers; ``route`` begins with its name."""
        return self.ask(f"data/plugin/{route}" + (f"?{urlencode(query)}" if query else ""))

    def ask(self, path: str, method: str = "GET", content: bytes | None = None) -> Answer:
        """What TensorBoard answers."""
        request = Request(f"{self.url}/{path}", data=content, method=method)
        if content is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with urlopen(request, timeout=60) as answer:
                return Answer(answer.status, answer.headers, answer.read().decode())
        except HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read().decode())


@contextmanager
def tensorboard(logdir: Path | None, *flags: str) -> Iterator[Board]:
    """TensorBoard on a free port, as long as the context lasts."""
    board = program.TensorBoard(plugins=[*default.get_static_plugins(), PerfWatchPlugin])
    where = [] if logdir is None else [f"--logdir={logdir}"]
    settings = ["--host=127.0.0.1", "--port=0", "--load_fast=false", "--reload_interval=0"]
    board.configure(argv=["tensorboard", *where, *settings, *flags])
    server = board._make_server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Board(server.get_url().rstrip("/"))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def store(path: Path, report: Report) -> RunDirectory:
    """A run directory with this report."""
    directory = RunDirectory(path)
    directory.write_report(replace(report, directory=None))
    return directory

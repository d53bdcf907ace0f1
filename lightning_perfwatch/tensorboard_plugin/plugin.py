"""The tab's server side: a script and a style, the list of runs, and the page of each report.

Owns the routes and what a browser is told of what it may do with a page.
"""

from __future__ import annotations

import html
import logging
import re
import threading
from base64 import b64encode
from collections import OrderedDict
from dataclasses import replace
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

from tensorboard.backend import http_util
from tensorboard.plugins import base_plugin
from werkzeug import wrappers

from lightning_perfwatch import report as report_json
from lightning_perfwatch.reporters import render
from lightning_perfwatch.reporters.wording import clean
from lightning_perfwatch.tensorboard_plugin.brief import (
    Brief,
    UnreadableError,
    brief_of,
    content_of,
    figures,
    stamp,
    windows_of,
)
from lightning_perfwatch.tensorboard_plugin.runs import MOST_RUNS, Run, RunFinder, roots

log = logging.getLogger(__name__)

_MOST_PAGES = 4
_POLICY_OF_PAGE = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')
_NO_SCRIPT = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_SENTENCE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>PerfWatch</title>
</head><body style="font: 16px/1.5 system-ui, sans-serif; margin: 2rem"><p>{}</p></body></html>
"""
_KEEPS_PLACE = """
  // The tab puts a newer report at the same place: it is told how far this one is scrolled.
  (() => {
    const place = /^#perfwatch-scroll=([0-9]+)$/.exec(location.hash);
    if (place) addEventListener("load", () => scrollTo(0, Number(place[1])));
    addEventListener("scroll", () => parent.postMessage({perfwatchScroll: Math.round(scrollY)}, "*"), {passive: true});
  })();
"""


class PerfWatchPlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """TensorBoard's plugin ``perfwatch``.

    Args:
        context: TensorBoard's own; its log directory is searched for runs.
    """

    plugin_name = "perfwatch"

    def __init__(self, context: Any) -> None:
        spec = getattr(context.flags, "logdir_spec", None)
        self._finder = RunFinder(roots(context.logdir, spec))
        self._lock = threading.Lock()
        self._briefs: dict[Path, tuple[str | None, Brief | UnreadableError]] = {}
        self._pages: OrderedDict[tuple[Path, str | None], str] = OrderedDict()

    def get_plugin_apps(self) -> dict[str, Any]:
        """The routes below ``data/plugin/perfwatch``."""
        return {
            "/index.js": _file("index.js", "text/javascript"),
            "/style.css": _file("style.css", "text/css"),
            "/runs": wrappers.Request.application(self._serve_runs),
            "/page": wrappers.Request.application(self._serve_page),
        }

    def is_active(self) -> bool:
        """Whether there is a run to show."""
        return bool(self._finder.runs())

    def frontend_metadata(self) -> Any:
        """Where the tab's script is."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="PerfWatch")

    def _serve_runs(self, request: wrappers.Request) -> wrappers.Response:
        runs = self._finder.runs()
        told = [self._told(run) for run in list(runs.values())]
        cut = (
            f"There is more below the log directory than is searched: {len(told)} runs of at most {MOST_RUNS} are here."
        )
        document = {"runs": told, "note": cut if self._finder.is_cut else None}
        return _response(request, document, "application/json")

    def _serve_page(self, request: wrappers.Request) -> wrappers.Response:
        try:
            run = self._finder.runs().get(request.args.get("run", ""))
            if run is None:
                raise UnreadableError("There is no such run below the log directory.")
            page = self._page(run, request.args.get("window", ""))
        except UnreadableError as error:
            page = _SENTENCE.format(html.escape(str(error)))
        response = _response(request, page, "text/html")
        response.headers["Content-Security-Policy"] = _policy(page)
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def _told(self, run: Run) -> dict[str, Any]:
        """A run as the list of runs has it."""
        file = run.directory.report_file
        told = {"name": run.name, "title": clean(run.title), "stamp": stamp(file), "written_s": _written_s(file)}
        try:
            brief = self._brief(run)
        except UnreadableError as error:
            return {**told, "problem": str(error), "windows": [_window("", "", file)], "figures": {}}
        windows = [_window(name, label, place) for name, (label, place) in windows_of(run, brief).items()]
        return {**told, "problem": None, "windows": windows, "figures": figures(brief)}

    def _brief(self, run: Run) -> Brief:
        """The run's report in brief, read again only when it was written anew. Raises UnreadableError."""
        now = stamp(run.directory.report_file)
        known = self._briefs.get(run.path)
        if known is None or known[0] != now:
            try:
                known = (now, brief_of(run))
            except UnreadableError as error:
                known = (now, error)
            self._briefs[run.path] = known
        if isinstance(known[1], UnreadableError):
            raise known[1]
        return known[1]

    def _page(self, run: Run, window: str) -> str:
        """The page of one of the run's reports. Raises UnreadableError."""
        _, file = windows_of(run, self._brief(run)).get(window, ("", None))
        if file is None:
            raise UnreadableError("The report of this window is not there.")
        key = (file, stamp(file))
        with self._lock:  # two panes that ask for one page have it made once
            if key not in self._pages:
                self._pages[key] = _rendered(run, file)
            self._pages.move_to_end(key)
            while len(self._pages) > _MOST_PAGES:
                self._pages.popitem(last=False)
            return self._pages[key]


def _file(name: str, kind: str) -> Any:
    def serve(request: wrappers.Request) -> wrappers.Response:
        content = resources.files(__package__).joinpath("static", name).read_text("utf-8")
        return _response(request, content, kind)

    return wrappers.Request.application(serve)


def _response(request: wrappers.Request, content: object, kind: str) -> wrappers.Response:
    response: wrappers.Response = http_util.Respond(request, content, kind)
    return response


def _window(name: str, label: str, file: Path) -> dict[str, str | None]:
    return {"name": name, "label": label, "stamp": stamp(file)}


def _written_s(file: Path) -> float | None:
    try:
        return file.stat().st_mtime
    except OSError:
        return None


def _rendered(run: Run, file: Path) -> str:
    try:
        report = report_json.from_json(content_of(run, file))
        page = render(replace(report, directory=str(run.path)), "html")  # it may have been moved
    except UnreadableError:
        raise
    except ValueError as error:
        raise UnreadableError(clean(str(error))) from error
    except Exception as error:  # a report that somebody else wrote may hold anything
        log.warning("PerfWatch can't show %s: %s", file, type(error).__name__)
        raise UnreadableError(f"{file.name} holds what can't be shown ({type(error).__name__}).") from error
    # Before the page's own policy, which holds for what follows it and knows the page's own scripts only.
    before, head, after = page.partition("<head>\n")
    return f"{before}{head}<script>{_KEEPS_PLACE}</script>\n{after}" if head else page


def _policy(page: str) -> str:
    """The page's own policy, and the script that was put into it: nothing else may run, nothing may be loaded.

    It stands before all that comes from a report, so what is found first is the page's own.
    """
    found = _POLICY_OF_PAGE.search(page)
    if found is None:
        return _NO_SCRIPT
    ours = b64encode(sha256(_KEEPS_PLACE.encode()).digest()).decode()
    return html.unescape(found[1]).replace("script-src ", f"script-src 'sha256-{ours}' ", 1)

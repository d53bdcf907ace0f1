"""Headless Chromium for tests, benchmarks and screenshots: one window, cut off from the network.

Owns how the browser is started, and what it tells of a page: console, requests, pictures. Knows nothing of reports.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

PHONE = (360, 740)
DESKTOP = (1280, 900)
MOST_WAIT_S = 30.0
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # containers give it 64 MB
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--proxy-server=127.0.0.1:9",  # nobody listens there: what gets past the resolver ends here
)
_LOCAL = ("file:", "data:", "blob:", "about:", "chrome:")


def why_missing() -> str | None:
    """A reason for skipping where there is no browser; None where there is one."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if not missing:
        return None
    return f"no {' and no '.join(missing)} here: install Debian's packages chromium and chromium-driver"


class Browser:
    """One Chromium window; ``driver`` is Selenium's."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def reset(self) -> None:
        """An empty page in a window of ordinary size, in light colours, scripts allowed."""
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        self.prefer("light")
        self.resize(DESKTOP)
        self.open("about:blank")

    def resize(self, size: tuple[int, int]) -> None:
        """Make the page ``size`` (width, height) CSS pixels large; a window can't be as narrow as a phone."""
        width, height = size
        device = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)

    def prefer(self, scheme: str) -> None:
        """Prefer the ``light`` or the ``dark`` colour scheme."""
        wanted = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", wanted)

    def open(self, page: Path | str) -> None:
        """Open a file or an address, and forget what the console and the network said before."""
        self.driver.get("about:blank")
        self.console()
        self.requests()
        self.driver.get(page.resolve().as_uri() if isinstance(page, Path) else page)

    def console(self) -> list[str]:
        """Warnings and errors since the last call."""
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """Addresses outside of the page's own file that were asked for since the last call."""
        asked: dict[str, str] = {}
        for entry in self._log("performance"):
            message = json.loads(entry["message"])["message"]
            about = message["params"]
            if message["method"] == "Network.requestWillBeSent":
                asked[about["requestId"]] = about["request"]["url"]
            elif message["method"] == "Network.loadingFailed" and about.get("blockedReason") == "csp":
                asked.pop(about["requestId"], None)  # the page's own policy stopped it
        return [address for address in asked.values() if not address.startswith(_LOCAL)]

    def _log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.driver.get_log(kind)  # type: ignore[no-untyped-call]
        return entries

    def run(self, script: str, *arguments: Any) -> Any:
        """What ``script``, the body of a function, returns."""
        return self.driver.execute_script(script, *arguments)

    def wait_for(self, script: str, *arguments: Any) -> Any:
        """Wait until ``script`` returns something true, and return that.

        Raises:
            TimeoutException: it did not within half a minute.
        """
        return WebDriverWait(self.driver, MOST_WAIT_S, 0.05).until(lambda _: self.run(script, *arguments))

    def point_at(self, x: float, y: float) -> None:
        """Move the mouse to a point of the window, in CSS pixels."""
        self._mouse("mouseMoved", x, y)

    def drag(self, x: float, y: float, by: float) -> None:
        """Press the mouse at a point, move it ``by`` pixels to the right, and let go."""
        self._mouse("mouseMoved", x, y)
        self._mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        for part in range(1, 6):
            self._mouse("mouseMoved", x + by * part / 5, y, button="left", buttons=1)
        self._mouse("mouseReleased", x + by, y, button="left", clickCount=1)

    def turn_wheel(self, x: float, y: float, by: float, with_ctrl: bool = False) -> None:
        """Turn the mouse wheel at a point; up is negative."""
        self._mouse("mouseWheel", x, y, deltaX=0, deltaY=by, modifiers=2 if with_ctrl else 0)

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    def press(self, *keys: str) -> None:
        """Press keys one after another, wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def find(self, selector: str) -> WebElement:
        """The first element of a CSS selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector: str) -> list[WebElement]:
        """All elements of a CSS selector."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        """What stands on the screen in each element of a CSS selector."""
        return [element.text for element in self.find_all(selector)]

    def picture(self, whole: bool = False) -> bytes:
        """A PNG of what is seen, or of the ``whole`` page."""
        if not whole:
            return self.driver.get_screenshot_as_png()
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        return b64decode(taken["data"])


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that reaches this machine only, with a profile of its own."""
    with tempfile.TemporaryDirectory(prefix="perfwatch-browser-", ignore_cleanup_errors=True) as profile:
        options = ChromeOptions()
        options.binary_location = str(shutil.which("chromium"))
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.add_argument("--proxy-bypass-list=127.0.0.1;localhost")
        options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost")
        options.set_capability("goog:loggingPrefs", {"browser": "WARNING", "performance": "ALL"})
        driver = Chrome(options=options, service=ChromeService(str(shutil.which("chromedriver"))))
        try:
            driver.set_script_timeout(MOST_WAIT_S)
            browser = Browser(driver)
            browser.resize(DESKTOP)
            yield browser
        finally:
            driver.quit()

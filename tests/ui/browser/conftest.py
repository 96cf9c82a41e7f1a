"""A real browser, Debian's Chromium, for `make browser`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ui.server import TOKEN

PATIENCE = 60.0

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    " --disable-background-networking --disable-component-update"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("HOLDFAST_BROWSER"):
        folder = str(Path(__file__).parent)
        for item in items:
            if str(item.path).startswith(folder):
                item.add_marker(pytest.mark.skip("in a real browser: `make browser`"))


class Page:
    """What an operator does, and sees."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver = driver
        self.address = address

    def open(self, path: str = f"?token={TOKEN}") -> None:
        self.driver.get(self.address + path)

    def script(self, text: str, *values: object) -> Any:
        return self.driver.execute_script(f"return {text}", *values)

    def until(self, text: str, *values: object) -> Any:
        """Wait until a script gives something true."""
        give_up_at = time.monotonic() + PATIENCE
        while not (found := self.script(text, *values)):
            assert time.monotonic() < give_up_at, f"{text}\n{self.text()}"
            time.sleep(0.02)
        return found

    def shows(self, text: str) -> None:
        self.until("document.body.innerText.includes(arguments[0])", text)

    def lacks(self, text: str) -> None:
        self.until("!document.body.innerText.includes(arguments[0])", text)

    def text(self) -> str:
        return str(self.script("document.body.innerText"))

    def names(self) -> list[str]:
        """The locks of the rows that exist."""
        return list(self.script("[...document.querySelectorAll('#rows a')].map(a => a.innerText)"))

    def find(self, css: str) -> Any:
        return self.driver.find_element("css selector", css)

    def press(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def complaints(self) -> list[str]:
        """Errors of scripts, and what the policy forbade."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path / 'profile'}"]:
        options.add_argument(flag)
    options.binary_location = "/usr/bin/chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService("/usr/bin/chromedriver")
    driver = webdriver.Chrome(options=options, service=service)
    try:
        driver.set_window_size(1280, 800)
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def page(browser: Any, port: int) -> Page:
    return Page(browser, f"http://127.0.0.1:{port}/")

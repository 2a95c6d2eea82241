"""Browsers for the tests in this folder, where there are some, and what a page must never do."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_options import ARGUMENTS, find_chromium
from report_pages import PAGES
from served_site import SITE, served
from waiting import calm

ROOT = Path(__file__).resolve().parents[2]
INSTALL = f"install it by: {sys.executable} scripts/browsers.py"
SECONDS = 30.0  # until a page is ready; a busy machine is slow
PATIENCE = 10.0  # seconds until an element is there


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, driven by Playwright."""
    program = find_chromium()
    if program is None:
        pytest.skip(f"there is no chromium (apt-get install chromium); {INSTALL}")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip(f"there is no playwright; {INSTALL}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def firefox_program() -> str:
    """Where Firefox is."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        pytest.skip(f"there is no firefox-esr (apt-get install firefox-esr); {INSTALL}")
    return program


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    found = sorted((ROOT / ".browser-test").glob("axe-*.min.js"))
    if not found:
        pytest.skip(f"there is no axe-core in .browser-test; {INSTALL}")
    return found[-1].read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Writes a page of `report_pages` once, and says where it is."""
    folder = tmp_path_factory.mktemp("pages")
    paths: dict[str, Path] = {}

    def write(name: str) -> Path:
        if name not in paths:
            paths[name] = folder / f"{name}.html"
            PAGES[name]().save(paths[name])
        return paths[name]

    return write


class Windows:
    """Windows that pages are opened in, one after the other: a new window costs more than a page.

    `said` has what must not be: messages of the console, errors, requests but for the page itself.
    """

    def __init__(self, chromium: Any) -> None:
        self.context = chromium.new_context(reduced_motion="reduce")
        self.context.on("request", lambda request: self._note(request.url))
        self.free: list[Any] = []
        self.used: list[Any] = []
        self.shared: dict[str, Any] = {}
        self.said: list[str] = []
        self.pages = ["about:", "data:", "blob:"]

    def open(
        self, path: Path, *, width: int = 1440, height: int = 900, dark: bool = False, at: str = ""
    ) -> Any:
        """A page that is ready, in a window that no other one is in."""
        window = self.free.pop() if self.free else self._new()
        self.used.append(window)
        self.pages.append(path.as_uri())
        window.set_viewport_size({"width": width, "height": height})
        window.emulate_media(media="null", color_scheme="dark" if dark else "light")
        window.goto(path.as_uri() + at)
        window.wait_for_selector("html[data-ready]", state="attached", timeout=SECONDS * 1000)
        assert window.evaluate("document.documentElement.dataset.ready") == "true", self.said
        return window

    def end(self) -> list[str]:
        """Empties the windows; what was said since the last time."""
        for window in self.used:
            window.goto("about:blank")
        self.free += self.used
        said, self.used, self.said = self.said, [], []
        return said

    def _new(self) -> Any:
        window = self.context.new_page()
        window.set_default_timeout(PATIENCE * 1000)
        window.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        window.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        return window

    def _note(self, url: str) -> None:
        if not url.startswith(tuple(self.pages)):
            self.said.append(f"request: {url}")


@pytest.fixture(scope="session")
def windows(chromium: Any) -> Iterator[Windows]:
    made = Windows(chromium)
    yield made
    made.context.close()


@pytest.fixture
def opened(windows: Windows, written: Callable[[str], Path]) -> Iterator[Callable[..., Any]]:
    """Opens a page and waits until it is ready; at the end it must have been quiet."""
    windows.end()
    yield lambda page, **how: windows.open(page if isinstance(page, Path) else written(page), **how)
    assert windows.end() == []


@pytest.fixture
def shared(opened: Callable[..., Any], windows: Windows) -> Callable[[str], Any]:
    """A page that tests before have used: all of it in sight, at its first step and tab, and
    nothing selected.  The focus, and what was typed or sorted, is as they left it."""

    def show(name: str) -> Any:
        if name not in windows.shared:
            windows.shared[name] = opened(name)
            windows.used.remove(windows.shared[name])
        window = windows.shared[name]
        window.evaluate(
            """() => {
              history.replaceState(null, "", "#");
              dispatchEvent(new HashChangeEvent("hashchange"));
              document.querySelector("#fit").click();
            }"""
        )
        calm(window)
        return window

    return show


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where the built site is served."""
    if not (SITE / "index.html").exists():
        pytest.skip("there is no site in .website; make it by: python3 scripts/website.py")
    with served() as found:
        yield found

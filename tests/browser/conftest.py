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


@pytest.fixture
def opened(chromium: Any, written: Callable[[str], Path]) -> Iterator[Callable[..., Any]]:
    """Opens a page and waits until it is ready; at the end it must have been quiet.

    Quiet: no message of the console, no error, no request but for itself.
    """
    contexts: list[Any] = []
    said: list[str] = []

    def open_(
        page: str | Path, *, width: int = 1440, height: int = 900, dark: bool = False, at: str = ""
    ) -> Any:
        path = page if isinstance(page, Path) else written(page)
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        window = context.new_page()
        window.set_default_timeout(PATIENCE * 1000)
        window.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        window.on("pageerror", lambda error: said.append(f"error: {error}"))
        context.on("request", lambda request: note(request.url, path))
        window.goto(path.as_uri() + at)
        window.wait_for_selector("html[data-ready]", state="attached", timeout=SECONDS * 1000)
        assert window.evaluate("document.documentElement.dataset.ready") == "true", said
        return window

    def note(url: str, path: Path) -> None:
        if not url.startswith(("data:", "blob:", path.as_uri())):
            said.append(f"request: {url}")

    yield open_
    for context in contexts:
        context.close()
    assert said == []

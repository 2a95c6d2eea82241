"""The built site in Chromium: pages, search, zoom, reports, the playground, cells.

Opens what `python3 scripts/website.py` built; without it these tests are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from served_site import SITE
from test_page_looks import RULES

PATIENCE = 120_000  # milliseconds until Python has started; a busy machine is slow
GRAPH = ".cr-graph svg"
# Of each kind of page one: cells, wide tables, a report, the playground.
KINDS = (
    "course.html",
    "decisions/0031-recomputation-by-annealing.html",
    "reports.html",
    "playground.html",
)
# Contrast of every letter of code takes axe-core seconds a page; one page has all their colours.
WITHOUT_CODE = "{include: [['html']], exclude: [['.highlight code > *'], ['.cm-content']]}"
CODE = "'#__code_0'"
# Editors come some time after the page, and bring what can be wrong with them.
EDITABLE = """!document.querySelector(".cr-cells, .cr-playground")
    || document.querySelector(".cm-content")"""

pytestmark = pytest.mark.slow


@pytest.fixture
def visit(chromium: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Opens a page; at the end nothing was asked of another server, and nothing went wrong."""
    contexts: list[Any] = []
    said: list[str] = []

    def open_(page: str, *, width: int = 1280, dark: bool = False) -> Any:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        window = context.new_page()
        window.set_default_timeout(PATIENCE)
        window.on("pageerror", lambda error: said.append(f"error: {error}"))
        context.on("response", lambda one: note(one.url, one.status))
        window.goto(address + page)
        return window

    def note(url: str, status: int) -> None:
        origin = address.split("/", 3)[:3]
        if status >= 400 or (url.startswith("http") and url.split("/", 3)[:3] != origin):
            said.append(f"{status} {url}")

    yield open_
    for context in contexts:
        context.close()
    assert said == []


def test_pages_fit_the_screen_and_pictures_follow_the_scheme(visit: Callable[..., Any]) -> None:
    for width, dark in ((1280, False), (390, True)):
        window = visit("gallery.html", width=width, dark=dark)
        assert window.evaluate("document.documentElement.scrollWidth <= innerWidth")
        names = window.evaluate(
            """[...document.querySelectorAll(".md-content img")]
            .filter((one) => getComputedStyle(one).display !== "none")
            .map((one) => one.getAttribute("src").split("#")[0])"""
        )
        assert len(names) >= 6
        assert all(name.endswith(".dark.svg") == dark for name in names)


def test_a_picture_opens_and_closes_by_the_keyboard(visit: Callable[..., Any]) -> None:
    window = visit("architecture.html")
    picture = window.locator(".cr-picture:visible").first
    picture.focus()
    window.keyboard.press("Enter")
    width = window.locator(".cr-zoom img").bounding_box()["width"]
    window.keyboard.press("+")
    window.wait_for_function(
        "(width) => document.querySelector('.cr-zoom img').getBoundingClientRect().width > width",
        arg=width,
    )
    window.keyboard.press("Escape")
    window.wait_for_selector(".cr-zoom", state="detached")


def test_the_search_finds_a_page(visit: Callable[..., Any]) -> None:
    window = visit("index.html")
    window.keyboard.press("Control+k")
    window.keyboard.type("rematerialise")
    window.wait_for_selector("a[href*='.html'] >> text=/recomput|budget|memory/i")


def test_axe_finds_nothing_on_pages_of_each_kind(visit: Callable[..., Any], axe: str) -> None:
    wide, narrow = visit("index.html"), visit("gallery.html", width=390, dark=True)
    assert faults_of(wide, axe, CODE) == [] and faults_of(narrow, axe, WITHOUT_CODE) == []
    site = wide.url.removesuffix("index.html")
    for place, page in enumerate(KINDS):
        check_page((wide, narrow)[place % 2], site + page, axe)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (1280, True), (390, False), (390, True)]
)
def test_axe_finds_nothing_on_any_page(
    visit: Callable[..., Any], axe: str, width: int, dark: bool
) -> None:
    window = visit("index.html", width=width, dark=dark)
    site = window.url.removesuffix("index.html")
    version = SITE / site.rstrip("/").rsplit("/", 1)[1]
    found = sorted(one.relative_to(version).as_posix() for one in version.rglob("*.html"))
    # 404.html is for servers: what it loads is where their root is
    others = ("reports/", "source/", "404.html")
    pages = [one for one in found if not one.startswith(others)]
    assert len(pages) > 80
    for page in pages:
        check_page(window, site + page, axe)


def check_page(window: Any, address: str, axe: str) -> None:
    """axe-core finds nothing, and the page is as wide as the window."""
    window.goto(address)
    window.wait_for_function(EDITABLE)
    assert faults_of(window, axe, WITHOUT_CODE) == [], address
    assert window.evaluate("document.documentElement.scrollWidth <= innerWidth"), address


def faults_of(window: Any, axe: str, part: str) -> list[str]:
    """What axe-core finds in a part of a page."""
    window.evaluate(axe)
    found = window.evaluate(f"axe.run({part}, {json.dumps(RULES)})")
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]


def test_a_report_lives_in_the_site(visit: Callable[..., Any]) -> None:
    window = visit("reports.html")
    frame = window.frame_locator(".cr-report-frame")
    frame.locator("html[data-ready=true]").wait_for(state="attached")
    window.click("text=A second derivative")
    window.wait_for_function("frames[0].location.pathname.endsWith('second.html')")


def test_the_playground_follows_edits_and_stops_what_does_not_end(
    visit: Callable[..., Any],
) -> None:
    window = visit("playground.html")
    window.wait_for_selector(GRAPH)
    window.wait_for_selector(".cr-equations .katex")
    assert window.locator(".cr-equations").inner_text().startswith("Forward")
    before = window.inner_html(".cr-graph"), window.inner_html(".cr-panel")
    window.click(".cr-editor .cm-line >> text=np.maximum(z, 0)")
    window.keyboard.press("End")
    window.keyboard.type(" + z")
    window.wait_for_function(
        "(old) => document.querySelector('.cr-panel').innerHTML !== old", arg=before[1]
    )
    assert window.inner_html(".cr-graph") != before[0]
    window.click("role=tab[name='NumPy source']")
    assert "np.maximum" in window.inner_text(".cr-panel")
    window.click(".cr-editor .cm-line >> text=np.maximum(z, 0)")
    window.keyboard.press("End")
    window.keyboard.type(" + W2")
    window.wait_for_selector(".cr-error:visible")
    assert "h = np.maximum" in window.inner_text(".cr-error")
    assert "h = np.maximum" in window.inner_text(".cr-failed-line")
    window.select_option(".cr-program", label="Attention")
    window.wait_for_selector(".cr-error", state="hidden")
    assert "softmax" in window.inner_html(".cr-graph")
    window.click(".cr-editor .cm-line >> text=q = x @ Wq")
    window.keyboard.press("Home")
    window.keyboard.type("max(iter(int, 1)); ")  # never ends
    window.click(".cr-stop")
    window.wait_for_selector(".cr-error >> text=stopped after")
    window.select_option(".cr-program", label="With a bias")
    window.wait_for_selector(".cr-error", state="hidden")


def test_an_exercise_is_checked_and_a_cell_that_does_not_end_is_stopped(
    visit: Callable[..., Any],
) -> None:
    window = visit("course.html", width=390, dark=True)
    cell, check = window.locator(".cr-cell").nth(4), window.locator(".cr-cell").nth(5)
    assert "my_shape = None" in cell.inner_text()
    for answer, verdict in (("(3,)", "not so"), ("(3, 4)", "right")):
        cell.locator(".cm-line").first.click()
        window.keyboard.press("Control+a")
        window.keyboard.type(f"my_shape = {answer}")
        check.get_by_role("button", name="Run").click()
        check.locator(f".cr-printed >> text={verdict}").wait_for()
    cell.locator(".cm-line").first.click()
    window.keyboard.press("Control+a")
    window.keyboard.type("max(iter(int, 1))  # never ends")
    cell.get_by_role("button", name="Run").click()
    cell.get_by_role("button", name="Stop").click()
    cell.locator(".cr-error >> text=stopped").wait_for()
    assert cell.get_by_role("button", name="Run").count() == 1

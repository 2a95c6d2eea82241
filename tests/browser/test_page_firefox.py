"""In Firefox: the page opens, shows a value, steps, folds, loads nothing; and the playground."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from firefox import SECONDS, Firefox, firefox

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def window(firefox_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    with firefox(firefox_program, tmp_path_factory.mktemp("profile")) as started:
        yield started


def wait(window: Firefox, expression: str) -> None:
    """Wait until an expression is true in the page."""
    until = time.monotonic() + SECONDS
    while not window.script(f"return Boolean({expression})"):
        assert time.monotonic() < until, f"never true: {expression}"
        time.sleep(0.02)


@pytest.fixture
def shown(window: Firefox, written: Callable[[str], Path]) -> Callable[[str], Firefox]:
    """Opens a page and waits until it is ready."""

    def show(name: str) -> Firefox:
        window.open("about:blank")
        window.open(written(name).as_uri())
        wait(window, "document.documentElement.dataset.ready")
        assert window.script("return document.documentElement.dataset.ready") == "true"
        return window

    return show


def text(window: Firefox, selector: str) -> str:
    return window.script(f"return document.querySelector({selector!r}).textContent")


def a_value_is_shown_with_its_equation(window: Firefox) -> None:
    window.click("#outline-tree [title='z']")
    wait(window, "document.querySelector('#value-path')")
    assert text(window, "#value-path").startswith("z")
    assert r"\mathbf{z} = " in text(window, "#inspector .equation annotation")
    fonts = "return [...document.fonts].filter((one) => one.status === 'loaded').length"
    wait(window, fonts.removeprefix("return ") + " >= 2")


def the_keyboard_finds_and_steps(window: Firefox) -> None:
    window.press("#graph", "/")
    wait(window, "document.activeElement.id === 'find'")
    window.press("#find", "dJ/dh\ue007")
    wait(window, "document.querySelector('#value-path')?.textContent.startsWith('dJ/dh')")
    window.press("#graph", ".")
    wait(window, "document.querySelector('#step-text').textContent.startsWith('1/')")


def every_further_step(window: Firefox) -> None:
    count = int(window.script("return document.querySelector('#step-slider').max"))
    for step in range(2, count + 1):
        window.click("#step-next")
        wait(window, f"document.querySelector('#step-text').textContent.startsWith('{step}/')")
    wait(window, "document.querySelectorAll('#graph [data-state=later]').length === 0")


def scopes_unfold_and_fold(window: Firefox) -> None:
    rows = "document.querySelectorAll('#outline-tree [role=treeitem]').length"
    before = window.script(f"return {rows}")
    window.click("#outline-tree [aria-expanded=false] .twisty")
    wait(window, f"{rows} > {before}")
    assert window.script("return document.querySelectorAll('#graph .node').length") > 2


def nothing_is_loaded_and_no_text_is_markup(window: Firefox) -> None:
    loaded = window.script(
        "return performance.getEntriesByType('resource').map((one) => one.name)"
        ".filter((name) => !name.startsWith('data:'))"
    )
    assert loaded == []
    assert window.script("return document.querySelectorAll('img, iframe').length") == 0
    assert "owned" not in window.script("return document.title").replace("='owned'", "")


def test_the_page_in_firefox(shown: Callable[[str], Firefox]) -> None:
    """One test: Firefox takes longer to start than all of this."""
    window = shown("mlp")
    a_value_is_shown_with_its_equation(window)
    the_keyboard_finds_and_steps(window)
    every_further_step(window)
    nothing_is_loaded_and_no_text_is_markup(window)
    nothing_is_loaded_and_no_text_is_markup(shown("hostile"))
    scopes_unfold_and_fold(shown("blocks"))


def test_the_playground_in_firefox(window: Firefox, address: str) -> None:
    window.open(address + "playground.html")
    wait(window, "document.querySelector('.cr-graph svg')")
    wait(window, "document.querySelector('.cr-equations .katex')")
    window.script(
        "const choice = document.querySelector('.cr-program'); choice.value = 'second';"
        "choice.dispatchEvent(new Event('change'))"
    )
    wait(window, "document.querySelector('.cr-editor').textContent.includes('sigmoid')")
    wait(window, "document.querySelector('.cr-graph').textContent.includes('σ')")

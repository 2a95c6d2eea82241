"""Pages of 20,000 nodes, or 10,000 that nearly all have a name, open, fold, and stay small."""

from __future__ import annotations

import pytest
from report_pages import LARGE, large_graph
from waiting import settle

pytestmark = pytest.mark.slow
MOST_ELEMENTS = 15_000  # of the document: what is out of sight is not in it


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", ["large", "names"])
def test_a_large_page_opens_and_can_be_walked_through(opened, name: str) -> None:
    page = opened(name)
    elements = "document.querySelectorAll('*').length"
    assert page.evaluate(elements) < MOST_ELEMENTS
    for _ in range(12):
        closed = page.locator("#outline-tree [aria-expanded=false] .twisty")
        if closed.count() == 0:
            break
        closed.first.click()
        settle(page)
        assert page.evaluate(elements) < MOST_ELEMENTS
    page.locator("#fit").click()
    settle(page)
    assert page.evaluate(elements) < MOST_ELEMENTS
    slider = page.locator("#step-slider")
    count = int(slider.get_attribute("max"))
    assert count > 1000
    for step in (1, count // 3, count - 1, count):
        slider.fill(str(step))
        settle(page)
        assert page.locator("#step-text").inner_text().startswith(f"{step:,}/{count:,} ")
    page.locator("#tab-values").click()
    settle(page)
    assert page.evaluate(elements) < MOST_ELEMENTS


def test_the_large_graph_is_large() -> None:
    assert len(large_graph()) >= LARGE

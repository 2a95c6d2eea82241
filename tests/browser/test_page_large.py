"""Pages of 3,000 and of 20,000 nodes, or 10,000 with names, open, fold, and stay small."""

from __future__ import annotations

import pytest
from report_pages import LARGE, large_graph
from waiting import settle

pytestmark = pytest.mark.slow


# The most elements of the document: what is out of sight is not in it.
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("many_blocks", 1_500),
        pytest.param("large", 15_000, marks=pytest.mark.exhaustive),
        pytest.param("names", 15_000, marks=pytest.mark.exhaustive),
    ],
)
def test_a_large_page_opens_and_can_be_walked_through(opened, name: str, most: int) -> None:
    page = opened(name)
    elements = "document.querySelectorAll('*').length"
    assert page.evaluate(elements) < most
    for _ in range(12):
        closed = page.locator("#outline-tree [aria-expanded=false] .twisty")
        if closed.count() == 0:
            break
        closed.first.click()
        settle(page)
        assert page.evaluate(elements) < most
    page.locator("#fit").click()
    settle(page)
    assert page.evaluate(elements) < most
    slider = page.locator("#step-slider")
    count = int(slider.get_attribute("max"))
    assert count > (200 if name == "many_blocks" else 1000)
    for step in (1, count // 3, count - 1, count):
        slider.fill(str(step))
        settle(page)
        assert page.locator("#step-text").inner_text().startswith(f"{step:,}/{count:,} ")
    page.locator("#tab-values").click()
    settle(page)
    assert 10 < page.locator("#panel-values tr").count() < 100
    assert page.evaluate(elements) < 15_000  # with all that the inspector says of the last step


@pytest.mark.exhaustive
def test_the_large_graph_is_large() -> None:
    assert len(large_graph()) >= LARGE

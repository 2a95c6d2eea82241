"""The pictures of arrays: the number under the pointer, and by arrow keys."""

from __future__ import annotations

import itertools
import re

from waiting import calm


def test_a_pixel_says_its_index_and_number(shared) -> None:
    page = shared("mlp")
    page.locator('#graph .node[data-key="value W2"]').click()
    calm(page)
    figure = page.locator("#inspector figure.picture").first
    canvas, told = figure.locator("canvas"), figure.locator(".pixel")
    canvas.scroll_into_view_if_needed()
    canvas.hover(position={"x": 1, "y": 1})
    assert re.fullmatch(r"\[0(:\d+)?, 0(:\d+)?\] ≈ -?[\d.e-]+", told.inner_text()), (
        told.inner_text()
    )
    canvas.focus()
    page.keyboard.press("ArrowDown")
    assert told.inner_text().startswith("[6:12, ")


def test_tables_of_numbers_do_not_lie_on_each_other(opened) -> None:
    page = opened("mlp")
    for width in (1400, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for box in page.locator('#graph .node[data-key^="value "]').all()[:6:2]:
            box.dispatch_event("click")
            calm(page)
            columns = [one.bounding_box() for one in page.locator("#inspector .pictures").all()]
            for one, other in itertools.pairwise(columns):
                beside = one["x"] + one["width"] <= other["x"] + 1
                assert beside or one["y"] + one["height"] <= other["y"] + 1

"""The pictures of arrays: the number under the pointer, and by arrow keys."""

from __future__ import annotations

import itertools
import re

import numpy as np
from waiting import calm

import chainrule as cr


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


def test_zero_is_white_at_either_end_and_nothing_runs_off_the_panel(opened, tmp_path) -> None:
    def losses(x, w):
        below = np.minimum(x, 0)
        above = np.maximum(x, 0)
        return np.sum(below * w) + np.sum(above)

    x = np.linspace(-1.23456, 1.3, 10)
    graph = cr.trace(losses, x=x, w=x)
    cr.report(graph, {"x": x, "w": x}, tmp_path / "page.html")
    page = opened(tmp_path / "page.html")
    for key, at, ends in (("below", 9, "blue is"), ("above", 0, "white is 0")):
        page.locator(f'#graph .node[data-key="value {key}"]').click()
        calm(page)
        canvas = page.locator("#inspector figure.picture canvas")
        assert ends in canvas.get_attribute("aria-label")
        pixel = canvas.evaluate(
            "(one, at) => [...one.getContext('2d').getImageData(at, 0, 1, 1).data]", at
        )
        assert pixel == [255, 255, 255, 255], key
        right = page.evaluate(
            """() => {
              const side = document.querySelector("#inspector").getBoundingClientRect().right;
              const all = document.querySelectorAll("#inspector :is(figure, .numbers td)");
              return Math.max(...[...all].map((one) => one.getBoundingClientRect().right)) - side;
            }"""
        )
        assert right < 0, "a strip, a histogram or a scale is cut"

"""Words around the graph (legend, passes, zoom) and its boxes: none lies over another."""

from __future__ import annotations

from typing import Any

import pytest
from waiting import calm, settle

SIZES = pytest.mark.parametrize(("width", "height"), [(800, 600), (1440, 900)])
# All in the small window, where there is the least room; a few in the large one.
PAGES_IN_SIZES = pytest.mark.parametrize(
    ("name", "width", "height"),
    [
        *(
            (name, 800, 600)
            for name in "mlp adam blocks transformer recurrent curvature trained".split()
        ),
        *((name, 1440, 900) for name in ("mlp", "transformer", "trained")),
    ],
)
# What is seen of each box: the part of it that is inside of the graph's area.
SEEN = """() => {
  const rectangle = (one) => {
    const { left, top, right, bottom } = one.getBoundingClientRect();
    return { left, top, right, bottom, what: one.dataset.key ?? one.textContent };
  };
  const area = rectangle(document.querySelector("#graph"));
  const clipped = (one) => ({
    ...one,
    left: Math.max(one.left, area.left),
    top: Math.max(one.top, area.top),
    right: Math.min(one.right, area.right),
    bottom: Math.min(one.bottom, area.bottom),
  });
  const isSeen = (one) => one.right > one.left && one.bottom > one.top;
  const all = (selector) => [...document.querySelectorAll(selector)].map(rectangle);
  const captions = ".legend .entry, .legend > span:not(.entry), .passes p:not([hidden]), .zoom";
  return {
    area,
    place: rectangle(document.querySelector(".graph-place")),
    boxes: all("#graph .node[data-key], #graph .frame-group").map(clipped).filter(isSeen),
    captions: all(captions).filter(isSeen),
  };
}"""


def overlaps(one: dict[str, float], other: dict[str, float]) -> bool:
    slack = 0.5
    return (
        one["left"] < other["right"] - slack
        and other["left"] < one["right"] - slack
        and one["top"] < other["bottom"] - slack
        and other["top"] < one["bottom"] - slack
    )


def check(page: Any) -> int:
    """That nothing lies over anything; the number of passes that have their name in sight."""
    seen = page.evaluate(SEEN)
    boxes, captions, place = seen["boxes"], seen["captions"], seen["place"]
    assert boxes and len(captions) > 3
    over = [
        (one["what"], other["what"]) for one in captions for other in boxes if overlaps(one, other)
    ]
    assert over == []
    crossing = [
        (one["what"], other["what"])
        for at, one in enumerate(captions)
        for other in captions[:at]
        if overlaps(one, other)
    ]
    assert crossing == []
    for one in captions:
        assert place["left"] <= one["left"] and one["right"] <= place["right"] + 0.5, one
        assert place["top"] <= one["top"] and one["bottom"] <= place["bottom"] + 0.5, one
    return page.locator(".passes p:not([hidden])").count()


@pytest.mark.sweep(14)
@PAGES_IN_SIZES
def test_captions_and_boxes_never_overlap(opened, name: str, width: int, height: int) -> None:
    page = opened(name, width=width, height=height)
    assert check(page) > 0
    page.locator("#fit").click()
    settle(page)
    assert check(page) > 0
    for _ in range(3):
        scopes = page.locator("#outline-tree [aria-expanded=false] .twisty")
        if not scopes.count() or not scopes.first.is_visible():
            break
        scopes.first.click()
        settle(page)
        check(page)
    area = page.locator("#graph").bounding_box()
    middle = area["x"] + area["width"] / 2, area["y"] + area["height"] / 2
    for across, down in ((-150, -90), (220, 160), (-60, 40)):
        page.mouse.move(area["x"] + 12, area["y"] + 12)
        page.mouse.down()
        page.mouse.move(middle[0], middle[1])
        page.mouse.move(middle[0] + across, middle[1] + down)
        page.mouse.up()
        settle(page)
        if page.evaluate(SEEN)["boxes"]:
            check(page)
        page.locator("#fit").click()
        settle(page)
    for turn in (-400, 900):
        page.mouse.move(*middle)
        page.mouse.wheel(0, turn)
        settle(page)
        if page.evaluate(SEEN)["boxes"]:
            check(page)


def test_names_of_passes_stand_beside_their_pass(opened) -> None:
    page = opened("adam")
    names = page.locator(".passes p:not([hidden])")
    assert names.all_inner_texts() == ["forward", "backward", "update"]
    assert "gradients of J" in names.nth(1).get_attribute("title")
    calm(page)
    area = page.locator("#graph").bounding_box()
    for _ in range(2):
        for name, key in (("forward", "value W1"), ("backward", "gradient dJ/dW1")):
            row = page.locator(f".passes .{name}").bounding_box()
            box = page.locator(f'#graph [data-key="{key}"]').bounding_box()
            assert row["y"] <= box["y"] and box["y"] + box["height"] <= row["y"] + row["height"]
        page.mouse.move(area["x"] + 12, area["y"] + 12)
        page.mouse.down()
        page.mouse.move(area["x"] + 30, area["y"] + 60)
        page.mouse.move(area["x"] + 12, area["y"] + 132)
        page.mouse.up()
        settle(page)


@SIZES
def test_the_legend_of_a_quantity_is_beside_the_graph_too(opened, width: int, height: int) -> None:
    page = opened("mlp", width=width, height=height, at="#colour=norm")
    assert "norm" in page.locator(".legend").inner_text()
    check(page)

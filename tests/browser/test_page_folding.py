"""Scopes of the graph fold and unfold: what is seen, where arrows end, how long it takes."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from waiting import calm, settle

NEAR = 2.0  # pixels of the picture
MOST_MILLISECONDS = 100.0
SHAPES = """
() => {
  const place = (shape) => ["x", "y", "width", "height"].map((name) => +shape.getAttribute(name));
  const boxes = [...document.querySelectorAll("#graph g.node")].map((node) => {
    const places = [...node.querySelectorAll("rect.box")].map(place);
    const left = Math.min(...places.map(([x]) => x));
    const top = Math.min(...places.map(([, y]) => y));
    const right = Math.max(...places.map(([x, , width]) => x + width));
    const low = Math.max(...places.map(([, y, , height]) => y + height));
    return [node.dataset.key, [left, top, right, low]];
  });
  const frames = [...document.querySelectorAll("#graph .frame-group")].map((frame) => {
    const [x, y, width, height] = place(frame.querySelector("rect"));
    return [frame.dataset.key, [x, y, x + width, y + height]];
  });
  const arrows = [...document.querySelectorAll("#graph path.line")].map((line) =>
    line.getAttribute("d").slice(1).split("L").map((point) => point.split(" ").map(Number)),
  );
  return { boxes: Object.fromEntries(boxes), frames: Object.fromEntries(frames), arrows };
}
"""
TOGGLE = """
(key) => {
  const found = [...document.querySelectorAll("#graph [data-key]")];
  const box = found.find((one) => one.dataset.key === key);
  const before = performance.now();
  const at = { bubbles: true, clientX: 500, clientY: 400 };
  box.dispatchEvent(new MouseEvent("dblclick", at));
  document.body.getBoundingClientRect();
  return performance.now() - before;
}
"""
Box = list[float]


def shapes(page: Any) -> dict[str, Any]:
    """What is drawn, once all of it is in sight."""
    page.locator("#fit").click()
    settle(page)
    return page.evaluate(SHAPES)


def folded(page: Any) -> list[str]:
    """The keys of the folded scopes of the forward pass."""
    keys = page.evaluate(
        "[...document.querySelectorAll('#graph g.node.folded')].map((one) => one.dataset.key)"
    )
    return [key for key in keys if not key.startswith("backward of ")]


def apart(one: Box, other: Box) -> float:
    """The gap between two boxes; negative where they overlap."""
    across = max(one[0] - other[2], other[0] - one[2])
    along = max(one[1] - other[3], other[1] - one[3])
    return max(across, along)


def is_at(box: Box, point: list[float]) -> bool:
    """Whether a point is at the border of a box, or within the corners that round ones leave."""
    x, y = point
    left, top, right, low = box
    within = left - NEAR <= x <= right + NEAR and top - NEAR <= y <= low + NEAR
    inside = min(x - left, right - x, y - top, low - y)
    return within and inside <= min(right - left, low - top) * 0.3


def check(drawn: dict[str, Any]) -> None:
    """No boxes overlap; all are in their frames or outside; arrows join boxes, or the frames of
    parameters."""
    assert len(drawn["boxes"]) > 1 and drawn["arrows"]
    for (one, here), (other, there) in combinations(drawn["boxes"].items(), 2):
        assert apart(here, there) > 0, f"{one} and {other} overlap"
    for key, frame in drawn["frames"].items():
        for one, box in drawn["boxes"].items():
            gap = apart(frame, box)
            inside = frame[0] < box[0] and box[2] < frame[2] and frame[1] < box[1] < frame[3]
            assert gap > 0 or inside, f"{one} is on the frame of {key}"
    frames = [frame for key, frame in drawn["frames"].items() if "parameters of" in key]
    for points in drawn["arrows"]:
        for end in (points[0], points[-1]):
            assert any(is_at(box, end) for box in (*drawn["boxes"].values(), *frames)), points


@pytest.mark.parametrize(
    "name",
    [
        "recurrent",
        *(
            pytest.param(name, marks=pytest.mark.exhaustive)
            for name in ("gated", "blocks", "transformer", "compiled", "adam")
        ),
    ],
)
def test_whatever_is_unfolded_nothing_overlaps_and_arrows_end_at_boxes(opened, name: str) -> None:
    page = opened(name, width=2400, height=1500)
    check(shapes(page))
    for _ in range(4):
        closed = folded(page)
        if not closed:
            break
        page.evaluate(TOGGLE, closed[-1])
        check(shapes(page))


def test_an_unfolded_scope_shows_what_is_in_it_and_folds_again(opened) -> None:
    page = opened("transformer", width=2400, height=1500)
    before = shapes(page)
    first, second = folded(page)
    page.evaluate(TOGGLE, first)
    unfolded = shapes(page)
    assert first in unfolded["frames"] and f"backward of {first}" in unfolded["frames"]
    assert first not in unfolded["boxes"] and second in unfolded["boxes"]
    new = unfolded["boxes"].keys() - before["boxes"].keys()
    assert {"value block.h", "operator block.h", "backward block.h"} <= new
    inner = [key for key in folded(page) if key != second]
    assert len(inner) == 1, "attention is folded inside"
    page.evaluate(TOGGLE, inner[0])
    assert "value block.attention.q" in shapes(page)["boxes"]
    page.evaluate(TOGGLE, first)
    assert shapes(page) == before


def test_unfolded_parameters_have_one_arrow_and_each_can_be_gone_to(opened) -> None:
    page = opened("gated")
    (key,) = folded(page)
    before = shapes(page)
    graph = page.locator("#graph")
    graph.locator(f'[data-key="{key}"]').dblclick()
    unfolded = shapes(page)
    check(unfolded)
    assert unfolded["frames"].keys() == {key, f"backward of {key}"}
    assert len(unfolded["arrows"]) == len(before["arrows"])
    titles = page.locator("#graph .frame-group .title").all_text_contents()
    assert titles == ["9 parameters", "9 gradients"]
    assert graph.locator("path.line.strong").count() == 1, "the frame is selected"
    graph.focus()
    for arrow, name in (("Right", "br"), ("Down", "bh"), ("Left", "Uh"), ("Left", "Wh")):
        page.keyboard.press(f"Arrow{arrow}")
        settle(page)
        assert graph.locator(f'.selected[data-key="value {name}"]').count() == 1, name
    assert graph.locator("path.line.strong").count() == 1, "the arrow of the frame around it"
    page.keyboard.press("g")
    settle(page)
    assert graph.locator('.selected[data-key="gradient dJ/dWh"]').count() == 1
    page.keyboard.press("Enter")
    settle(page)
    assert shapes(page) == before


def test_what_is_folded_among_parameters_is_found(opened) -> None:
    page = opened("gated")
    page.locator("#find").fill("bh")
    page.keyboard.press("Enter")
    calm(page)
    assert page.locator('#graph .selected[data-key="value bh"]').count() == 1
    assert page.locator("#outline-tree .selected").inner_text().startswith("bh")
    for _ in range(3):
        page.keyboard.press(".")
        settle(page)
    assert page.locator("#graph .node.selected, #graph [data-state=now]").count() > 0


def test_the_whole_of_unfolded_parameters_is_in_sight(opened) -> None:
    page = opened("gated", width=390, height=844, dark=True)
    page.evaluate(TOGGLE, folded(page)[0])
    settle(page)
    page.locator(".narrow-fit").click()
    calm(page)
    place = page.locator("#graph").bounding_box()
    for frame in page.locator("#graph .frame-group").all():
        box = frame.bounding_box()
        assert place["y"] <= box["y"] and box["y"] + box["height"] <= place["y"] + place["height"]
        assert place["x"] <= box["x"] and box["x"] + box["width"] <= place["x"] + place["width"]


def test_both_passes_of_a_scope_unfold_from_either(opened) -> None:
    page = opened("transformer", width=2400, height=1500)
    first, _ = folded(page)
    page.evaluate(TOGGLE, f"backward of {first}")
    assert {first, f"backward of {first}"} <= shapes(page)["frames"].keys()


@pytest.mark.parametrize(
    "name", ["many_blocks", pytest.param("many_names", marks=pytest.mark.exhaustive)]
)
def test_folding_in_a_graph_of_3_000_nodes_is_quick(opened, name: str) -> None:
    page = opened(name)
    times = []
    for _ in range(5):
        key = folded(page)[0]
        times += [page.evaluate(TOGGLE, key), page.evaluate(TOGGLE, key)]
    assert sorted(times)[len(times) // 2] < MOST_MILLISECONDS, times

"""When a scope is unfolded, the rest makes room: as far as it has to, and no farther."""

from __future__ import annotations

import pytest
from layout_figures import band
from report_layouts import Laid, figure_data, laid_out, needs_node

from chainrule.explain.drawing.figure import Figure, Group

pytestmark = needs_node
NEAR = 0.03  # pixels
HIGH = Group("A", ("f", "g", "V", "U", "p", "s"))  # has three rows and more
LINKS = "x f, V f, f g, f p, U p, p s, g s, s h, W h, h y"


def states(figure: Figure, *several: list[str]) -> list[Laid]:
    """The figure with these scopes open, one state after the other."""
    (found,) = laid_out([(figure_data(figure), list(several))])
    return found


def height(laid: Laid, key: str) -> float:
    """The y of the middle of a box."""
    return laid.placement.boxes[key].centre[1]


def test_what_is_in_one_row_stays_in_one_row() -> None:
    figure = Figure(band(LINKS, "f g p s h", "V U W", groups=(HIGH,)))
    folded, opened = states(figure, [], ["A"])
    row = ["x", "A", "h", "y"]
    assert {height(folded, key) for key in row} == {height(folded, "x")}
    assert opened.placement.groups["A"].height > 250
    for key in ("h", "y", "f"):
        assert height(opened, key) == pytest.approx(height(opened, "x"), abs=NEAR)


def test_what_stands_beside_an_open_scope_keeps_its_distance() -> None:
    figure = Figure(band(LINKS, "f g p s h", "V U W", groups=(HIGH,)))
    folded, opened = states(figure, [], ["A"])
    for laid in (folded, opened):
        assert height(laid, "h") - height(laid, "W") == pytest.approx(96, abs=NEAR)
    assert height(opened, "W") > opened.placement.groups["A"].y, "lower than the top of the frame"


def test_what_runs_over_a_scope_is_pushed_up_by_it() -> None:
    figure = Figure(band(f"{LINKS}, x y", "f g p s h", "V U W", groups=(HIGH,)))
    folded, opened = states(figure, [], ["A"])

    def over(laid: Laid) -> float:
        (arrow,) = (one for one in laid.placement.arrows if (one.source, one.target) == ("x", "y"))
        return min(y for _, y in arrow.points)

    assert over(folded) < folded.placement.boxes["A"].y
    assert over(opened) < opened.placement.groups["A"].y


def test_columns_part_by_what_a_scope_is_wider() -> None:
    figure = Figure(band(LINKS, "f g p s h", "V U W", groups=(HIGH,)))
    folded, opened = states(figure, [], ["A"])
    wider = opened.placement.groups["A"].width - folded.placement.boxes["A"].width
    boxes = folded.placement.boxes, opened.placement.boxes
    for key, by in (("x", 0.0), ("h", wider), ("W", wider), ("y", wider)):
        assert boxes[1][key].x - boxes[0][key].x == pytest.approx(by, abs=NEAR), key


def test_a_scope_in_a_scope_makes_both_larger() -> None:
    outer = Group("B", ("x", "h", "W"), (HIGH,))
    figure = Figure(band(LINKS, "f g p s h", "V U W", groups=(outer,)))
    folded, outer_open, both, hidden = states(figure, [], ["B"], ["A", "B"], ["A"])
    assert folded.placement == hidden.placement, "A is open, but not seen"
    assert both.placement.groups["B"].height - both.placement.groups["A"].height < 100
    before, after = (one.placement.groups["B"] for one in (outer_open, both))
    inner, box = both.placement.groups["A"], outer_open.placement.boxes["A"]
    assert after.width - before.width == pytest.approx(inner.width - box.width, abs=NEAR)
    assert 100 < after.height - before.height < inner.height - box.height

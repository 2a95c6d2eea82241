"""Layouts of random figures have no faults; and the referee of layouts sees planted ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from layout_faults import faults
from layout_figures import MLP_BOTH, band, random_figure

from chainrule.explain.drawing.figure import Arrow, Figure, Group, Placement, Rectangle
from chainrule.explain.drawing.layout import place
from chainrule.explain.drawing.layout.occupancy import Occupancy


@pytest.mark.slow
@pytest.mark.sweep(4)
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_figures_have_no_faults(first: int) -> None:
    for seed in range(first, first + 50):
        figure = random_figure(seed)
        assert faults(figure, place(figure)) == [], seed


def test_random_figures_have_all_that_is_to_be_tested() -> None:
    figures = [random_figure(seed) for seed in range(200)]
    assert any(one.forward.groups and one.backward.items for one in figures)
    assert any(one.hide_forward for one in figures) and any(one.further for one in figures)
    assert any(place(one).copies for one in figures)


def _with_box(placement: Placement, key: str, **changes: float) -> Placement:
    boxes = {**placement.boxes, key: replace(placement.boxes[key], **changes)}
    return replace(placement, boxes=boxes)


def _with_arrow(
    placement: Placement, source: str, target: str, *points: tuple[float, float]
) -> Placement:
    arrows = tuple(
        replace(one, points=points) if (one.source, one.target) == (source, target) else one
        for one in placement.arrows
    )
    return replace(placement, arrows=arrows)


# Points of the book's figure: x is at (56, 270), the columns are 88 apart and the rows 96.
PLANTED: dict[str, tuple[Callable[[Placement], Placement], str]] = {
    "a box is missing": (
        lambda p: replace(p, boxes={key: box for key, box in p.boxes.items() if key != "z"}),
        "missing",
    ),
    "an arrow is missing": (lambda p: replace(p, arrows=p.arrows[1:]), "missing"),
    "an arrow is there twice": (lambda p: replace(p, arrows=(*p.arrows, p.arrows[0])), "too many"),
    "a box is outside": (lambda p: replace(p, width=920), "outside"),
    "boxes are near": (lambda p: _with_box(p, "z", x=173), "apart"),
    "an end hangs in the air": (
        lambda p: _with_arrow(p, "x", "m1", (82, 270), (108, 270)),
        "does not end at the border",
    ),
    "a start hangs in the air": (
        lambda p: _with_arrow(p, "x", "m1", (90, 270), (118, 270)),
        "does not start at the border",
    ),
    "a circle is met askew": (
        lambda p: _with_arrow(p, "x", "m1", (82, 280), (118, 270)),
        "does not point to the middle",
    ),
    "a box is crossed": (
        lambda p: _with_arrow(p, "m1", "z", (170, 270), (558, 270), (206, 270)),
        "crosses phi",
    ),
    "an arrow goes down": (
        lambda p: _with_arrow(p, "m1", "z", (170, 270), (188, 270), (188, 280), (206, 280)),
        "goes left or down",
    ),
    "an arrow goes left": (
        lambda p: _with_arrow(p, "m1", "z", (170, 270), (186, 270), (178, 270), (206, 270)),
        "goes left or down",
    ),
    "two arrows share a stretch": (
        lambda p: _with_arrow(p, "L", "+", (786, 174), (802, 174), (802, 78), (822, 78)),
        "lies on",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_referee_sees_planted_faults(name: str) -> None:
    plant, word = PLANTED[name]
    found = faults(MLP_BOTH, place(MLP_BOTH))
    assert found == []
    broken = plant(place(MLP_BOTH))
    if name == "a box is missing":
        broken = replace(
            broken, arrows=tuple(a for a in broken.arrows if "z" not in (a.source, a.target))
        )
    assert any(word in one for one in faults(MLP_BOTH, broken))


def test_the_referee_sees_wrong_frames() -> None:
    figure = Figure(band("x f, f a, a g, g y", "f g", groups=(Group("G", ("f", "a")),)))
    placement = place(figure)
    assert faults(figure, placement) == []
    frame = placement.groups["G"]
    small = Rectangle(frame.x, frame.y, frame.width / 2, frame.height)
    large = Rectangle(frame.x, frame.y, frame.width + 90, frame.height)
    assert any("not in the frame" in one for one in _framed(figure, placement, small))
    assert any("in or at the frame" in one for one in _framed(figure, placement, large))
    through = Arrow("g", "y", ((0, frame.y + 1), (placement.width, frame.y + 1)))
    broken = replace(placement, arrows=(*placement.arrows, through))
    assert any("crosses the frame of G 2 times" in one for one in faults(figure, broken))


def _framed(figure: Figure, placement: Placement, frame: Rectangle) -> list[str]:
    return faults(figure, replace(placement, groups={"G": frame}))


@pytest.mark.parametrize("seed", range(30))
def test_the_lowest_free_row_is_the_lowest(seed: int) -> None:
    random = Random(seed)
    columns = random.randint(1, 40)
    occupied, taken = Occupancy(columns), set[tuple[int, int]]()
    for _ in range(60):
        first = random.randrange(columns)
        last = random.randrange(first, columns)
        least, height = random.randrange(4), random.randint(1, 3)
        cells = range(first, last + 1)
        row = occupied.lowest(first, last, least, height)
        expected = least
        while any((c, expected + rise) in taken for c in cells for rise in range(height)):
            expected += 1
        assert row == expected
        assert occupied.is_free(first, last, row)
        occupied.take(first, last, row, height)
        taken |= {(c, row + rise) for c in cells for rise in range(height)}

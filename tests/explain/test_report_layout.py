"""What the page lays out with everything open is where the static drawing has it."""

from __future__ import annotations

from dataclasses import replace
from math import dist

import pytest
from layout_figures import band, random_figure
from layout_figures import mirrored as with_mirror
from report_layout_programs import PROGRAMS
from report_layouts import all_scopes, figure_data, figure_of, group_keys, laid_out, needs_node

from chainrule.explain.drawing.figure import Figure, Placement, Rectangle
from chainrule.explain.drawing.layout import place
from chainrule.explain.report.layout_data import drawing_data

pytestmark = needs_node
NEAR = 1e-6  # pixels: both add up the same numbers in nearly the same order


def far(one: Rectangle, other: Rectangle) -> bool:
    """Whether two rectangles are not the same."""
    here = (one.x, one.y, one.width, one.height)
    there = (other.x, other.y, other.width, other.height)
    return not max(abs(a - b) for a, b in zip(here, there, strict=True)) <= NEAR


def differences(found: Placement, expected: Placement) -> list[str]:
    """In words, what stands elsewhere than it should."""
    told = []
    for name in ("boxes", "groups", "mirrored_groups"):
        here, there = getattr(found, name), getattr(expected, name)
        told += [f"{name}: {key}" for key in here.keys() ^ there.keys()]
        both = here.keys() & there.keys()
        told += [
            f"{key}: {here[key]}, not {there[key]}" for key in both if far(here[key], there[key])
        ]
    arrows = {(one.source, one.target, one.kept): one.points for one in found.arrows}
    for one in expected.arrows:
        points = arrows.pop((one.source, one.target, one.kept), ())
        same = len(points) == len(one.points)
        if not (same and all(dist(*two) <= NEAR for two in zip(points, one.points, strict=True))):
            told.append(f"{one.source} -> {one.target}: {points}, not {one.points}")
    told += [f"{source} -> {target} is too many" for source, target, _ in arrows]
    told += [] if len(found.arrows) == len(expected.arrows) else ["other arrows"]
    here = (*sum(found.spans, ()), found.width, found.height)
    there = (*sum(expected.spans, ()), expected.width, expected.height)
    if len(here) != len(there) or not dist(here, there) <= NEAR:
        told.append(f"spans and size: {here}, not {there}")
    return told


def as_on_the_page(figure: Figure) -> Figure:
    """Copies by the names that the page gives them, and the forward band shown."""
    kept = tuple(
        replace(one, copy=replace(one.copy, key=f"saved {one.source} for {one.target}"))
        for one in figure.kept
    )
    return replace(figure, kept=kept, hide_forward=False)


def test_random_figures_are_laid_out_as_in_the_static_drawing() -> None:
    figures = [as_on_the_page(random_figure(seed)) for seed in range(90)]
    cases = [(figure_data(one), [group_keys(one.forward.groups)]) for one in figures]
    for seed, (figure, (found,)) in enumerate(zip(figures, laid_out(cases), strict=True)):
        assert differences(found.placement, place(figure)) == [], seed


def test_dashed_arrows_that_would_cross_are_laid_out_as_in_the_static_drawing() -> None:
    figure = as_on_the_page(with_mirror(band("x f, f g, g y", "f g"), kept="f g, g f, x f, y g"))
    assert len(place(figure).copies) == 1
    ((found,),) = laid_out([(figure_data(figure), [[]])])
    assert differences(found.placement, place(figure)) == []


def test_programs_are_laid_out_as_in_the_static_drawing() -> None:
    graphs = {name: make() for name, make in PROGRAMS.items()}
    drawings = {name: drawing_data(graph) for name, graph in graphs.items()}
    assert any(all_scopes(drawing) for drawing in drawings.values())
    cases = [(drawing, [all_scopes(drawing)]) for drawing in drawings.values()]
    for name, (found,) in zip(drawings, laid_out(cases), strict=True):
        figure = figure_of(graphs[name], drawings[name])
        assert differences(found.placement, place(figure)) == [], name


@pytest.mark.parametrize("name", ["x", "points", "size"])
def test_differences_are_seen(name: str) -> None:
    expected = place(random_figure(1))
    assert differences(expected, expected) == []
    key, box = next(iter(expected.boxes.items()))
    arrow, *others = expected.arrows
    x, y = arrow.points[-1]
    moved = {
        "x": replace(expected, boxes={**expected.boxes, key: replace(box, x=box.x + 1e-5)}),
        "points": replace(
            expected,
            arrows=(replace(arrow, points=(*arrow.points[:-1], (x, y + 1e-5))), *others),
        ),
        "size": replace(expected, width=float("nan")),
    }
    assert len(differences(moved[name], expected)) == 1

"""The page puts together what Python has laid out: flat drawings are the static ones, open scopes
stand where their layouts say."""

from __future__ import annotations

from dataclasses import replace
from math import dist

import pytest
from layout_figures import band, random_figure
from layout_figures import mirrored as with_mirror
from report_layout_programs import PROGRAMS, transformer
from report_layouts import Laid, all_scopes, figure_data, laid_out, needs_node

from chainrule.explain.drawing.figure import Figure, Placement, Rectangle
from chainrule.explain.drawing.layout import place
from chainrule.explain.report.layout_data import drawing_data

pytestmark = needs_node
NEAR = 0.03  # pixels: lengths are told in hundredths


def far(one: Rectangle, other: Rectangle) -> bool:
    """Whether two rectangles are not the same."""
    here = (one.x, one.y, one.width, one.height)
    there = (other.x, other.y, other.width, other.height)
    return not max(abs(a - b) for a, b in zip(here, there, strict=True)) <= NEAR


def differences(found: Placement, expected: Placement) -> list[str]:
    """In words, what stands elsewhere than it should."""
    here, there = found.boxes, expected.boxes
    told = [f"boxes: {key}" for key in here.keys() ^ there.keys()]
    both = here.keys() & there.keys()
    told += [f"{key}: {here[key]}, not {there[key]}" for key in both if far(here[key], there[key])]
    arrows = {(one.source, one.target, one.kept): one.points for one in found.arrows}
    for one in expected.arrows:
        points = arrows.pop((one.source, one.target, one.kept), ())
        same = len(points) == len(one.points)
        if not (same and all(dist(*two) <= NEAR for two in zip(points, one.points, strict=True))):
            told.append(f"{one.source} -> {one.target}: {points}, not {one.points}")
    told += [f"{source} -> {target} is too many" for source, target, _ in arrows]
    ends = (*sum(found.spans, ()), found.width, found.height)
    expected_ends = (*sum(expected.spans, ()), expected.width, expected.height)
    if len(ends) != len(expected_ends) or not dist(ends, expected_ends) <= NEAR:
        told.append(f"spans and size: {ends}, not {expected_ends}")
    return told


def as_on_the_page(figure: Figure) -> Figure:
    """Copies by the names that the page gives them, and the forward band shown."""
    kept = tuple(
        replace(one, copy=replace(one.copy, key=f"saved {one.source} for {one.target}"))
        for one in figure.kept
    )
    return replace(figure, kept=kept, hide_forward=False)


@pytest.mark.slow
def test_figures_without_scopes_stand_as_in_the_static_drawing() -> None:
    random = [random_figure(seed) for seed in range(45)]
    crossing = with_mirror(band("x f, f g, g y", "f g"), kept="f g, g f, x f, y g")
    figures = [as_on_the_page(one) for one in (*random, crossing) if not one.forward.groups]
    assert len(figures) > 10
    found = laid_out([(figure_data(one), [[]]) for one in figures])
    for figure, (laid,) in zip(figures, found, strict=True):
        assert differences(laid.placement, place(figure)) == []


@pytest.mark.parametrize("name", ["x", "points", "size"])
def test_differences_are_seen(name: str) -> None:
    expected = place(random_figure(1))
    assert differences(expected, expected) == []
    key, box = next(iter(expected.boxes.items()))
    arrow, *others = expected.arrows
    x, y = arrow.points[-1]
    moved = {
        "x": replace(expected, boxes={**expected.boxes, key: replace(box, x=box.x + 0.05)}),
        "points": replace(
            expected,
            arrows=(replace(arrow, points=(*arrow.points[:-1], (x, y + 0.05))), *others),
        ),
        "size": replace(expected, width=float("nan")),
    }
    assert len(differences(moved[name], expected)) == 1


def test_a_scope_looks_the_same_wherever_it_is() -> None:
    drawing = drawing_data(transformer(4))
    ((laid,),) = laid_out([(drawing, [all_scopes(drawing)])])
    scopes = drawing["bands"][0]["scopes"][1:]
    blocks = [one for one in scopes if one["title"].startswith("block (")]
    assert len(blocks) == 4 and len({one["layout"] for one in blocks}) == 1
    first, *others = (inside(laid, one["key"]) for one in blocks)
    assert len(first) > 15
    for other in others:
        assert all(not far(*two) for two in zip(first, other, strict=True))


def inside(laid: Laid, scope: str) -> list[Rectangle]:
    """The boxes of the forward band in an open scope, from its upper left corner, sorted."""
    frame = laid.placement.groups[scope]
    found = [
        Rectangle(box.x - frame.x, box.y - frame.y, box.width, box.height)
        for key, box in laid.placement.boxes.items()
        if key in laid.shown and scope in laid.shown[key][1] and not laid.boxes[key]["mirrored"]
    ]
    return sorted(found, key=lambda box: (box.x, box.y))


@pytest.mark.slow
def test_folding_undoes_unfolding() -> None:
    for name in ("transformer of 4", "irregular of 120"):
        drawing = drawing_data(PROGRAMS[name]())
        keys = all_scopes(drawing)
        ((before, _, after),) = laid_out([(drawing, [keys[:2], keys[:3], keys[:2]])])
        assert differences(after.placement, before.placement) == []

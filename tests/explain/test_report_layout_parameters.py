"""Parameters of one operator on the page: folded one box, unfolded one frame with one arrow."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from layout_faults import faults
from report_layout_programs import gated
from report_layouts import Laid, all_scopes, figure_of, folded_figure, laid_out, needs_node

import chainrule as cr
from chainrule import float64
from chainrule.explain.report.layout_data import drawing_data
from chainrule.graph.graph import Graph

LEAST_GAP, MOST_GAP = 8.0, 24.0  # pixels between boxes that nothing connects


def loop(names: list[str], readers: int = 1, wrt: str | list[str] = "params") -> Graph:
    """Loops, each of whose cells reads all of these parameters."""

    def objective(x: float64["5 2 3"], params):
        def cell(h, x_t):
            for W in params.values():
                h = h + W
            return h * x_t, None

        h = np.zeros_like(x, shape=(2, 3))
        for _ in range(readers):
            h, _ = cr.scan(cell, h, x)
        J = np.sum(h**2)
        return J

    graph = cr.trace(objective, params=dict.fromkeys(names, np.zeros(3)))
    return cr.backward(graph, wrt=wrt)


def unfolded(graph: Graph) -> Laid:
    """The page with all scopes open; it has no faults."""
    drawing = drawing_data(graph)
    opened = all_scopes(drawing)
    ((folded, laid),) = laid_out([(drawing, [[], opened])])
    figure = figure_of(graph, drawing)
    for state, one in (([], folded), (opened, laid)):
        shown = folded_figure(figure, state, one.boxes)
        assert faults(shown, one.placement, descending=True) == []
    return laid


@needs_node
def test_an_unfolded_frame_has_the_one_arrow_of_the_folded_box() -> None:
    placement = unfolded(gated()).placement
    key = "parameters of operator h"
    arrows = {(one.source, one.target): one.points for one in placement.arrows}
    (start, end) = arrows[key, "operator h"]
    frame, circle = placement.groups[key], placement.boxes["operator h"]
    assert start == pytest.approx((circle.centre[0], frame.y + frame.height))
    assert end == pytest.approx((circle.centre[0], circle.y))
    (start, end) = arrows["backward h", f"backward of {key}"]
    frame, circle = placement.mirrored_groups[key], placement.boxes["backward h"]
    assert start == pytest.approx((circle.centre[0], circle.y + circle.height))
    assert end == pytest.approx((circle.centre[0], frame.y))
    inside = {f"value {kind}{gate}" for kind in "WUb" for gate in "zrh"}
    assert not inside & {source for source, _ in arrows}
    assert inside < placement.boxes.keys()


@needs_node
def test_boxes_of_an_unfolded_frame_are_read_from_above_left_and_mirrored_below() -> None:
    boxes = unfolded(gated()).placement.boxes
    names = [f"{kind}{gate}" for gate in "zrh" for kind in "WUb"]
    places = [boxes[f"value {name}"].centre for name in names]
    below = [boxes[f"gradient dJ/d{name}"].centre for name in names]
    assert places == sorted(places, key=lambda place: (place[1], place[0]))
    assert [x for x, _ in places] == pytest.approx([x for x, _ in below])
    heights = [y for _, y in below]
    assert heights == sorted(heights, reverse=True) and len(set(heights)) == 3


@needs_node
@pytest.mark.parametrize("name", ["W", "recurrent_weight_"])
@pytest.mark.parametrize("count", [4, 7, 12, pytest.param(40, marks=pytest.mark.slow)])
def test_boxes_of_an_unfolded_frame_stand_close_in_full_rows(count: int, name: str) -> None:
    names = [f"{name}{number:02}" for number in range(count)]
    placement = unfolded(loop(names)).placement
    boxes = [placement.boxes[f"value params.{name}"] for name in names]
    first, *rows, last = Counter(round(box.y) for box in boxes).values()
    assert {*rows} <= {first} and 0 < last <= first
    columns = sorted({round(box.centre[0]) for box in boxes})
    assert len(columns) == first
    widest = max(box.width for box in boxes)
    tops = sorted({box.y for box in boxes})
    for centres, size in ((columns, widest), (tops, boxes[0].height)):
        for one, other in pairwise(centres):
            assert LEAST_GAP < other - one - size < MOST_GAP
    (frame,) = placement.groups.values()
    assert 0.9 < frame.width / frame.height < 3


@needs_node
def test_each_operator_that_reads_the_parameters_has_one_arrow() -> None:
    placement = unfolded(loop(["W0", "W1", "W2", "W3"], readers=2)).placement
    (key,) = placement.groups
    read = [one.target for one in placement.arrows if one.source == key]
    added = [one.source for one in placement.arrows if one.target == f"backward of {key}"]
    assert len(read) == len(added) == 2 and len({*read}) == len({*added}) == 2


@needs_node
def test_operators_in_other_scopes_have_one_arrow_too() -> None:
    def recurrent(h, x, params):
        def cell(h, x_t):
            for W in params:
                h = h + W
            return h * x_t, None

        h, _ = cr.scan(cell, h, x)
        return h

    def objective(x: float64["5 2 3"], params):
        h = recurrent(np.zeros_like(x, shape=(2, 3)), x, params)
        g = recurrent(np.tanh(h), x, params)
        J = np.sum(g * h)
        return J

    graph = cr.backward(cr.trace(objective, params=[np.zeros(3)] * 5), wrt="params")
    placement = unfolded(graph).placement
    key = next(one for one in placement.groups if one.startswith("parameters of"))
    ends = [(one.source, one.target) for one in placement.arrows]
    assert sum(source == key for source, _ in ends) == 2
    assert sum(target == f"backward of {key}" for _, target in ends) == 2
    data = drawing_data(graph)
    kinds = [data["layouts"][one["layout"]]["kinds"] for one in data["bands"][0]["scopes"]]
    assert max(one.count(0) for one in kinds) == 3, "a port each for h, x and all parameters"


@needs_node
def test_gradients_of_some_parameters_stand_below_these() -> None:
    names = [f"W{number}" for number in range(9)]
    placement = unfolded(loop(names, wrt=["params.W1", "params.W6"])).placement
    for name in names:
        below = placement.boxes.get(f"gradient dJ/d(params.{name})")
        assert (below is not None) == (name in ("W1", "W6"))
        if below is not None:
            centre = placement.boxes[f"value params.{name}"].centre
            assert centre[0] == pytest.approx(below.centre[0])


def test_frames_say_what_is_in_them() -> None:
    _, scope = drawing_data(gated())["bands"][0]["scopes"]
    assert (scope["title"], scope["below"]) == ("9 parameters", "9 gradients")


def test_many_parameters_of_one_operator_do_not_part_a_short_program() -> None:
    (band,) = drawing_data(loop([f"W{number}" for number in range(60)]))["bands"]
    assert [one.get("kind") for one in band["scopes"]] == [None, "parameters"]


def test_the_layout_of_a_frame_is_short_data() -> None:
    data = drawing_data(loop([f"W{number}" for number in range(40)]))
    whole, scope = data["bands"][0]["scopes"]
    layout = data["layouts"][scope["layout"]]
    assert layout["connections"] == [] and len(json.dumps(layout)) < 2_000
    around = data["layouts"][whole["layout"]]["connections"]
    starts = around[::4]
    assert starts.count(whole["things"].index(1)) == 1

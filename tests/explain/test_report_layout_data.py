"""What the page is told of a drawing: the boxes of the static one, in scopes that are not large."""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import FrameType
from typing import Any

import numpy as np
import pytest
from drawings import chain, irregular, mlp, mlp_with_gradients, traced
from report_layout_programs import (
    PROGRAMS,
    calls_in_calls,
    clipped_step,
    gated,
    layers_and_penalties,
    transformer,
    with_gradients,
)
from report_layouts import all_scopes, laid_out, needs_node
from test_drawing_text import hostile

import chainrule as cr
from chainrule.explain.drawing.scene import Wishes, scene_of
from chainrule.explain.report.layout_data import drawing_data

MOST = 60  # boxes to be seen at first, and in any one scope
SHOWN_AGAIN = ("transformer of 7 with a penalty", "clipped step", "gated")  # with copies of its own
LARGE = {
    "chain": lambda: with_gradients(chain(400)),
    "irregular": lambda: with_gradients(irregular(800)),
    "transformer": lambda: transformer(30, decay=0.1),
    "calls": lambda: calls_in_calls(60),
    "update": lambda: clipped_step(70),
    "penalties": lambda: layers_and_penalties(60),
}


@cache
def large(name: str) -> dict[str, Any]:
    return drawing_data(LARGE[name]())


def scopes(drawing: Mapping[str, Any]) -> Iterator[tuple[Any, Any, list[str]]]:
    """Every scope with its band and the keys of the items and scopes that stand in it."""
    for band in drawing["bands"]:
        for scope in band["scopes"]:
            kinds = drawing["layouts"][scope["layout"]]["kinds"]
            things = zip(kinds, scope["things"], strict=True)
            yield (
                band,
                scope,
                [
                    drawing["items"][band["first"] + thing]["key"]
                    if kind == 1
                    else band["scopes"][thing]["key"]
                    for kind, thing in things
                    if kind in (1, 2)
                ],
            )


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in SHOWN_AGAIN])
def test_items_are_those_of_the_static_drawing(name: str) -> None:
    graph = PROGRAMS[name]()
    drawing = drawing_data(graph)
    scene = scene_of(graph, Wishes(fold="none"))
    figure = scene.figure
    bands = [figure.forward, figure.backward, *figure.further]
    expected = {item.key: item for band in bands for item in band.items}
    assert len(expected) == len(drawing["items"])
    for told in drawing["items"]:
        item, look = expected[told["key"]], scene.looks[told["key"]]
        assert (told["form"], told["role"]) == (item.form, look.role)
        assert (told["width"], told["height"]) == (item.width, item.height)
        assert told.get("beside", False) == item.beside
        lines = ["".join(text for text, _, _ in line) for line in told["label"]["lines"]]
        assert "/".join(lines) == look.label.text
        assert (told["number"], told["tip"]) == (look.number, look.tip)


@pytest.mark.slow
@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", LARGE)
def test_no_scope_has_many_boxes_and_every_item_is_in_one(name: str) -> None:
    drawing = large(name)
    found: Counter[str] = Counter()
    for _, scope, inside in scopes(drawing):
        assert 0 < len(inside) <= MOST, scope["key"]
        found.update(inside)
    below = drawing["backward"]["count"] if drawing["backward"] else 0
    assert len(found) == len(drawing["items"]) - below + len(all_scopes(drawing))
    assert set(found.values()) == {1}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", LARGE)
def test_large_graphs_show_few_boxes_at_first(name: str) -> None:
    drawing = large(name)
    opened = set(drawing["open"])
    kinds = {scope["key"]: scope.get("kind") for _, scope, _ in scopes(drawing)}
    assert {kinds[key] for key in opened} <= {"call"}
    seen = 0
    pending = [band["scopes"][0] for band in drawing["bands"]]
    inside = {id(scope): (band, keys) for band, scope, keys in scopes(drawing)}
    under = {
        drawing["items"][number]["key"]
        for number in (drawing["backward"] or {"under": []})["under"]
    }
    while pending:
        band, keys = inside[id(pending.pop())]
        told = {scope["key"]: scope for scope in band["scopes"]}
        for key in keys:
            if key in opened:
                pending.append(told[key])
            else:
                seen += 1 + (key in under or "mirror" in told.get(key, {}))
    assert 3 <= seen <= MOST


def test_small_graphs_are_open() -> None:
    drawing = drawing_data(chain(15))
    assert len(drawing["items"]) < MOST
    assert drawing["open"] == all_scopes(drawing) != []
    assert "repeat" in {scope.get("kind") for _, scope, _ in scopes(drawing)}


def test_parameters_of_one_operator_are_one_box_until_it_is_unfolded() -> None:
    data = drawing_data(gated())
    [band] = data["bands"]
    _, scope = band["scopes"]
    assert (scope["kind"], scope["title"], scope["parent"]) == ("parameters", "9 parameters", 0)
    said = {one: scope[one]["label"]["lines"][0][0][0] for one in ("box", "mirror")}
    assert said == {"box": "9 parameters", "mirror": "9 gradients"}
    inside = [data["items"][number]["name"] for number in sorted(set(scope["things"]))]
    assert sorted(inside) == sorted(f"{kind}{gate}" for gate in "zrh" for kind in "WUb")
    assert "V" not in inside and data["open"] == []
    layout = data["layouts"][band["scopes"][0]["layout"]]
    circle = band["scopes"][0]["things"].index(_number(data, "scan"))
    ends = layout["connections"][1::4]
    folded = [at for at, kind in enumerate(layout["kinds"]) if kind == 2]
    starts = [
        one for one, end in zip(layout["connections"][::4], ends, strict=True) if end == circle
    ]
    assert starts.count(folded[0]) == 1, "one arrow for all"
    several = [one[3] for one in data["backward"]["kept"] if len(one) == 4]
    assert [one["label"]["lines"][0][0][0] for one in several] == ["9 parameters"]


def _number(data: dict[str, Any], word: str) -> int:
    """The first item of the picture whose tip has a word."""
    circles = [item["form"] == "circle" and word in item["tip"] for item in data["items"]]
    return circles.index(True)


def test_equal_blocks_share_layouts_and_stand_in_a_repetition() -> None:
    small, large = drawing_data(transformer(6)), drawing_data(transformer(9))
    assert len(small["layouts"]) == len(large["layouts"])
    told = {scope["key"]: scope for scope in large["bands"][0]["scopes"]}
    assert told["scope 0 1"]["title"] == "model" and told["scope 0 1"]["kind"] == "call"
    (repeat,) = [one for one in told.values() if one.get("kind") == "repeat"]
    assert (repeat["title"], repeat["count"]) == ("block ×9", 9)
    assert (repeat["box"]["caption"], repeat["mirror"]["caption"]) == ("×9", "×9")
    place = large["bands"][0]["scopes"].index(repeat)
    turns = [one for one in told.values() if one["parent"] == place]
    assert [one["title"] for one in turns] == [f"block ({turn} of 9)" for turn in range(1, 10)]
    assert len({one["layout"] for one in turns}) == 1
    assert repeat["operators"] == sum(one["operators"] for one in turns)


@pytest.mark.slow
def test_long_programs_are_in_stretches_of_about_the_same_length() -> None:
    drawing = large("irregular")
    told = drawing["bands"][0]["scopes"]
    assert {one.get("kind", "whole") for one in told} == {"whole", "stretch"}
    lengths = [one["operators"] for one in told[1:] if one["operators"] < 60]
    assert sum(lengths) >= 800 and min(lengths) >= max(lengths) - 3
    assert told[1]["title"].startswith("v₁ … v") and told[1]["box"]["caption"].startswith("1–")


def test_a_circle_says_what_it_computes() -> None:
    told = {item["key"]: item for item in drawing_data(mlp_with_gradients())["items"]}
    assert told["operator h"]["makes"] == "h" and told["value h"]["name"] == "h"
    assert told["backward h"]["of"] == "h" and told["backward h"]["makes"] == "dJ/dz"
    assert told["operator h"]["name"] == told["value h"]["makes"] == ""


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in SHOWN_AGAIN])
def test_bytes_that_are_kept_are_those_of_the_static_drawing(name: str) -> None:
    graph = PROGRAMS[name]()
    drawing = drawing_data(graph)
    found = {}
    for source, at, ids in (drawing["backward"] or {"kept": ()})["kept"]:
        pair = [drawing["items"][one]["key"] for one in (source, drawing["backward"]["first"] + at)]
        nbytes = [drawing["saved"][one] for one in ids]
        found[tuple(pair)] = None if None in nbytes else sum(nbytes)
    assert found == scene_of(graph, Wishes(fold="none")).saved_nbytes


def test_notations_are_those_asked_for() -> None:
    told = drawing_data(mlp_with_gradients(), indices="superscript")["items"]
    (label,) = [one["label"] for one in told if one["key"] == "value W1"]
    assert label["lines"][0][-1] == ["(1)", "upright", 1]
    told = drawing_data(mlp_with_gradients(), symbols={"h": "η"})["items"]
    (label,) = [one["label"] for one in told if one["key"] == "value h"]
    assert label["lines"][0][0][0] == "η"


def test_what_reads_all_parameters_reads_one_box() -> None:
    told = {item["key"]: item for item in drawing_data(transformer(6, decay=0.1))["items"]}
    assert told["copies for s"]["tip"].startswith("36 parameters, read by s\nparams.blocks[0].Q, ")
    assert told["gradients below copies for s"]["tip"].startswith("36 gradients, get terms from s")


def test_what_many_scopes_read_is_shown_again_in_each() -> None:
    items = drawing_data(transformer(6))["items"]
    copies = {item["key"]: item for item in items if item["key"].startswith("copy of value mask")}
    assert len(copies) == 5  # the first block has the mask itself
    for copy in copies.values():
        assert (copy["form"], copy["name"], copy["beside"]) == ("copy", "mask", True)
        assert copy["tip"].endswith("scores")
    few = drawing_data(transformer(4))["items"]
    assert not any(item["key"].startswith("copy of") for item in few)


def test_the_norm_of_all_gradients_reads_one_box() -> None:
    drawing = drawing_data(clipped_step(40))
    (box,) = [item for item in drawing["items"] if item["key"].startswith("copies for")]
    assert box["tip"].startswith("40 gradients, read by gradient_norm") and box["beside"]
    assert box["label"]["lines"] == [[["40 gradients", "upright", 0]]]


@pytest.mark.parametrize("name", ["inputs alone", "forward alone", "hostile names"])
def test_unusual_graphs_have_data_too(name: str) -> None:
    graph = {
        "inputs alone": lambda: cr.trace(lambda x: x, x=np.zeros(3)),
        "forward alone": mlp,
        "hostile names": hostile,
    }[name]()
    drawing = drawing_data(graph)
    assert drawing["backward"] is None
    assert len(drawing["items"]) == drawing["bands"][0]["count"] > 0
    assert json.loads(json.dumps(drawing)) == drawing


@needs_node
def test_unusual_graphs_are_laid_out() -> None:
    drawings = [drawing_data(graph) for graph in (cr.trace(lambda x: x, x=np.zeros(3)), hostile())]
    for drawing, (laid,) in zip(drawings, laid_out([(one, [[]]) for one in drawings]), strict=True):
        assert len(laid.boxes) == len(drawing["items"])


def test_the_same_graph_gives_the_same_data() -> None:
    first, second = (json.dumps(drawing_data(transformer(3, decay=0.1))) for _ in range(2))
    assert first == second


@pytest.mark.slow
@needs_node
def test_of_a_large_graph_what_is_open_is_laid_out() -> None:
    drawing = drawing_data(with_gradients(irregular(700)))
    assert len(drawing["items"]) > 2_200
    keys = [scope["key"] for scope in drawing["bands"][0]["scopes"][1:]]
    opened = keys[:5]
    ((laid,),) = laid_out([(drawing, [opened])])
    assert 250 < len(laid.boxes) < 500


@pytest.mark.sweep(2)
@pytest.mark.slow
@pytest.mark.parametrize("program", [irregular, chain])
def test_data_take_work_in_proportion_to_the_graph(program: Callable[[int], cr.Graph]) -> None:
    def calls_a_node(length: int) -> float:
        graph = with_gradients(program(length))
        return _calls(lambda: drawing_data(graph)) / len(graph)

    assert calls_a_node(160) < 1.2 * calls_a_node(40)


@pytest.mark.slow
def test_a_value_that_gradients_share_makes_no_circle_of_folded_boxes() -> None:
    graph = with_gradients(irregular(3200))  # dJ/dv2730 is computed from the later dJ/dv2725
    assert graph.draw().svg().startswith("<svg")


def _calls(function: Callable[[], object]) -> int:
    """How many functions are called, of Python and of C: work without a clock."""
    counted = itertools.count()

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            next(counted)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return next(counted)


def test_a_program_of_one_statement_many_times_is_small() -> None:
    drawing = drawing_data(
        with_gradients(traced("v", ["v = np.tanh(v)"] * 250 + ["J = np.sum(v)"]))
    )
    assert len(drawing["layouts"]) <= 8
    assert len(json.dumps(drawing["layouts"])) < 25_000

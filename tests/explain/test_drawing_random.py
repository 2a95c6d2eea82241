"""Random programs, drawn whole: every named value once, every dependence an arrow, no overlap."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from drawings import picture
from hypothesis import given, settings
from namespaces import with_gradients
from programs import Program, programs

import chainrule as cr
from chainrule.explain.drawing.bands import operator_key, value_key
from chainrule.explain.drawing.drawing import Drawing, draw
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.units import Units
from chainrule.explain.reading.statements import FORWARD, read_apart
from chainrule.graph.node import Node


def reads(names: Mapping[Node, str], value: Node) -> set[str]:
    """The names of the values that a named value depends on through unnamed ones only."""
    found, stack, seen = set(), list(value.inputs), set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in names:
            found.add(names[node])
        else:
            stack.extend(node.inputs)
    return found


def drawn_reads(drawing: Drawing) -> dict[str, set[str]]:
    """The same from the figure: from square to square against the arrows, through circles.

    Constants have squares too, without names.
    """
    figure = drawing.scene.figure
    forms = {item.key: item.form for item in figure.forward.items}
    sources: dict[str, list[str]] = {}
    for link in figure.forward.links:
        sources.setdefault(link.target, []).append(link.source)
    found = {}
    for key, form in forms.items():
        if form is Form.SQUARE:
            stack, names = list(sources.get(key, ())), set()
            while stack:
                one = stack.pop()
                if forms[one] is Form.SQUARE:
                    names |= {one.removeprefix("value ")} if one.startswith("value ") else set()
                else:
                    stack.extend(sources.get(one, ()))
            found[key.removeprefix("value ")] = names
    return found


@given(programs())
@settings(max_examples=8, deadline=None)
def test_forward_arrows_are_the_dependences_of_named_values(program: Program) -> None:
    graph, _ = with_gradients(program, 0)
    found = drawn_reads(draw(graph, fold="none"))
    names = read_apart(graph).names  # sign(v) of sign(v) * v is dJ/dv, and has no other name
    for node, name in names.items():
        if not node.origin.transform and node.inputs:
            assert found[name] == reads(names, node), name


@given(programs())
@settings(max_examples=8, deadline=None)
def test_boxes_of_random_programs_do_not_overlap(program: Program) -> None:
    graph, _ = with_gradients(program, 0)
    for detail in ("names", "primitives"):
        shown = picture(draw(graph, fold="none", detail=detail).svg())
        assert shown.overlaps() == []


@given(programs())
@settings(max_examples=10, deadline=None)
def test_every_gradient_that_exists_is_drawn_once(program: Program) -> None:
    graph, _ = with_gradients(program, 0)
    scene = draw(graph, fold="none").scene
    squares = [look for look in scene.looks.values() if look.form is Form.SQUARE]
    names = [look.tip.split(": ")[0] for look in squares]
    for name, node in graph.names.items():
        if name.startswith("dJ/d") and graph.name_of[node] == name:
            assert names.count(name) == 1, name


@given(programs())
@settings(max_examples=8, deadline=None)
def test_dashed_arrows_begin_at_the_values_that_the_backward_pass_reads(program: Program) -> None:
    graph, _ = with_gradients(program, 0)
    scene = draw(graph, fold="none").scene
    reading = read_apart(graph)
    units = Units(reading, "names")
    given = {one.value for one in graph.gradients}  # of these it may be handed on as a gradient
    named = {node: units.sources.get(node, reading.names.get(node)) for node in given}
    read = {
        value_key(name) if name else operator_key(units.owners[node][0]): False
        for node, name in named.items()
        if name != "" and is_forward(units, node)
    }
    for statement in reading.statements:
        for node in statement.nodes if statement.during != FORWARD else ():
            for parent in node.inputs:
                value = units.resolved(parent)
                if value is None or not is_forward(units, value):
                    continue
                name = units.sources.get(value, reading.names.get(value))
                if name == "":  # a constant of the program
                    continue
                key = value_key(name) if name else operator_key(units.owners[value][0])
                read[key] = read.get(key, False) or value not in given
    sources = {kept.source for kept in scene.figure.kept}
    found = {key for key in sources if not key.startswith("constant")}
    assert found <= read.keys()
    assert {key for key, is_certain in read.items() if is_certain} <= found


def is_forward(units: Units, value: Node) -> bool:
    return value in units.sources or units.owners[value][0].during == FORWARD


@pytest.mark.parametrize("fold", ["auto", "all", "none"])
def test_folds_of_deep_calls_stay_in_order(fold: str) -> None:
    def inner(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        h = np.tanh(x * w)
        return h + x

    def outer(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        first = inner(x, w)
        return inner(first, w) * first

    def program(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        for _ in range(10):
            x = outer(x, w)
        J = np.sum(x)
        return J

    graph = cr.backward(cr.trace(program, np.zeros(3), np.zeros(3)), wrt="w")
    shown = picture(draw(graph, fold=fold).svg())
    assert shown.overlaps() == []

"""In random programs with one bad element, the first bad value is found: NumPy is the referee."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nonfinite_programs import function_of, model

import chainrule as cr
from chainrule.execute.arguments import bound_to
from chainrule.explain.nonfinite import nonfinite
from chainrule.graph.node import Node

# An expression, and an element of p (elsewhere 1 or 2) with which it, or its derivative, is bad.
PLANTED = (
    ("np.log({v} * {v} + p - p[0, 0])", None),  # fine: nothing is planted
    ("{v} + np.log(p)", 0.0),
    ("{v} / p", 0.0),
    ("{v} * np.sqrt(p)", -1.0),
    ("{v} * p**-2", 0.0),
    ("{v} + np.exp(1000 * p - 3000)", 5.0),
    ("{v} + np.sqrt(p)", 0.0),  # in the backward pass
    ("{v} * np.where(p > 0, np.log(p), 0.0)", 0.0),  # in the backward pass
    ("{v} + np.linalg.norm(p - 7)", None),
    ("{v} * p", np.nan),
    ("{v} + p", np.inf),
)
LINES = (
    "{v} * {w}",
    "{v} + {w}",
    "np.tanh({v})",
    "{v} @ {w}",
    "np.maximum({v}, {w})",
    "np.minimum({v}, 3.0)",
    "{v} - np.mean({w}, axis=1, keepdims=True)",
    "np.where({v} > {w}, {v}, 1.0)",
    "{v}.T",
    "np.sum({v}, axis=0) * {w}",
    "np.exp(-np.abs({v}))",
    "{v}[:1] + {w}",
    "np.concatenate([{v}[:1], {w}[1:]])",
)


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, np.ndarray]:
    """The source of a program of x and p, and what p is."""
    names = ["x", "x + 1"]
    lines: list[str] = []
    at = draw(st.integers(0, 4))
    template, bad = draw(st.sampled_from(PLANTED))
    for number in range(5):
        chosen = template if number == at else draw(st.sampled_from(LINES))
        values = {key: draw(st.sampled_from(names)) for key in ("v", "w")}
        values = {key: f"({one})" if " " in one else one for key, one in values.items()}
        lines.append(f"v{number} = {chosen.format(**values)}")
        names.append(f"v{number}")
    results = draw(st.lists(st.sampled_from(names[2:]), min_size=1, max_size=3, unique=True))
    total = " + ".join(f"np.sum({one})" for one in results)
    p = np.array(draw(st.lists(st.sampled_from([1.0, 2.0]), min_size=9, max_size=9))).reshape(3, 3)
    if bad is not None:
        p[draw(st.integers(0, 2)), draw(st.integers(0, 2))] = bad
    source = model("x: float64[3, 3], p: float64[3, 3]", *lines, f"J = {total}", "return J")
    return source, p


def evaluated(graph: cr.Graph, arguments: dict[str, Any]) -> dict[Node, np.ndarray]:
    """The value of every node: inputs first, then in order."""
    concrete, values = bound_to(graph, arguments)
    assert concrete is graph
    values = dict(values)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if node not in values:
                operands = [values[one] for one in node.inputs]
                values[node] = np.asarray(
                    node.primitive.evaluate(np, *operands, **dict(node.params)), node.dtype
                )
    return values


def bad_in(values: dict[Node, np.ndarray]) -> list[Node]:
    return [
        node
        for node, value in values.items()
        if value.dtype.kind == "f" and not np.isfinite(value).all()
    ]


def leading_to(targets: Iterable[Node], bad: list[Node]) -> set[Node]:
    """The bad values from which a target is reached through bad values."""
    found: set[Node] = set()
    harmful = {node for node in targets if node in bad}
    while harmful - found:
        found |= harmful
        harmful = {one for node in found for one in node.inputs if one in bad}
    return found


@settings(max_examples=20, deadline=None, derandomize=True)
@given(programs())
def test_the_first_bad_value_that_reaches_a_result_is_found(program: tuple[str, np.ndarray]):
    source, p = program
    graph = cr.backward(cr.trace(function_of(source)), wrt=("x", "p"))
    arguments = {"x": np.linspace(-0.9, 1.1, 9).reshape(3, 3), "p": p}
    values = evaluated(graph, arguments)
    bad = bad_in(values)
    targets = [node for _, node in graph.outputs] + [one.value for one in graph.gradients]
    harmful = leading_to(targets, bad)
    found = nonfinite(graph, arguments)
    assert (found is None) == (not harmful), source
    if found is None:
        return
    first = next(node for node in bad if node in harmful)
    name = graph.name_of.get(first)
    if name is not None:
        assert found.value == name, source
    assert found.place == first.origin.short()
    wrong = np.argwhere(~np.isfinite(values[first]))
    assert found.count == len(wrong)
    assert [list(index) for index in found.indices] == wrong[: len(found.indices)].tolist()
    assert all(
        np.array_equal(one.became, values[first][one.index], equal_nan=True)
        for one in found.elements
    )
    poisoned = {one.name: one.count for one in found.poisoned}
    for poison, count in poisoned.items():
        assert count == np.count_nonzero(~np.isfinite(values[graph[poison]]))
    reached = [node for node in targets if node in harmful and node in graph.name_of]
    assert first in targets or any(graph.name_of[node] in poisoned for node in reached), source


@example(0, 2)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.integers(0, 39), st.integers(0, 2))
def test_a_bad_element_in_any_layer_is_found_at_that_layer(layer: int, element: int):
    lines = [
        f"v{k} = np.tanh(v{k - 1} * 1.5)" if k != layer + 1 else f"v{k} = np.log(v{k - 1} * p)"
        for k in range(1, 41)
    ]
    source = model("v0: float64[3], p: float64[3]", *lines, "J = np.sum(v40)", "return J")
    graph = cr.backward(cr.trace(function_of(source)), wrt="v0")
    v0, p = np.array([0.9, 0.8, 0.7]), np.ones(3)
    p[element] = 0
    found = nonfinite(graph, {"v0": v0, "p": p})
    last = layer + 1 == 40
    assert found is not None
    if found.phase == "the forward pass":
        assert found.value == f"v{layer + 1}" and found.indices == ((element,),)
    assert last <= (found.phase == "the forward pass")
    assert found.place == f"model.py:{layer + 2}"

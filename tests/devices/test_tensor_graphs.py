"""The graph of a group of ranks, evaluated in lockstep, has the values of the whole graph."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from lockstep import in_lockstep, part_of
from tensor_models import MODELS, case

from chainrule.devices.tensor.choosing import Chosen, choose
from chainrule.devices.tensor.collectives import SHARDS, is_collective, reduce_scatter
from chainrule.devices.tensor.layouts import PARTIAL, WHOLE, Layout, fits
from chainrule.devices.tensor.rules import exact_rules_of, rules_of
from chainrule.devices.tensor.spreading import SpreadGraph, local_node, spread
from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.types import type_of
from chainrule.primitives.primitive import Contract, Primitive
from chainrule.primitives.registry import PRIMITIVES
from chainrule.primitives.sources import input_
from chainrule.testing.samples import sample_arrays


@dataclass
class Spread:
    """The two passes of a step, spread over a group."""

    graph: Graph
    chosen: Chosen
    given: dict[Node, Layout]
    fixed: dict[Node, Layout]
    made: SpreadGraph
    arrays: dict[str, np.ndarray]


def spread_case(model: str, ways: int, asked: Any = None) -> Spread:
    step, weights, batch = case(model, "sgd", "reference")
    parts = step.micro_batched(1)
    graph = parts.accumulating.graph.bind(n=24)
    inputs = {item.name: item.node for item in graph.inputs}
    chosen = choose(graph, graph.names[step.objective], tuple(weights), ways, asked)
    given = {inputs[name]: Layout(axis) for name, axis in chosen.axes.items()}
    fixed = {}
    arrays = {name: np.asarray(one) for name, one in {**weights, **batch}.items()}
    random = np.random.default_rng(1)
    for part in parts.accumulating.persistent:
        axis = chosen.axes[part.parameter] if part.parameter else None
        given[inputs[part.name]] = fixed[graph.names[part.next_name]] = Layout(axis)
        arrays[part.name] = random.normal(size=inputs[part.name].shape)
    for item in graph.inputs:
        arrays.setdefault(item.name, np.asarray(item.default))
    return Spread(
        graph, chosen, given, fixed, spread(graph, ways, SHARDS, given, fixed=fixed), arrays
    )


def assert_same_values(one: Spread, ways: int) -> None:
    """Every named value, joined, is that of the whole graph; whole ones have the same bits."""
    inputs = {item.name: item.node for item in one.graph.inputs}
    alone = in_lockstep(one.graph, [{name: one.arrays[name] for name in inputs}])[0]
    given = [
        {
            name: part_of(one.arrays[name], one.given.get(node, WHOLE), place, ways)
            for name, node in inputs.items()
        }
        for place in range(ways)
    ]
    ranks = in_lockstep(one.made.graph, given)
    for name, node in one.graph.names.items():
        layout = one.fixed.get(node, one.made.layouts[node])
        new = one.made.graph.names[name]
        parts = [values[new] for values in ranks]
        if layout == PARTIAL and is_collective(new):
            layout = Layout(new.param("axis") if new.primitive is reduce_scatter else None)
        if layout.axis is not None:
            found = np.concatenate(parts, layout.axis)
        elif layout.partial:
            found = sum(parts)
        else:
            found = parts[0]
            for part in parts:
                np.testing.assert_array_equal(part, found)
        scale = np.max(np.abs(alone[node]), initial=1e-300)
        np.testing.assert_allclose(found, alone[node], rtol=0, atol=2e-14 * scale, err_msg=name)


def exchanges(one: Spread) -> dict[str, int]:
    return dict(Counter(x.primitive.name for x in one.made.graph.nodes if is_collective(x)))


@pytest.mark.sweep(5)
@pytest.mark.parametrize("ways", [2, 3, 4])
@pytest.mark.parametrize("model", MODELS)
def test_parts_have_the_values_of_the_whole(model: str, ways: int) -> None:
    _, weights, _ = case(model, "sgd", "reference")
    for place in (0, -1):
        asked = {
            name: place
            for name, array in weights.items()
            if array.shape and array.shape[place] % ways == 0
        }
        assert_same_values(spread_case(model, ways, asked), ways)


@pytest.mark.parametrize(
    ("model", "ways", "axes", "counts"),
    [
        (
            "layers",
            2,
            {"W1": 1, "b1": 0, "W2": 0, "b2": None, "W3": 1, "W4": 0},
            {"all_reduce": 3},
        ),
        (
            "attention",
            4,
            {"g": None, "Wq": 1, "Wk": 1, "Wv": 1, "Wo": 0, "W1": 1, "c": 0, "W2": 0},
            {"all_reduce": 4},
        ),
        ("convolutional", 2, {"K1": None, "K2": 0, "W": 0}, {"all_reduce": 2}),
        ("dropout", 2, {"W1": 1, "W2": 0}, {"all_reduce": 1}),
    ],
)
def test_pairs_of_products_need_one_sum(
    model: str, ways: int, axes: dict[str, int], counts: dict[str, int]
) -> None:
    """Columns, then rows; heads of attention: one sum in each pass, none before the first layer."""
    one = spread_case(model, ways)
    assert one.chosen.axes == axes
    assert exchanges(one) == counts
    assert_same_values(one, ways)


def test_what_is_split_follows_what_is_asked_for() -> None:
    one = spread_case("layers", 2, {"W1": 1})
    assert one.chosen.axes == {"W1": 1, "b1": 0, "W2": 0, "b2": None, "W3": None, "W4": None}
    assert one.chosen.reasons["W1"] == "you said so"
    assert one.chosen.reasons["b1"].startswith("each rank needs only a part of it")
    whole = spread_case("layers", 2, {"W1": 1, "b1": None})
    assert whole.chosen.axes["b1"] is None and whole.chosen.axes["W2"] == 0
    assert_same_values(whole, 2)


def test_a_mask_of_dropout_has_the_bits_of_the_whole() -> None:
    one = spread_case("dropout", 2, {"W1": 1})
    masks = [node for node in one.graph.nodes if node.dtype == bool and node.ndim == 2]
    assert masks
    assert all(one.made.layouts[node] == WHOLE for node in masks)
    assert_same_values(one, 2)


@pytest.mark.parametrize(
    ("asked", "what", "hint"),
    [
        ({"w1": 0}, "split names w1, which is no parameter of the step", "perhaps W1; one of: W1"),
        ({"x": 0}, "split names x, which is no parameter", "one of: W1, b1"),
        ({"W1": 2}, "split: W1 is float64[6, 8], and has no axis 2", "W1: 0 to 1"),
        ({"W1": "rows"}, "split: the axis of W1 is 'rows'", "split={'W1': 0}, or None"),
        (["W1"], "split is ['W1']", 'split={"W1": 1}'),
        ({"b1": -2}, "split: b1 is float64[8], and has no axis -2", "b1: 0"),
        ({"W1": 0}, "split: axis 0 of W1, float64[6, 8], has no 4 equal parts", "axis 1 or ways=2"),
        ({"W4": 1}, "split: axis 1 of W4, float64[8, 3], has no 4 equal", "axis 0 or ways=3"),
        ({"b2": 0}, "split: axis 0 of b2, float64[6], has no 4 equal parts", "ways=2, 3, 6"),
    ],
)
def test_what_cannot_be_split_is_refused(asked: Any, what: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        spread_case("layers", 4, asked)
    assert what in caught.value.what and hint in str(caught.value.hint)


def test_where_nothing_can_be_split_it_is_said() -> None:
    with pytest.raises(InputError, match="ways=2, and no parameter has 2 equal parts"):
        spread_case("network", 2)


@pytest.mark.parametrize("primitive", [p for p in PRIMITIVES if p.inputs], ids=lambda p: p.name)
def test_every_rule_of_every_primitive_is_right(primitive: Primitive) -> None:
    """A node computed by a rule, on operands that lie so, has the value of the whole; by an exact
    rule its bits."""
    for sample in primitive.samples:
        shapes = tuple(tuple(2 * length for length in shape) for shape in sample.shapes)
        for one in (sample, replace(sample, shapes=shapes)):
            try:
                arrays = sample_arrays(one)
                nodes = [input_(index=at, type=type_of(array)) for at, array in enumerate(arrays)]
                node = primitive(*nodes, **dict(one.params))
                primitive.evaluate(np, *arrays, **dict(one.params))
            except (TypeError, ValueError):  # parameters that fit the sample's shapes alone
                continue
            for ways in (2, 3):
                check_rules(node, arrays, ways)


def check_rules(node: Node, arrays: list[np.ndarray], ways: int) -> None:
    """Tries each rule of a node that this many ranks can follow."""
    params = dict(node.params)
    wanted = np.asarray(node.primitive.evaluate(np, *arrays, **params), node.dtype)
    exact = set(exact_rules_of(node))
    assert exact <= {*rules_of(node)} or isinstance(node.primitive.kernel, Contract)
    for rule in {*exact, *rules_of(node)}:
        operands = [*zip(node.inputs, rule.operands, strict=True)]
        if not all(fits(one.type, at, ways) for one, at in [*operands, (node, rule.result)]):
            continue
        parts = [shared(array, at, ways) for array, (_, at) in zip(arrays, operands, strict=True)]
        found = []
        for own in zip(*parts, strict=True):
            inputs = tuple(input_(index=at, type=type_of(one)) for at, one in enumerate(own))
            local = local_node(node, inputs, rule.result, ways, node.origin)
            made = node.primitive.evaluate(np, *own, **dict(local.params))
            assert np.shape(made) == local.shape, (rule, sample_text(node))
            assert (
                node.primitive.result_type(*[one.type for one in inputs], **dict(local.params))
                == local.type
            )
            found.append(np.asarray(made, node.dtype))
        total = sum(found) if rule.result.partial else np.concatenate(found, rule.result.axis)
        if rule in exact:
            np.testing.assert_array_equal(total, wanted)
        else:
            np.testing.assert_allclose(total, wanted, rtol=1e-12, atol=1e-12)


def sample_text(node: Node) -> str:
    return f"{node.expression} of {', '.join(str(one.type) for one in node.inputs)}"


def shared(array: np.ndarray, layout: Layout, ways: int) -> list[np.ndarray]:
    """What each rank has of an array."""
    if not layout.partial:
        return [part_of(array, layout, place, ways) for place in range(ways)]
    random = np.random.default_rng(2)
    parts = [np.asarray(random.normal(size=array.shape), array.dtype) for _ in range(ways - 1)]
    return [*parts, np.asarray(array - sum(parts))]


def test_rules_are_found() -> None:
    """The test above would pass without any."""
    counts = Counter(
        type(node.primitive.kernel).__name__
        for model in MODELS
        for node in spread_case(model, 2, {}).graph.nodes
        for _ in rules_of(node)
    )
    assert {"Map", "Move", "Contract", "Fold", "Gather"} <= counts.keys()

"""Values that are computed again take the memory that their schedule says, to the byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy_memory import peak_nbytes

import chainrule as cr
from chainrule.execute.reference import evaluate
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.schedule.plain import plain_schedule
from chainrule.schedule.records import Schedule
from chainrule.schedule.turns import obeying, order_of
from chainrule.schedule.usage import usage_of
from chainrule.testing import simulate

pytestmark = pytest.mark.usefixtures("only_what_numpy_sees")
LAYERS, WIDTH = 9, 40


def deep(x: Any, W: Any) -> Any:
    for _ in range(LAYERS):
        x = np.tanh(x @ W)
    J = np.mean(x**2)
    return J


def recomputing(graph: Graph, results: list[Node], stride: int) -> list[Node]:
    """An order that stores the activations of every so many layers in forward propagation, and
    computes the others again where backpropagation first needs them."""
    order = order_of(graph, results)
    activations = [node for node in order if node.primitive.name == "tanh"]
    kept = set(activations[stride - 1 :: stride])
    loss = order.index(graph["J"])
    before = set(order[: loss + 1])
    found, there = order[: loss + 1], {node for node in before if not node.inputs} | kept
    for node in order[loss + 1 :]:
        missing = [one for one in node.inputs if one in before and one not in there]
        while missing:
            one = missing[-1]
            more = [x for x in one.inputs if x not in there and x not in missing]
            if more:
                missing += more
                continue
            found.append(missing.pop())
            there.add(found[-1])
        found.append(node)
    return found


def measured(graph: Graph, inputs: dict[Node, Any], schedule: Schedule) -> int:
    usage = usage_of(schedule, schedule.results, block=False)
    expected = usage.peak_nbytes - usage.given_nbytes
    kept = list(schedule.results)
    for _ in range(2):
        assert (
            peak_nbytes(lambda: evaluate(graph, inputs, kept, turns=obeying(schedule))) == expected
        )
    return expected


@pytest.mark.parametrize("rows", [1, 64])
def test_recomputation_takes_the_bytes_of_its_schedule(rows: int) -> None:
    random = np.random.default_rng(0)
    arguments = {"x": random.normal(size=(rows, WIDTH)), "W": random.normal(size=(WIDTH, WIDTH))}
    graph = cr.backward(cr.trace(deep, **arguments), wrt="x")
    inputs = {graph[name]: value for name, value in arguments.items()}
    results = [*dict.fromkeys(node for _, node in graph.outputs)]
    right = evaluate(graph, inputs, results)
    plain = measured(graph, inputs, plain_schedule(graph, results))
    least = plain
    for stride in (2, 3, LAYERS):
        schedule = plain_schedule(graph, results, order=recomputing(graph, results, stride))
        found = simulate(schedule)
        assert any(one.life.number for one in found.lifetimes) and not found.late
        least = min(least, measured(graph, inputs, schedule))
        again = evaluate(graph, inputs, results, turns=obeying(schedule))
        for node in results:
            np.testing.assert_array_equal(again[node], right[node])
    assert least <= plain - 3 * rows * WIDTH * 8

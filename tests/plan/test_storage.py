"""Values take over bytes in place: fewer of them, the same numbers, and wrong ones are refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from mlp import objective

import chainrule as cr
from chainrule import float32
from chainrule.errors import ScheduleError
from chainrule.execute.run import kept_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan import overwriting, planner, storage
from chainrule.plan.planner import Plan, plan
from chainrule.schedule.lifetimes import Simulation
from chainrule.schedule.placement.place import Request
from chainrule.schedule.records import SCRATCH, Free
from chainrule.testing import simulate
from chainrule.train.step.bound import results_of

SIZES = {"n": 64, "d": 256, "h": 128, "q": 10}


def checked(graph: Graph, results: Any, overwrites: Any = None) -> tuple[Plan, Simulation]:
    made = plan(graph, list(results), overwrites)
    return made, simulate(made.schedule)


def of_training(optimizer: Any) -> tuple[Graph, Plan, Simulation]:
    step = cr.training_step(objective, ("W1", "W2"), optimizer)
    graph = step.graph.bind(**SIZES)
    return graph, *checked(graph, *results_of(step, graph))


def pairs(made: Plan) -> dict[Node, Node]:
    return {node: value for one in made.computes for node, value in one.in_place}


def buffers(made: Plan) -> dict[Node, Any]:
    return {n: b for one in made.computes for n, b in zip(one.nodes, one.into, strict=True)}


def test_a_gradient_takes_the_bytes_of_what_it_is_computed_from() -> None:
    graph, made, _ = of_training(cr.sgd(0.1))
    dz, value = graph["dJ/dz"], pairs(made)[graph["dJ/dz"]]
    assert value in (graph["z"], graph["dJ/dh"])
    assert buffers(made)[dz] == buffers(made)[value]
    assert buffers(made)[dz].arena == SCRATCH


def test_scratch_holds_two_activations_at_the_peak() -> None:
    """z and h, then z and dJ/dh, of 64 × 128; dJ/dz and h, computed again, take their places."""
    _, _, found = of_training(cr.sgd(0.1))
    whole = 64 * 128 * 4
    values = [one for one in found.lifetimes if one.buffer.arena == SCRATCH]
    most = max(
        sum(one.nbytes for one in values if one.is_alive_at(number))
        for number in range(len(found.schedule.instructions))
    )
    assert 2 * whole <= most < 2.5 * whole


def test_adam_with_decay_stores_nothing_of_the_size_of_a_parameter_but_the_gradient() -> None:
    graph, made, _ = of_training(cr.adam(1e-3))
    size = int(graph["W1"].type.nbytes)
    scratch = {node for node, b in buffers(made).items() if b.arena == SCRATCH}
    (product,) = [node for node in scratch if node.type.nbytes == size]
    assert product.primitive.name in ("matmul", "contract")


def test_a_gradient_is_computed_in_the_array_of_the_result() -> None:
    graph = cr.backward(cr.trace(objective).bind(**SIZES), wrt=("W1", "W2"))
    made, found = checked(graph, kept_nodes(graph, "outputs"))
    for name in ("dJ/dW1", "dJ/dW2"):
        product = pairs(made)[graph[name]]
        assert product.primitive.name in ("matmul", "contract")
        assert buffers(made)[product] == buffers(made)[graph[name]]
        assert buffers(made)[product].arena.startswith("result")
    assert found.peak_nbytes < 3.5 * 64 * 128 * 4 + 4096


def turned(x: float32[2, 4], y: float32[4, 3], v: float32[3, 2]):
    a = x @ y
    b = np.reshape(a.T, (2, 3))
    c = np.tanh(b)
    out = c @ v + np.sum(c)
    return out


def test_a_product_that_does_not_lie_in_c_order_keeps_its_bytes() -> None:
    graph = cr.trace(turned)
    made, _ = checked(graph, [graph["out"]])
    assert made.strides[graph["a"]] == (1, 2)
    assert graph["a"] not in pairs(made).values()


def inverse(W: float32["n"]):
    W_next = (W * W + 1) ** -0.5
    v = cr.logsumexp(W_next)
    J = np.sin(v) + np.sum(W)
    return W_next, J


def test_what_could_be_computed_again_does_not_cost_a_parameter_its_place() -> None:
    """Computed again from W in a second sweep, W² + 1 would need W after it is overwritten."""
    graph = cr.trace(inverse).bind(n=5)
    made, _ = checked(graph, [graph["W_next"], graph["J"]], {graph["W"]: graph["W_next"]})
    assert made.overwrites == {graph["W"]: graph["W_next"]}


def test_empty_values_may_take_the_bytes_of_each_other() -> None:
    graph = cr.trace(lambda x: np.exp(np.tanh(x)[::-1]) * 2, np.zeros((0, 3), np.float32))
    for overwrites in ({}, {graph.inputs[0].node: graph.outputs[0][1]}):
        for keep in ("named", "outputs"):
            checked(graph, kept_nodes(graph, keep), overwrites)


def shuffled(x: float32[8, 8], W: float32[8, 8]):
    a = x @ W
    c = a - a[:1]
    d = c @ W
    return d


def test_a_value_that_later_rows_need_is_not_taken() -> None:
    graph = cr.trace(shuffled)
    made, _ = checked(graph, [graph["d"]])
    assert not pairs(made)


def test_the_simulator_finds_a_value_taken_too_early(monkeypatch: Any) -> None:
    monkeypatch.setattr(overwriting, "_may_take", lambda work, result, given: True)
    monkeypatch.setattr(overwriting, "_keeps_order", lambda work, value: True)
    graph = cr.trace(shuffled)
    with pytest.raises(ScheduleError, match="before they are read"):
        checked(graph, [graph["d"]])


def test_the_simulator_finds_a_value_that_is_read_after_its_last_moment(monkeypatch: Any) -> None:
    def shorter(nbytes: int, first: int, last: int, same_as: int | None = None) -> Request:
        return Request(nbytes, first, max(first, last - 1), same_as)

    monkeypatch.setattr(storage, "Request", shorter)
    with pytest.raises(ScheduleError):
        of_training(cr.sgd(0.1))


def test_the_simulator_finds_a_parameter_taken_too_early(monkeypatch: Any) -> None:
    monkeypatch.setattr(planner, "harmful", lambda work, taken: [])
    graph = cr.trace(lambda W: W - 0.1 * W.T, np.zeros((4, 4), np.float32))
    with pytest.raises(ScheduleError, match="before they are read"):
        checked(graph, kept_nodes(graph, "outputs"), {graph.inputs[0].node: graph.outputs[0][1]})


def test_every_value_in_scratch_ends_once() -> None:
    for optimizer in (cr.sgd(0.1), cr.sgd(0.1, momentum=0.9), cr.adam(1e-3)):
        _, made, found = of_training(optimizer)
        assert not found.late
        ends = [value for one in made.computes for _, value in one.in_place]
        ends += [one.node for one in made.schedule.instructions if isinstance(one, Free)]
        lives = [one.node for one in found.lifetimes if one.buffer.arena == SCRATCH]
        assert Counter(node for node in ends if node in lives) == Counter(lives)


def test_what_no_result_needs_is_not_computed():
    graph = cr.trace(objective).bind(**SIZES)
    o = graph["o"]
    found = plan(graph, [o], threads=1)
    simulate(found.schedule)
    computed = {node for one in found.computes for node in (*one.nodes, *one.inner)}
    assert o in computed and not computed & {graph["L"], graph["s"], graph["J"]}
    assert {item.node for item in graph.inputs} <= found.schedule.given.keys()

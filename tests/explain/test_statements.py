"""A graph read as statements: what is inside each, what it reads, and in which pass."""

from __future__ import annotations

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.explain.reading.statements import (
    FORWARD,
    UPDATE,
    Direction,
    Reading,
    Statement,
    is_repeated,
    read,
)
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

n, d, q = cr.sizes("n d q")


def objective(
    x: float32[n, d], y: int64[n], W1: float32[d, q], W2: float32[q, 3], weight_decay=1e-3
):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


GRAPH = cr.trace(objective)
STEP = cr.backward(GRAPH, wrt=("W1", "W2"))
SECOND = cr.backward(STEP, of="dJ/dW1", wrt=("W2",), seed="v")


def names(reading: Reading, nodes: tuple[Node, ...]) -> list[str]:
    """The names of values; of an unnamed one, the statement that it is inside."""
    return [
        reading.names.get(node) or f"inside {reading.statement_of[node].name}" for node in nodes
    ]


def statement(reading: Reading, name: str) -> Statement:
    (found,) = [one for one in reading.statements if one.name == name]
    return found


@pytest.mark.parametrize("graph", [GRAPH, STEP, SECOND], ids=["forward", "backward", "second"])
def test_every_computed_node_is_in_a_statement_and_those_with_arithmetic_in_one(graph: Graph):
    reading = read(graph)
    homes: dict[Node, int] = {}
    for one in reading.statements:
        for node in one.nodes:
            homes[node] = homes.get(node, 0) + 1
    assert set(homes) == set(graph.nodes) - set(reading.sources)
    assert [node for node, count in homes.items() if count > 1 and not is_repeated(node)] == []


@pytest.mark.parametrize("graph", [GRAPH, STEP, SECOND], ids=["forward", "backward", "second"])
def test_a_statement_reads_all_that_its_nodes_need_from_elsewhere_and_nothing_else(graph: Graph):
    for one in read(graph).statements:
        inside = set(one.nodes)
        needed = {parent for node in one.nodes for parent in node.inputs} - inside
        assert set(one.reads) == needed
        assert len(set(one.reads)) == len(one.reads)


def test_the_nodes_of_a_statement_are_in_topological_order():
    for one in read(SECOND).statements:
        done = set(one.reads)
        for node in one.nodes:
            assert set(node.inputs) <= done
            done.add(node)


def test_a_statement_has_the_line_of_its_name():
    line = objective.__code__.co_firstlineno + 3
    assert statement(read(GRAPH), "z").place == f"test_statements.py:{line}"


def test_forward_reads_are_the_names_of_the_source():
    reading = read(GRAPH)
    found = {one.name: names(reading, one.reads) for one in reading.statements}
    assert found == {
        "z": ["x", "W1"],
        "h": ["z"],
        "o": ["h", "W2"],
        "L": ["o", "y"],
        "s": ["weight_decay", "W1", "W2"],
        "J": ["L", "s"],
    }


def test_a_backward_statement_reads_what_forward_propagation_kept_for_it():
    reading = read(STEP)
    assert names(reading, statement(reading, "dJ/do").reads) == [
        "dJ/dL",
        "y",
        "inside L",
        "inside L",
    ]
    assert names(reading, statement(reading, "dJ/dW2").reads) == [
        "h",
        "dJ/do",
        "weight_decay",
        "W2",
    ]


def test_contributions_are_the_sum_of_the_chain_rule():
    reading = read(STEP)
    (gradient,) = reading.gradients[STEP["dJ/dW2"]]
    found = reading.contributions(gradient)
    assert [one.consumer.name for one in found] == ["o", "s"]
    assert [one.upstream for one in found] == [STEP["dJ/do"], STEP["dJ/ds"]]
    total = STEP["dJ/dW2"]
    assert [term for one in found for term in one.terms] == list(total.inputs)


def test_equal_gradients_are_one_node_of_two_variables():
    reading = read(STEP)
    found = {reading.names[one.wrt] for one in reading.gradients[STEP["dJ/dL"]]}
    assert found == {"L", "s", "J"}


def test_passes_are_forward_backward_and_backward_again():
    reading = read(SECOND)
    assert [(one.order, one.direction) for one in reading.passes] == [
        (0, Direction.FORWARD),
        (1, Direction.BACKWARD),
        (2, Direction.BACKWARD),
    ]
    assert statement(reading, "d(dJ/dW1)/dW2").during.order == 2
    assert statement(reading, "dJ/dW2").during.order == 1


def test_the_update_of_a_training_step_is_a_pass_of_its_own():
    step = cr.training_step(objective, wrt=("W1", "W2"), optimizer=cr.adam())
    reading = read(step.graph)
    assert statement(reading, "W1_next").during.direction is Direction.UPDATE
    assert statement(reading, "dJ/dW1").during.direction is Direction.BACKWARD


def test_the_update_comes_after_every_backward_pass():
    def f(x: float64, w: float64[3]):
        y = np.sum(np.tanh(x * w))
        return y

    slope = cr.backward(cr.trace(f), wrt="x")
    step = cr.training_step(slope, wrt="w", optimizer=cr.sgd(0.1), of="dy/dx")
    passes = [(one.order, one.direction) for one in read(step.graph).passes]
    assert passes == [
        (0, Direction.FORWARD),
        (1, Direction.BACKWARD),
        (2, Direction.BACKWARD),
        (1, Direction.UPDATE),
    ]


def test_sums_over_parts_of_a_batch_and_their_means_belong_to_the_update():
    step = cr.training_step(objective, wrt=("W1", "W2"), optimizer=cr.sgd(0.1))
    parts = step.micro_batched(4)
    found = {one.name: one.during for one in read(parts.accumulating.graph).statements}
    assert found["dJ/dW1"].direction is Direction.BACKWARD
    assert {name for name, one in found.items() if one == UPDATE} == {
        "J_sum_next",
        "W1_grad_sum_next",
        "W2_grad_sum_next",
    }
    reading = read(parts.updating.graph)
    assert reading.passes == (FORWARD, UPDATE)
    assert {one.name for one in reading.statements} >= {"J", "dJ/dW1", "W1_next"}


def test_a_derivative_that_a_program_returns_belongs_to_its_forward_propagation():
    def slope(x: float64[3]):
        y = cr.grad(lambda v: np.sum(np.tanh(v)))(x)
        return y

    graph = cr.trace(slope)
    assert {one.during for one in read(graph).statements} == {FORWARD}
    reading = read(cr.backward(graph, wrt="x", seed="v"))
    assert statement(reading, "dy/dx").during.order == 1


def test_a_derivative_that_the_program_itself_uses_belongs_to_forward_propagation():
    def penalty(x: float64[3], w: float64[3]):
        slope = cr.grad(lambda v: np.sum(np.tanh(v * w)))(x)
        J = np.sum(slope**2)
        return J

    assert {one.during for one in read(cr.trace(penalty)).statements} == {FORWARD}


def test_what_is_read_by_two_statements_is_inside_the_first():
    def two(x: float64[3]):
        shared = [np.exp(x)]
        a = shared[0] * 2
        b = shared[0] + 1
        return a, b

    graph = cr.trace(two)
    unnamed = graph.replace(names={k: v for k, v in graph.names.items() if "shared" not in k})
    reading = read(unnamed)
    assert [node.primitive.name for node in statement(reading, "a").inside][:1] == ["exp"]
    assert names(reading, statement(reading, "b").reads) == ["inside a"]


def test_casts_and_rearrangements_are_inside_whoever_uses_them():
    def two(x: float32[3, 4], factor=0.5):
        a = x.T @ x
        b = factor * x.T
        c = factor * x
        return a, b, c

    reading = read(cr.trace(two))
    assert [names(reading, one.reads) for one in reading.statements] == [
        ["x"],
        ["factor", "x"],
        ["factor", "x"],
    ]


def test_constants_are_sources_and_no_statements():
    table = np.arange(3.0)

    def shifted(x: float64[3]):
        out = x + table
        return out

    reading = read(cr.trace(shifted))
    assert [one.name for one in reading.statements] == ["out"]
    assert sorted(reading.sources.values()) == ["table", "x"]


def test_a_graph_that_returns_its_input_has_no_statements():
    def same(x: float64[3]):
        return x

    assert read(cr.trace(same)).statements == ()


@pytest.mark.slow
def test_a_long_chain_is_read_without_recursion():
    def chain(x: float64[3]):
        for _ in range(5000):
            x = np.tanh(x) + 1
        return x

    reading = read(cr.trace(chain))
    assert len(reading.statements) == 5000

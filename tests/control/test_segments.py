"""Loops whose states are computed again segment by segment: the same bits in fewer bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from loops import gated, sequence, weights

import chainrule as cr
from chainrule.control.scan_node import scan
from chainrule.control.segment_counts import LEAST, Segments, least_states, segments
from chainrule.control.segments import in_segments, shorter, ways_back
from chainrule.machine_code.target import native_refusal
from chainrule.primitives.arithmetic import tanh

W, U, B = weights()
EXECUTORS = ["reference"] if native_refusal() else ["reference", "native"]


def plain(W: Any, U: Any, b: Any, x: Any, h: Any) -> Any:
    h, _ = cr.scan(lambda h, x: (np.tanh(x @ U + h @ W + b), None), h, x)
    return np.sum(h * h)


def backward(W: Any, U: Any, b: Any, x: Any, h: Any) -> Any:
    h, _ = cr.scan(lambda h, x: (np.tanh(x @ U + h @ W + b), None), h, x, reverse=True)
    return np.sum(h * h)


def several(W: Any, U: Any, b: Any, x: Any, h: Any) -> Any:
    (h, c), kept = cr.scan(gated(W, U, b), (h, h), x)
    return np.sum(h * c) + np.sum(kept)


def mixed(W: Any, U: Any, b: Any, x: Any, h: Any) -> Any:
    """Carries of two dtypes, of which one counts."""

    def step(state: Any, x: Any) -> Any:
        h, count = state
        return (np.tanh(x @ U + h @ W + b) / (1 + count), count + 1), None

    (h, count), _ = cr.scan(step, (h, np.int64(0)), x)
    return np.sum(h * h) + count


def gradient(f: Any, length: int) -> tuple[Any, dict[str, np.ndarray]]:
    arguments = {"W": W, "U": U, "b": B, "x": sequence(length), "h": np.full(3, 0.1)}
    return cr.backward(cr.trace(f, **arguments), wrt="all").bind(), arguments


@pytest.mark.sweep(8)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("f", [plain, backward, several, mixed])
@pytest.mark.parametrize("length", [16, 23])
def test_values_have_the_same_bits(f: Any, length: int, executor: str) -> None:
    graph, arguments = gradient(f, length)
    expected = graph.run(**arguments, executor=executor)
    tried = 0
    for states in range(2 * LEAST, length):
        how = segments(length, states)
        if how is None:
            continue
        shorter, new = in_segments(graph, lambda way, how=how: how)
        assert [way.back for way in ways_back(shorter)] != [way.back for way in ways_back(graph)]
        run = shorter.run(**arguments, executor=executor)
        for name, node in graph.names.items():
            if name in shorter.names:
                assert shorter.names[name] is new[node]
        for name, _ in graph.outputs:
            assert run[name].tobytes() == expected[name].tobytes(), (how, name)
        tried += 1
    assert tried >= 3


@pytest.mark.slow
def test_second_derivatives_have_the_same_bits() -> None:
    def slope(W: Any, x: Any, h: Any) -> Any:
        return np.sum(cr.grad(plain)(W, U, B, x, h) ** 2)

    arguments = {"W": W, "x": sequence(20), "h": np.full(3, 0.1)}
    graph = cr.backward(cr.trace(slope, **arguments), wrt="W").bind()
    ways = ways_back(graph)
    assert ways
    shorter, _ = in_segments(graph, lambda way: segments(20, 10))
    for executor in EXECUTORS:
        run, expected = (one.run(**arguments, executor=executor) for one in (shorter, graph))
        assert run["dout/dW"].tobytes() == expected["dout/dW"].tobytes()


def test_they_keep_no_more_states_than_allowed_and_do_as_little_again_as_possible() -> None:
    for iterations in range(1, 60):
        for states in range(1, iterations):
            possible = [
                Segments(count, length, iterations - count * length)
                for count in range(LEAST, iterations)
                for length in range(LEAST, iterations // count + 1)
            ]
            possible = [one for one in possible if one.rest == 0 or one.rest >= LEAST]
            possible = [one for one in possible if one.states <= states]
            found = segments(iterations, states)
            assert (found is None) is (not possible), (iterations, states, possible)
            if found is not None:
                assert found.states <= states
                assert found.again + found.rest == iterations
                assert found.again == min(one.again for one in possible), (iterations, states)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_ten_thousand_iterations_take_the_bytes_of_two_hundred(executor: str) -> None:
    width = 16
    random = np.random.default_rng(0)
    arguments = {
        "W": random.normal(size=(width, width)) * 0.1,
        "U": random.normal(size=(2, width)),
        "b": random.normal(size=width),
        "x": random.normal(size=(10_000, 2)),
        "h": np.zeros(width),
    }
    graph = cr.backward(cr.trace(plain, **arguments), wrt="W").bind()
    (way,) = ways_back(graph)
    assert way.iterations == 10_000 and way.state_nbytes == width * 8
    shorter, _ = in_segments(graph, lambda way: segments(way.iterations, 200))
    of_states = 10_000 * way.state_nbytes
    before, after = (one.memory(executor=executor).main.peak_nbytes for one in (graph, shorter))
    assert 0 <= before - of_states < 0.2 * of_states, "states, and nothing of what became of them"
    assert after < before - of_states + 200 * way.state_nbytes + 20_000


def test_shorter_graphs_keep_fewer_and_fewer_states() -> None:
    graph, arguments = gradient(plain, 200)
    found = [*shorter(graph, sums_after=True)]
    peaks = [one.memory(executor="reference").main.peak_nbytes for one in (graph, *found)]
    assert len(found) >= 2
    assert peaks == sorted(peaks, reverse=True)
    expected = graph.run(**arguments)
    for one in found:
        run = one.run(**arguments)
        assert all(run[name].tobytes() == expected[name].tobytes() for name, _ in graph.outputs)
    count = least_states(200)
    assert segments(200, count) and not segments(200, count - 1)
    assert least_states(15) == 15 and list(shorter(gradient(plain, 15)[0], sums_after=True)) == []


def test_of_a_segment_nothing_dear_is_computed_twice() -> None:
    """The state is a tanh, and the next state: no loop back computes it from the one before."""
    graph, _ = gradient(plain, 200)
    kept, computed = ([*tanhs(one)] for one in [*shorter(graph, sums_after=True)][:2])
    assert not any(back for back, has in kept if has) and any(back for back, has in computed if has)


def tanhs(graph: Any) -> Iterator[tuple[bool, bool]]:
    """Of each loop, and of those in their bodies: whether it goes back, and has a tanh."""
    for node in graph.nodes:
        if node.primitive is scan:
            body = node.param("body").graph
            yield node.param("reverse"), any(one.primitive is tanh for one in body.nodes)
            yield from tanhs(body)


def several_finals(W: Any, U: Any, b: Any, x: Any, h: Any) -> Any:
    """Two carries, of which the backward pass reads one, and both results are read."""

    def step(state: Any, x: Any) -> Any:
        h, total = state
        return (np.tanh(x @ U + h @ W + b), total + x), None

    (h, total), _ = cr.scan(step, (h, x[0]), x)
    return np.sum(h * h) + np.sum(total)


@pytest.mark.parametrize("f", [plain, backward, mixed, several_finals])
def test_a_forward_pass_keeps_the_states_with_which_segments_begin(f: Any) -> None:
    """Of four shorter graphs the first two compute the final state once, in segments."""
    graph, arguments = gradient(f, 60)
    expected = graph.run(**arguments)
    found = [*shorter(graph, sums_after=True)]
    assert len(found) >= 8 and not len(found) % 4
    for four in (found[k : k + 4] for k in range(0, len(found), 4)):
        seconds = [sum(iterations(one)) for one in four]
        assert seconds == [seconds[0]] * 2 + [seconds[0] + 60] * 2
        for one in four:
            run = one.run(**arguments)
            assert all(run[name].tobytes() == expected[name].tobytes() for name, _ in one.outputs)


def iterations(graph: Any) -> list[int]:
    """Those of each loop, with what is done inside of it."""
    return [
        node.param("length") * max(1, sum(iterations(node.param("body").graph)))
        for node in graph.nodes
        if node.primitive.name == "scan"
    ]


def test_states_that_something_else_reads_are_kept() -> None:
    def all_states(W: Any, x: Any, h: Any) -> Any:
        _, hs = cr.scan(lambda h, x: (np.tanh(h @ W + x), np.tanh(h @ W + x)), h, x)
        return np.sum(hs * hs)

    arguments = {"W": W, "x": np.ones((20, 3)), "h": np.zeros(3)}
    graph = cr.backward(cr.trace(all_states, **arguments), wrt="W").bind()
    for way in ways_back(graph):
        assert way.there.stacked
    shorter, _ = in_segments(graph, lambda way: segments(20, 10))
    run, expected = (one.run(**arguments) for one in (shorter, graph))
    assert run["dout/dW"].tobytes() == expected["dout/dW"].tobytes()


def test_loops_without_a_way_back_and_named_lengths_are_left_alone() -> None:
    arguments = {"W": W, "U": U, "b": B, "x": sequence(30), "h": np.zeros(3)}
    forward = cr.trace(plain, **arguments)
    assert ways_back(forward) == []
    same, _ = in_segments(forward, lambda way: segments(30, 12))
    assert str(same) == str(forward)
    named = cr.trace(
        plain,
        **{name: cr.float64[*array.shape] for name, array in arguments.items() if name != "x"},
        x=cr.float64["t", 2],
    )
    assert ways_back(cr.backward(named, wrt="W")) == []

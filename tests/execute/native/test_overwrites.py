"""Results that take the arrays of inputs: their values are right whatever else reads the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executing import compare, inputs_of, planned
from namespaces import traced
from programs import Program, random_programs

import chainrule as cr
from chainrule.execute.native.program import NativeProgram

pytestmark = pytest.mark.usefixtures("every_width")

RANDOM = np.random.default_rng(3)
W, V = RANDOM.normal(size=(33, 33)), RANDOM.normal(size=(33, 33))

# W_next by W and V, and whether it can take the array of W.
UPDATES = {
    "elementwise": (lambda W, V: W - 0.1 * V, True),
    "from a product": (lambda W, V: W - 0.1 * (V @ V.T), True),
    "from a product and a sum": (lambda W, V: W - np.sum(V) * (V @ V.T), True),
    "from a product and an element": (lambda W, V: W - W[0, 0] * (V @ V.T), False),
    "from a product and its sum": (lambda W, V: W - np.sum(W) * (V @ V.T), True),
    "with decay": (lambda W, V: 0.9 * W - 0.1 * (V.T @ V), True),
    "from its own product": (lambda W, V: W @ V, False),
    "with its own product": (lambda W, V: W - 0.1 * (W.T @ V), False),
    "from its transpose": (lambda W, V: W - 0.1 * W.T, False),
    "from its transpose, transposed": (lambda W, V: W - 0.1 * np.cos(W.T.T) * V, None),
    "from its rows in another order": (lambda W, V: W[::-1] * 2 + V, False),
    "from its first row": (lambda W, V: W - W[:1], False),
    "concatenated": (lambda W, V: np.concatenate([W[1:], W[:1]]), False),
    "gathered": (lambda W, V: W[np.arange(33)[::-1].copy()] + V, True),
    "scattered": (lambda W, V: np.pad(W[1:], ((1, 0), (0, 0))), False),
    "normalised by rows": (lambda W, V: W / np.sqrt(np.sum(W**2, axis=1, keepdims=True)), None),
    "softmax": (lambda W, V: cr.softmax(W), None),
    "read after": (lambda W, V: W - 0.1 * cr.softmax(W - V) * np.sum(W, 1, keepdims=True), None),
    "normalised as a whole": (lambda W, V: W / np.sum(W**2), None),
}


@pytest.mark.sweep(7)
@pytest.mark.usefixtures("fences")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", UPDATES)
def test_an_update_has_the_references_value(name: str, threads: int) -> None:
    update, in_place = UPDATES[name]

    def both(W: Any, V: Any) -> Any:
        new = update(W, V)
        return new, np.sum(new) + np.sum(np.tanh(W) * 2, axis=0)

    for function in (update, both):
        graph = cr.trace(function, W, V)
        results = [node for _, node in graph.outputs]
        overwrites = {graph.inputs[0].node: results[0]}
        inputs = inputs_of(graph, {"W": W, "V": V})
        compare(graph, inputs, results, 1e-12, overwrites=overwrites, threads=threads)
        if in_place is not None and function is update:
            assert bool(planned(graph, results, overwrites).overwrites) == in_place


def test_two_parameters_that_exchange_their_values() -> None:
    graph = cr.trace(lambda W, V: (V * 1.0 + 1, W * 2.0), W, V)
    results = [node for _, node in graph.outputs]
    overwrites = dict(zip([item.node for item in graph.inputs], results, strict=True))
    inputs = inputs_of(graph, {"W": W, "V": V})
    compare(graph, inputs, results, 1e-12, overwrites=overwrites)


@pytest.mark.slow
@pytest.mark.sweep(2)
@random_programs(10)
def test_random_results_take_random_inputs(program: Program, seed: int) -> None:
    arguments = dict(zip(program.parameters, program.arguments(seed, {}), strict=True))
    graph = cr.trace(program.function(traced, every=True), **arguments)
    random = np.random.default_rng(seed)
    computed = [node for node in graph.names.values() if node.inputs]
    overwrites = {}
    for item in graph.inputs:
        fits = [n for n in computed if (n.shape, n.dtype) == (item.type.shape, item.type.dtype)]
        fits = [n for n in fits if n not in overwrites.values()]
        if fits:
            overwrites[item.node] = fits[int(random.integers(len(fits)))]
    results = list(dict.fromkeys([*overwrites.values(), *(node for _, node in graph.outputs)]))
    compare(graph, inputs_of(graph, arguments), results, 1e-9, overwrites=overwrites)


def test_a_result_that_is_an_input_has_its_value_from_before() -> None:
    graph = cr.trace(lambda W, V: W - 0.1 * V, W, V)
    given, other = [item.node for item in graph.inputs]
    after = graph.outputs[0][1]
    program = NativeProgram(graph, [given, after], {given: after})
    found = program({given: W, other: V})
    assert given in program.launcher.overwritten.values()
    np.testing.assert_array_equal(found[given], W)
    own = W.copy()
    found = program.overwriting({given: own, other: V})
    assert found[after] is own
    np.testing.assert_array_equal(found[given], W)
    np.testing.assert_allclose(own, W - 0.1 * V, rtol=1e-15)


def test_results_are_computed_in_arrays_that_are_given_for_them() -> None:
    """Also an empty one; what takes an input, or is one, does not need its array."""
    graph = cr.trace(lambda W, V: (W - 0.1 * V, W @ V.T, V[:0] * 2), W, V)
    given, other = [item.node for item in graph.inputs]
    after, product, nothing = [node for _, node in graph.outputs]
    program = NativeProgram(graph, [given, after, product, nothing], {given: after})
    wanted = program({given: W, other: V})
    into = {node: np.full(one.shape, 7.0) for node, one in wanted.items()}
    own = W.copy()
    found = program.overwriting({given: own, other: V}, into)
    for node in (product, nothing):
        assert found[node] is into[node] and wanted[node] is not into[node]
    assert found[after] is own and found[given] is not into[given]
    for node, one in wanted.items():
        assert found[node].tobytes() == one.tobytes()
    again = program.overwriting({given: W.copy(), other: V})
    assert again[product] is not into[product]
    assert not any(np.shares_memory(again[product], one) for one in into.values())

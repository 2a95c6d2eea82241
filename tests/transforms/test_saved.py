"""What the backward pass reads in bfloat16: which values, in how many bytes, how far it is off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import WITHIN

import chainrule as cr
from chainrule.execute.executors import in_memory, prepare
from chainrule.graph.graph import Graph
from chainrule.testing import simulate
from chainrule.transforms.saved import saved_in

BF16 = cr.bfloat16.dtype
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((24, 8), np.float32)
W = RANDOM.standard_normal((8, 8), np.float32) / 2
IMAGE = RANDOM.standard_normal((2, 2, 6, 6), np.float32)
KERNEL = RANDOM.standard_normal((3, 2, 3, 3), np.float32)
LABELS = RANDOM.integers(0, 8, 24)


def attention(x: Any, W: Any) -> Any:
    q = np.reshape(x @ W, (3, 8, 8))
    a = cr.scaled_dot_product_attention(q, q, q, is_causal=True)
    J = np.mean(a**2)
    return J


def network(act: Any) -> Any:
    def objective(x: Any, W: Any) -> Any:
        h = act(x @ W)
        g = act(h @ W)
        J = cr.cross_entropy(g @ W, LABELS)
        return J

    return objective


def looped(x: Any, W: Any) -> Any:
    """A loop whose body compares what it saves."""
    last, _ = cr.scan(lambda h, row: (np.maximum(np.max(h @ W) - h, row), h[0]), x[0], x)
    J = np.sum(last * last)
    return J


def centred(x: Any, W: Any) -> Any:
    """Reads z, and z - 100, of which little is left where it is made of a rounded z."""
    z = x @ W + 100.0
    J = np.mean(1e-9 * z * z + (z - 100.0) ** 3)
    return J


@cr.custom_derivative
def identity(v: Any) -> Any:
    return v * 1.0


identity.defvjp(lambda v: (identity(v), v), lambda v, g: (np.exp(v) * g,))


OBJECTIVES = {
    "centred": (centred, X, W),
    "sinc": (lambda x, W: np.mean(np.sinc(x @ W + 20.0)), X, W),
    "steep": (lambda x, W: np.mean(np.cosh(x @ W + 9.0)) + np.mean(np.expm1(x @ W + 9.0)), X, W),
    "powers": (lambda x, W: np.mean((1 + x @ W / 100) ** 50), X, W),
    "own rule": (lambda x, W: np.mean(identity(x @ W + 30.0)), X, W),
    "gauss": (lambda x, W: np.mean(np.exp(-((x @ W) ** 2))), X, W),
    "waves": (lambda x, W: np.mean(np.sin(x @ W + 1000.0) * np.cos(500.0 * (x @ W))), X, W),
    "relu": (network(lambda z: np.maximum(z, 0)), X, W),
    "tanh": (network(np.tanh), X, W),
    "gelu": (network(cr.gelu), X, W),
    "silu": (network(cr.silu), X, W),
    "clipped": (network(lambda z: np.clip(z, -0.5, 0.7)), X, W),
    "layer_norm": (network(lambda z: cr.layer_norm(z)), X, W),
    "softmax": (network(cr.softmax), X, W),
    "extremes of rows": (lambda x, W: np.sum(np.max(x @ W, axis=1) ** 2), X, W),
    "products of rows": (lambda x, W: np.mean(np.prod(x @ W, axis=1)), X, W),
    "attention": (attention, X, W),
    "pooled": (lambda x, w: np.sum(cr.max_pool2d(cr.conv2d(x, w), 2) ** 2), IMAGE, KERNEL),
    "looped": (looped, X, W),
    "sorted": (lambda x, W: np.sum(np.sort(x @ W, axis=1)[:, ::2] ** 3), X, W),
}


def both(case: str) -> tuple[Graph, Graph, dict[str, np.ndarray]]:
    """The graph as it is, and with rounded copies."""
    objective, *arrays = OBJECTIVES[case]
    forward = cr.trace(objective, *arrays)
    names = [item.name for item in forward.inputs]
    graph = cr.backward(forward, wrt=names)
    given = dict(zip(names, arrays, strict=True))
    return graph, saved_in(graph, forward.outputs[0][0], BF16), given


@WITHIN
@pytest.mark.parametrize("case", OBJECTIVES)
def test_gradients_are_off_by_roundings_and_the_objective_by_none(case, executor):
    graph, rounded, given = both(case)
    exact, found = graph.run(given), rounded.run(given, executor=executor)
    near = {"rtol": 0 if executor == "reference" else 1e-5}
    np.testing.assert_allclose(found.outputs[0], exact.outputs[0], **near)
    for one, other in zip(found.outputs[1:], exact.outputs[1:], strict=True):
        assert np.linalg.norm(one - other) <= 2**-6 * np.linalg.norm(other)
        assert np.max(np.abs(one - other)) <= 2**-5 * np.max(np.abs(other))


def test_which_values_are_rounded_is_seen_in_the_graph():
    _, rounded, _ = both("relu")
    copies = [name for name in rounded.names if "saved" in name]
    assert copies == ["saved", "saved_1", "saved_2"]  # x @ W, h @ W; exp of the scores
    assert all(rounded[name].dtype == BF16 for name in copies)
    _, rounded, _ = both("tanh")
    assert [name for name in rounded.names if "saved" in name] == ["h_saved", "g_saved", "saved"]


def test_float64_which_may_be_out_of_the_range_of_bfloat16_stays():
    graph = cr.backward(cr.trace(network(np.tanh), X.astype(float), W.astype(float)), wrt="W")
    assert saved_in(graph, graph.outputs[0][0], BF16) is graph


def test_nothing_changes_where_nothing_is_wider():
    graph = cr.backward(cr.trace(network(np.tanh), X.astype(BF16), W.astype(BF16)), wrt="W")
    assert saved_in(graph, graph.outputs[0][0], BF16) is graph


def deep(x: Any, Ws: Any) -> Any:
    h = x
    for one in Ws:
        h = np.maximum(h @ one, 0)
    J = np.sum(h * h)
    return J


@WITHIN
def test_plans_keep_two_bytes_an_element_and_are_sound(executor):
    types = {"x": cr.float32["n 64"], "Ws": [cr.float32[64, 64]] * 6}
    forward = cr.trace(deep, **types)
    graph = cr.backward(forward, wrt="Ws").bind(n=1000)
    rounded = saved_in(graph, "J", BF16)
    peaks = []
    for one in (graph, rounded):
        made = in_memory(executor, one, lambda form: ([node for _, node in form.outputs], {}))
        schedule = prepare(executor, made, [node for _, node in made.outputs]).schedule({})
        simulate(schedule)
        peaks.append(one.memory(executor=executor).main.peak_nbytes)
    assert peaks[1] < 0.85 * peaks[0]


def test_a_step_trains_with_them_also_in_parts():
    step = cr.training_step(network(np.tanh), "W", cr.sgd(0.1), saved="bfloat16", x=X, W=W)
    plain = cr.training_step(network(np.tanh), "W", cr.sgd(0.1), x=X, W=W)
    states = [one.init(W=W) for one in (step, plain)]
    for _ in range(5):
        found, exact = (float(s(t, x=X)) for s, t in zip((step, plain), states, strict=True))
        assert abs(found - exact) <= 1e-3 * exact
    assert step.saved == BF16
    with pytest.raises(cr.errors.InputError, match=r"saved='float64': .* or in bfloat16\n.*saved="):
        cr.training_step(network(np.tanh), "W", cr.sgd(0.1), saved="float64", x=X, W=W)


def tanh_of_two(x: Any, W: Any) -> Any:
    h = np.tanh(x @ W)
    J = np.sum(h @ W)
    return J


def test_the_memory_report_says_what_is_saved_and_for_what() -> None:
    types = {"x": cr.float32["n 64"], "W": cr.float32[64, 64]}
    step = cr.training_step(
        tanh_of_two, "W", cr.sgd(0.1), saved="bfloat16", executor="native", **types
    )
    report = step.memory(n=512)
    copy = report.values["h_saved"]
    assert copy.kind == "saved intermediates" and copy.nbytes == 2 * 512 * 64
    assert "dJ/dW = xᵀ (dJ/dh ⊙ ...) + h_savedᵀ 1 needs it" in str(report)
    at_peak = copy.made_at <= report.main.peak_instruction <= copy.last_needed_at
    assert report.main.parts["saved intermediates"] == (copy.nbytes if at_peak else 0)

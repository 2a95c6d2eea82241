"""vmap is a loop over examples, in one graph whose size does not depend on the batch."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from executors import EITHER
from finite_differences import close, differences

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, TypeSpecError

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(5, 3))
Y = RANDOM.normal(size=(5, 2))
W = RANDOM.normal(size=(3, 2))
Pair = namedtuple("Pair", "a b")


@dataclass
class Layer:
    W: Any
    b: Any


def loss(W: Any, x: Any, y: Any) -> Any:
    return np.sum((np.tanh(x @ W) - y) ** 2)


def looped(function: Any, count: int, *rows: Any) -> np.ndarray:
    return np.stack([function(*[row[i] for row in rows]) for i in range(count)])


# Values -----------------------------------------------------------------------------------------


@EITHER
def test_it_is_a_loop(executor: str) -> None:
    found = cr.vmap(loss, in_axes=(None, 0, 0), executor=executor)(W, X, Y)
    close(found, looped(lambda x, y: loss(W, x, y), 5, X, Y))


@pytest.mark.parametrize("count", [1, 0])
def test_batches_of_one_and_of_none(count: int) -> None:
    found = cr.vmap(loss, in_axes=(None, 0, 0))(W, X[:count], Y[:count])
    assert found.shape == (count,) and found.dtype == np.float64
    close(found, [loss(W, x, y) for x, y in zip(X[:count], Y[:count], strict=True)])
    gradients = cr.vmap(cr.grad(loss), in_axes=(None, 0, 0))(W, X[:count], Y[:count])
    assert gradients.shape == (count, 3, 2)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_every_axis_in_and_out(axis: int) -> None:
    x = RANDOM.normal(size=(2, 3, 4))

    def f(x: Any) -> Any:
        return x * np.sum(x, axis=0)

    examples = np.moveaxis(x, axis, 0)
    expected = np.stack([one * np.sum(one, axis=0) for one in examples])
    close(cr.vmap(f, in_axes=axis)(x), expected)
    close(cr.vmap(f, in_axes=axis, out_axes=axis)(x), np.moveaxis(expected, 0, axis))


def test_examples_without_axes() -> None:
    x = RANDOM.normal(size=4)
    close(cr.vmap(np.sin)(x), np.sin(x))
    close(cr.vmap(lambda x: x * 2.0 + 1)(x), x * 2 + 1)


def test_integers_and_booleans_are_mapped_and_given() -> None:
    table, indices = RANDOM.normal(size=(7, 2)), np.array([3, 0, 6])
    close(cr.vmap(lambda t, i: t[i], in_axes=(None, 0))(table, indices), table[indices])
    order = cr.vmap(lambda x: x > np.mean(x))(X)
    assert order.dtype == np.bool_
    assert np.array_equal(order, X > np.mean(X, axis=1, keepdims=True))
    counts = cr.vmap(lambda i: i * 2)(indices)
    assert counts.dtype == np.int64 and counts.tolist() == [6, 0, 12]
    found = cr.vmap(lambda x, flag: np.where(flag, x, -x))(X, np.array([True, False] * 2 + [True]))
    close(found, X * np.array([[1], [-1], [1], [-1], [1]]))


def test_what_no_mapped_array_reaches_is_computed_once() -> None:
    def f(W: Any, x: Any) -> Any:
        return x @ np.tanh(W), np.sum(W)

    def program(W: float64["3 2"], x: float64["n 3"]) -> Any:
        return cr.vmap(f, in_axes=(None, 0), out_axes=(0, None))(W, x)

    graph = cr.trace(program)
    types = {node.primitive.name: str(node.type) for node in graph.nodes}
    assert types["tanh"] == "float64[3, 2]" and types["matmul"] == "float64[n, 2]"
    product, total = cr.vmap(f, in_axes=(None, 0), out_axes=(0, None))(W, X)
    close(product, X @ np.tanh(W))
    assert total.shape == ()
    repeated = cr.vmap(f, in_axes=(None, 0))(W, X)[1]
    close(repeated, np.full(5, np.sum(W)))
    close(cr.vmap(lambda x: 2.0)(X), np.full(5, 2.0))


def test_keywords_are_mapped_along_the_first_axis() -> None:
    close(cr.vmap(lambda x, *, y: np.sum(x) * y)(X, y=Y), np.sum(X, axis=1)[:, None] * Y)


def test_strings_and_flags_are_passed_as_they_are() -> None:
    def f(x: Any, mode: str, double: bool = False) -> Any:
        return (np.sum(x) if mode == "sum" else np.mean(x)) * (2 if double else 1)

    close(cr.vmap(f)(X, "sum"), np.sum(X, axis=1))
    close(cr.vmap(f)(X, "mean", double=True), 2 * np.mean(X, axis=1))
    close(cr.vmap(lambda x, y=3.0: np.sum(x) * y, in_axes=(0,))(X), 3 * np.sum(X, axis=1))


def test_array_types_are_those_of_one_example() -> None:
    def f(x: float64["n"], y: float64["n"]) -> Any:
        return np.sum(x * y)

    y = np.array([1.0, 2.0, 3.0])
    close(cr.vmap(f, in_axes=(0, None))(X, y), X @ y)
    with pytest.raises(TypeSpecError, match="the argument x of f has no array type") as caught:
        cr.trace(cr.vmap(f, in_axes=(0, None)))
    assert "test_vmap.py" in str(caught.value)
    graph = cr.trace(cr.vmap(f, in_axes=(0, None)), float64["b n"], float64["n"])
    close(graph.run(x=X, y=y).outputs, X @ y)


def test_an_axis_may_be_an_integer_of_numpy() -> None:
    close(cr.vmap(np.sum, in_axes=np.int64(1))(X), np.sum(X, axis=0))


def test_a_positional_argument_that_is_given_by_keyword() -> None:
    close(cr.vmap(lambda x, y: np.sum(x) * y, in_axes=(0,))(X, y=Y), looped_product())
    close(cr.vmap(lambda x, y: np.sum(x) * y, in_axes=())(y=Y, x=X), looped_product())


def looped_product() -> np.ndarray:
    return np.sum(X, axis=1)[:, None] * Y


def test_python_numbers_that_are_not_mapped() -> None:
    close(cr.vmap(lambda x, k: np.sum(x) ** k, in_axes=(0, None))(X, 2), np.sum(X, axis=1) ** 2)


# Containers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "axes", "part"),
    [
        ({"a": X, "b": W}, {"a": 0, "b": None}, lambda p: (p["a"], p["b"])),
        ([X, W], [0, None], lambda p: (p[0], p[1])),
        ((X, W), (0, None), lambda p: (p[0], p[1])),
        (Pair(X, W), Pair(0, None), lambda p: (p.a, p.b)),
        (Layer(X, W), Layer(0, None), lambda p: (p.W, p.b)),
        ({"a": [X, X.T], "b": W}, {"a": [0, 1], "b": None}, lambda p: (p["a"][1], p["b"])),
        ({"a": (X, X), "b": W}, {"a": 0, "b": None}, lambda p: (p["a"][1], p["b"])),
    ],
)
def test_axes_are_given_as_the_argument_is(value: Any, axes: Any, part: Any) -> None:
    def f(p: Any) -> Any:
        x, W = part(p)
        return np.tanh(x @ W)

    close(cr.vmap(f, in_axes=(axes,))(value), np.tanh(X @ W))


def test_results_have_the_containers_of_the_function() -> None:
    def f(x: Any) -> Any:
        return {"sum": np.sum(x), "parts": Pair(x, [x[0], x * x])}

    found = cr.vmap(f, out_axes={"sum": 0, "parts": Pair(1, [0, -1])})(X)
    close(found["sum"], np.sum(X, axis=1))
    close(found["parts"].a, X.T)
    close(found["parts"].b[0], X[:, 0])
    close(found["parts"].b[1], (X * X).T)


# Derivatives ------------------------------------------------------------------------------------


def test_gradients_of_every_example() -> None:
    found = cr.vmap(cr.grad(loss), in_axes=(None, 0, 0))(W, X, Y)
    assert found.shape == (5, 3, 2)
    for one, x, y in zip(found, X, Y, strict=True):
        close(one, differences(lambda W: loss(W, x, y), W), 1e-7)  # noqa: B023
    close(np.sum(found, axis=0), cr.grad(loss)(W, X, Y))


def test_the_gradient_of_a_mapped_function() -> None:
    def mean_loss(W: Any) -> Any:
        return np.mean(cr.vmap(loss, in_axes=(None, 0, 0))(W, X, Y))

    close(cr.grad(mean_loss)(W), differences(mean_loss, W), 1e-7)
    by_hand = cr.hvp(lambda W: loss(W, X, Y) / 5, W, np.ones_like(W))
    close(cr.hvp(mean_loss, W, np.ones_like(W)), by_hand)


def test_values_and_gradients_of_every_example() -> None:
    values, gradients = cr.vmap(cr.value_and_grad(loss, wrt=1), in_axes=(None, 0, 0))(W, X, Y)
    close(values, looped(lambda x, y: loss(W, x, y), 5, X, Y))
    close(gradients, cr.grad(lambda x: loss(W, x, Y))(X))


def test_tangents_and_cotangents_of_every_example() -> None:
    moves = RANDOM.normal(size=X.shape)
    f = lambda x: np.tanh(x @ W)  # noqa: E731
    value, tangent = cr.vmap(lambda x, v: cr.jvp(f, (x,), (v,)))(X, moves)
    close(value, f(X))
    close(tangent, (1 - f(X) ** 2) * (moves @ W))

    def pulled(x: Any, seed: Any) -> Any:
        _, pull = cr.vjp(f, x)
        return pull(seed)[0]

    close(cr.vmap(pulled)(X, Y), ((1 - f(X) ** 2) * Y) @ W.T)


def test_it_nests() -> None:
    x, y = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(2, 3))
    table = cr.vmap(cr.vmap(np.dot, in_axes=(None, 0)), in_axes=(0, None))(x, y)
    close(table, x @ y.T)
    close(
        cr.vmap(cr.vmap(lambda a: np.sin(a) * 2, in_axes=1, out_axes=1))(X[None]),
        2 * np.sin(X[None]),
    )
    second = cr.vmap(cr.vmap(cr.grad(cr.grad(lambda a: np.sin(a) * a))))(X)
    close(second, 2 * np.cos(X) - X * np.sin(X))


def test_an_inner_map_sees_the_outer_example_as_its_own() -> None:
    def f(x: Any) -> Any:
        return np.sum(cr.vmap(lambda w: np.sum(x * w), in_axes=1)(W) ** 2)

    close(cr.vmap(f)(X), np.sum((X @ W) ** 2, axis=1))
    close(cr.vmap(cr.grad(f))(X), 2 * X @ W @ W.T)
    closed = lambda x: np.sum(cr.vmap(lambda v: np.sum(v) * x)(Y))  # noqa: E731  numbers and x
    close(cr.grad(closed)(2.0), np.sum(Y))


def test_a_composite_with_branches_in_every_example() -> None:
    labels = np.array([0, 1, 1, 0, 1])

    def one(W: Any, x: Any, label: Any) -> Any:
        return cr.cross_entropy((x @ W)[None], label[None])

    values = cr.vmap(one, in_axes=(None, 0, 0))(W, X, labels)
    close(np.mean(values), cr.cross_entropy(X @ W, labels))
    gradients = cr.vmap(cr.grad(one), in_axes=(None, 0, 0))(W, X, labels)
    close(np.mean(gradients, axis=0), cr.grad(lambda W: cr.cross_entropy(X @ W, labels))(W))


# Random keys ------------------------------------------------------------------------------------


def test_every_example_draws_from_its_own_key() -> None:
    keys = cr.random.split(cr.random.key(3), 5)
    found = cr.vmap(lambda key, x: x + cr.random.normal(key, (3,), np.float64))(keys, X)
    alone = [x + cr.random.normal(key, (3,), np.float64) for key, x in zip(keys, X, strict=True)]
    assert np.array_equal(found, alone)
    dropped = cr.vmap(lambda key, x: cr.dropout(x, 0.5, key=key))(keys, X)
    assert np.array_equal(
        dropped, [cr.dropout(x, 0.5, key=k) for k, x in zip(keys, X, strict=True)]
    )


# Graphs -----------------------------------------------------------------------------------------


def traced(rows: Any) -> cr.Graph:
    def program(W: Any, x: Any, y: Any) -> Any:
        return cr.vmap(cr.grad(loss), in_axes=(None, 0, 0))(W, x, y)

    return cr.trace(program, float64["3 2"], float64[rows, 3], float64[rows, 2])


def test_a_graph_is_as_large_for_every_batch() -> None:
    assert len(traced(1).nodes) == len(traced(2).nodes) == len(traced(10**6).nodes)
    assert len(traced("n").nodes) == len(traced(2).nodes)


@EITHER
def test_batches_with_named_sizes(executor: str) -> None:
    graph = traced("n")
    assert graph.sizes == ("n",)
    for count in (1, 2, 5):
        run = graph.run(W=W, x=X[:count], y=Y[:count], executor=executor)
        close(run.outputs, looped(lambda x, y: cr.grad(loss)(W, x, y), count, X, Y))


def layer(x: Any, W: Any) -> Any:
    z = x @ W
    h = cr.softmax(z)
    return h


def model(x: float64["n 3"], W: float64["3 2"]) -> Any:
    h = cr.vmap(layer, in_axes=(0, None))(x, W)
    low, high = cr.vmap(lambda row: (np.min(row), np.max(row)))(h)
    J = np.mean(high - low)
    return J


def test_names_are_those_of_the_program() -> None:
    graph = cr.backward(cr.trace(model), wrt="W")
    assert {"h", "low", "high", "J", "layer.z", "dJ/dh", "dJ/dW"} <= set(graph.names)
    assert str(graph["layer.z"].type) == "float64[n, 2]" == str(graph["h"].type)
    run = graph.run(x=X, W=W)
    close(run["layer.z"], X @ W)
    close(run["h"], cr.softmax(X @ W))
    assert "x @ W" in graph["layer.z"].origin.describe()


def test_numpys_functions_take_no_name_that_is_the_results() -> None:
    def program(x: float64["2 3 n"]) -> Any:
        s = cr.vmap(np.sin, in_axes=1, out_axes=1)(x)
        return s

    graph = cr.trace(program)
    assert set(graph.names) == {"x", "s"} and graph["s"] is graph.outputs[0][1]


def test_a_trace_goes_on_after_an_error() -> None:
    def program(x: float64["n 3"]) -> Any:
        for wrong in (lambda: cr.vmap(np.sin, in_axes=5)(x), lambda: cr.vmap(np.dot)(x, 1)):
            with pytest.raises(InputError):
                wrong()
        after = x * 2
        return after

    assert "after" in cr.trace(program).names


def test_a_mapped_program_is_drawn_and_written() -> None:
    graph = cr.backward(cr.trace(model), wrt="W")
    assert "softmax" in str(graph.equations()) and "<svg" in graph.draw().svg()
    names: dict[str, Any] = {}
    exec(graph.python(name="by_hand"), names)
    close(names["by_hand"](X, W)[1], graph.run(x=X, W=W)["dJ/dW"])
    assert graph.nonfinite(x=X, W=W) is None
    assert graph.memory(n=5).training is not None


def test_it_compiles() -> None:
    f = cr.compile(cr.vmap(cr.grad(loss), in_axes=(None, 0, 0)))
    for _ in range(2):
        close(f(W, X, Y), looped(lambda x, y: cr.grad(loss)(W, x, y), 5, X, Y))


# Peers ------------------------------------------------------------------------------------------


@pytest.mark.sweep(3)
@pytest.mark.peers
@pytest.mark.parametrize("in_axes", [(0, None), (0, 0), (1, 0), (-1, -2), (None, 1), 0, [0, 0]])
@pytest.mark.parametrize("out_axes", [0, 1, -1, (0, -1)])
def test_axes_mean_what_they_mean_in_jax(in_axes: Any, out_axes: Any) -> None:
    jax = pytest.importorskip("jax")
    a, b = RANDOM.normal(size=(4, 4, 4)), RANDOM.normal(size=(4, 4))

    def f(a: Any, b: Any) -> Any:
        return (a.T @ b * a.sum()), (a * b).T

    in_axes_of_jax = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    with jax.enable_x64(True):
        expected = jax.vmap(f, in_axes=in_axes_of_jax, out_axes=out_axes)(a, b)
    found = cr.vmap(f, in_axes=in_axes, out_axes=out_axes)(a, b)
    for one, other in zip(found, expected, strict=True):
        close(one, other, 1e-10)


@pytest.mark.parametrize(
    ("left", "right"), [((5, 3), (3,)), ((3,), (3,)), ((3,), (3, 2)), ((5, 3), (3, 2))]
)
def test_a_shared_matrix_times_vectors_is_one_product(left, right) -> None:
    random = np.random.default_rng(0)
    W, V = random.standard_normal(left), random.standard_normal((7, *right))

    def together(W, V):
        return cr.vmap(lambda W, v: W @ v, in_axes=(None, 0))(W, V)

    expected = np.stack([W @ v for v in V])
    np.testing.assert_allclose(together(W, V), expected, rtol=1e-13)
    weights = random.standard_normal(expected.shape)
    dW, dV = cr.grad(lambda W, V: np.sum(weights * together(W, V)), (0, 1))(W, V)
    parts = [cr.grad(lambda W, v, c=c: np.sum(c * (W @ v)), (0, 1))(W, v)
             for c, v in zip(weights, V, strict=True)]  # fmt: skip
    np.testing.assert_allclose(dW, sum(part[0] for part in parts), rtol=1e-12)
    np.testing.assert_allclose(dV, np.stack([part[1] for part in parts]), rtol=1e-12)
    if len(right) == 1:  # nothing is as large as a copy of W for each vector
        graph = cr.backward(cr.trace(lambda W, V: np.sum(together(W, V)), W, V), wrt="W")
        assert max(node.type.size for node in graph.nodes) <= max(W.size, V.size, 7 * 5)

"""`cr.scan` gives what Python's loop gives, and so do its derivatives of every order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops import cell, close, gated, sequence, unrolled, weights

import chainrule as cr
from chainrule import float64
from chainrule.errors import ForeignValueError

START = np.array([0.3, -0.2, 0.1])
Array = Any
PLACES = ("W", "U", "b", "h", "xs")


def with_scan(W: Array, U: Array, b: Array, h: Array, xs: Array, reverse: bool = False) -> Array:
    last, hs = cr.scan(cell(W, U, b), h, xs, reverse=reverse)
    weight = np.linspace(0.5, 1.5, hs.shape[0])[:, None]
    J = np.sum(np.sin(hs) * weight) + np.sum(last**2)
    return J


def with_python(W: Array, U: Array, b: Array, h: Array, xs: Array, reverse: bool = False) -> Array:
    last, hs = unrolled(cell(W, U, b), h, xs, reverse)
    weight = np.linspace(0.5, 1.5, hs.shape[0])[:, None]
    return np.sum(np.sin(hs) * weight) + np.sum(last**2)


def gated_scan(W: Array, U: Array, b: Array, h: Array, xs: Array, reverse: bool = False) -> Array:
    (h, c), s = cr.scan(gated(W, U, b), (h, h * 2), xs, reverse=reverse)
    return np.sum(np.sin(s)) + np.sum(h * c)


def gated_python(W: Array, U: Array, b: Array, h: Array, xs: Array, reverse: bool = False) -> Array:
    (h, c), s = unrolled(gated(W, U, b), (h, h * 2), xs, reverse)
    return np.sum(np.sin(s)) + np.sum(h * c)


PAIRS = {"cell": (with_scan, with_python), "gated": (gated_scan, gated_python)}
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
EVERY_LENGTH = pytest.mark.parametrize("length", [1, 2, 5])


@pytest.mark.sweep(7)
@EVERY_PAIR
@EVERY_LENGTH
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("executor", ["reference", "native"])
def test_values_and_gradients_are_those_of_the_unrolled_loop(
    pair: Any, length: int, reverse: bool, executor: str
) -> None:
    loop, python = pair
    arguments = (*weights(), START, sequence(length), reverse)
    value, gradients = cr.value_and_grad(loop, range(5), executor=executor)(*arguments)
    expected, others = cr.value_and_grad(python, range(5), executor=executor)(*arguments)
    assert close(value, expected)
    for got, other in zip(gradients, others, strict=True):
        assert close(got, other)


@pytest.mark.sweep(5)
@EVERY_PAIR
@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("reverse", [False, True])
def test_second_derivatives_are_those_of_the_unrolled_loop(
    pair: Any, length: int, reverse: bool
) -> None:
    loop, python = pair
    arguments = (*weights(), START, sequence(length), reverse)
    directions = tuple(np.cos(one) for one in arguments[:5])

    def both(f: Any) -> list[Any]:
        def of_gradient(*arguments: Any) -> Any:
            return sum(np.sum(np.sin(one)) for one in cr.grad(f, range(5))(*arguments))

        def fixed(*arguments: Any) -> Any:
            return f(*arguments, reverse)

        return [
            *cr.grad(of_gradient, range(5))(*arguments),
            *cr.hvp(fixed, arguments[:5], directions),
            cr.jvp(fixed, arguments[:5], directions)[1],
            cr.jvp(lambda *a: cr.jvp(fixed, a, directions)[1], arguments[:5], directions)[1],
        ]

    for got, expected in zip(both(loop), both(python), strict=True):
        assert close(got, expected, 512)


def test_third_derivatives_of_a_number() -> None:
    def loop(x: Any) -> Any:
        return cr.scan(lambda c, k: (np.sin(c * x) + k, None), x, np.arange(3.0))[0]

    def python(x: Any) -> Any:
        c = x
        for k in np.arange(3.0):
            c = np.sin(c * x) + k
        return c

    got, expected = (cr.grad(cr.grad(cr.grad(f)))(0.7) for f in (loop, python))
    assert close(got, expected, 512)


@pytest.mark.parametrize("length", [0, 1])
def test_short_loops_and_their_gradients(length: int) -> None:
    W, U, b = weights()

    def last(h: Any, xs: Any) -> Any:
        h, hs = cr.scan(cell(W, U, b), h, xs)
        assert hs.shape == (length, 3)
        return np.sum(h**2) + np.sum(hs)

    xs = sequence(length)
    dh, dxs = cr.grad(last, (0, 1))(START, xs)
    assert dxs.shape == xs.shape
    if length == 0:
        assert np.array_equal(dh, 2 * START)
        ys = cr.scan(cell(W, U, b), START, xs)[1]
        assert ys.shape == (0, 3)


def test_a_loop_of_numbers_needs_no_xs() -> None:
    last, ys = cr.scan(lambda c, _: (c * 2, c), 1.0, length=4)
    assert last == 16.0
    assert np.array_equal(ys, [1.0, 2.0, 4.0, 8.0])


def test_carries_of_several_dtypes_are_each_what_python_gives() -> None:
    def step(state: Any, x: Any) -> Any:
        count, seen, total = state
        total = total + np.where(seen, x, 0)
        return (count + 1, x > 0, total), {"count": count, "positive": x > 0, "total": total}

    xs = np.array([1.0, -2.0, 3.0, 4.0], np.float32)
    start = (np.int64(0), np.array(True), np.float32(0))
    (count, seen, total), ys = cr.scan(step, start, xs)
    assert (count, seen, total) == (4, True, 3.0)
    assert [one.dtype.name for one in (count, seen, total)] == ["int64", "bool", "float32"]
    assert np.array_equal(ys["count"], [0, 1, 2, 3])
    assert np.array_equal(ys["positive"], xs > 0)
    assert np.array_equal(ys["total"], [1, -1, -1, 3])
    gradient = cr.grad(lambda xs: cr.scan(step, start, xs)[0][2])(xs)
    assert np.array_equal(gradient, [1.0, 1.0, 0.0, 1.0])


def test_a_result_of_one_dtype_has_only_what_it_needs() -> None:
    def step(state: Any, x: Any) -> Any:
        count, total = state
        return (count + 1, total + x), None

    graph = cr.trace(lambda xs: cr.scan(step, (np.int64(0), 0.0), xs)[0][1], float64["n"])
    (scan,) = [node for node in graph.nodes if node.primitive.name == "scan"]
    assert scan.param("carries") == 1
    assert {node.dtype.name for node in scan.param("body").graph.nodes} == {"float64"}


def test_what_no_step_changes_is_read_and_not_carried() -> None:
    def step(state: Any, x: Any) -> Any:
        scale, total = state
        return (scale, total + scale * x), None

    graph = cr.trace(lambda scale, xs: cr.scan(step, (scale, 0.0), xs)[0], 2.0, np.ones(3))
    (scan,) = [node for node in graph.nodes if node.primitive.name == "scan"]
    assert (scan.param("constants"), scan.param("carries")) == (1, 1)
    assert graph.outputs[0][1] is graph["scale"]


def test_python_numbers_take_the_type_that_a_step_gives() -> None:
    xs = np.ones(3, np.float32)
    last, _ = cr.scan(lambda c, x: (c + x, None), 0, xs)
    assert (last.dtype, float(last)) == (np.float32, 3.0)
    last, _ = cr.scan(lambda c, x: (c + 1, None), 0, xs)
    assert (last.dtype, int(last)) == (np.int64, 3)
    graph = cr.trace(lambda xs: cr.scan(lambda c, x: (c + 1, None), 0, xs)[0] * xs, xs)
    assert graph.outputs[0][1].dtype == np.float32  # a counter is a number, and widens nothing


def test_containers_go_everywhere() -> None:
    def step(carry: Any, x: Any) -> Any:
        return {"a": carry["a"] + x["u"], "b": [carry["b"][0] * x["v"]]}, (carry["a"], x["v"])

    xs = {"u": np.arange(3.0), "v": np.full(3, 2.0)}
    carry, (a, v) = cr.scan(step, {"a": 0.0, "b": [1.0]}, xs)
    assert (carry["a"], carry["b"][0]) == (3.0, 8.0)
    assert np.array_equal(a, [0.0, 0.0, 1.0])
    assert np.array_equal(v, xs["v"])


def test_a_loop_in_a_loop_and_its_second_derivative() -> None:
    def inner(a: Any, c: Any, xs: Any, loop: Any) -> Any:
        return loop(lambda s, x: (np.sin(s * a + x), s), c, xs)

    def outer(a: Any, xs: Any, loop: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            last, ys = inner(a * c, c, x, loop)
            return last, np.sum(ys)

        last, ys = loop(step, a, xs)
        return last + np.sum(ys**2)

    xs = np.random.default_rng(0).normal(size=(3, 4))
    for order in (
        lambda f: cr.grad(f, (0, 1)),
        lambda f: cr.grad(lambda a, xs: np.sum(cr.grad(f, 1)(a, xs) ** 2), (0, 1)),
    ):
        got = order(lambda a, xs: outer(a, xs, cr.scan))(0.8, xs)
        expected = order(lambda a, xs: outer(a, xs, unrolled))(0.8, xs)
        assert all(close(*pair, 512) for pair in zip(got, expected, strict=True))


def test_a_gradient_inside_of_a_step_inside_of_a_gradient() -> None:
    def descend(rate: Any, x: Any, loop: Any) -> Any:
        def step(w: Any, target: Any) -> Any:
            loss, slope = cr.value_and_grad(lambda w: np.sum((np.sin(w) - target) ** 2))(w)
            return w - rate * slope, loss

        w, losses = loop(step, x, np.linspace(0, 1, 5))
        return np.sum(w**2) + np.sum(losses)

    x = np.array([0.3, 1.2])
    got = cr.grad(lambda rate, x: descend(rate, x, cr.scan), (0, 1))(0.1, x)
    expected = cr.grad(lambda rate, x: descend(rate, x, unrolled), (0, 1))(0.1, x)
    assert all(close(*pair, 512) for pair in zip(got, expected, strict=True))


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_a_batched_loop_is_a_loop_over_the_batch(axes: tuple[Any, Any]) -> None:
    W, U, b = weights()

    def program(h: Any, xs: Any) -> Any:
        (h, c), s = cr.scan(gated(W, U, b), (h, h * 0 + 1), xs, reverse=True)
        return h, c, s

    many = np.stack([START, START + 1]), np.stack([sequence(4), sequence(4, 7)])
    given = [a if axis == 0 else a[0] for a, axis in zip(many, axes, strict=True)]
    got = cr.vmap(program, axes)(*given)
    loop = [
        program(*(a[i] if axis == 0 else a for a, axis in zip(given, axes, strict=True)))
        for i in range(2)
    ]
    for place, one in enumerate(got):
        assert close(one, np.stack([row[place] for row in loop]))
    gradient = cr.vmap(cr.grad(lambda h, xs: np.sum(program(h, xs)[2] ** 2), (0, 1)), axes)(*given)
    for i in range(2):
        one = [a[i] if axis == 0 else a for a, axis in zip(given, axes, strict=True)]
        expected = cr.grad(lambda h, xs: np.sum(program(h, xs)[2] ** 2), (0, 1))(*one)
        assert all(close(g[i], e, 512) for g, e in zip(gradient, expected, strict=True))


def test_fori_loop_counts_as_python_does() -> None:
    x = np.ones(2, np.float32)
    got = cr.fori_loop(2, 5, lambda i, v: v * i, x)
    assert got.dtype == np.float32
    assert np.array_equal(got, [24.0, 24.0])
    assert cr.fori_loop(5, 2, lambda i, v: v * i, 1.5) == 1.5
    slope = cr.grad(lambda x: cr.fori_loop(0, 3, lambda i, v: v * x + i, 1.0))(2.0)
    assert slope == 3 * 2.0**2 + 1  # x³ + x + 2


def test_fori_loop_over_a_named_size() -> None:
    def program(x: float64["n 2"]) -> Any:
        return cr.fori_loop(0, x.shape[0], lambda i, v: v + x[0] * i, np.zeros(2))

    graph = cr.trace(program)
    x = np.random.default_rng(0).normal(size=(5, 2))
    assert close(graph.run(x=x).outputs, x[0] * 10)


def test_a_value_of_a_step_does_not_leave_it() -> None:
    kept = []

    def step(c: Any, x: Any) -> Any:
        inner = c * x
        kept.append(inner)
        return inner, None

    def program(xs: Any) -> Any:
        cr.scan(step, 1.0, xs)
        return kept[-1] + 1

    with pytest.raises(ForeignValueError, match="inside of a loop, a branch or a batch"):
        cr.trace(program, np.ones(3))


@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("length", [3, 40])
def test_carries_that_are_parts_of_each_other_do_not_overwrite_each_other(
    executor: str, length: int
) -> None:
    def step(state: Any, _: Any) -> Any:
        a, b, c, d = state
        return (b[::-1], a[::-1], d, c), a

    def program(*start: Any) -> Any:
        return cr.scan(step, start, length=length)

    start = tuple(np.arange(3.0) + 10 * i for i in range(4))
    state, rows = cr.compile(program, executor=executor)(*start)
    expected, kept = start, []
    for _ in range(length):
        kept.append(expected[0])
        expected = step(expected, None)[0]
    assert all(np.array_equal(*pair) for pair in zip(state, expected, strict=True))
    assert np.array_equal(rows, kept)


def test_sizes_inside_of_a_step_are_bound() -> None:
    def program(x: float64["n m"]) -> Any:
        def step(c: Any, row: Any) -> Any:
            mean = np.broadcast_to(np.sum(row) / x.shape[0], (x.shape[1],))
            return c + mean, np.zeros_like(row)

        return cr.scan(step, x[0] * 0, x)

    x = np.random.default_rng(0).normal(size=(4, 3))
    last, zeros = cr.trace(program).run(x=x).outputs
    assert close(last, np.full(3, np.sum(x) / 4))
    assert zeros.shape == (4, 3)


def test_carries_of_two_float_dtypes_have_gradients() -> None:
    def objective(loop: Any) -> Any:
        def function(a: Any, b: Any, xs: Any) -> Any:
            def step(state: Any, x: Any) -> Any:
                c, total = state
                c = np.tanh(c * x)
                total = total * 0.9 + np.sum(c).astype(np.float64) * b
                return (c, total), total

            (c, total), kept = loop(step, (a, np.float64(1)), xs)
            return total + np.sum(kept) + np.sum(c.astype(np.float64))

        return function

    arguments = np.array([0.3, 0.5], np.float32), 2.0, np.linspace(0.5, 1.5, 5).astype(np.float32)
    got, expected = (cr.grad(objective(f), (0, 1, 2))(*arguments) for f in (cr.scan, unrolled))
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == other.dtype
        assert np.allclose(one, other, rtol=1e-5)  # of float32


def test_rows_of_a_table_that_steps_look_up_get_gradients() -> None:
    def objective(loop: Any) -> Any:
        def function(table: Any, tokens: Any, W: Any) -> Any:
            def step(h: Any, token: Any) -> Any:
                h = np.tanh(h @ W + table[token])
                return h, h

            return np.sum(loop(step, np.zeros(3), tokens)[1] ** 2)

        return function

    arguments = sequence(5, inputs=3), np.array([0, 3, 3, 1]), weights()[0]
    got, expected = (cr.grad(objective(f), (0, 2))(*arguments) for f in (cr.scan, unrolled))
    assert all(close(*pair) for pair in zip(got, expected, strict=True))


def test_loops_in_batches_in_loops() -> None:
    def objective(loop: Any) -> Any:
        def function(w: Any, xs: Any) -> Any:
            def one(start: Any) -> Any:
                return loop(lambda s, k: (np.sin(s * k + w), s), start, np.arange(3.0))[0]

            return np.sum(loop(lambda c, x: (cr.vmap(one)(c) + x, c), np.ones(4), xs)[1])

        return function

    arguments = 0.3, sequence(3, inputs=4)
    got, expected = (cr.grad(objective(f), (0, 1))(*arguments) for f in (cr.scan, unrolled))
    assert all(close(*pair) for pair in zip(got, expected, strict=True))
    hessians = [cr.hessian(objective(f), 1)(*arguments) for f in (cr.scan, unrolled)]
    assert close(hessians[0], hessians[1], 512)

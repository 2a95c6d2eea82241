"""Overflow, NaN and exact zeros stay the reference's, whatever kernels rearrange."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executing import compare, compare_values, compiled, inputs_of, native
from executors import needs_native
from noting import noted
from primitive_calls import expected

import chainrule as cr
from chainrule.execute.run import kept_nodes
from chainrule.machine_code.target import host_target

pytestmark = needs_native
BIG, LESS = np.float32(3e38), np.float32(-1.5e38)
ROWS = np.array(
    [[BIG] * 9, [LESS] * 9, [0.0] * 9, [0.0] + [-1.0] * 8, [np.inf] + [1.0] * 8, [1e-42] * 9],
    np.float32,
)


def largest(x: Any, keepdims: bool = True) -> Any:
    return np.max(np.abs(x), axis=1, keepdims=keepdims)


BY_THE_LARGEST: dict[str, Callable[[Any], Any]] = {
    "divided": lambda x: np.sum(x / np.max(x, axis=1, keepdims=True), axis=1),
    "divided by its size": lambda x: np.sum(x / largest(x), axis=1) * largest(x, False),
    "times the reciprocal": lambda x: np.sum(x * (1 / largest(x)), axis=1),
    "in a difference": lambda x: np.mean(1 - x / largest(x), axis=1),
    "by the least": lambda x: np.sum(-x / np.min(x, axis=1, keepdims=True), axis=1),
}


def compared(function: Any, rtol: float, *arrays: np.ndarray, **options: Any) -> None:
    given: dict[str, Any] = dict(zip(("x", "y"), arrays, strict=False))
    graph = cr.trace(function, *arrays)
    compare(graph, inputs_of(graph, given), kept_nodes(graph, "outputs"), rtol, **options)


@pytest.mark.parametrize("name", BY_THE_LARGEST)
def test_a_row_divided_by_its_largest_element_is_summed_without_overflow(name: str) -> None:
    compared(BY_THE_LARGEST[name], 1e-6, ROWS)


def norm(x: Any) -> Any:
    return np.sqrt(np.sum(x * x, axis=1, keepdims=True))


def total(x: Any) -> Any:
    return np.sum(x, axis=1, keepdims=True)


# Of each, the factors of the row could be taken out of the last sum, which would save a sweep: but
# then it overflows where its terms do not, and what is divided by 0 has no signs any more.
QUOTIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "by a sum": lambda x, y: np.sum(y / total(x * x), axis=1),
    "by a sum of exponentials": lambda x, y: np.sum(y / total(np.exp(x)), axis=1),
    "times a reciprocal": lambda x, y: np.sum(y * (1 / total(x)), axis=1),
    "times a sum": lambda x, y: np.sum(y * total(x), axis=1),
    "in a difference": lambda x, y: np.mean((x - y) / norm(x), axis=1),
    "by the norm of one": lambda x, y: np.sum((y / norm(x)) * (x / norm(x)), axis=1),
    "times what is over the norm": lambda x, y: np.sum(y * (1 / norm(x)) * x, axis=1),
    "by the norm of another": lambda x, y: np.sum((y / norm(x)) * (y / norm(x)), axis=1),
    "in a gradient": lambda x, y: cr.vjp(cr.layer_norm, x)[1](y)[0],
    "in that of softmax": lambda x, y: cr.vjp(cr.softmax, x)[1](y)[0],
}
SIZES = [1.0, 1e-30, 1e-17, 1e15, 1e17, 3e18, 1e30, 1e37]


@pytest.mark.parametrize("name", QUOTIENTS)
def test_a_sum_of_quotients_has_the_range_of_its_terms(name: str) -> None:
    numbers = np.random.default_rng(0).normal(size=(2, 4, 40)).astype(np.float32)
    graph = cr.trace(QUOTIENTS[name], *numbers)
    keep = list(kept_nodes(graph, "outputs"))
    run = compiled(graph, keep)
    for x_size, y_size in itertools.product(SIZES, repeat=2):
        arrays = numbers[0] * np.float32(x_size), np.abs(numbers[1]) * np.float32(y_size)
        inputs = inputs_of(graph, dict(zip(("x", "y"), arrays, strict=True)))
        with noted(f"x of size {x_size}, y of size {y_size}"):
            compare_values(graph, inputs, keep, run(inputs), 1e-4)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", QUOTIENTS)
@pytest.mark.parametrize("odd", [0.0, np.inf, np.nan])
def test_a_sum_of_quotients_by_nothing_is_that_of_the_reference(name: str, odd: float) -> None:
    numbers = np.random.default_rng(0).normal(size=(2, 5, 40)).astype(np.float32)
    x, y = numbers
    x[0], x[1, 3], y[4] = odd, odd, np.abs(y[4])
    x[4] = odd
    compared(QUOTIENTS[name], 2e-5, x, y)
    compared(QUOTIENTS[name], 2e-5, y, x)


FACTORS = {
    "that overflow together": (1e-35, lambda x, y: (x @ y) * 1e30 * 1e30),
    "that vanish together": (1e35, lambda x, y: (x @ y) * 1e-30 * 1e-30),
    "whose inverses overflow together": (1e-35, lambda x, y: (x @ y) / 1e-30 / 1e-30),
    "whose inverses vanish together": (1e35, lambda x, y: -((x @ y) / 1e30 / 1e30)),
    "of one of two products": (1e-35, lambda x, y: (x @ y) * 1e30 * 1e30 + y @ x),
    "of infinity": (1.0, lambda x, y: (x @ y) * np.inf),
    "of zero": (1.0, lambda x, y: (x @ y) * 0.0),
}


@pytest.mark.parametrize("name", FACTORS)
def test_factors_of_a_product_do_not_overflow_before_they_meet_it(name: str) -> None:
    scale, function = FACTORS[name]
    x = np.float32(scale) * np.eye(5, dtype=np.float32)
    graph = cr.trace(function, x, x)
    for y in (np.eye(5, dtype=np.float32), np.full((5, 5), np.inf, np.float32)):
        found = graph.run(x=x, y=y, executor="native").outputs
        wanted = graph.run(x=x, y=y).outputs
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("blas", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (40, 50), (40, 1)])
def test_a_decay_that_leaves_nothing_of_the_weights_leaves_their_nan(
    shape: tuple[int, int], blas: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if blas:
        monkeypatch.setenv("CHAINRULE_WITHOUT", "avx2")

    def objective(x: Any, W: Any) -> Any:
        J = np.sum(x @ W)
        return J

    x, W = np.ones((30, shape[0])), np.ones(shape)
    W[1, 0] = np.nan
    found = []
    for executor in ("native", "reference"):
        optimizer = cr.sgd(0.5, weight_decay=2.0)
        step = cr.training_step(objective, "W", optimizer, executor=executor, x=x, W=W)
        state = step.init(W=W)
        step(state, x=x)
        found.append(state["W"])
    assert np.isnan(found[0][1, 0])
    np.testing.assert_array_equal(*found)


def of_products(x: Any, y: Any) -> Any:
    p, q = x * x, y * y
    d = p - q
    return np.sqrt(d)


DIFFERENCES: dict[str, Callable[[Any, Any], Any]] = {
    "of two products": of_products,
    "of a product and a square": lambda x, y: np.sqrt(x * x - y**2),
    "of a square and a product": lambda x, y: np.sqrt(y**2 - x * x),
    "of what is given and a product": lambda x, y: np.sqrt(SQUARES - x * y),
    "written as a sum": lambda x, y: np.sqrt(-(y**2) + x * x),
    "of a product by -1": lambda x, y: np.sqrt(x * x + (-1) * (y * y)),
    "of a product of a negated factor": lambda x, y: np.sqrt(x * y + (-y) * x),
}
NUMBERS = np.random.default_rng(0).normal(size=(3, 100)) + 2
SQUARES = NUMBERS * NUMBERS


@pytest.mark.parametrize("keep", ["outputs", "named"])
@pytest.mark.parametrize("name", DIFFERENCES)
def test_the_difference_of_equal_products_is_zero(name: str, keep: str) -> None:
    graph = cr.trace(DIFFERENCES[name], NUMBERS, NUMBERS)
    given = {"x": NUMBERS, "y": NUMBERS.copy()}
    found = graph.run(given, keep=keep, executor="native").outputs
    np.testing.assert_array_equal(found, np.zeros_like(NUMBERS))


SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 49.0, 1e-42, 2.0**-126, 1e-31, 3e38]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("without", [(), ("avx512",), ("avx2",)], ids=str)
def test_quotients_by_a_number_of_the_row_are_those_of_a_division(
    dtype: Any, without: tuple[str, ...]
) -> None:
    random = np.random.default_rng(0)
    sizes = 10.0 ** random.uniform(-25, 25, (400, 333))
    x = (random.choice([-1, 1], sizes.shape) * sizes).astype(dtype)
    y = (10.0 ** random.uniform(-40, 38, (400, 1))).astype(dtype)
    x[:, :40], y[:100] = np.arange(40), np.arange(1, 101)[:, None]
    x[:, -len(SPECIAL) :], y[-len(SPECIAL) :, 0] = SPECIAL, SPECIAL
    graph = cr.trace(lambda x, y: x / y, x, y)
    (result,) = kept_nodes(graph, "outputs")
    target = host_target(without=without)
    found = native(graph, inputs_of(graph, {"x": x, "y": y}), [result], target=target)
    assert found is not None
    got, wanted = found[result], expected(graph, inputs_of(graph, {"x": x, "y": y}), [result])
    wanted = wanted[result]
    about = np.finfo(dtype)
    exact = (np.abs(wanted) >= about.smallest_normal) & (np.abs(x) >= 1e-30) | (x == 0)
    exact |= ~np.isfinite(wanted)
    assert np.mean(exact) > 0.8
    np.testing.assert_array_equal(got[exact], wanted[exact])
    np.testing.assert_array_equal(np.signbit(got[x == 0]), np.signbit(wanted[x == 0]))
    np.testing.assert_allclose(
        got[~exact], wanted[~exact], rtol=2 * about.eps, atol=2 * about.smallest_subnormal
    )


def test_what_is_divided_by_itself_is_one() -> None:
    x = np.arange(1.0, 200.0)
    for name, function in {
        "a number": lambda x: np.floor(x / 49.0),
        "the largest": lambda x: np.max(x / np.max(x)),
        "the sum": lambda x: x[48:49] / np.sum(x[48:49]),
    }.items():
        np.testing.assert_array_equal(cr.compile(function, executor="native")(x), function(x), name)

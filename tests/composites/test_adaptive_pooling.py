"""Adaptive pooling: parts of named lengths, NaN and infinity, narrow dtypes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import float32
from chainrule.errors import InputError, ShapeError
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(5)


def layers(x: float32["n 2 h w"]):
    a = cr.adaptive_avg_pool2d(x, (3, 1))
    b = cr.adaptive_max_pool2d(x, (2, None))
    c = cr.adaptive_avg_pool2d(x, (None, 4))
    J = np.sum(np.sin(a)) + np.sum(np.cos(b)) + np.sum(c * c)
    return J


@pytest.mark.sweep(3)  # the reference; others compile long
@EITHER
def test_axes_of_named_sizes_have_the_parts_of_each_length(executor: str) -> None:
    graph = cr.backward(cr.trace(layers), wrt="x")
    for shape in ((2, 2, 7, 5), (1, 2, 1, 9)):
        x = RANDOM.normal(size=shape).astype(np.float32)
        run = graph.run(x=x, executor=executor)
        same = cr.backward(cr.trace(layers, x=x), wrt="x").run(x=x, executor=executor)
        for name in ("a", "b", "c", "J", "dJ/dx"):
            assert run[name].dtype == np.float32
            np.testing.assert_allclose(run[name], same[name], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(run["a"], cr.adaptive_avg_pool2d(x, (3, 1)), 1e-5, 1e-6)


def test_the_parts_of_every_length_are_those_of_the_definition() -> None:
    for length in range(1, 9):
        x = RANDOM.normal(size=(1, 1, length))
        for parts in range(1, 10):
            ends = [(i * length // parts, -(-(i + 1) * length // parts)) for i in range(parts)]
            for pool, function in (
                (cr.adaptive_avg_pool1d, np.mean),
                (cr.adaptive_max_pool1d, np.max),
            ):
                wanted = [function(x[0, 0, first:end]) for first, end in ends]
                np.testing.assert_allclose(pool(x, parts)[0, 0], wanted, rtol=1e-14)


def test_lengths_that_are_divisible_are_pooled_without_indices() -> None:
    graph = cr.trace(lambda x: cr.adaptive_avg_pool2d(x, (2, 3)), np.zeros((2, 3, 8, 6)))
    names = {node.primitive.name for node in graph.nodes}
    assert "reshape" in names and not names & {"gather", "windows", "where"}


def test_both_orders_agree_with_finite_differences() -> None:
    x = RANDOM.normal(size=(1, 2, 5))
    check_gradients(lambda x: np.sum(cr.adaptive_max_pool1d(x, 3) ** 3), x, order=2)
    check_gradients(lambda x: np.sum(cr.adaptive_avg_pool1d(x, 3) ** 3), x, order=2)


def test_nan_and_infinity_stay_in_the_parts_that_have_them() -> None:
    x = np.array([[[np.nan, 1, 2, -np.inf, -np.inf]]])
    np.testing.assert_array_equal(cr.adaptive_max_pool1d(x, 3), [[[np.nan, 2, -np.inf]]])
    np.testing.assert_array_equal(cr.adaptive_avg_pool1d(x, 3), [[[np.nan, -np.inf, -np.inf]]])
    whole = cr.adaptive_max_pool1d(np.array([[[-3, -5, -7]]]), 2)  # integers have no -inf
    np.testing.assert_array_equal(whole, [[[-3, -5]]])


def test_an_empty_batch_is_one() -> None:
    x = np.zeros((0, 2, 5))
    assert cr.adaptive_avg_pool1d(x, 2).shape == (0, 2, 2)
    gradient = cr.grad(lambda x: np.sum(cr.adaptive_max_pool1d(x, 2)))(x)
    assert gradient.shape == x.shape


REFUSALS = [
    (
        lambda x: cr.avg_pool2d(x, 2, divisor_override=0),
        InputError,
        ["avg_pool2d: divisor_override=0 is no integer to divide by"],
    ),
    (lambda x: cr.adaptive_avg_pool2d(x, 0), InputError, ["output_size=0", "at least 1"]),
    (
        lambda x: cr.adaptive_avg_pool2d(x, (1, 2, 3)),
        InputError,
        ["output_size=(1, 2, 3)", "nor 2 of them", "None leaves an axis as it is"],
    ),
    (lambda x: cr.adaptive_max_pool2d(x, 2.0), InputError, ["output_size=2.0"]),
    (lambda x: cr.adaptive_max_pool1d(x, 2), ShapeError, ["has 4 axes", "(n, channels, length)"]),
    (
        lambda x: cr.adaptive_max_pool2d(x[..., :0], 2),
        ShapeError,
        ["[2, 3, 5, 0] has an axis without elements"],
    ),
]


@pytest.mark.parametrize("is_traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize(("call", "error", "texts"), REFUSALS, ids=[r[2][0] for r in REFUSALS])
def test_a_refusal_names_the_sizes(
    call: Any, error: type, texts: list[str], is_traced: bool
) -> None:
    x = np.zeros((2, 3, 5, 4))
    with pytest.raises(error) as caught:
        cr.trace(call, x) if is_traced else call(x)
    for text in texts:
        assert text in str(caught.value)

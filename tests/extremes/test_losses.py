"""Losses, activations and normalisation at huge, zero and constant arguments: true derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import chainrule as cr

ARGUMENTS = [-1e308, -1e4, -750.0, -40.0, -1.0, -1e-8, -5e-324, 0.0, 1e-8, 1.0, 40.0, 1e4, 1e308]


def exact_logistic(x: Any) -> Any:
    """1 / (1 + exp(-x)), of which 750 digits are not needed where x is huge."""
    if abs(x) > 2000:
        return mpmath.mpf(x > 0)
    return 1 / (1 + mpmath.exp(-x))


# Function and derivative in mpmath, with the limits of what 60 digits cannot hold.
SLOPES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sigmoid": (cr.sigmoid, lambda x: exact_logistic(x) * exact_logistic(-x)),
    "softplus": (cr.softplus, exact_logistic),
    "log_sigmoid": (cr.log_sigmoid, lambda x: exact_logistic(-x)),
    "relu": (cr.relu, lambda x: mpmath.mpf(x > 0)),
    "elu": (cr.elu, lambda x: mpmath.exp(x) if -2000 < x <= 0 else mpmath.mpf(x > 0)),
    "leaky_relu": (cr.leaky_relu, lambda x: mpmath.mpf(1 if x > 0 else 0.01)),
    "logaddexp with 0": (lambda x: np.logaddexp(x, 0.0), exact_logistic),
    "binary_cross_entropy_with_logits, 0": (
        lambda x: cr.binary_cross_entropy_with_logits(x, np.zeros(1)),
        exact_logistic,
    ),
    "binary_cross_entropy_with_logits, 1": (
        lambda x: cr.binary_cross_entropy_with_logits(x, np.ones(1)),
        lambda x: -exact_logistic(-x),
    ),
    "huber": (lambda x: cr.huber(x, np.zeros(1)), lambda x: max(min(x, 1), -1)),
    "absolute_error": (lambda x: cr.absolute_error(x, np.zeros(1)), mpmath.sign),
}


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", SLOPES)
def test_the_slope_is_the_true_one_at_any_argument(name: str) -> None:
    function, slope = SLOPES[name]
    for x in ARGUMENTS:
        found = cr.grad(lambda x: np.sum(function(x)))(np.array([x]))
        with mpmath.workdps(60):
            wanted = float(slope(mpmath.mpf(x)))
        np.testing.assert_allclose(found, [wanted], rtol=1e-14, atol=1e-320, err_msg=f"at {x}")
        second = cr.hvp(lambda x: np.sum(function(x)), np.array([x]), np.ones(1))
        assert np.isfinite(second).all(), f"second derivative at {x}"


ROWS = np.array(
    [[1e4, -1e4, 0], [-1e4, 1e4, 1e4], [0, 0, 0], [1e308, -1e308, 0], [750, -750, 0], [-1e4] * 3],
    float,
)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"label_smoothing": 0.1},
    {"weight": np.array([1.0, 2.0, 0.5])},
    {"ignore_index": 1},
    {"ignore_index": 1, "weight": np.array([0.5, 1.0, 2.0]), "label_smoothing": 0.2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options) or "plain")
@pytest.mark.parametrize("label", [0, 1, 2])
def test_cross_entropy_has_the_gradient_softmax_less_target(
    options: dict[str, Any], label: int
) -> None:
    with np.errstate(over="ignore"):  # minus infinity for -2e308
        shifted = np.exp(ROWS - ROWS.max(1, keepdims=True))
    softmax = shifted / shifted.sum(1, keepdims=True)
    weight = options.get("weight", np.ones(3))
    smoothing = options.get("label_smoothing", 0.0)
    target = (1 - smoothing) * weight[label] * np.eye(3)[label] + smoothing * weight / 3
    wanted = target.sum() * softmax - target
    if options.get("ignore_index") == label:
        wanted = np.zeros_like(ROWS)
    labels = np.full(len(ROWS), label)
    found = cr.grad(lambda x: cr.cross_entropy(x, labels, "sum", **options))(ROWS)
    np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-15)
    second = cr.hvp(lambda x: cr.cross_entropy(x, labels, "sum", **options), ROWS, np.ones((6, 3)))
    assert np.isfinite(second).all()


CONSTANT: dict[str, Callable[[Any], Any]] = {
    "batch_norm": lambda x: cr.batch_norm(x, None, None, training=True)[0],
    "layer_norm": lambda x: cr.layer_norm(x),
    "group_norm": lambda x: cr.group_norm(x, 3),
    "instance_norm": lambda x: cr.instance_norm(x),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_normalising_a_constant_gives_0_and_a_slope_by_eps_alone(name: str) -> None:
    x, weights = np.full((4, 3, 5), 7.0), np.random.default_rng(1).normal(size=(4, 3, 5))
    value, pull = cr.vjp(CONSTANT[name], x)
    np.testing.assert_allclose(value, 0, atol=1e-12)
    axes = {"batch_norm": (0, 2), "layer_norm": (2,)}.get(name, (2,))
    # The derivative of (x - mean) / sqrt(eps) at a variance of 0.
    wanted = (weights - weights.mean(axes, keepdims=True)) / np.sqrt(1e-5)
    np.testing.assert_allclose(pull(weights)[0], wanted, rtol=1e-9, atol=1e-9)


def test_rms_norm_of_zeros_has_a_finite_gradient() -> None:
    found = cr.grad(lambda x: np.sum(cr.rms_norm(x)))(np.zeros((2, 3)))
    assert np.isfinite(found).all()


def test_a_query_that_sees_nothing_gets_zeros_and_no_gradient() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    mask = np.ones((3, 3), bool)
    mask[1] = False
    value, pull = cr.vjp(lambda q: cr.scaled_dot_product_attention(q, x, x, mask), x)
    (gradient,) = pull(np.ones_like(value))
    np.testing.assert_array_equal(value[:, 1], 0)
    np.testing.assert_array_equal(gradient[:, 1], 0)
    assert np.isfinite(gradient).all() and np.any(gradient[:, 0])


@pytest.mark.sweep(5)
@pytest.mark.parametrize("order", [None, 1, 2, 3, 0.5, 1.5, 4, np.inf, -np.inf, 0, -1])
@pytest.mark.parametrize("x", [[0.0, 0, 0], [0, 3, 4], [0, 0, 1e-3], [-3, 3, 0]], ids=str)
def test_norms_have_no_nan_in_any_derivative(order: Any, x: Any) -> None:
    x = np.array(x, float)
    value, gradient = cr.value_and_grad(lambda x: np.linalg.norm(x, order))(x)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(value, np.linalg.norm(x, order), rtol=1e-14)
    second = cr.hvp(lambda x: np.linalg.norm(x, order), x, np.ones(3))
    assert not np.isnan(gradient).any() and not np.isnan(second).any()


def test_the_source_has_what_unused_parts_of_a_result_share_with_used_ones() -> None:
    def last(x: Any) -> Any:
        _u, s, _v = np.linalg.svd(x)
        return s

    namespace: dict[str, Any] = {}
    exec(cr.trace(last, np.eye(3)).python(), namespace)
    np.testing.assert_array_equal(namespace["last"](2 * np.eye(3)), [2, 2, 2])

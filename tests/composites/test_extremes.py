"""Huge, infinite, zero and no numbers: composites stay finite where mathematics does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr


@pytest.mark.parametrize("size", [1e4, 1e300])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_cross_entropy_of_huge_logits_is_finite_with_its_gradient(size: float, label: int) -> None:
    logits = np.array([[size, -size, 0.0], [-size, size, size], [0.0, 0.0, 0.0]])
    labels = np.full(3, label)
    loss, gradient = cr.value_and_grad(cr.cross_entropy)(logits, labels)
    assert np.isfinite(loss) and np.isfinite(gradient).all()
    np.testing.assert_allclose(gradient.sum(1), 0, atol=1e-15)
    product = cr.hvp(lambda x: cr.cross_entropy(x, labels), logits, np.ones((3, 3)))
    np.testing.assert_allclose(product, 0, atol=1e-15)


SATURATING = [
    (cr.sigmoid, [0, 0.5, 1], [0, 0.25, 0]),
    (cr.softplus, [0, np.log(2), 1e4], [0, 0.5, 1]),
    (cr.relu, [0, 0, 1e4], [0, 0, 1]),
    (cr.gelu, [0, 0, 1e4], [0, 0.5, 1]),
    (lambda x: cr.gelu(x, "tanh"), [0, 0, 1e4], [0, 0.5, 1]),
    (cr.erf, [-1, 0, 1], [0, 2 / np.sqrt(np.pi), 0]),
    (lambda x: np.logaddexp(x, 0), [0, np.log(2), 1e4], [0, 0.5, 1]),
    (np.tanh, [-1, 0, 1], [0, 1, 0]),
]


@pytest.mark.parametrize("function, values, slopes", SATURATING)
def test_activations_saturate_without_nan(function: Any, values: Any, slopes: Any) -> None:
    x = np.array([-1e4, 0.0, 1e4])
    slope = cr.grad(lambda x: np.sum(function(x)))(x)
    np.testing.assert_allclose(cr.trace(function, x).run(x=x).outputs, values, rtol=1e-15)
    np.testing.assert_allclose(slope, slopes, rtol=1e-15)
    assert np.isfinite(cr.hvp(lambda x: np.sum(function(x)), x, np.ones(3))).all()


@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_of_huge_numbers_has_its_slopes(approximate: str, executor: str) -> None:
    x = np.array([-3e38, -1e20, -12.0, 12.0, 1e20, 3e38], np.float32)
    step = cr.backward(cr.trace(lambda x: np.sum(cr.gelu(x, approximate)), x), wrt="x")
    run = step.run(x=x, executor=executor)
    slope = next(value for name, value in run.items() if "/dx" in name)
    np.testing.assert_allclose(slope, [0, 0, 0, 1, 1, 1], rtol=1e-7, atol=1e-29)
    bend = cr.hvp(lambda x: np.sum(cr.gelu(x, approximate)), x[1:-1], np.ones(4, np.float32))
    np.testing.assert_allclose(bend, 0, atol=1e-29)


@pytest.mark.parametrize("function", [cr.softmax, cr.log_softmax, lambda x: cr.logsumexp(x)])
def test_the_softmax_family_is_finite_for_huge_arguments(function: Any) -> None:
    x = np.array([[1e4, -1e4, 0.0], [1e308, 1e308, -1e308], [-1e4, -1e4, -1e4]])
    value, pull = cr.vjp(function, x)
    assert np.isfinite(value[[0, 2]]).all()
    assert np.isfinite(pull(np.ones_like(value))[0]).all()


def test_minus_infinity_is_probability_zero() -> None:
    x = np.array([[0.0, -np.inf, 0.0], [-np.inf, -np.inf, 3.0]])
    value, pull = cr.vjp(cr.softmax, x)
    np.testing.assert_array_equal(value, [[0.5, 0, 0.5], [0, 0, 1]])
    (gradient,) = pull(np.array([[1.0, 2, 3], [4, 5, 6]]))
    np.testing.assert_allclose(gradient, [[-0.5, 0, 0.5], [0, 0, 0]], atol=1e-15)
    loss, gradient = cr.value_and_grad(cr.cross_entropy)(x, np.array([0, 2]))
    np.testing.assert_allclose(loss, np.log(2) / 2)
    np.testing.assert_allclose(gradient, [[-0.25, 0, 0.25], [0, 0, 0]], atol=1e-15)


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_the_logarithm_of_no_probability_has_the_derivative_zero(executor: str) -> None:
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf], [-np.inf, -3.0]])
    step = cr.backward(cr.trace(lambda x: np.sum(np.exp(cr.logsumexp(x))), x), wrt="x")
    np.testing.assert_allclose(
        next(v for k, v in step.run(x=x, executor=executor).items() if "/dx" in k),
        [[0, 0], [1, 0], [0, np.exp(-3)]],
        rtol=1e-15,
    )
    assert np.isfinite(cr.hvp(lambda x: np.sum(cr.logsumexp(x)), x, np.ones_like(x))).all()


@pytest.mark.parametrize("x", [np.full(3, -np.inf), np.array([np.inf, 0.0, 1.0])])
def test_logsumexp_of_infinities_is_the_infinity(x: np.ndarray) -> None:
    with np.errstate(divide="ignore"):  # the logarithm of 0, as NumPy says
        assert cr.logsumexp(x) == np.max(x)
    assert cr.trace(lambda x: cr.logsumexp(x), x).run(x=x)["out"] == np.max(x)


def test_logaddexp_of_infinities_and_nan_is_numpys() -> None:
    values = np.array([-np.inf, np.inf, np.nan, 0.0, 1e4, -1e4])
    x, y = (v.reshape(-1) for v in np.meshgrid(values, values))
    found = cr.trace(lambda x, y: np.logaddexp(x, y), x, y).run(x=x, y=y)["out"]
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp(x, y)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_logaddexp2_of_two_equal_numbers_is_the_next_one(executor: str) -> None:
    x = np.array([-1.0, 0.0, 5.0, -300.0, 0.5, np.inf, -np.inf])
    graph = cr.trace(lambda x, y: np.logaddexp2(x, y), x, x)
    np.testing.assert_array_equal(graph.run(x=x, y=x, executor=executor).outputs, x + 1)
    y = x - np.array([1e-9, 0.9, 1.1, 40.0, 60.0, 0, 0])
    found = graph.run(x=x, y=y, executor=executor).outputs
    np.testing.assert_allclose(found, np.logaddexp2(x, y), rtol=4e-16, atol=2e-16)


LAYERS = {
    "layer_norm": cr.layer_norm,
    "group_norm": lambda x: cr.group_norm(x, 2),
    "rms_norm": cr.rms_norm,
    "gelu": lambda x: cr.gelu(x, "tanh"),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_squares_and_cubes_do_not_leave_the_range_of_float16(layer: str) -> None:
    function = LAYERS[layer]
    x = np.array([[-300.0, 100, 600, 50], [1, -2, 0.5, 4]], np.float16)
    found = [function(x), *cr.value_and_grad(lambda x: np.sum(function(x) ** 2))(x)]
    wide = x.astype(np.float64)
    if layer == "rms_norm":
        function = lambda x: cr.rms_norm(x, eps=float(np.finfo(np.float16).eps))  # noqa: E731
    wanted = [function(wide), *cr.value_and_grad(lambda x: np.sum(function(x) ** 2))(wide)]
    for got, want in zip(found[::2], wanted[::2], strict=True):
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, want, rtol=4e-3, atol=4e-3)


def test_no_smoothing_of_an_impossible_class_is_no_nan() -> None:
    logits, labels = np.array([[0.0, -np.inf, 1.0]]), np.array([2])
    loss, gradient = cr.value_and_grad(
        lambda x: cr.cross_entropy(x, labels, label_smoothing=0.0, ignore_index=-100)
    )(logits)
    plain = cr.value_and_grad(lambda x: cr.cross_entropy(x, labels))(logits)
    np.testing.assert_allclose(loss, plain[0])
    np.testing.assert_allclose(gradient, plain[1])


def test_nan_stays_nan() -> None:
    x = np.array([np.nan, 1.0])
    for function in (cr.relu, cr.softplus, cr.sigmoid, cr.gelu, cr.erf, np.square):
        assert np.isnan(cr.trace(function, x).run(x=x).outputs).tolist() == [True, False]
    for function in (cr.softmax, cr.mean, cr.norm, cr.std, cr.logsumexp):
        assert np.isnan(cr.trace(lambda x, f=function: f(x), x).run(x=x).outputs).all()


@pytest.mark.parametrize("function", [cr.norm, cr.std, np.linalg.norm, np.std])
def test_norm_and_std_have_derivative_zero_at_zero(function: Any) -> None:
    value, gradient = cr.value_and_grad(lambda x: function(x))(np.zeros(3))
    assert value == 0
    np.testing.assert_array_equal(gradient, np.zeros(3))
    assert np.isfinite(cr.hvp(lambda x: function(x), np.zeros(3), np.ones(3))).all()
    one_row = np.array([[0.0, 0.0], [3.0, 4.0]])
    gradient = cr.grad(lambda x: np.sum(cr.norm(x, axis=1)))(one_row)
    np.testing.assert_allclose(gradient, [[0, 0], [0.6, 0.8]], rtol=1e-15)


def test_composites_of_one_element_and_of_empty_axes() -> None:
    np.testing.assert_array_equal(
        cr.grad(lambda x: np.sum(cr.softmax(x)))(np.ones((3, 1))), np.zeros((3, 1))
    )
    empty = np.zeros((0, 3))
    for function in (cr.softmax, cr.log_softmax, cr.relu, cr.layer_norm, cr.logsumexp):
        assert cr.grad(lambda x, f=function: np.sum(f(x)))(empty).shape == (0, 3)
    loss, gradient = cr.value_and_grad(lambda x: cr.cross_entropy(x, np.zeros(0, np.int64), "sum"))(
        empty
    )
    assert loss == 0 and gradient.shape == (0, 3)

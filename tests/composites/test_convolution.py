"""Convolution and pooling: named batches, empty ones, refusals, both executors, second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, ShapeError
from chainrule.graph.words import composite_of
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(31)


def network(
    x: float64["n 2 6 5"], W: float64["4 1 3 2"], b: float64["4"], V: float64["3 4 2 2"]
) -> Any:
    y = cr.conv2d(x, W, b, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)
    h = np.tanh(y)
    z = cr.avg_pool2d(h, 2, 1, padding=1)
    u = cr.conv2d(z, V, padding="same")
    p = cr.max_pool2d(u, 2)
    J = np.sum(np.sin(p))
    return J


def arguments(rows: int) -> dict[str, np.ndarray]:
    shapes = {"x": (rows, 2, 6, 5), "W": (4, 1, 3, 2), "b": (4,), "V": (3, 4, 2, 2)}
    return {name: RANDOM.normal(size=shape) for name, shape in shapes.items()}


def test_a_network_of_a_named_batch_has_the_derivatives_of_finite_differences() -> None:
    check_gradients(network, *arguments(2).values(), order=2)


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_the_named_batch_may_have_any_length_on_both_executors(executor: str) -> None:
    step = cr.backward(cr.trace(network), wrt=("x", "W", "b", "V"))
    for rows in (1, 3):
        given = arguments(rows)
        run = step.run(**given, executor=executor)
        assert run["J"] == pytest.approx(network(**given), rel=1e-12)  # and plain NumPy
        expected = cr.grad(network, wrt=("x", "W", "b", "V"))(*given.values())
        for name, gradient in zip(("x", "W", "b", "V"), expected, strict=True):
            np.testing.assert_allclose(run[f"dJ/d{name}"], gradient, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_an_empty_batch_has_empty_and_zero_gradients(executor: str) -> None:
    def J(x: Any, W: Any) -> Any:
        J = np.sum(cr.max_pool2d(cr.conv2d(x, W, padding=1), 2))
        return J

    x, W = np.zeros((0, 2, 4, 4)), np.ones((3, 2, 3, 3))
    step = cr.backward(cr.trace(J, x, W), wrt=("x", "W"))
    run = step.run(x=x, W=W, executor=executor)
    assert run["dJ/dx"].shape == (0, 2, 4, 4)
    np.testing.assert_array_equal(run["dJ/dW"], np.zeros((3, 2, 3, 3)))
    assert cr.conv2d(x, W).shape == (0, 3, 2, 2)


def test_names_sizes_and_symbols_of_the_layers() -> None:
    graph = cr.trace(network)
    assert graph["y"].type.shape[1:] == (4, 3, 7)
    assert str(graph["y"].type.shape[0]) == "n"
    symbols = [composite_of(graph[name]).symbol for name in ("y", "z", "p")]
    assert symbols == ["∗", "mean pool", "max pool"]

    def layer(x: float64["n 2 6 5"], W: float64["4 2 3 3"], b: float64["4"]) -> Any:
        y = cr.conv2d(x, W, b, padding=1)
        J = np.sum(y)
        return J

    step = cr.backward(cr.trace(layer), wrt="W")
    assert "y = ∗_{padding = 1}(x, W, b)" in str(step.equations())
    assert r"\operatorname{conv}" in step.equations().latex()


def test_convolution_of_sizes_without_values() -> None:
    def layer(x: float64["n c h w"], W: float64["o c 3 2"]) -> Any:
        y = cr.conv2d(x, W, stride=(2, 1))
        return y

    graph = cr.trace(layer)
    x, W = RANDOM.normal(size=(2, 3, 8, 4)), RANDOM.normal(size=(5, 3, 3, 2))
    np.testing.assert_allclose(graph.run(x=x, W=W)["y"], cr.conv2d(x, W, stride=(2, 1)))
    with pytest.raises(cr.errors.SizeError, match="a window of 3 is larger than its axis of h"):
        graph.run(x=x[:, :, :2], W=W)


def test_a_layer_may_be_traced_by_itself() -> None:
    x, W = RANDOM.normal(size=(2, 3, 4, 4)), RANDOM.normal(size=(2, 3, 2, 2))
    for layer, given in ((cr.conv2d, (x, W)), (cr.max_pool2d, (x, 2)), (cr.group_norm, (x, 3))):

        def total(x: Any, option: Any, layer: Any = layer) -> Any:
            return np.sum(layer(x, option))

        value, gradient = cr.value_and_grad(total)(*given)
        np.testing.assert_allclose(value, total(*given), rtol=1e-12, atol=1e-12)
        assert gradient.shape == x.shape
        graph = cr.trace(layer, *given)
        run = graph.run({item.name: one for item, one in zip(graph.inputs, given, strict=False)})
        np.testing.assert_allclose(run.outputs, layer(*given), rtol=1e-12, atol=1e-12)


def test_a_batch_of_images_and_of_weights_is_a_loop_over_them() -> None:
    images, weights = RANDOM.normal(size=(3, 2, 4, 4)), RANDOM.normal(size=(3, 2, 2, 2, 2))

    def J(x: Any, W: Any) -> Any:
        return np.sum(np.tanh(cr.max_pool2d(cr.conv2d(x, W, padding=1), 2)))

    gradient = cr.grad(J, wrt=(0, 1))
    for axes, W in (((0, None), weights[0]), ((0, 0), weights)):
        found = cr.vmap(gradient, in_axes=axes)(images, W)
        loop = [gradient(x, W if axes[1] is None else W[i]) for i, x in enumerate(images)]
        for one, parts in zip(found, zip(*loop, strict=True), strict=True):
            np.testing.assert_allclose(one, np.stack(parts), rtol=1e-12, atol=1e-13)


def test_the_written_source_of_a_convolution_computes_the_same() -> None:
    step = cr.backward(cr.trace(network), wrt=("x", "W")).bind(n=2)
    given = arguments(2)
    scope: dict[str, Any] = {}
    exec(str(step.python()), scope)
    run = step.run(**given)
    name = next(one for one in scope if one.startswith("network"))
    found = scope[name](*given.values())
    for got, (name, _) in zip(found, step.outputs, strict=True):
        np.testing.assert_allclose(got, run[name], rtol=1e-12, atol=1e-13)


def test_ties_of_max_pooling_share_the_derivative() -> None:
    x = np.array([[[1.0, 1.0, 0.0, 2.0]]])
    gradient = cr.grad(lambda x: np.sum(cr.max_pool1d(x, 2)))(x)
    np.testing.assert_array_equal(gradient, [[[0.5, 0.5, 0, 1]]])


def test_nan_and_infinity_stay_where_they_are() -> None:
    x = np.array([[[np.nan, 1, -np.inf, -np.inf, np.inf, 0]]])
    np.testing.assert_array_equal(cr.max_pool1d(x, 2), [[[np.nan, -np.inf, np.inf]]])
    np.testing.assert_array_equal(cr.max_pool1d(x[..., 2:4], 2, 1, 1), [[[-np.inf] * 3]])
    whole = cr.max_pool1d(np.array([[[-3, -5]]]), 2, 1, 1)  # integers have no -inf
    np.testing.assert_array_equal(whole, [[[-3, -3, -5]]])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_narrow_dtypes_stay_narrow(dtype: str) -> None:
    x, W = np.ones((1, 2, 4, 4), dtype), np.ones((3, 2, 2, 2), dtype)
    for layer in (
        lambda x: cr.conv2d(x, W, np.ones(3, dtype)),
        lambda x: cr.max_pool2d(x, 2, padding=1),
        lambda x: cr.avg_pool2d(x, 2, padding=1, count_include_pad=False),
    ):
        assert layer(x).dtype == dtype
        assert cr.trace(layer, x).run(x=x).outputs.dtype == dtype


def test_windows_of_a_large_image_are_not_stored() -> None:
    def J(x: Any) -> Any:
        h = cr.max_pool2d(x, 3, 1)
        return np.sum(h)

    x = np.zeros((1, 1, 200, 200))
    graph = cr.trace(J, x)
    for executor in ("reference", "native"):
        report = graph.memory(executor=executor, keep="outputs")
        assert report.main.peak_nbytes < 4 * x.nbytes  # the windows have nine times the elements


x = np.zeros((2, 3, 5, 4))
W = np.zeros((4, 3, 3, 3))
REFUSALS = [
    (
        lambda x: cr.conv2d(x, np.zeros((4, 3, 6, 3)), padding=0),
        ShapeError,
        ["conv2d: a window of 6 is larger than its axis of 5", "6 x 3 must fit into 5 x 4"],
    ),
    (
        lambda x: cr.conv2d(x, W, dilation=3),
        ShapeError,
        ["conv2d: a window of 3 with dilation 3, so of 7, is larger than its axis of 5"],
    ),
    (
        lambda x: cr.conv2d(x, np.zeros((4, 2, 3, 3))),
        ShapeError,
        ["[2, 3, 5, 4] has 3 channels", "float64[4, 2, 3, 3]", "takes 2", "channels / groups"],
    ),
    (
        lambda x: cr.conv2d(x, np.zeros((4, 3, 3, 3)), groups=3),
        ShapeError,
        ["has 3 channels", "takes 9 (3 in each of 3 groups)"],
    ),
    (
        lambda x: cr.conv2d(x, np.zeros((4, 1, 3, 3)), groups=3),
        ShapeError,
        ["4 output channels are not divisible into 3 groups"],
    ),
    (
        lambda x: cr.conv2d(x, W, np.zeros(3)),
        ShapeError,
        [
            "the bias float64[3] does not fit the 4 output channels",
            "of the weight float64[4, 3, 3, 3]",
        ],
    ),
    (
        lambda x: cr.conv2d(x, np.zeros((4, 3, 3))),
        ShapeError,
        ["the weight float64[4, 3, 3] has 3 axes", "(out, in / groups, rows, columns)"],
    ),
    (
        lambda x: cr.conv2d(x[0, 0], W),
        ShapeError,
        ["has 2 axes", "4 axes (n, channels, height, width), or 3 without n"],
    ),
    (lambda x: cr.conv1d(x, W), ShapeError, ["conv1d", "has 4 axes", "(n, channels, length)"]),
    (
        lambda x: cr.conv2d(x, W, padding="full"),
        InputError,
        ["padding='full' is not known", '"valid", "same"'],
    ),
    (
        lambda x: cr.conv2d(x, W, padding="same", stride=2),
        InputError,
        ['padding="same" with stride 2 x 2'],
    ),
    (
        lambda x: cr.conv2d(x, W, stride=(1, 2, 3)),
        InputError,
        ["stride=(1, 2, 3) is not one integer of at least 1, nor 2 of them"],
    ),
    (
        lambda x: cr.conv2d(x, W, stride=0),
        InputError,
        ["stride=0 is not one integer of at least 1"],
    ),
    (lambda x: cr.conv2d(x, W, padding=-1), InputError, ["padding=-1", "at least 0"]),
    (lambda x: cr.conv2d(x, W, groups=0), InputError, ["groups=0 is not one integer"]),
    (
        lambda x: cr.max_pool2d(x, 2, padding=2),
        InputError,
        ["max_pool2d: padding=2 is more than half of kernel_size=2"],
    ),
    (
        lambda x: cr.max_pool2d(x, 6),
        ShapeError,
        ["max_pool2d: a window of 6 is larger than its axis of 5"],
    ),
    (lambda x: cr.max_pool2d(x, (2, 3), padding=2), InputError, ["at most padding=(1, 1)"]),
    (
        lambda x: cr.conv2d(x, np.zeros((4, 3, 0, 3))),
        ShapeError,
        ["conv2d: the weight float64[4, 3, 0, 3] has windows of 0 x 3", "at least 1"],
    ),
    (lambda x: cr.max_pool2d(x, 2.0), InputError, ["kernel_size=2.0 is not one integer"]),
]


@pytest.mark.parametrize("is_traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize(("call", "error", "texts"), REFUSALS, ids=[r[2][0] for r in REFUSALS])
def test_a_refusal_names_the_sizes(
    call: Any, error: type, texts: list[str], is_traced: bool
) -> None:
    with pytest.raises(error) as caught:
        cr.trace(call, x) if is_traced else call(x)
    for text in texts:
        assert text in str(caught.value)
    assert ("test_convolution.py" in str(caught.value)) == is_traced


def test_a_window_of_a_named_length_is_refused() -> None:
    def layer(x: float64["n 3 5 4"], W: float64["4 3 k k"]) -> Any:
        return cr.conv2d(x, W)

    with pytest.raises(ShapeError, match=r"windows of k x k[\s\S]*known while tracing"):
        cr.trace(layer)

"""`ceil_mode` of pooling: the windows, the divisors and the gradients of PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import float64
from chainrule.errors import ChainruleError, SizeError
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(7)
Case = tuple[int, int, int, int, int]  # length, kernel, stride, padding, dilation


def cases(dilations: tuple[int, ...]) -> Iterator[Case]:
    for case in itertools.product(range(1, 8), range(1, 5), range(1, 6), range(3), dilations):
        if 2 * case[3] <= case[1]:
            yield case


def referee(function: Callable[..., Any], *args: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """The value and the gradient of PyTorch; None where it refuses."""
    torch = pytest.importorskip("torch")
    x = torch.tensor(args[0], requires_grad=True)
    try:
        y = function(x, *args[1:])
    except RuntimeError:
        return None
    torch.sum(torch.tanh(y)).backward()
    return y.detach().numpy(), x.grad.numpy()


def compare(
    ours: Callable[[Any], Any], x: np.ndarray, expected: Any, case: Any, gradients: bool = True
) -> None:
    if expected is None:
        with pytest.raises(ChainruleError):
            ours(x)
        return
    np.testing.assert_allclose(ours(x), expected[0], rtol=1e-13, err_msg=str(case))
    if gradients:
        gradient = cr.grad(lambda x: np.sum(np.tanh(ours(x))), executor="reference")(x)
        close = {"rtol": 1e-12, "atol": 1e-15, "err_msg": str(case)}
        np.testing.assert_allclose(gradient, expected[1], **close)


@pytest.mark.peers
def test_the_largest_of_windows_is_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    for place, (n, k, s, p, d) in enumerate(cases((1, 2, 3))):
        x = RANDOM.normal(size=(2, 2, n))
        expected = referee(torch.nn.functional.max_pool1d, x, k, s, p, d, True)
        compare(
            lambda x, o=(k, s, p, d): cr.max_pool1d(x, *o, True),
            x,
            expected,
            (n, k, s, p),
            place % 60 == 7,
        )


@pytest.mark.peers
@pytest.mark.parametrize("include", [True, False])
def test_the_mean_of_windows_is_pytorchs(include: bool) -> None:
    torch = pytest.importorskip("torch")
    for place, (n, k, s, p, _) in enumerate(cases((1,))):
        x = RANDOM.normal(size=(2, 2, n))
        expected = referee(torch.nn.functional.avg_pool1d, x, k, s, p, True, include)
        compare(
            lambda x, o=(k, s, p): cr.avg_pool1d(x, *o, True, include),
            x,
            expected,
            (n, k, s, p),
            place % 30 == 7,
        )


@pytest.mark.peers
def test_images_with_other_options_on_each_axis_are_pytorchs() -> None:
    functional = pytest.importorskip("torch").nn.functional
    for shape in ((2, 3, 7, 6), (1, 2, 5, 9), (3, 4, 8)):
        x = RANDOM.normal(size=shape)
        for k, s, p in (((3, 2), (2, 3), (1, 0)), ((2, 4), (3, 3), (1, 2)), ((3, 3), None, (0, 1))):
            expected = referee(functional.max_pool2d, x, k, s, p, 1, True)
            compare(lambda x, o=(k, s, p): cr.max_pool2d(x, *o, 1, True), x, expected, (k, s, p))
            for include in (True, False):
                expected = referee(functional.avg_pool2d, x, k, s, p, True, include)
                compare(
                    lambda x, o=(k, s, p), i=include: cr.avg_pool2d(x, *o, True, i), x, expected, k
                )


def test_it_changes_nothing_where_windows_fit_and_copies_nothing_then() -> None:
    plain = cr.trace(lambda x: cr.max_pool2d(x, 2), np.zeros((2, 3, 8, 6)))
    ceiled = cr.trace(lambda x: cr.max_pool2d(x, 2, ceil_mode=True), np.zeros((2, 3, 8, 6)))
    assert [node.primitive for node in plain] == [node.primitive for node in ceiled]


@pytest.mark.sweep(4)
@EITHER
@pytest.mark.parametrize("options", [(3, 2, 1), (2, 3, 0), (2, 4, 1), (4, 1, 2)])
def test_axes_of_named_sizes_have_the_windows_of_each_length(executor: str, options: Any) -> None:
    def layers(x: float64["n 2 h w"]):
        a = cr.max_pool2d(x, *options, ceil_mode=True)
        b = cr.avg_pool2d(x, *options, ceil_mode=True)
        c = cr.avg_pool2d(x, *options, ceil_mode=True, count_include_pad=False)
        J = np.sum(np.sin(a) + np.sin(b) * c)
        return J

    graph = cr.backward(cr.trace(layers), wrt="x")
    for shape in ((1, 2, 5, 4), (3, 2, 6, 9)):
        x = RANDOM.normal(size=shape)
        run = graph.run(x=x, executor=executor)
        same = cr.backward(cr.trace(layers, x=x), wrt="x").run(x=x, executor=executor)
        for name in ("a", "b", "c", "J", "dJ/dx"):
            np.testing.assert_allclose(run[name], same[name], rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(run["a"], cr.max_pool2d(x, *options, ceil_mode=True))


def test_both_orders_agree_with_finite_differences() -> None:
    x = RANDOM.normal(size=(1, 2, 5))
    check_gradients(lambda x: np.sum(cr.max_pool1d(x, 2, ceil_mode=True) ** 3), x, order=2)
    check_gradients(lambda x: np.sum(cr.avg_pool1d(x, 3, 2, 1, True) ** 3), x, order=2)


def test_infinities_and_integers_are_not_mixed_with_the_padding() -> None:
    x = np.array([[[-np.inf, 2, -np.inf]]])
    np.testing.assert_array_equal(cr.max_pool1d(x, 2, ceil_mode=True), [[[2, -np.inf]]])
    whole = cr.max_pool1d(np.array([[[-3, -5, -7]]]), 2, ceil_mode=True)
    np.testing.assert_array_equal(whole, [[[-3, -7]]])
    nan = cr.avg_pool1d(np.array([[[1.0, 2.0, np.nan]]]), 2, ceil_mode=True)
    np.testing.assert_array_equal(nan, [[[1.5, np.nan]]])


def test_a_length_in_which_no_window_begins_is_refused_when_it_is_known() -> None:
    def J(x: float64["n 1 w"]):
        return np.sum(cr.max_pool1d(x, 4, 1, ceil_mode=True))

    with pytest.raises(SizeError, match="max_pool1d: a window of 4"):
        cr.trace(J).run(x=np.zeros((1, 1, 2)))


X2 = np.ones(2)
FLAGS = {
    "max_pool1d: ceil_mode": lambda x: cr.max_pool1d(x[0], 2, ceil_mode="yes"),  # type: ignore
    "max_pool2d: ceil_mode": lambda x: cr.max_pool2d(x, 2, ceil_mode=1),  # type: ignore
    "avg_pool2d: ceil_mode": lambda x: cr.avg_pool2d(x, 2, ceil_mode=None),  # type: ignore
    "avg_pool1d: count_include_pad": lambda x: cr.avg_pool1d(x[0], 2, count_include_pad="no"),  # type: ignore
    "batch_norm: training": lambda x: cr.batch_norm(x, X2, X2, training="yes"),  # type: ignore
    "kl_divergence: log_target": lambda x: cr.kl_divergence(x, x, "mean", "yes"),  # type: ignore
    "scaled_dot_product_attention: is_causal": lambda x: cr.scaled_dot_product_attention(
        x,
        x,
        x,
        is_causal="no",  # type: ignore
    ),
    "choice: replace": lambda x: cr.random.choice(cr.random.key(0), x[0, 0, 0], (2,), "no"),  # type: ignore
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_is_true_or_false(name: str) -> None:
    x = RANDOM.normal(size=(1, 2, 4, 4))
    for call in (lambda: FLAGS[name](x), lambda: cr.trace(FLAGS[name], x)):
        with pytest.raises(TypeError, match="is neither True nor False") as caught:
            call()
        assert isinstance(caught.value, cr.errors.UnsupportedError)
        assert caught.value.what.startswith(name)


@pytest.mark.peers
def test_a_window_with_nan_has_nan_and_no_derivative() -> None:
    """PyTorch gives the derivative to one NaN of the window; elsewhere the two agree."""
    x = np.array([[[1.0, np.nan, 3.0, 2.0], [5.0, 4.0, np.nan, np.nan]]])
    np.testing.assert_array_equal(cr.max_pool1d(x, 2), [[[np.nan, 3.0], [5.0, np.nan]]])
    gradient = cr.grad(lambda x: np.sum(cr.max_pool1d(x, 2)))(x)
    np.testing.assert_array_equal(gradient, [[[0.0, 0, 1, 0], [1, 0, 0, 0]]])
    torch = pytest.importorskip("torch")
    given = torch.tensor(x, requires_grad=True)
    torch.nn.functional.max_pool1d(given, 2).sum().backward()
    differs = given.grad.numpy() != gradient
    np.testing.assert_array_equal(differs, [[[False, True, False, False], [False] * 3 + [True]]])
    assert np.isnan(x[differs]).all()

"""Resizing: PyTorch's places for every pair of lengths, named sizes, NaN, dtypes, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import float32
from chainrule.errors import ChainruleError
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(29)
FACTORS = (0.3, 0.5, 0.75, 1.05, 1.5, 2, 2.3, 3, 3.7)
CLOSE = {"float64": 1e-13, "float32": 3e-6}


@pytest.mark.peers
@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear", "aligned"])
def test_every_length_from_every_length_is_pytorchs(mode: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    options: dict[str, Any] = {"mode": mode}
    if mode == "aligned":
        options = {"mode": "linear", "align_corners": True}
    for length in (1, 2, 3, 7, 12, 29):
        x = np.arange(float(length), dtype=dtype)[None, None]
        ways = [{"size": out} for out in (1, 2, 5, 12, 17, 37)]
        ways += [{"scale_factor": factor} for factor in FACTORS if length * factor >= 1]
        for way in ways:
            wanted = torch.nn.functional.interpolate(torch.tensor(x), **way, **options).numpy()
            found = cr.interpolate(x, **way, **options)
            assert found.dtype == dtype
            close = CLOSE[dtype]
            np.testing.assert_allclose(found, wanted, close, close * length, err_msg=str(way))


def layers(x: float32["n 2 h w"]):
    a = cr.interpolate(x, scale_factor=2)
    b = cr.interpolate(a, scale_factor=(1.5, 0.75), mode="bilinear")
    c = cr.interpolate(x, (3, 5), mode="bicubic", align_corners=True)
    d = cr.interpolate(x, (4, 2), mode="area")
    e = cr.interpolate(c, np.shape(x)[2:], mode="nearest-exact")
    J = np.sum(np.sin(b)) + np.sum(c * c) + np.sum(d**3) + np.sum(e * x)
    return J


@pytest.mark.slow
@EITHER
def test_axes_of_named_sizes_are_resized_as_each_length(executor: str) -> None:
    graph = cr.backward(cr.trace(layers), wrt="x")
    assert [str(size) for size in graph["b"].type.shape] == ["n", "2", "3*h", "w + w//2"]
    for shape in ((2, 2, 7, 5), (1, 2, 1, 9)):
        x = RANDOM.normal(size=shape).astype(np.float32)
        run = graph.run(x=x, executor=executor)
        same = cr.backward(cr.trace(layers, x=x), wrt="x").run(x=x)
        for name in ("a", "b", "c", "d", "e", "J", "dJ/dx"):
            assert run[name].dtype == np.float32
            np.testing.assert_allclose(run[name], same[name], rtol=1e-5, atol=1e-5)


def test_both_orders_agree_with_finite_differences() -> None:
    x = RANDOM.normal(size=(1, 1, 3, 4))

    def J(x: Any) -> Any:
        y = cr.interpolate(x, (5, 3), mode="bicubic")
        z = cr.interpolate(x, scale_factor=1.6, mode="bilinear")
        return np.sum(y**3) + np.sum(z**3)

    check_gradients(J, x, order=2)


def test_nan_stays_near_its_place() -> None:
    x = np.array([[[1.0, 2.0, np.nan, 4.0, 5.0, 6.0]]])
    for mode, count in (("nearest", 2), ("linear", 5)):
        y = cr.interpolate(x, 12, mode=mode)
        assert np.isnan(y).sum() <= count and np.isfinite(y[..., :3]).all()
    np.testing.assert_array_equal(cr.interpolate(x, 6, mode="linear"), x)


def test_integers_are_repeated_and_narrow_floats_stay_narrow() -> None:
    labels = np.array([[[3, 1]]])
    np.testing.assert_array_equal(cr.interpolate(labels, 4), [[[3, 3, 1, 1]]])
    x = np.ones((1, 1, 2, 2), np.float16)
    assert cr.interpolate(x, 3, mode="bicubic").dtype == np.float16


def test_a_whole_multiple_is_repeated_without_indices() -> None:
    graph = cr.trace(lambda x: cr.interpolate(x, scale_factor=2), np.ones((1, 2, 3, 4)))
    assert "gather" not in {node.primitive.name for node in graph.nodes}


x = np.zeros((1, 2, 3, 4))
REFUSALS = {
    "size=None, scale_factor=None": (lambda x: cr.interpolate(x), "give one of the two"),
    "size=3, scale_factor=2": (lambda x: cr.interpolate(x, 3, 2), "give one of the two"),
    "mode='cubic' is not known": (lambda x: cr.interpolate(x, 3, mode="cubic"), "'bicubic'"),
    "size=(1, 2, 3) is not one number, nor 2 of them": (
        lambda x: cr.interpolate(x, (1, 2, 3)),
        "the channels stay as they are",
    ),
    "size=2.5 is not one number": (lambda x: cr.interpolate(x, 2.5), "a size is an integer"),
    "scale_factor=-1": (lambda x: cr.interpolate(x, None, -1), "a positive number"),
    "an axis of 3 becomes one of 0": (lambda x: cr.interpolate(x, 0), "at least one element"),
    "[1, 2, 3, 4] has 4 axes": (lambda x: cr.interpolate(x, 3, mode="linear"), "takes 3: n"),
    "align_corners=True with mode='nearest'": (
        lambda x: cr.interpolate(x, 3, align_corners=True),
        "leave align_corners= out",
    ),
    "antialias=True with mode='nearest'": (
        lambda x: cr.interpolate(x, 3, antialias=True),
        'mode="bilinear"',
    ),
    "mode='bilinear' of": (
        lambda x: cr.interpolate(x.astype(np.int64), 3, mode="bilinear"),
        ".astype(np.float32)",
    ),
}


@pytest.mark.parametrize("is_traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_says_what_to_give(text: str, is_traced: bool) -> None:
    call, hint = REFUSALS[text]
    with pytest.raises(ChainruleError) as caught:
        cr.trace(call, x) if is_traced else call(x)
    assert text in str(caught.value) and hint in str(caught.value)


def test_what_named_sizes_cannot_say_is_refused() -> None:
    def by_factor(x: float32["n 1 h w"]):
        return cr.interpolate(x, scale_factor=1.1)

    def by_kernel(x: float32["n 1 h w"]):
        return cr.interpolate(x, 3, mode="bilinear", antialias=True)

    with pytest.raises(ChainruleError, match=r"scale_factor=1.1 of an axis of h[\s\S]*give size="):
        cr.trace(by_factor)
    with pytest.raises(ChainruleError, match=r"antialias=True[\s\S]*graph.bind"):
        cr.trace(by_kernel)

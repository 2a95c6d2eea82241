"""cr.fft: NumPy's spectra as pairs, named sizes, both executors, refusals."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import float64
from chainrule.errors import ChainruleError, SizeError
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(19)
Z = RANDOM.normal(size=(3, 5, 6)) + 1j * RANDOM.normal(size=(3, 5, 6))
PAIR = (Z.real, Z.imag)
NORMS = (None, "backward", "ortho", "forward")


def check(name: str, *options: Any) -> None:
    """The same as NumPy, of a pair and, where it takes them, of real numbers."""
    ours, theirs = getattr(cr.fft, name), getattr(np.fft, name)
    given: list[tuple[Any, Any]] = [(Z.real, Z.real)]
    given += [(PAIR, Z), (Z, Z)] if not name.startswith("r") else []
    for one, other in given:
        found = ours(one, *options)
        found = found[0] + 1j * found[1] if isinstance(found, tuple) else found
        np.testing.assert_allclose(found, theirs(other, *options), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_transforms_along_an_axis_are_numpys(name: str) -> None:
    for norm in NORMS:
        for n in (None, 1, 4, 9):
            check(name, n, -1, norm)
            check(name, n, 0, norm)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_transforms_along_several_axes_are_numpys(name: str) -> None:
    for norm in NORMS:
        for s in (None, (4, 7), (2, 3)):
            check(f"{name}2", s, (-2, -1), norm)
        check(f"{name}n", None, None, norm)
        check(f"{name}n", None, (2, 0), norm)
        check(f"{name}n", (3, 4), (1, 2), norm)


def test_every_transform_of_numpy_but_hermitian_ones_is_there() -> None:
    numbers = {"fftfreq", "rfftfreq"}
    of_numpy = {name for name, _ in inspect.getmembers(np.fft, callable)}
    assert of_numpy - numbers - {"hfft", "ihfft", "test"} == set(cr.fft.__all__)


def test_shifts_are_numpys_of_arrays_and_of_pairs() -> None:
    for axes in (None, 1, (0, 2)):
        for name in ("fftshift", "ifftshift"):
            wanted = getattr(np.fft, name)(Z, axes)
            re, im = getattr(cr.fft, name)(PAIR, axes)
            np.testing.assert_array_equal(re + 1j * im, wanted)
            traced = cr.trace(shifting(name, axes), Z.real)
            np.testing.assert_array_equal(traced.run(x=Z.real).outputs, wanted.real)


def shifting(name: str, axes: Any) -> Any:
    return lambda x: getattr(cr.fft, name)(x, axes)


def program(x: float64["b n"], y: float64["b m"]):
    re, im = cr.fft.fft(x, norm="ortho")
    a, b = cr.fft.rfft(y)
    c = cr.fft.irfft((a * a - b * b, 2 * a * b), y.shape[1])  # the circular convolution
    d = cr.fft.irfft((re, im))
    p, q = cr.fft.ifft2((re, im), norm="forward")
    J = np.sum(np.sin(re) * im) + np.sum(c**2) + np.sum(np.sin(d)) + np.sum(p * q)
    return J


@EITHER
def test_lengths_may_be_named(executor: str) -> None:
    graph = cr.backward(cr.trace(program), wrt=("x", "y"))
    for n, m in ((7, 6), (2, 1)):
        x, y = RANDOM.normal(size=(2, n)), RANDOM.normal(size=(2, m))
        run = graph.run(x=x, y=y, executor=executor)
        assert run["J"] == pytest.approx(program(x, y), rel=1e-12)
        same = cr.backward(cr.trace(program, x=x, y=y), wrt=("x", "y")).run(x=x, y=y)
        for name in ("dJ/dx", "dJ/dy"):
            np.testing.assert_allclose(run[name], same[name], rtol=1e-11, atol=1e-12)
        wanted = [sum(y[0, k] * y[0, j - k] for k in range(m)) for j in range(m)]
        np.testing.assert_allclose(run["c"][0], wanted, rtol=1e-11, atol=1e-12)
    with pytest.raises(SizeError, match="irfft of re"):  # 2 (n - 1) elements are none
        graph.run(x=RANDOM.normal(size=(2, 1)), y=np.ones((2, 2)), executor=executor)


def test_both_orders_agree_with_finite_differences() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 1, 3))
    check_gradients(program, x, y, order=2, seed=0)  # of some directions it cannot decide


def test_a_batch_is_a_loop() -> None:
    x = RANDOM.normal(size=(3, 4, 5))
    for axis in (0, 1):
        re, im = cr.vmap(lambda x, a=axis: cr.fft.rfft(x, axis=a))(x)
        wanted = np.fft.rfft(x, axis=axis + 1)
        np.testing.assert_allclose(re + 1j * im, wanted, rtol=1e-12, atol=1e-13)


def test_nan_stays_in_its_row_and_dtypes_stay() -> None:
    re, im = cr.fft.fft(np.array([[1.0, np.nan], [2, 3]]))
    assert np.isnan(re[0]).all() and np.isfinite(re[1]).all() and np.isfinite(im[1]).all()
    for dtype in (np.float32, np.float16):
        assert cr.fft.rfft(np.ones(4, dtype))[0].dtype == dtype
        assert cr.fft.irfft((np.ones(3, dtype), np.ones(3, dtype))).dtype == dtype
    assert cr.fft.rfft(np.arange(4))[0].dtype == np.float64
    assert cr.fft.fft(np.zeros((0, 3)))[0].shape == (0, 3)


x = np.zeros((2, 3))
REFUSALS = {
    "rfft of a pair": (lambda x: cr.fft.rfft((x, x)), "cr.fft.fft takes pairs"),
    "the real part x: float64[2, 3] and the imaginary part": (
        lambda x: cr.fft.fft((x, x[:1])),
        "both parts of a pair have one shape",
    ),
    "fft of a tuple of 3": (lambda x: cr.fft.fft((x, x, x)), "a pair is (re, im)"),
    "fft along axis 2 of": (lambda x: cr.fft.fft(x, axis=2), "that the array has"),
    "norm='unit' is not known": (lambda x: cr.fft.fft(x, norm="unit"), '"ortho"'),
    "taken as 0 elements": (lambda x: cr.fft.fft(x, 0), "at least one element"),
    "it has no axis to transform": (lambda x: cr.fft.fft(x[0, 0]), "fft of"),
    "s=(2,) for axes (-2, -1)": (lambda x: cr.fft.fft2(x, (2,)), "one length for each axis"),
}


@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_says_what_to_give(text: str) -> None:
    call, hint = REFUSALS[text]
    with pytest.raises(ChainruleError) as caught:
        cr.trace(call, x)
    assert text in str(caught.value) and hint in str(caught.value)
    with pytest.raises(ChainruleError):
        call(x)

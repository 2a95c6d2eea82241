"""Products with 3 x 3 windows by Winograd's method are einsum's on the windows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from compiled_products import GUARD, compiled_winograd
from contractions import Labelled
from executors import needs_native
from measured_memory import EXACT, error_of_runs
from numpy.lib.stride_tricks import sliding_window_view

import chainrule as cr
from chainrule.machine_code.target import host_target
from chainrule.plan.products.winograd import Winograd, winograd

HERE = host_target()
pytestmark = pytest.mark.skipif(HERE.vector_nbytes < 32, reason="this processor has no AVX2")
EVERY_WIDTH = pytest.mark.parametrize("vector_nbytes", [32, 64])  # LLVM parts too wide vectors
N, C, P, Q, U, V, K = range(7)
UNIT = 2.0**-24  # of rounding


@dataclass(frozen=True)
class Case:
    """Images, channels, rows of the kernel, height and width of the positions."""

    images: int
    channels: int
    rows: int
    height: int
    width: int
    adds_up: bool = False
    is_turned: bool = False  # the kernel, as in the gradient by x
    has_windows_first: bool = True

    def made(self, beyond: tuple[float, ...] = ()) -> tuple[Labelled, Labelled, Labelled]:
        """Small integers, whose products are exact, but for what x has `beyond` them."""
        generator = np.random.default_rng(0)
        shape = self.images, self.channels, self.height + 2, self.width + 2
        x = generator.integers(-3, 4, shape).astype("f")
        x.flat[: 400 * len(beyond) : 400] = beyond
        seen = sliding_window_view(x, (3, 3), axis=(-2, -1))
        outer = (self.images, self.rows, self.height, self.width), (N, K, P, Q)
        kernel = (self.rows, self.channels, 3, 3), (K, C, U, V)
        if self.adds_up:
            kernel = (3, 3, self.channels, self.rows), (U, V, C, K)
        elif self.is_turned:
            kernel = (self.channels, self.rows, 3, 3), (C, K, U, V)
        (given, labels), (wanted, kept) = (outer, kernel) if self.adds_up else (kernel, outer)
        y = generator.integers(-3, 4, given).astype("f")
        if self.is_turned:
            y = y[:, :, ::-1, ::-1]
        out = np.full(wanted, np.nan, "f")
        return Labelled(seen, (N, C, P, Q, U, V)), Labelled(y, labels), Labelled(out, kept)

    @property
    def sizes(self) -> dict[int, int]:
        found = {N: self.images, C: self.channels, K: self.rows, U: 3, V: 3}
        return found | {P: self.height, Q: self.width}


CASES = {
    "even": Case(3, 32, 32, 14, 14),
    "odd": Case(5, 33, 37, 13, 9),
    "one row of images": Case(1, 40, 65, 7, 75),
    "narrow": Case(6, 32, 50, 20, 6, has_windows_first=False),
    "turned round": Case(5, 48, 40, 11, 12, is_turned=True),
    "deep": Case(3, 300, 32, 14, 14),
    "its kernel": Case(3, 32, 37, 14, 14, adds_up=True),
    "its kernel, odd": Case(5, 33, 70, 13, 9, adds_up=True),
    "its kernel, long": Case(1, 35, 32, 7, 75, adds_up=True, has_windows_first=False),
}


def planned(case: Case, vector_nbytes: int, *made: Labelled) -> Winograd | None:
    x, y, out = (one.operand for one in made)
    first, second = (x, y) if case.has_windows_first else (y, x)
    return winograd(first, second, out, case.sizes, np.dtype("f"), vector_nbytes)


def einsum(x: Labelled, y: Labelled, out: Labelled) -> np.ndarray:
    wide = x.array.astype("d"), list(x.labels), y.array.astype("d"), list(y.labels)
    return np.einsum(*wide, list(out.labels), optimize=True).astype("f")


@pytest.mark.sweep(3)
@EVERY_WIDTH
@pytest.mark.parametrize("name", CASES)
def test_every_shape_is_einsum_for_any_number_of_threads(name: str, vector_nbytes: int) -> None:
    case = CASES[name]
    x, y, out = case.made()
    one = planned(case, vector_nbytes, x, y, out)
    assert one is not None
    expected = einsum(x, y, out)
    whole = np.full(out.array.size + 32, GUARD, "f")
    result = whole[16:-16].reshape(out.array.shape)
    arrays = (x.array, y.array) if case.has_windows_first else (y.array, x.array)
    for threads in (1, 2):
        run = compiled_winograd(one, threads, target=HERE)
        result[...] = np.nan
        run(*arrays, result)
        np.testing.assert_array_equal(result, expected)
    run(*arrays, result, 2.0, -1.0)
    np.testing.assert_array_equal(result, expected)
    assert (whole[:16] == GUARD).all() and (whole[-16:] == GUARD).all()


def test_a_square_takes_16_multiplications_instead_of_36() -> None:
    for name in ("even", "its kernel"):
        case = CASES[name]
        one = planned(case, HERE.vector_nbytes, *case.made())
        assert one is not None
        direct = case.images * case.channels * case.rows * case.height * case.width * 9
        assert one.multiplications * 36 == direct * 16


def test_nan_and_infinity_reach_the_windows_that_hold_them_and_no_others() -> None:
    case = CASES["odd"]
    x, y, out = case.made((np.nan, np.inf, -np.inf))
    one = planned(case, HERE.vector_nbytes, x, y, out)
    assert one is not None
    compiled_winograd(one, target=HERE)(x.array, y.array, out.array)
    reached = ~np.isfinite(x.array).all(axis=(1, 4, 5))[:, None]
    np.testing.assert_array_equal(
        ~np.isfinite(out.array), np.broadcast_to(reached, out.array.shape)
    )
    assert reached.any() and not reached.all()
    clean = np.where(np.isfinite(x.array), x.array, 0)
    expected = einsum(Labelled(clean, x.labels), y, out)
    where = np.isfinite(out.array)
    np.testing.assert_array_equal(out.array[where], expected[where])


@pytest.mark.parametrize("name", ["even", "deep", "its kernel"])
@pytest.mark.parametrize("is_positive", [False, True])
def test_rounding_errors_are_a_few_units_of_what_is_added_up(name: str, is_positive: bool) -> None:
    """Direct sums err by 2 to 10 units of all absolute products, these by 2 to 30: where windows
    hang over zeros, the products that cancel are up to four times as large."""
    case, generator = CASES[name], np.random.default_rng(1)
    x, y, out = case.made()
    shape = case.images, case.channels, case.height + 2, case.width + 2
    random = generator.standard_normal(shape).astype("f")
    random[:, :, 0] = random[..., 0] = 0  # as a padded image has
    other = generator.standard_normal(y.array.shape).astype("f")
    if is_positive:
        random, other = np.abs(random), np.abs(other)
    x = Labelled(sliding_window_view(random, (3, 3), axis=(-2, -1)), x.labels)
    y = Labelled(other, y.labels)
    one = planned(case, HERE.vector_nbytes, x, y, out)
    assert one is not None
    compiled_winograd(one, target=HERE)(x.array, y.array, out.array)
    wide = [Labelled(each.array.astype("d"), each.labels) for each in (x, y)]
    labels = list(out.labels)
    exact, size = (
        np.einsum(a, list(x.labels), b, list(y.labels), labels, optimize=True)
        for a, b in ((each.array for each in wide), (np.abs(each.array) for each in wide))
    )
    assert np.max(np.abs(out.array - exact) / size) < 40 * UNIT
    assert np.linalg.norm(out.array - exact) < 10 * UNIT * np.linalg.norm(exact)


def test_what_is_left_to_others() -> None:
    case, width = CASES["even"], HERE.vector_nbytes
    x, y, out = (one.operand for one in case.made())
    sizes, kind = case.sizes, np.dtype("f")
    assert winograd(x, y, out, sizes, kind, width) is not None
    assert winograd(x, y, out, sizes, np.dtype("d"), width) is None  # the referee's own dtype
    assert winograd(x, y, out, sizes, kind, 16) is None
    assert winograd(x, y, out, {**sizes, N: 0}, kind, width) is None
    assert winograd(x, y, out, {**sizes, N: 1}, kind, width) is None  # few squares
    assert winograd(x, y, out, {**sizes, V: 2}, kind, width) is None
    assert winograd(x, y, out, {**sizes, C: 31}, kind, width) is None
    last = list(out.strides)
    last[out.labels.index(Q)] *= 2
    assert winograd(x, y, replace(out, strides=tuple(last)), sizes, kind, width) is None
    for step, dilation in ((2, 1), (1, 2)):
        strides = list(x.strides)
        for position, place in ((P, U), (Q, V)):
            strides[x.labels.index(position)] *= step
            strides[x.labels.index(place)] *= dilation
        assert winograd(replace(x, strides=tuple(strides)), y, out, sizes, kind, width) is None


def gradients(x, K, g):
    return np.sum(cr.conv2d(x, K, padding=1) ** 2 * g)


@needs_native
def test_a_convolution_and_both_gradients_do_it() -> None:
    generator = np.random.default_rng(2)
    arrays = {
        "x": generator.standard_normal((4, 32, 12, 12)),
        "K": generator.standard_normal((40, 32, 3, 3)) / 17,
        "g": generator.standard_normal((4, 40, 12, 12)),
    }
    narrow = {name: one.astype("f") for name, one in arrays.items()}
    slope = cr.grad(gradients, wrt=("x", "K"))
    step = cr.trace(slope, **narrow).compile(executor="native")
    found = step(**narrow)
    assert str(step.plan()).count("by Winograd") == 3
    wide = {name: one.astype("d") for name, one in narrow.items()}
    for one, expected in zip(found, cr.compile(slope, executor="reference")(**wide), strict=True):
        np.testing.assert_allclose(one, expected, rtol=0, atol=4e-6 * np.max(np.abs(expected)))


@needs_native
def test_what_is_derived_twice_is_as_in_float64() -> None:
    generator = np.random.default_rng(3)
    arrays = {
        "x": generator.standard_normal((4, 32, 12, 12)),
        "K": generator.standard_normal((32, 32, 3, 3)) / 17,
        "g": generator.standard_normal((4, 32, 12, 12)),
    }
    narrow = {name: one.astype("f") for name, one in arrays.items()}

    def squared(x, K, g):
        dx, dK = cr.grad(gradients, wrt=("x", "K"))(x, K, g)
        return np.sum(dx**2) + np.sum(dK**3)

    slope = cr.grad(squared, wrt=("x", "K"))
    step = cr.trace(slope, **narrow).compile(executor="native")
    found = step(**narrow)
    assert str(step.plan()).count("by Winograd") >= 6
    wide = {name: one.astype("d") for name, one in narrow.items()}
    for one, expected in zip(found, cr.compile(slope, executor="reference")(**wide), strict=True):
        np.testing.assert_allclose(one, expected, rtol=0, atol=1e-5 * np.max(np.abs(expected)))


@needs_native
@pytest.mark.usefixtures("only_what_numpy_sees")
def test_memory_is_what_the_report_says_to_the_byte() -> None:
    generator = np.random.default_rng(4)
    shapes = {"x": (4, 32, 12, 12), "K": (40, 32, 3, 3), "g": (4, 40, 12, 12)}
    arrays = {name: generator.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    graph = cr.trace(cr.grad(gradients, wrt=("x", "K")), **arrays)
    assert error_of_runs(graph, {}, arrays, "outputs", "native") == EXACT


@pytest.mark.parametrize("name", ["odd", "its kernel, odd"])
def test_bits_do_not_depend_on_the_number_of_threads(name: str) -> None:
    case, generator = CASES[name], np.random.default_rng(5)
    x, y, out = case.made()
    one = planned(case, HERE.vector_nbytes, x, y, out)
    assert one is not None
    shape = case.images, case.channels, case.height + 2, case.width + 2
    seen = sliding_window_view(generator.standard_normal(shape, np.float32), (3, 3), axis=(-2, -1))
    other = generator.standard_normal(y.array.shape, np.float32)
    found = [np.full_like(out.array, np.nan) for _ in range(2)]
    for threads, result in zip((1, 8), found, strict=True):
        compiled_winograd(one, threads, target=HERE)(seen, other, result)
    np.testing.assert_array_equal(*found)
    assert np.isfinite(found[0]).all()

"""Products of bfloat16 in tiles are those of the float32 numbers, in pairs and widened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiled_products import GUARD, compiled_product
from emitted import TARGETS
from test_tiles import SHAPES, WIDE, of_shape
from test_windowed import CASES, einsum

from chainrule.graph.dtypes import bfloat16
from chainrule.machine_code.target import Target, host_target
from chainrule.plan.products.contraction import Gemm, Loop
from chainrule.plan.products.tiles import PAIRED_COLUMNS, Narrow, Tiles, tiles_for
from chainrule.plan.products.windowed import windowed_gemm, windowed_tiles

pytestmark = pytest.mark.skipif(not WIDE, reason="this processor has no AVX2")
BF16, F32 = bfloat16(), np.dtype(np.float32)
needs_pairs = pytest.mark.skipif(
    not host_target().multiplies_pairs, reason="this processor has no AVX-512-BF16"
)
PAIRS = pytest.param("avx512", "ab", True, id="pairs", marks=needs_pairs)
WIDENED = [
    pytest.param(target, narrow, False, id=f"{target}-{narrow}")
    for target in WIDE
    for narrow in ("a", "b", "ab")
]
EVERY_WAY = pytest.mark.parametrize(("target", "narrow", "pairs"), [PAIRS, *WIDENED])
LAYOUTS = pytest.mark.parametrize("layout", ["NN", "TN", "NT", "TT"])
ODD = [(2, 1, 40), (1, 77, 50), (60, 77, 1), (40, 1030, 31), (7, 513, 300)]


def tiles_of(gemm: Gemm, target: Target, narrow: Narrow, pairs: bool, threads: int = 1) -> Tiles:
    found = tiles_for(gemm, F32, target.vector_nbytes, threads, narrow, pairs)
    assert found is not None
    assert found.narrow == narrow
    assert found.pairs is (pairs and (gemm.transa or gemm.n >= PAIRED_COLUMNS))
    return found


def dtypes_of(gemm: Gemm, narrow: Narrow) -> tuple[np.dtype, np.dtype]:
    """Those of x and y."""
    a, b = (BF16 if one in narrow else F32 for one in "ab")
    return (a, b) if gemm.a_is_x else (b, a)


def within_nan(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The array with NaN before and behind it in memory."""
    whole = np.full(array.size + 64, np.nan, dtype)
    found = whole[32:-32].reshape(array.shape)
    found[...] = array
    return found


def arrays_of(
    gemm: Gemm, shape: tuple[int, int, int], layout: str, narrow: Narrow, scale: int = 3
) -> tuple[np.ndarray, ...]:
    """Small integers as they lie in memory, and as matrices in float64."""
    m, k, n = shape
    generator = np.random.default_rng(m + k + n)
    shapes = (k, m) if layout[0] == "T" else (m, k), (n, k) if layout[1] == "T" else (k, n)
    x, y = (
        within_nan(generator.integers(-scale, scale + 1, one), dtype)
        for one, dtype in zip(shapes, dtypes_of(gemm, narrow), strict=True)
    )
    left, right = x.astype(np.float64), y.astype(np.float64)
    return x, y, left.T if layout[0] == "T" else left, right.T if layout[1] == "T" else right


@pytest.mark.sweep(23)
@EVERY_WAY
@LAYOUTS
@pytest.mark.parametrize("shape", [*SHAPES, *ODD], ids=str)
def test_every_shape_in_every_layout(shape, layout, target, narrow, pairs):
    gemm = of_shape(*shape, layout)
    x, y, left, right = arrays_of(gemm, shape, layout, narrow)
    whole = np.full((shape[0] + 2, shape[2]), GUARD, np.float32)
    out = whole[1:-1]
    out[...] = np.nan
    tiles = tiles_of(gemm, TARGETS[target], narrow, pairs)
    run = compiled_product(gemm, tiles, "float32", target=TARGETS[target])
    run(x, y, out)
    np.testing.assert_array_equal(out, left @ right)
    run(x, y, out, -2.0, 3.0)
    np.testing.assert_array_equal(out, left @ right)
    assert (whole[[0, -1]] == GUARD).all()


@EVERY_WAY
@pytest.mark.parametrize("layout", ["NN", "TN"])
def test_parts_are_disjoint_and_together_the_product_bit_for_bit(layout, target, narrow, pairs):
    gemm = of_shape(90, 301, 200, layout)
    gemm = replace(
        gemm,
        loops=(Loop(3, *((0, 90 * 301) if not gemm.a_is_x else (90 * 301, 0)), 90 * 200, False),),
    )
    generator = np.random.default_rng(1)
    shape = (3, 301, 90) if layout[0] == "T" else (3, 90, 301)
    of_x, of_y = dtypes_of(gemm, narrow)
    x, y = generator.normal(size=shape).astype(of_x), generator.normal(size=(301, 200)).astype(of_y)
    left = x.astype(np.float64)
    left = left.swapaxes(1, 2) if layout[0] == "T" else left
    whole = np.full((3, 90, 200), np.nan, np.float32)
    alone = tiles_of(gemm, TARGETS[target], narrow, pairs)
    compiled_product(gemm, alone, "float32", target=TARGETS[target])(x, y, whole)
    np.testing.assert_allclose(whole, left @ y.astype(np.float64), rtol=0, atol=1e-3)
    tiles = tiles_of(gemm, TARGETS[target], narrow, pairs, threads=2)
    parts = tiles.parts(gemm, 1e6, 2)
    run = compiled_product(gemm, tiles, "float32", parts, target=TARGETS[target])
    written = np.zeros(whole.shape, int)
    for part in range(parts):
        share = np.full_like(whole, np.nan)
        run(x, y, share, shares=[part])
        mine = ~np.isnan(share)
        np.testing.assert_array_equal(share[mine], whole[mine])
        written += mine
    assert parts > 2
    assert (written == 1).all()


@EVERY_WAY
@pytest.mark.parametrize("change", ["stack", "groups", "fetching", "narrow"])
@pytest.mark.parametrize("layout", ["NN", "TN"])
def test_every_shape_of_tiles_gives_the_same_bits(layout, change, target, narrow, pairs):
    gemm = of_shape(150, 270, 260, layout)
    tiles = replace(tiles_of(gemm, TARGETS[target], narrow, pairs), depth=136)
    changed = {
        "stack": replace(tiles, packs=True, stack=2),
        "groups": replace(tiles, groups=4),
        "fetching": replace(tiles, packs=True, stack=2, fetches=True),
        "narrow": replace(tiles, columns=5, vectors=1),
    }[change]
    generator = np.random.default_rng(0)
    shapes = (270, 150) if layout[0] == "T" else (150, 270), (270, 260)
    of_x, of_y = dtypes_of(gemm, narrow)
    x, y = (
        generator.normal(size=shapes[0]).astype(of_x),
        generator.normal(size=shapes[1]).astype(of_y),
    )
    results = []
    for one in (tiles, changed):
        out = np.ones((150, 260), np.float32)
        compiled_product(gemm, one, "float32", target=TARGETS[target])(x, y, out, 0.3, 0.7)
        results.append(out)
    np.testing.assert_array_equal(*results)


@EVERY_WAY
@LAYOUTS
def test_nan_and_infinity_stay_in_their_row_and_column(layout, target, narrow, pairs):
    gemm = of_shape(45, 71, 39, layout)
    x, y, *_ = arrays_of(gemm, (45, 71, 39), layout, narrow)
    left, right = x.T if layout[0] == "T" else x, y.T if layout[1] == "T" else y
    left[3, 5], left[44, 70], right[7, 38] = np.nan, np.inf, -np.inf
    out = np.full((45, 39), np.nan, np.float32)
    tiles = tiles_of(gemm, TARGETS[target], narrow, pairs)
    compiled_product(gemm, tiles, "float32", target=TARGETS[target])(x, y, out)
    with np.errstate(invalid="ignore"):
        wide = left.astype(np.float64), right.astype(np.float64)
        np.testing.assert_array_equal(out, np.einsum("ik,kj->ij", *wide))
    assert np.isfinite(np.delete(np.delete(out, [3, 44], 0), 38, 1)).all()


def in_order(x: np.ndarray, y: np.ndarray, depth: int) -> np.ndarray:
    """x y in float32: of each two steps the second first, each product with one rounding.

    Products are exact in float64, and the sums of these numbers are, too.
    """
    k = x.shape[1]
    total = np.zeros((len(x), y.shape[1]), np.float32)
    for begin in range(0, k, depth):
        part = np.zeros_like(total)
        for first in range(begin, min(begin + depth, k), 2):
            for step in (first + 1, first):
                if step < k:
                    product = np.outer(x[:, step].astype(np.float64), y[step].astype(np.float64))
                    part = (part + product).astype(np.float32)
        total = total + part
    return total


@needs_pairs
@LAYOUTS
@pytest.mark.parametrize("k", [2, 33, 600, 1027])
def test_pairs_are_added_in_the_order_and_with_the_roundings_that_are_promised(layout, k):
    gemm = of_shape(20, k, 34, layout)
    generator = np.random.default_rng(k)
    x, y = (
        (generator.uniform(0.5, 4, size) * generator.choice([-1, 1], size)).astype(BF16)
        for size in ((20, k), (k, 34))
    )
    tiles = tiles_of(gemm, TARGETS["avx512"], "ab", True)
    assert tiles.depth % 2 == 0
    out = np.full((20, 34), np.nan, np.float32)
    given = x.T.copy() if layout[0] == "T" else x, y.T.copy() if layout[1] == "T" else y
    compiled_product(gemm, tiles, "float32", target=TARGETS["avx512"])(*given, out)
    np.testing.assert_array_equal(out, in_order(x, y, tiles.depth))


LEAST = 2.0**-126  # of normal numbers, of float32 and of bfloat16


def small_products(target: str, narrow: Narrow, pairs: bool) -> tuple[np.ndarray, ...]:
    """Products of numbers around the least normal one, and x and y."""
    gemm = of_shape(40, 30, 50)
    generator = np.random.default_rng(0)
    of_x, of_y = dtypes_of(gemm, narrow)
    x = (generator.normal(size=(40, 30)) * LEAST).astype(of_x)
    y = generator.normal(size=(30, 50)).astype(of_y)
    x[0], x[1], y[:, 0], x[2, 0], y[0, 1] = LEAST / 4, -0.0, 0.0, LEAST / 2, np.inf
    out = np.full((40, 50), np.nan, np.float32)
    tiles = tiles_of(gemm, TARGETS[target], narrow, pairs)
    compiled_product(gemm, tiles, "float32", target=TARGETS[target])(x, y, out)
    return out, x.astype(np.float64), y.astype(np.float64)


@pytest.mark.parametrize(("target", "narrow", "pairs"), WIDENED)
def test_subnormal_numbers_are_kept_where_operands_are_widened(target, narrow, pairs):
    out, x, y = small_products(target, narrow, pairs)
    with np.errstate(invalid="ignore"):
        exact = x @ y
        close = np.abs(out - exact) <= 31 * 2.0**-149 + 31 * 2.0**-24 * (np.abs(x) @ np.abs(y))
    finite = np.isfinite(exact)
    assert close[finite].all()
    assert (out[0, 2:] != 0).any()
    np.testing.assert_array_equal(out[~finite], exact[~finite])


@needs_pairs
def test_subnormal_numbers_count_as_zero_in_pairs():
    out, x, y = small_products("avx512", "ab", True)
    assert (out[0, 2:] == 0).all()  # all of the row's are
    assert np.isnan(out[2, 1])  # of which one times infinity
    finite = np.isfinite(y).all(0)
    flushed = np.where(np.abs(x) < LEAST, 0, x)
    known = flushed @ y[:, finite]
    # a sum that is below LEAST becomes zero, at each step
    bound = 31 * 2.0**-24 * (np.abs(x) @ np.abs(y[:, finite])) + 30 * LEAST
    assert (np.abs(out[:, finite] - known) <= bound).all()
    zeros = out[:, finite][np.abs(out[:, finite]) < LEAST]
    assert zeros.size and (zeros == 0).all() and not np.signbit(zeros[0])


@EVERY_WAY
def test_a_sum_of_negative_zeros_is_zero(target, narrow, pairs):
    gemm = of_shape(33, 3, 40)
    of_x, of_y = dtypes_of(gemm, narrow)
    x, y = np.full((33, 3), -0.0, of_x), np.ones((3, 40), of_y)
    out = np.full((33, 40), np.nan, np.float32)
    tiles = tiles_of(gemm, TARGETS[target], narrow, pairs)
    compiled_product(gemm, tiles, "float32", target=TARGETS[target])(x, y, out)
    assert (out == 0).all() and not np.signbit(out).any()


@pytest.mark.sweep(7)
@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("narrow", ["a", "b", "ab"])
@pytest.mark.parametrize("name", CASES)
def test_windows_of_bfloat16_are_read_where_they_lie(name, narrow, target):
    x, y, out, sizes = CASES[name].made("float32")
    width = TARGETS[target].vector_nbytes
    gemm = windowed_gemm(x.operand, y.operand, out.operand, sizes, F32, width)
    assert gemm is not None
    tiles = windowed_tiles(gemm, F32, width, 2, narrow)
    expected = einsum(x, y, out)
    of_x, of_y = dtypes_of(gemm, narrow)
    given = _narrowed(x.array, of_x), _narrowed(y.array, of_y)
    run = compiled_product(gemm, tiles, "float32", 2, target=TARGETS[target])
    run(*given, out.array)
    np.testing.assert_array_equal(out.array, expected)


def _narrowed(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The same view of an array of another dtype."""
    base = array
    while base.base is not None:
        base = base.base
    other = base.astype(dtype)
    offset = (array.__array_interface__["data"][0] - base.ctypes.data) // base.itemsize
    strides = tuple(one // base.itemsize * dtype.itemsize for one in array.strides)
    return np.lib.stride_tricks.as_strided(other.reshape(-1)[offset:], array.shape, strides)

"""Products in tiles are NumPy's, whatever the shape, the layout, the factors and the parts."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import numpy as np
import pytest
from any_layout import any_layout, check_layout
from compiled_products import GUARD, compiled_product
from contractions import Product, after_copies, laid_out
from emitted import HERE, TARGETS, WIDTHS
from hypothesis import HealthCheck, reject, settings
from hypothesis import strategies as st

from chainrule.execute.native.plan_to_ir.emit import Code, Module
from chainrule.execute.native.plan_to_ir.emit import Operand as Register
from chainrule.execute.native.products.pack_kernels import transposed
from chainrule.execute.native.products.tile_code import emit_tiled_product
from chainrule.machine_code.target import compile_object, load_objects
from chainrule.plan.products.contraction import Gemm, Loop, Operand, contiguous, plan_contraction
from chainrule.plan.products.tiles import COLUMNS, FEWEST_PANELS, Tiles, tiles_for

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
WIDE = [name for name in HERE if WIDTHS[name] >= 32]
EVERY_TARGET = pytest.mark.parametrize("target", WIDE)
EVERY_WIDTH = pytest.mark.parametrize("vector_nbytes", [32, 64])  # what is decided for them
needs_tiles = pytest.mark.skipif(not WIDE, reason="this processor has no AVX2")


def of_shape(m: int, k: int, n: int, layout: str = "NN") -> Gemm:
    """C row by row: x (m, k) times y (k, n), T where one lies transposed."""
    sizes = {0: m, 1: k, 2: n}
    x = Operand((0, 1), (1, m) if layout[0] == "T" else (k, 1))
    y = Operand((1, 2), (1, k) if layout[1] == "T" else (n, 1))
    gemm = plan_contraction(x, y, contiguous((0, 2), sizes), sizes)
    assert isinstance(gemm, Gemm)
    return gemm


def tiles_of(gemm: Gemm, dtype: str, target: str, threads: int = 1) -> Tiles:
    return tiles_of_width(gemm, dtype, TARGETS[target].vector_nbytes, threads)


def tiles_of_width(gemm: Gemm, dtype: str, vector_nbytes: int, threads: int) -> Tiles:
    found = tiles_for(gemm, np.dtype(dtype), vector_nbytes, threads)
    assert found is not None
    return found


def arrays_of(m: int, k: int, n: int, layout: str, dtype: str) -> tuple[np.ndarray, ...]:
    """Small integers (their products are exact), as they lie in memory."""
    generator = np.random.default_rng(m + k + n)
    shapes = (k, m) if layout[0] == "T" else (m, k), (n, k) if layout[1] == "T" else (k, n)
    x, y = (generator.integers(-3, 4, shape).astype(dtype) for shape in shapes)
    return x, y, x.T if layout[0] == "T" else x, y.T if layout[1] == "T" else y


SHAPES = [
    *((2, 1, 32), (33, 2, 2), (31, 7, 33), (13, 300, 65), (64, 17, 64), (18, 513, 20)),
    (100, 3, 40),
    *((64, 300, 300), (128, 70, 257)),  # whose strips are packed where x lies transposed
    *((24, 16, 32), (25, 256, 96), (12, 257, 32), (7, 40, 200), (97, 31, 15), (40, 600, 48)),
]


@pytest.mark.sweep(13)
@EVERY_TARGET
@DTYPES
@pytest.mark.parametrize("layout", ["NN", "TN", "NT", "TT"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_shape_in_every_layout(shape, layout, dtype, target):
    m, k, n = shape
    gemm = of_shape(m, k, n, layout)
    x, y, left, right = arrays_of(m, k, n, layout, dtype)
    whole = np.full((m + 2, n), GUARD, dtype)
    out = whole[1:-1]
    out[...] = np.nan
    run = compiled_product(gemm, tiles_of(gemm, dtype, target), dtype, target=TARGETS[target])
    run(x, y, out)
    np.testing.assert_array_equal(out, left @ right)
    run(x, y, out, -2.0, 3.0)
    np.testing.assert_array_equal(out, left @ right)
    assert (whole[[0, -1]] == GUARD).all()


@pytest.mark.sweep(5)
@EVERY_TARGET
@DTYPES
@pytest.mark.parametrize(
    "change", ["stack", "groups", "direct", "packed", "strips", "fetching", "deep", "narrow"]
)
def test_every_shape_of_tiles_gives_the_same_bits(change, dtype, target):
    gemm = of_shape(150, 70, 260, "TN" if change == "strips" else "NN")
    tiles = tiles_of(gemm, dtype, target)
    if change == "fetching":
        tiles = replace(tiles, depth=24)  # so that there is a next block
    changed = {
        "stack": replace(tiles, stack=3),
        "groups": replace(tiles, groups=4),
        "direct": replace(tiles, packs=False),
        "packed": replace(tiles, packs=True),
        "strips": replace(tiles, packs=True, stack=2, packs_strips=True),
        "fetching": replace(tiles, packs=True, stack=2, fetches=True),
        "deep": replace(tiles, depth=70),
        "narrow": replace(tiles, columns=5, vectors=1),
    }[change]
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(150, 70)).astype(dtype), generator.normal(size=(70, 260))
    results = []
    for one in (tiles, changed):
        out = np.ones((150, 260), dtype)
        compiled_product(gemm, one, dtype, target=TARGETS[target])(
            x, y.astype(dtype), out, 0.3, 0.7
        )
        results.append(out)
    np.testing.assert_array_equal(*results)


@EVERY_WIDTH
@DTYPES
def test_strips_are_packed_where_rows_lie_far_apart_and_many_panels_read_them(dtype, vector_nbytes):
    whole = 256 // np.dtype(dtype).itemsize
    vectors = max(COLUMNS[vector_nbytes])
    panel = vectors * vector_nbytes // np.dtype(dtype).itemsize  # of C's transpose: its columns

    def packs_strips(m: int, n: int, layout: str, threads: int = 1) -> bool:
        gemm = of_shape(m, 256, n, layout)
        return tiles_of_width(gemm, dtype, vector_nbytes, threads).packs_strips

    assert packs_strips(whole, 512, "TN")
    assert not packs_strips(whole, 512, "NN")  # a row of the strip lies in one line
    assert not packs_strips(whole + 1, 512, "TN")  # the rows do not lie at like addresses
    assert packs_strips(whole, FEWEST_PANELS * panel, "TN")
    assert not packs_strips(whole, (FEWEST_PANELS - 1) * panel, "TN")  # too few panels read it
    assert not packs_strips(whole, 512, "TN", threads=64)


@pytest.mark.sweep(3)
@EVERY_TARGET
@DTYPES
@pytest.mark.parametrize("threads", [2, 5])
def test_parts_are_disjoint_and_together_the_product_bit_for_bit(threads, dtype, target):
    gemm = of_shape(90, 300, 200)
    assert not gemm.a_is_x
    gemm = replace(gemm, loops=(Loop(3, 0, 90 * 300, 90 * 200, False),))
    tiles = tiles_of(gemm, dtype, target, threads)
    parts = tiles.parts(gemm, 1e6, threads)
    assert threads <= parts <= min(4 * threads, tiles.cells(gemm))
    generator = np.random.default_rng(1)
    x = generator.normal(size=(3, 90, 300)).astype(dtype)
    y = generator.normal(size=(300, 200)).astype(dtype)
    whole = np.full((3, 90, 200), np.nan, dtype)
    compiled_product(gemm, tiles_of(gemm, dtype, target), dtype, target=TARGETS[target])(
        x, y, whole
    )
    np.testing.assert_allclose(whole, x.astype("d") @ y, rtol=0, atol=1e-3)
    run = compiled_product(gemm, tiles, dtype, parts, target=TARGETS[target])
    written = np.zeros(whole.shape, int)
    for part in range(parts):
        share = np.full_like(whole, np.nan)
        run(x, y, share, shares=[part])
        mine = ~np.isnan(share)
        np.testing.assert_array_equal(share[mine], whole[mine])
        written += mine
    assert (written == 1).all()


@EVERY_TARGET
@DTYPES
def test_products_of_one_module_keep_their_own_ways_of_reading(dtype, target):
    gemm = of_shape(150, 70, 260, "TN")
    tiles = tiles_of(gemm, dtype, target)
    packed = replace(tiles, packs=True, stack=2)
    ways = [
        replace(tiles, packs=False, stack=1),
        packed,
        replace(packed, packs_strips=True),
        replace(packed, fetches=True),
        replace(packed, packs_strips=True, fetches=True),
    ]
    module = Module()
    for number, way in enumerate(ways):
        emit_tiled_product(module, f"f{number}", gemm, way, np.dtype(dtype), 1)
    names = re.findall(r"define internal void (@\w+)", module.text())
    assert len(names) == len(set(names))
    load_objects([compile_object(module.text(), TARGETS[target])], {})


@pytest.mark.slow
@needs_tiles
@settings(
    max_examples=6,  # of ten random products nine are not done in tiles
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much],
)
@any_layout(st.sampled_from(WIDE))
def test_any_layout_gives_the_product_and_leaves_what_lies_between(made, alpha, beta, target):
    def compute(product: Product, dtype: str) -> None:
        gemm, planned, _ = after_copies(product)
        tiles = tiles_for(gemm, np.dtype(dtype), TARGETS[target].vector_nbytes, 1)
        if tiles is None:
            reject()
        arrays = planned.x.array, planned.y.array, planned.out.array
        compiled_product(gemm, tiles, dtype, target=TARGETS[target])(*arrays, alpha, beta)

    check_layout(made, alpha, beta, compute)


@EVERY_TARGET
@DTYPES
def test_sums_over_two_axes_that_do_not_merge(dtype, target):
    sizes = {0: 40, 1: 5, 2: 30, 3: 64}
    x, _ = laid_out((0, 1, 2), sizes, dtype, memory=[1, 0, 2])
    y, _ = laid_out((1, 2, 3), sizes, dtype, padded=frozenset((2,)))
    out, _ = laid_out((0, 3), sizes, dtype)
    for place, one in enumerate((x, y)):
        one.array[...] = np.random.default_rng(place).integers(-3, 4, one.array.shape)
    product = Product(x, y, out, sizes)
    gemm, planned, copies = after_copies(product)
    assert not copies and any(loop.accumulates for loop in gemm.loops)
    out.array[...] = 1
    expected = product.expected(2.0, -1.0)
    run = compiled_product(gemm, tiles_of(gemm, dtype, target), dtype, target=TARGETS[target])
    run(planned.x.array, planned.y.array, planned.out.array, 2.0, -1.0)
    np.testing.assert_array_equal(out.array, expected)


@pytest.mark.sweep(5)
@EVERY_TARGET
@DTYPES
@pytest.mark.parametrize("layout", ["NN", "TN", "NT", "TT"])
def test_nan_and_infinity_stay_in_their_row_and_column(layout, dtype, target):
    gemm = of_shape(45, 70, 39, layout)
    x, y, left, right = arrays_of(45, 70, 39, layout, dtype)
    left[3, 5], left[44, 69], right[7, 38] = np.nan, np.inf, -np.inf
    out = np.full((45, 39), np.nan, dtype)
    compiled_product(gemm, tiles_of(gemm, dtype, target), dtype, target=TARGETS[target])(x, y, out)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, np.einsum("ik,kj->ij", left, right))
    assert np.isfinite(np.delete(np.delete(out, [3, 44], 0), 38, 1)).all()


@EVERY_TARGET
@DTYPES
def test_a_factor_of_zero_keeps_nan_and_beta_zero_forgets_it(dtype, target):
    gemm = of_shape(40, 30, 50)
    x, y, left, right = arrays_of(40, 30, 50, "NN", dtype)
    left[1, 2] = np.nan
    out = np.full((40, 50), 3.0, dtype)
    run = compiled_product(gemm, tiles_of(gemm, dtype, target), dtype, target=TARGETS[target])
    run(x, y, out, 0.0, 1.0)
    assert np.isnan(out[1]).all() and (np.delete(out, 1, 0) == 3).all()
    left[1, 2] = 0
    run(x, y, out, 1.0, 0.0)
    np.testing.assert_array_equal(out, left @ right)


@EVERY_TARGET
@pytest.mark.parametrize("lanes", [4, 8])
def test_a_square_is_transposed(lanes, target):
    module = Module()
    code = Code(module)
    pointer = Register("%p", "ptr")
    places = [code.address(pointer, Register(str(lanes * k), "i64"), "float") for k in range(lanes)]
    rows = [code.load(place, f"<{lanes} x float>") for place in places]
    for place, column in zip(places, transposed(code, rows), strict=True):
        code.store(column, place)
    code.do("ret void")
    code.function("f", [pointer])
    library = load_objects([compile_object(module.text(), TARGETS[target])], {})
    square = np.arange(lanes * lanes, dtype=np.float32).reshape(lanes, lanes)
    expected = square.T.copy()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address("f"))(square.ctypes.data)
    np.testing.assert_array_equal(square, expected)


@pytest.mark.parametrize(
    ("gemm", "dtype", "vector_nbytes"),
    [
        (of_shape(40, 40, 40), "float32", 16),
        (of_shape(40, 40, 1), "float32", 64),
        (of_shape(3, 3, 3), "float32", 64),
        (of_shape(40, 40, 40), "float16", 64),
    ],
    ids=["narrow vectors", "a vector", "a small product", "half precision"],
)
def test_what_is_left_to_others(gemm, dtype, vector_nbytes):
    assert tiles_for(gemm, np.dtype(dtype), vector_nbytes, 2) is None


@EVERY_WIDTH
@pytest.mark.parametrize("threads", [1, 2, 16])
@pytest.mark.parametrize("shape", [*SHAPES, (512, 784, 2048), (4096, 4096, 4096)], ids=str)
def test_there_are_cells_for_all_threads_and_panels_stay_small(shape, threads, vector_nbytes):
    m, k, n = shape
    for layout in ("NN", "TN", "NT"):
        gemm = of_shape(m, k, n, layout)
        tiles = tiles_of_width(gemm, "float32", vector_nbytes, threads)
        bunch = 256 * 48 * 4
        assert tiles.packed_nbytes(4) <= 2**19 + bunch  # half of a second-level cache of 1 MiB
        assert 1 <= tiles.groups <= tiles.strips(gemm)
        groups = gemm.n // 40 if tiles.packs else tiles.strips(gemm) // 4
        assert tiles.cells(gemm) >= min(threads, tiles.panels(gemm) * max(1, groups))


@EVERY_WIDTH
def test_threads_have_rows_of_their_own_in_products_with_near_weights(vector_nbytes):
    for shape in ((32, 64, 256), (32, 32, 256), (50, 128, 256)):
        gemm = of_shape(*shape)
        tiles = tiles_of_width(gemm, "float32", vector_nbytes, 2)
        assert (tiles.groups, tiles.stacks(gemm), tiles.packs) == (2, 1, False)
    for gemm in (
        of_shape(32, 256, 64, "NT"),  # has to be packed
        of_shape(32, 64, 1024),  # weights that are not near
        of_shape(32, 16, 256),  # not worth two threads
    ):
        tiles = tiles_of_width(gemm, "float32", vector_nbytes, 2)
        assert tiles.groups < 2 or tiles.stacks(gemm) > 1


@EVERY_WIDTH
def test_threads_share_a_gradient_of_few_columns(vector_nbytes):
    gemm = of_shape(64, 2000, 10, "TN")
    assert tiles_of_width(gemm, "float32", vector_nbytes, 2).cells(gemm) >= 2


@EVERY_WIDTH
@pytest.mark.parametrize("threads", [2, 4])
def test_a_small_square_of_long_sums_is_shared(threads, vector_nbytes):
    tiles = tiles_of_width(of_shape(64, 4096, 64), "float32", vector_nbytes, threads)
    assert tiles.cells(of_shape(64, 4096, 64)) >= threads
    alone = tiles_of_width(of_shape(64, 4096, 64), "float32", vector_nbytes, 1)
    assert alone.vectors == max(COLUMNS[vector_nbytes])  # no narrower than it must be


@DTYPES
def test_no_more_columns_are_read_together_than_a_cache_has_places_for_their_address(dtype):
    page, lanes = 4096 // np.dtype(dtype).itemsize, 64 // np.dtype(dtype).itemsize

    def columns(k: int) -> int:
        tiles = tiles_of_width(of_shape(4000, k, lanes), dtype, 64, 1)
        assert tiles.vectors == 1
        return tiles.columns

    assert columns(page) == 8
    assert columns(page + lanes) == COLUMNS[64][1]

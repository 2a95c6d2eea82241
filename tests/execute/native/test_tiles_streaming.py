"""Large matrices that few columns multiply are read where they lie, some columns at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from compiled_products import GUARD, compiled_product
from emitted import TARGETS
from test_tiles import DTYPES, EVERY_TARGET, WIDE, arrays_of, of_shape, tiles_of
from test_tiles_ahead import aligned, fetched, lines_of

from chainrule.graph.dtypes import bfloat16
from chainrule.plan.products.tiles import STREAMED, tiles_for

pytestmark = pytest.mark.skipif(not WIDE, reason="this processor has no AVX2")
SHAPES = [(5, 1025, 800), (4, 1601, 517), (7, 815, 1000), (16, 3000, 264), (24, 1024, 1024)]


@EVERY_TARGET
@DTYPES
@pytest.mark.parametrize("layout", ["NN", "TN"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_product_is_right(shape, layout, dtype, target):
    gemm = of_shape(*shape, layout)
    tiles = tiles_of(gemm, dtype, target, threads=2)
    assert tiles.streams
    assert tiles.depth <= STREAMED
    x, y, left, right = arrays_of(*shape, layout, dtype)
    whole = np.full((shape[0] + 2, shape[2]), GUARD, dtype)
    out = whole[1:-1]
    out[...] = np.nan
    run = compiled_product(gemm, tiles, dtype, tiles.parts(gemm, 1e6, 2), target=TARGETS[target])
    run(x, y, out)
    np.testing.assert_array_equal(out, left @ right)
    run(x, y, out, -2.0, 3.0)
    np.testing.assert_array_equal(out, left @ right)
    assert (whole[[0, -1]] == GUARD).all()


@EVERY_TARGET
@pytest.mark.parametrize("narrow", ["a", "b"])
def test_matrices_of_bfloat16_are_widened(narrow, target):
    gemm = of_shape(5, 2100, 777)
    tiles = tiles_for(gemm, np.dtype(np.float32), TARGETS[target].vector_nbytes, 1, narrow)
    assert tiles is not None
    assert tiles.streams
    x, y, left, right = arrays_of(5, 2100, 777, "NN", "float32")
    if gemm.a_is_x is (narrow == "a"):
        x = x.astype(bfloat16())
    else:
        y = y.astype(bfloat16())
    out = np.full((5, 777), np.nan, np.float32)
    compiled_product(gemm, tiles, "float32", target=TARGETS[target])(x, y, out)
    np.testing.assert_array_equal(out, left @ right)


@EVERY_TARGET
@DTYPES
def test_what_the_next_steps_read_is_fetched(dtype, target):
    gemm = of_shape(4, 1024, 1024)  # A is the second matrix
    tiles = replace(tiles_of(gemm, dtype, target), stack=2)
    assert tiles.streams
    x, y = aligned((4, 1024), dtype), aligned((1024, 1024), dtype)
    found = set(fetched(gemm, tiles, x, y, target, every=True))
    assert lines_of(y[STREAMED:]) <= found


@EVERY_TARGET
@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((16, 512, 512), "NN"),  # from the second-level cache
        ((25, 1024, 1024), "NN"),  # packed, as is what lies transposed
        ((4, 1024, 1024), "NT"),
        ((4, 9000, 100), "NN"),  # its columns lie beside each other
    ],
    ids=str,
)
def test_others_are_not(shape, layout, target):
    assert not tiles_of(of_shape(*shape, layout), "float32", target).streams

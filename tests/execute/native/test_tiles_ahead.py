"""Tiles fetch what is packed next: all of it, once, and nothing else."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import numpy as np
import pytest
from emitted import TARGETS
from test_tiles import WIDE, of_shape, tiles_of

from chainrule.execute.native.plan_to_ir.emit import Module
from chainrule.execute.native.products.tile_code import emit_tiled_product
from chainrule.graph.dtypes import as_dtype
from chainrule.machine_code.target import compile_object, host_target, load_objects
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.tiles import Tiles, tiles_for

pytestmark = pytest.mark.skipif(not WIDE, reason="this processor has no AVX2")
needs_pairs = pytest.mark.skipif(
    not host_target().multiplies_pairs, reason="this processor has no AVX-512-BF16"
)
LINE = 64
# What the loop of a tile carries from one line to the next.
CARRIED = re.compile(r"call void @llvm.prefetch.p0\((ptr %c\d+_0), i32 0, i32 3, i32 1\)")
EVERY = re.compile(r"call void @llvm.prefetch.p0\((ptr %\w+), i32 0, i32 3, i32 1\)")
TOLD = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def aligned(shape: tuple[int, int], dtype: str) -> np.ndarray:
    """Zeros that begin with a cache line."""
    count = shape[0] * shape[1] * as_dtype(dtype).itemsize
    memory = np.zeros(count + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + count].view(as_dtype(dtype)).reshape(shape)


def fetched(
    gemm: Gemm, tiles: Tiles, x: np.ndarray, y: np.ndarray, target: str, *, every: bool = False
) -> list[int]:
    """The addresses that the tiles of a product fetch, but for those of the workspace: by what
    they carry from line to line, or `every` one."""
    module, dtype = Module(), np.dtype(np.float32 if tiles.narrow else x.dtype)
    emit_tiled_product(module, "f", gemm, tiles, dtype, 1)
    text, count = (EVERY if every else CARRIED).subn(r"call void @told(\1)", module.text())
    assert count, "no tile fetches"
    code = compile_object(text + "\ndeclare void @told(ptr)\n", TARGETS[target])
    told: list[int] = []
    tell = TOLD(lambda address: told.append(address or 0))
    library = load_objects([code], {"told": ctypes.cast(tell, ctypes.c_void_p).value or 0})
    number = ctypes.c_float if dtype == np.float32 else ctypes.c_double
    types = [*[ctypes.c_void_p] * 3, number, number, ctypes.c_void_p, *[ctypes.c_int64] * 2]
    out = aligned((gemm.n, gemm.m), dtype.name)
    work = aligned((1, tiles.packed_nbytes(dtype.itemsize)), "uint8")
    pointers = (one.ctypes.data for one in (x, y, out))
    ctypes.CFUNCTYPE(None, *types)(library.address("f"))(*pointers, 1, 0, work.ctypes.data, 0, 1)
    begin = work.ctypes.data
    return [one for one in told if not begin <= one < begin + work.nbytes]


def lines_of(array: np.ndarray) -> set[int]:
    """The cache lines of a part of an array, whose rows begin with one."""
    first = array.ctypes.data
    row = range(0, array.shape[1] * array.itemsize, LINE)
    return {first + k * array.strides[0] + place for k in range(len(array)) for place in row}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("layout", ["NN", "NT"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_next_block_of_all_panels_is_fetched(dtype: str, layout: str, target: str) -> None:
    gemm = of_shape(640, 192, 192, layout)  # A is the second matrix
    tiles = replace(tiles_of(gemm, dtype, target), packs=True, stack=3, depth=64, fetches=True)
    x, y = aligned((640, 192), dtype), aligned((192, 192), dtype)
    found = fetched(gemm, tiles, x, y, target)
    assert set(found) == lines_of(y[64:] if layout == "NN" else y[:, 64:])
    assert len(found) == len(set(found)) * tiles.groups


@pytest.mark.parametrize("target", WIDE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("groups", [1, 2])
def test_the_next_bunch_is_fetched(dtype: str, groups: int, target: str) -> None:
    gemm = of_shape(480, 64, 512, "TN")  # B is the first matrix, whose columns lie side by side
    tiles = replace(
        tiles_of(gemm, dtype, target),
        **{"packs": True, "packs_strips": True, "stack": 8, "groups": groups, "fetches": True},
    )
    assert tiles.strips(gemm) * tiles.columns == 480, "bunches begin with a line"
    x, y = aligned((64, 480), dtype), aligned((64, 512), dtype)
    found = fetched(gemm, tiles, x, y, target)
    first_of_a_group = [x[:, 480 * k // groups :][:, :48] for k in range(groups)]
    packed_at_once = set[int]().union(*(lines_of(one) for one in first_of_a_group))
    assert set(found) == lines_of(x) - packed_at_once
    assert len(found) == len(set(found)) * tiles.stacks(gemm)


@needs_pairs
@pytest.mark.parametrize("layout", ["NN", "NT"])
def test_the_next_block_is_fetched_in_pairs(layout: str) -> None:
    gemm = of_shape(640, 256, 192, layout)
    tiles = tiles_for(gemm, np.dtype(np.float32), 64, 1, "ab", True)
    assert tiles is not None
    tiles = replace(tiles, stack=3, depth=128, fetches=True)
    x, y = aligned((640, 256), "bfloat16"), aligned((256, 192), "bfloat16")
    y = y if layout == "NN" else aligned((192, 256), "bfloat16")
    found = fetched(gemm, tiles, x, y, "avx512")
    assert set(found) == lines_of(y[128:] if layout == "NN" else y[:, 128:])
    assert len(found) == len(set(found)) * tiles.groups


@needs_pairs
@pytest.mark.parametrize("groups", [1, 2])
def test_the_next_bunch_is_fetched_in_pairs(groups: int) -> None:
    gemm = of_shape(960, 64, 512, "TN")
    tiles = tiles_for(gemm, np.dtype(np.float32), 64, 1, "ab", True)
    assert tiles is not None
    assert tiles.packs_strips
    tiles = replace(tiles, stack=8, groups=groups, fetches=True)
    x, y = aligned((64, 960), "bfloat16"), aligned((64, 512), "bfloat16")
    found = {one // LINE * LINE for one in fetched(gemm, tiles, x, y, "avx512")}
    first_of_a_group = [x[:, 960 * k // groups :][:, :48] for k in range(groups)]
    packed_at_once = set[int]().union(*(lines_of(one) for one in first_of_a_group))
    assert lines_of(x) - packed_at_once <= found <= lines_of(x)  # a bunch is a line and a half

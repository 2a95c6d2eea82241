"""Products with windows of an array, which tiles read where they lie: no array of all windows.

Windows overlap, so they do not lie like a matrix: the steps of the inner index, such as (channel,
row, column) within a window, are not evenly apart.  A table says for each step how far on it is;
only the columns of a tile are evenly apart.  Dukhan, "The Indirect Convolution Algorithm" (2019),
has a table of pointers, for each place of a window and each position.

The same serves an operand of which no elements lie side by side, such as every second column: it is
packed, or read number by number, and not copied first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np

from chainrule.plan.products.contraction import (
    Axis,
    Gemm,
    Loop,
    Operand,
    axes_by_role,
    by_matrix,
    overlap,
)
from chainrule.plan.products.tiles import (
    COLUMNS,
    DEEPEST,
    PARTS_A_THREAD,
    STACKED,
    Narrow,
    Tiles,
)

# Steps from which on a table has enough, and the most it may have.
ENOUGH, LONGEST = 32, 2**14
# Rows and columns of C from which on the same is done where no elements of an operand lie side by
# side.  x[:, ::step] W of 32 to 2000 rows and 32 to 1024 columns: 0.72 to 0.98 of the time with a
# copy first for steps of 2 and 4, 0.58 to 1.08 for 16 and 64 (one core of a Zen 4).
FEWEST = 16
# Columns of C for which a thread packs A once more.
WORTH_PACKING = 96
# Of a tile whose rows are windows: columns at most, and registers, in which its vectors are, those
# of A and a number of B.
WIDEST, REGISTERS = 4, 16


def windowed_gemm(
    x: Operand, y: Operand, out: Operand, sizes: Mapping[int, int], dtype: np.dtype, vectors: int
) -> Gemm | None:
    """The product where one of x and y has windows, or no elements side by side; None for others,
    and where tiles cannot do it.

    `vectors` is the width of the processor's, in bytes.
    """
    if vectors not in COLUMNS or np.dtype(dtype).char not in "fd":
        return None
    return _windowed(x, y, out, tuple(sizes.items()))


@lru_cache(maxsize=1024)
def _windowed(
    x: Operand, y: Operand, out: Operand, sizes: tuple[tuple[int, int], ...]
) -> Gemm | None:
    known = dict(sizes)
    if 0 in known.values():
        return None
    overlapping = [overlaps(one, known) for one in (x, y)]
    is_scattered = not any(overlapping)
    if is_scattered:
        overlapping = [_is_scattered(one, known) for one in (x, y)]
    if overlapping.count(True) != 1:
        return None
    batch, x_only, y_only, inner = axes_by_role({"x": x, "y": y, "out": out}, known)
    for has_windows in (False, True):  # A, whose rows fill vectors
        a_is_x = overlapping[0] is has_windows
        rows, columns = (x_only, y_only) if a_is_x else (y_only, x_only)
        a, b = ("x", "y") if a_is_x else ("y", "x")
        beside = (one for one in rows if one.out == 1)
        is_packed = is_scattered or not has_windows
        row = next((one for one in beside if is_packed or getattr(one, a) == 1), None)
        if row is not None and inner and (columns or not is_packed):
            break
    else:
        return None
    if is_scattered and min(row.size, prod(one.size for one in columns)) < FEWEST:
        return None
    column = min(columns, key=lambda one: (one.size < 4, abs(getattr(one, b))), default=Axis(1))
    inner = sorted(inner, key=lambda one: -abs(getattr(one, a)))
    gemm = Gemm(
        m=row.size,
        n=column.size,
        k=1,
        transa=True,
        transb=False,
        lda=getattr(row, a),
        ldb=getattr(column, b),
        ldc=column.out,
        a_is_x=a_is_x,
    )
    steps = list[Loop]()
    while inner and prod(one.size for one in steps) < ENOUGH:
        steps.insert(0, _loop(gemm, inner.pop()))
    depth = prod(one.size for one in steps)
    if depth > LONGEST:
        return None
    around = [one for one in (*batch, *rows) if one is not row]
    around += [one for one in columns if one is not column]
    loops = [*(_loop(gemm, one) for one in around), *(_loop(gemm, one) for one in inner)]
    return replace(gemm, k=depth, loops=tuple(loops), inner=tuple(steps), transa=is_packed)


def _loop(gemm: Gemm, axis: Axis) -> Loop:
    return Loop(axis.size, *by_matrix(gemm, axis), accumulates=axis.out == 0)


def overlaps(operand: Operand, sizes: Mapping[int, int]) -> bool:
    """Whether it has more elements than there are in memory, but for what it only repeats."""
    labels = (sizes[label] for label in operand.labels)
    return overlap(zip(labels, operand.strides, strict=True))


def _is_scattered(operand: Operand, sizes: Mapping[int, int]) -> bool:
    """Whether no elements lie side by side, as in every second column."""
    axes = zip(operand.labels, operand.strides, strict=True)
    found = [stride for label, stride in axes if sizes[label] > 1]
    return bool(found) and all(abs(stride) > 1 for stride in found)


def windowed_tiles(
    gemm: Gemm, dtype: np.dtype, vector_nbytes: int, threads: int, narrow: Narrow = ""
) -> Tiles:
    """The tiles of such a product, of which the `narrow` operands are bfloat16.

    A is packed but where it has the windows: its rows lie side by side, and few columns, if any,
    are multiplied with them.
    """
    lanes = vector_nbytes // np.dtype(dtype).itemsize
    vectors, columns = -(-gemm.m // lanes), gemm.n
    if gemm.transa:
        by_vectors = COLUMNS[vector_nbytes]
        vectors = min(vectors, max(by_vectors))
        columns = min(by_vectors[vectors], columns)
    else:
        columns = min(columns, WIDEST)
        vectors = min(vectors, (REGISTERS - 1) // (columns + 1))
    tiles = Tiles(
        lanes=lanes,
        vectors=vectors,
        columns=columns,
        depth=-(-gemm.k // -(-gemm.k // DEEPEST)),
        packs=gemm.transa,
        narrow=narrow,
    )
    tiles = replace(tiles, stack=min(STACKED, tiles.panels(gemm)))
    wanted = PARTS_A_THREAD * threads if threads > 1 else 1
    strips = tiles.strips(gemm)
    most = max(strips * tiles.columns // WORTH_PACKING, threads)
    groups = min(-(-wanted // tiles.cells(gemm)), most, strips)
    return replace(tiles, groups=max(1, groups))


def table(loops: Sequence[Loop], matrix: str) -> list[int]:
    """How many elements further on each step of the inner index is, in `matrix` "a" or "b"."""
    found = [0]
    for loop in loops:
        stride = loop.a_stride if matrix == "a" else loop.b_stride
        found = [place + index * stride for place in found for index in range(loop.size)]
    return found

"""A product of thin matrices in chunks small enough for OpenBLAS' kernels for small matrices.

On its cores with AVX-512 OpenBLAS (0.3.17 and newer) multiplies small matrices where they lie,
without packing them first.  A product that is too large for that and has a short side is packed
for nothing, and then takes two to three times as long as its chunks one after another.
"""

from __future__ import annotations

from dataclasses import replace

from chainrule.plan.contraction import Gemm, Loop

CORES = frozenset(("SkylakeX", "Cooperlake", "SapphireRapids"))  # those with such kernels
LARGEST = 100**3  # the scalar products of a small product
THIN = 32  # a side up to which chunks are faster; at 64 they gain 20 % in one of three layouts
SHORTEST = 16  # rows or columns of a chunk: one vector


def in_chunks(gemm: Gemm) -> Gemm:
    """The same product, its longer side cut by one more loop where chunks are faster.

    Only for CORES: those without such kernels take up to 1.4 times as long for chunks.
    Measured in float32 on SkylakeX, in µs, whole and in chunks: x y of 256 x 784 x 10 (rows,
    inner, columns) 54 and 39, of 512 x 2048 x 10 300 and 209, of 512 x 10 x 2048 320 and 217,
    transposed x times y of 2048 x 512 x 10 445 and 170.
    """
    count = gemm.m * gemm.n * gemm.k
    thin = min(gemm.m, gemm.n, gemm.k) <= THIN
    if gemm.routine != "gemm" or not thin or count <= LARGEST:
        return gemm
    length = max(gemm.m, gemm.n)
    for chunks in range(-(-count // LARGEST), length // SHORTEST + 1):
        if length % chunks == 0:
            return _cut(gemm, chunks)
    return gemm


def _cut(gemm: Gemm, chunks: int) -> Gemm:
    if gemm.m >= gemm.n:
        rows = gemm.m // chunks
        loop = Loop(chunks, rows * (gemm.lda if gemm.transa else 1), 0, rows, False)
        gemm = replace(gemm, m=rows)
    else:
        columns = gemm.n // chunks
        along = columns * (1 if gemm.transb else gemm.ldb)
        loop = Loop(chunks, 0, along, columns * gemm.ldc, False)
        gemm = replace(gemm, n=columns)
    return replace(gemm, loops=(loop, *gemm.loops))

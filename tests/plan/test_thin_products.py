"""Thin products in chunks: the same product, small enough, and nothing else is cut."""

from __future__ import annotations

import numpy as np
import pytest
from contractions import Product, after_copies, laid_out
from test_contraction import plan, replay

from chainrule.plan.thin_products import LARGEST, SHORTEST, in_chunks

THIN = [
    ("mk", "kn", "mn", dict(m=256, k=784, n=10)),
    ("km", "kn", "mn", dict(m=1024, k=512, n=10)),
    ("km", "kn", "nm", dict(m=1024, k=512, n=10)),
    ("mk", "nk", "mn", dict(m=512, k=10, n=2048)),
    ("mk", "nk", "mn", dict(m=2048, k=10, n=512)),
    ("bmk", "bkn", "bmn", dict(b=2, m=10, k=300, n=640)),
]


@pytest.mark.parametrize(("x", "y", "out", "sizes"), THIN, ids=lambda one: str(one))
def test_chunks_are_the_same_product_and_small(x, y, out, sizes):
    by_label = {place: size for place, size in enumerate(sizes.values())}
    letters = list(sizes)
    generator = np.random.default_rng(0)
    arrays = [
        laid_out(tuple(map(letters.index, one)), by_label, "float64")[0] for one in (x, y, out)
    ]
    for one in arrays[:2]:
        one.array[...] = generator.integers(-3, 4, one.array.shape)
    product = Product(*arrays, sizes=by_label)
    gemm, planned, copies = after_copies(product)
    assert not copies
    chunked = in_chunks(gemm)
    assert chunked.m * chunked.n * chunked.k <= LARGEST < gemm.m * gemm.n * gemm.k
    assert max(chunked.m, chunked.n) >= SHORTEST
    assert chunked.flops == gemm.flops
    replay(chunked, planned.x.array, planned.y.array, planned.out.array)
    np.testing.assert_array_equal(product.out.array, product.expected())


@pytest.mark.parametrize(
    "sizes",
    [
        dict(m=256, k=784, n=256),  # not thin
        dict(m=256, k=256, n=10),  # small
        dict(m=1021, k=1021, n=10),  # a prime number of rows
        dict(m=4096, k=4096, n=1),  # gemv
    ],
)
def test_other_products_stay_whole(sizes):
    gemm = plan("mk", "kn", "mn", **sizes)
    assert in_chunks(gemm) is gemm

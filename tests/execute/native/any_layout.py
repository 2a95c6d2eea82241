"""Random products of arrays in any layout: their values, and what lies beside them in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from contractions import Product, products
from hypothesis import given
from hypothesis import strategies as st

Made = tuple[str, tuple[Product, np.ndarray]]
MADE = st.sampled_from(["float32", "float64"]).flatmap(
    lambda dtype: st.tuples(st.just(dtype), products(dtype, largest=20))
)
ALPHAS, BETAS = st.sampled_from([1.0, -0.5, 0.0]), st.sampled_from([0.0, 1.0, 2.0])


def any_layout(*more: st.SearchStrategy[Any]) -> Callable[..., Any]:
    """Gives a test what `check_layout` takes first, and an example of each of `more`."""
    return given(MADE, ALPHAS, BETAS, *more)


def check_layout(
    made: Made, alpha: float, beta: float, compute: Callable[[Product, str], object]
) -> None:
    """`compute` makes the result alpha x y + beta out, and leaves the memory around it."""
    dtype, (product, memory) = made
    out = product.out.array
    if beta:  # with beta = 0 the result holds NaN before
        out[...] = np.arange(out.size).reshape(out.shape)
    expected, before, held = product.expected(alpha, beta), memory.copy(), out.copy()
    compute(product, dtype)
    np.testing.assert_array_equal(out, expected)
    out[...] = held
    np.testing.assert_array_equal(memory, before)

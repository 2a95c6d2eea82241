"""Batches on which relu has a gradient that rounding does not decide.

Of a million inputs of relu, some lie so near to zero that float32 gives them one sign or the other
by the order of a sum.  Then a library that takes half of a sample's gradient is as right as one
that takes the whole, and what is compared would be luck.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MARGIN = 1e-4  # relative to the layer's root mean square; rounding moves them by about 1e-6


def rows_off_kinks(
    random: np.random.Generator, n: int, matrices: Sequence[np.ndarray]
) -> np.ndarray:
    """(n, d) float32, normal: rows for which each of relu(... relu(x @ W1) @ W2 ...) is sure.

    Raises ValueError where too few of 2 n rows are.
    """
    rows = random.standard_normal((2 * n, len(matrices[0])), dtype=np.float32)
    sure, h = np.ones(len(rows), bool), rows.astype(np.float64)
    for W in matrices:
        z = h @ W.astype(np.float64)
        sure &= np.min(np.abs(z), axis=1) > MARGIN * np.sqrt(np.mean(z**2))
        h = np.maximum(z, 0)
    if np.count_nonzero(sure) < n:
        raise ValueError(f"{np.count_nonzero(sure)} of {len(rows)} rows are off the kinks of relu")
    return rows[sure][:n]

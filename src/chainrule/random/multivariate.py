"""Multivariate normal numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import ShapeError
from chainrule.frontend.composite import composite, trace_of
from chainrule.random.distributions import float_type, in_dtype, normal


@composite(symbol="normal", latex=r"\mathcal{N}")
def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = np.float32
) -> Any:
    """Normal vectors with a mean (..., d) and a covariance (..., d, d).

    mean + L z with normal numbers z and L the Cholesky factor of the covariance, so that
    derivatives flow to both.  `shape` is that of the result without its last axis.
    """
    dtype = float_type(dtype, (key, mean, cov), "multivariate_normal")
    centre, spread = in_dtype(mean, dtype), in_dtype(cov, dtype)
    d = np.shape(centre)[-1:]
    if not d or np.ndim(spread) < 2 or tuple(np.shape(spread)[-2:]) != (*d, *d):
        trace = trace_of((key, mean, cov))
        shown = [", ".join(map(str, np.shape(one))) for one in (centre, spread)]
        raise ShapeError(
            f"multivariate_normal: mean [{shown[0]}] and covariance [{shown[1]}] do not fit",
            where=trace.where() if trace is not None else "",
            hint="the mean is (..., d), the covariance (..., d, d)",
        )
    if shape is None:
        shape = np.broadcast_shapes(np.shape(centre)[:-1], np.shape(spread)[:-2])
    z = normal(key, (*tuple(shape), *d), dtype)
    factor = np.linalg.cholesky(spread)
    return centre + np.einsum("...ij,...j->...i", factor, z)

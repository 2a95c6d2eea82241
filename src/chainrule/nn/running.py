"""The logarithm of running sums of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import ShapeError
from chainrule.frontend.composite import composite
from chainrule.frontend.errors.refusing import refuse, shown
from chainrule.graph.dtypes import dtype_kind
from chainrule.numpy.of_arrays import applied
from chainrule.numpy.of_one_primitive import stop_gradient
from chainrule.primitives.cumulative import recurrence


@composite(symbol="logcumsumexp", latex=r"\operatorname{logcumsumexp}")
def logcumsumexp(x: Any, axis: int = -1) -> Any:
    """log of the running sum of exp(x) along the axis; finite for any finite x.

    Where all elements so far are -inf, so is the result, and its derivative is 0.
    """
    x = x if hasattr(x, "dtype") else np.asarray(x)
    x = x if dtype_kind(x.dtype) == "f" else x.astype(np.float64)
    if not -np.ndim(x) <= axis < np.ndim(x):
        refuse(
            ShapeError,
            (x,),
            f"logcumsumexp: axis {axis} of {shown(x)}",
            "an axis of x: np.reshape(x, 1) makes one of a number",
        )
    axis %= np.ndim(x)
    if np.shape(x)[axis] == 0:
        return x
    # Sums are kept over exp of the largest element so far, and scaled where that grows.
    highest = stop_gradient(np.maximum.accumulate(x, axis=axis))
    level = np.where(np.abs(highest) < np.inf, highest, 0)
    scale = np.exp(np.minimum(_before(level, axis) - level, 0))
    total = applied(recurrence, (scale, np.exp(x - level)), axis=axis, reverse=False)
    nothing = total == 0
    return np.where(nothing, -np.inf, np.log(np.where(nothing, 1, total))) + level


def _before(x: Any, axis: int) -> Any:
    """Each place has the element before it, the first one itself."""
    at = (slice(None),) * axis
    return np.concatenate([x[(*at, slice(0, 1))], x[(*at, slice(None, -1))]], axis)

"""NumPy functions that are composites, and the whole table of what is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.composites import (
    averages,
    binning,
    by_row,
    choosing,
    comparing,
    correlation,
    creating,
    diagonals,
    differences,
    elementwise,
    finite,
    joining,
    linalg,
    nan_functions,
    norms,
    ordering,
    padding,
    products,
    quantiles,
    rearranging,
    rounded,
    updates,
)
from chainrule.errors import InputError
from chainrule.frontend.functions import FUNCTIONS
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced, wrap
from chainrule.graph.node import Node


def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    """a limited to [a_min, a_max]; where it equals a limit both share the derivative."""
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    if low is None and high is None:
        raise InputError("np.clip needs a lower or an upper limit", hint="np.clip(x, 0, 1)")
    if low is not None:
        a = np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


COMPOSITES: dict[Any, Callable[..., Any]] = {
    **elementwise.ELEMENTWISE,
    **finite.FINITE,
    **rounded.ROUNDED,
    **averages.AVERAGES,
    **nan_functions.NAN_FUNCTIONS,
    **quantiles.QUANTILES,
    **differences.DIFFERENCES,
    **correlation.CORRELATION,
    **binning.BINNING,
    np.clip: clip,
    **products.PRODUCTS,
    **norms.NORMS,
    **linalg.LINALG,
    **ordering.ORDERING,
    **updates.UPDATES,
    **rearranging.REARRANGING,
    **joining.JOINING,
    **diagonals.DIAGONALS,
    **padding.PADDING,
    **creating.CREATING,
    **choosing.CHOOSING,
    **comparing.COMPARING,
    **by_row.BY_ROW,
}


def _unwrapped(value: Any) -> Any:
    if isinstance(value, Traced):
        return value.node
    if isinstance(value, (list, tuple)):
        make: Any = getattr(type(value), "_make", type(value))  # of a named tuple
        return make([_unwrapped(item) for item in value])
    return value


def _on_nodes(function: Callable[..., Any]) -> Callable[..., Any]:
    def traced(trace: Trace, *args: Any, **kwargs: Any) -> Any:
        given = [wrap(trace, arg) if isinstance(arg, Node) else arg for arg in args]
        return _unwrapped(function(*given, **kwargs))

    return traced


TABLE: dict[Any, Callable[..., Any]] = {
    **FUNCTIONS,
    **{name: _on_nodes(function) for name, function in COMPOSITES.items()},
}

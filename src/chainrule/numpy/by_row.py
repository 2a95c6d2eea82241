"""`np.apply_along_axis`: calls a function for each row while tracing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import ShapeError, UnsupportedError
from chainrule.frontend.functions.elementwise import as_node
from chainrule.numpy.of_arrays import array_of
from chainrule.numpy.rearranging import axis_of


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Any:
    """A function of rows along an axis, called once for each of them."""
    trace, place = arr.program, axis_of(arr, axis)
    rows = np.moveaxis(arr, place, -1)
    leading = rows.shape[:-1]
    if not all(isinstance(size, int) for size in leading):
        raise UnsupportedError(
            f"np.apply_along_axis of {trace.show(arr.node)}, whose number of rows is not known",
            where=trace.where(),
            hint="write the function for whole arrays, or use cr.vmap",
        )
    results = [
        array_of(as_node(trace, func1d(rows[index], *args, **kwargs)), trace)
        for index in np.ndindex(*leading)
    ]
    if not results:
        raise ShapeError(
            f"np.apply_along_axis of {trace.show(arr.node)}, which has no rows along axis {place}",
            where=trace.where(),
            hint="give an array with rows: the function is called once for each",
        )
    out = np.reshape(np.stack(results), (*leading, *results[0].shape))
    made = range(len(leading), out.ndim)
    return np.moveaxis(out, [*made], [*range(place, place + len(made))])


BY_ROW: dict[Any, Callable[..., Any]] = {np.apply_along_axis: apply_along_axis}

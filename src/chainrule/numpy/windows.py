"""Sliding windows over the last axes, and the arguments that convolution and pooling share."""

from __future__ import annotations

import operator
from typing import Any, NoReturn

import numpy as np

from chainrule.errors import InputError, ShapeError
from chainrule.frontend.composite import trace_of
from chainrule.frontend.errors import refusing
from chainrule.frontend.errors.refusing import shown as show
from chainrule.graph.sizes.sizes import Size
from chainrule.numpy.of_arrays import applied
from chainrule.primitives import windows as primitives
from chainrule.primitives.windows import Counts, span

AXES = {
    1: "(n, channels, length)",
    2: "(n, channels, height, width)",
    3: "(n, channels, depth, height, width)",
}


def windows(x: Any, window: Counts, stride: Counts, dilation: Counts, asked: str) -> Any:
    """The windows of the last axes of x: their positions, then what is in each.

    A ShapeError where a window is larger than its axis; for a named size that is a condition.
    """
    trace = trace_of((x,))
    lengths = np.shape(x)[np.ndim(x) - len(window) :]
    for length, w, d in zip(lengths, window, dilation, strict=True):
        room = length - span(w, d)
        text = f"{asked}: a window of {w}"
        text += f" with dilation {d}, so of {span(w, d)}," if d > 1 else ""
        text += f" is larger than its axis of {length}"
        if isinstance(room, Size):
            assert trace is not None
            trace.require(room, False, text)
        elif room < 0:
            refuse(
                (x,),
                text,
                f"a window of {show_counts(window)} must fit into {show_counts(lengths)}, "
                "padding included: pad more, or take a smaller window",
            )
    # A longer step than the axis takes the first window alone, as one of its length does.
    stride = tuple(
        min(step, max(length, 1)) if isinstance(length, int) else step
        for step, length in zip(stride, lengths, strict=True)
    )
    return applied(primitives.windows, (x,), window=window, stride=stride, dilation=dilation)


def fold_windows(g: Any, stride: Counts, dilation: Counts, shape: Any) -> Any:
    """Zeros of a shape, to which each window of g (..., positions, places) is added."""
    options = {"stride": stride, "dilation": dilation, "shape": tuple(shape)}
    return applied(primitives.fold_windows, (g,), **options)


def refuse(given: tuple[Any, ...], what: str, hint: str) -> NoReturn:
    """A ShapeError at the user's line."""
    refusing.refuse(ShapeError, given, what, hint)


def show_counts(counts: Any) -> str:
    """Lengths as 3 x 3."""
    return " x ".join(map(str, counts))


def counts_of(value: Any, axes: int, least: int, asked: str, name: str) -> Counts:
    """An integer for each axis, of one for all or of a tuple."""
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes
    try:
        found = tuple(operator.index(one) for one in given)
    except TypeError:
        found = ()
    if len(found) != axes or min(found) < least:
        raise InputError(
            f"{asked}: {name}={value!r} is not one integer of at least {least}"
            + (f", nor {axes} of them" if axes > 1 else ""),
            hint=f"for instance {name}={max(least, 1)}"
            + (f", or {name}={(max(least, 1),) * axes} for each axis" if axes > 1 else ""),
        )
    return found


def batched(x: Any, axes: int, asked: str) -> tuple[Any, bool]:
    """x with a batch axis in front, and whether it had one."""
    if np.ndim(x) == axes + 2:
        return x, True
    if np.ndim(x) == axes + 1:
        return x[None], False
    refuse(
        (x,),
        f"{asked}: {show(x)} has {np.ndim(x)} axes",
        f"it takes {axes + 2} axes {AXES[axes]}, or {axes + 1} without n",
    )


def padded(x: Any, widths: tuple[tuple[Any, Any], ...]) -> Any:
    """x with zeros around its last axes; a negative width takes elements away."""
    if any(before < 0 or after < 0 for before, after in widths):
        lengths = np.shape(x)[np.ndim(x) - len(widths) :]
        ends = zip(lengths, widths, strict=True)
        x = x[(..., *(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in ends))]
        widths = tuple((max(before, 0), max(after, 0)) for before, after in widths)
    if not any(before or after for before, after in widths):
        return x
    return np.pad(x, ((0, 0),) * (np.ndim(x) - len(widths)) + widths)

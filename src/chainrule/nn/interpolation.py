"""Resizes signals, images and volumes as PyTorch's interpolate, axis by axis."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.errors.refusing import refuse, require_flag
from chainrule.graph.dtypes import dtype_kind, is_narrow
from chainrule.graph.sizes.sizes import Size, divide_exactly
from chainrule.nn import adaptive_pooling
from chainrule.nn.kernels import Line, antialiased, between, nearest_places
from chainrule.numpy.windows import show

RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}
MODES = ("nearest", "nearest-exact", "area", *RANKS)
LARGEST_DENOMINATOR = 1024  # of a factor of a named size


@composite(symbol="resize", latex=r"\operatorname{resize}")
def interpolate(
    x: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """x (n, channels, ...) with one to three last axes, resized to `size` or by `scale_factor`.

    As PyTorch's interpolate: `size` or `scale_factor` is one number or one for each axis, `mode` is
    "nearest", "nearest-exact", "area", "linear" (of three axes), "bilinear" or "bicubic" (of four)
    or "trilinear" (of five).  With `align_corners` the centres of the outermost elements stay
    where they are, otherwise their outer edges; positions are then found by `scale_factor`, where
    it is given, unless `recompute_scale_factor`.  `antialias` widens the kernel of "bilinear" and
    "bicubic" where an axis shrinks.
    """
    _check(x, mode, align_corners, antialias)
    lengths = np.shape(x)[2:]
    sizes, factors = _sizes(x, lengths, size, scale_factor)
    for axis, (length, one) in enumerate(zip(lengths, sizes, strict=True), 2):
        _require_elements(x, length, one, axis)
    if recompute_scale_factor is not None:
        require_flag((x,), recompute_scale_factor, "interpolate: recompute_scale_factor")
    if recompute_scale_factor:
        factors = [None] * len(sizes)
    if mode == "area":
        axes = len(sizes)
        return getattr(adaptive_pooling, f"adaptive_avg_pool{axes}d")(x, tuple(sizes))
    if antialias and any(isinstance(one, Size) for one in (*lengths, *sizes)):
        refuse(
            InputError,
            (x,),
            f"interpolate: antialias=True of {show(x)}",
            "how wide its kernel is depends on sizes: they have to be numbers (graph.bind)",
        )
    dtype = x.dtype
    if mode in RANKS and is_narrow(dtype):
        x = x.astype(np.float32)  # in which PyTorch adds, too
    for axis, (length, one, factor) in enumerate(zip(lengths, sizes, factors, strict=True), 2):
        line = Line(x, length, one, factor, bool(align_corners))
        if mode.startswith("nearest"):
            x = _nearest(x, axis, line, mode == "nearest-exact")
        elif antialias:
            x = antialiased(x, axis, line, cubic=mode == "bicubic")
        else:
            x = between(x, axis, line, cubic=mode == "bicubic")
    return x if x.dtype == dtype else x.astype(dtype)


def _nearest(x: Any, axis: int, line: Line, exact: bool) -> Any:
    places = nearest_places(line, exact)
    count = divide_exactly(line.out, line.length)
    if isinstance(count, int) and (
        not isinstance(places, np.ndarray) or np.array_equal(places, np.arange(line.out) // count)
    ):
        return np.repeat(x, count, axis) if count > 1 else x
    return np.take(x, places, axis=axis)


def _check(x: Any, mode: Any, align_corners: Any, antialias: Any) -> None:
    given = (x,)
    if mode not in MODES:
        raise InputError(
            f"interpolate: mode={mode!r} is not known",
            hint=f"mode is one of {', '.join(map(repr, MODES))}",
        )
    rank = RANKS.get(mode)
    if np.ndim(x) not in ((rank,) if rank else (3, 4, 5)):
        refuse(
            ShapeError,
            given,
            f"interpolate: {show(x)} has {np.ndim(x)} axes",
            f'mode="{mode}" takes {rank or "3 to 5"}: n, channels, then those that are resized',
        )
    if rank and dtype_kind(x.dtype) != "f":
        refuse(
            DTypeError,
            given,
            f"interpolate: mode={mode!r} of {show(x)}",
            "means of integers are floats: convert with .astype(np.float32) first",
        )
    if align_corners is not None:
        require_flag(given, align_corners, "interpolate: align_corners")
        if not rank:
            raise InputError(
                f"interpolate: align_corners={align_corners} with mode={mode!r}",
                hint="leave align_corners= out: it is for modes between neighbours",
            )
    require_flag(given, antialias, "interpolate: antialias")
    if antialias and mode not in ("bilinear", "bicubic"):
        raise InputError(
            f"interpolate: antialias=True with mode={mode!r}",
            hint='it is for mode="bilinear" and mode="bicubic"',
        )


def _sizes(x: Any, lengths: tuple[Any, ...], size: Any, scale_factor: Any) -> tuple[list, list]:
    """The sizes of the result's last axes, and the factors that positions follow."""
    axes = len(lengths)
    if (size is None) == (scale_factor is None):
        raise InputError(
            f"interpolate: size={size!r}, scale_factor={scale_factor!r}",
            hint="give one of the two",
        )
    name, value = ("size", size) if scale_factor is None else ("scale_factor", scale_factor)
    given = list(value) if isinstance(value, (tuple, list)) else [value] * axes
    sizes: list[Any] = []
    factors: list[float | None] = [None] * axes
    try:
        if scale_factor is None:
            sizes = [one if isinstance(one, Size) else operator.index(one) for one in given]
        else:
            factors = [_factor(one) for one in given]
    except (TypeError, ValueError):
        given = []
    if len(given) != axes:
        raise InputError(
            f"interpolate: {name}={value!r} is not one number"
            + f", nor {axes} of them" * (axes > 1),
            hint="a size is an integer, a factor a positive number; "
            "n and the channels stay as they are",
        )
    if scale_factor is not None:
        sizes = [_scaled(x, n, f) for n, f in zip(lengths, factors, strict=True)]
    return sizes, factors


def _factor(value: Any) -> float:
    factor = float(value)
    if not 0 < factor < math.inf:
        raise ValueError(value)
    return factor


def _scaled(x: Any, length: Any, factor: float | None) -> Any:
    """floor(length factor); of a named size where the factor is a simple fraction."""
    assert factor is not None
    if not isinstance(length, Size):
        return math.floor(length * factor)
    ratio = Fraction(factor)
    if ratio.denominator > LARGEST_DENOMINATOR:
        refuse(
            InputError,
            (x,),
            f"interpolate: scale_factor={factor} of an axis of {length}",
            "how long the result is, is known for simple fractions such as 2 or 0.75: give size=",
        )
    return length * ratio.numerator // ratio.denominator


def _require_elements(x: Any, length: Any, out: Any, axis: int) -> None:
    """Axes have elements before and after; for a named size a condition."""
    trace = trace_of((x,))
    for one in (length, out):
        text = f"interpolate: an axis of {length} becomes one of {out}"
        if isinstance(one, Size):
            assert trace is not None
            trace.require(one - 1, False, text)
        elif one < 1:
            refuse(ShapeError, (x,), text, "both have at least one element")

"""Rounding to decimals, and functions with two results: `np.modf`, `np.divmod`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, UnsupportedError
from chainrule.frontend.functions.elementwise import to_dtype
from chainrule.frontend.traced import Traced
from chainrule.numpy.promoted import promoted


def around(a: Any, decimals: Any = 0) -> Any:
    """a rounded to so many decimals, halves to the even digit; its derivative is 0."""
    decimals = operator.index(decimals)
    kind = a.dtype.kind
    if kind in "iu" and decimals >= 0:
        return +a
    if kind == "b" and decimals:
        raise DTypeError(
            f"np.round of booleans to {decimals} decimals",
            where=a.program.where(),
            hint="convert with .astype(...) first",
        )
    if decimals == 0:
        return np.rint(a)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return np.rint(a * scale) / scale
    rounded = np.rint(a / scale) * scale
    return rounded if kind == "f" else rounded.astype(a.dtype)


def fix(x: Any) -> Any:
    """x without its fraction; its derivative is 0."""
    return np.trunc(x)


def modf(x: Any) -> Any:
    """The fraction of x and its whole part, both with the sign of x."""
    (x,) = promoted(np.rint, x, shown="modf")
    endless = np.abs(x) == np.inf
    return np.where(endless, np.copysign(0.0, x), np.fmod(x, 1.0)), np.trunc(x)


def divided(x1: Any, x2: Any) -> Any:
    """np.divmod: x1 // x2 and x1 % x2."""
    return np.floor_divide(x1, x2), np.remainder(x1, x2)


def _refuse_array(x: Any, call: str, instead: str) -> None:
    if x.ndim:
        raise UnsupportedError(
            f"{call}() of {x.program.show(x.node)}: Python's own function is of one number",
            where=x.program.where(),
            hint=f"write {instead}",
        )


def whole(x: Any, ufunc: Any) -> Any:
    """What math.floor, math.ceil, math.trunc and round make of one number: an integer."""
    call = "round" if ufunc is np.rint else f"math.{ufunc.__name__}"
    _refuse_array(x, call, f"np.{call.removeprefix('math.')}(x)")
    node = ufunc(x).node
    return Traced(to_dtype(x.program, node, np.dtype(np.int64), weak=node.type.weak), x.program)


def rounded(x: Any, ndigits: Any) -> Any:
    """Python's round of one number: an integer, or with digits a number of the same dtype."""
    if ndigits is None:
        return whole(x, np.rint)
    _refuse_array(x, "round", "np.round(x, decimals)")
    return around(x, ndigits)


ROUNDED: dict[Any, Callable[..., Any]] = {
    np.round: around,
    np.around: around,
    np.fix: fix,
    np.modf: modf,
    np.divmod: divided,
    "whole": whole,
    "round": rounded,
}

"""The functions that equations name, computed by NumPy and chainrule."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr

SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def axes_of(below: str, ndim: int) -> tuple[tuple[int, ...], bool]:
    """The axes that a subscript says, and whether they are kept."""
    found = re.match(r"ax[ie]s ([\d, ]*\d)", below)
    axes = tuple(int(one) for one in found[1].split(",")) if found else tuple(range(ndim))
    return axes, "keepdims" in below


def reduced_by(function: Callable[..., Any]) -> Callable[..., Any]:
    def over(below: str, x: Any) -> Any:
        axes, is_kept = axes_of(below, np.ndim(x))
        return function(x, axis=axes, keepdims=is_kept)

    return over


def _along_last(function: Callable[..., Any]) -> Callable[..., Any]:
    def along(below: str, x: Any) -> Any:
        if "all" in below:
            return function(x, axis=None)
        axes = axes_of(below, 1)[0] if "ax" in below else (-1,)
        kept = {"keepdims": True} if "keepdims" in below else {}
        return function(x, axis=axes if len(axes) > 1 else min(axes), **kept)

    return along


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda below, *given: function(*given)


def shape_of(below: str) -> tuple[int, ...]:
    return tuple(int(one) for one in below.translate(SUBSCRIPTS).split("×") if one)


def _largest(below: str, *given: Any) -> Any:
    return np.maximum(*given) if len(given) == 2 else reduced_by(np.max)(below, *given)


def _least(below: str, *given: Any) -> Any:
    return np.minimum(*given) if len(given) == 2 else reduced_by(np.min)(below, *given)


def _stacked(below: str, *given: Any) -> Any:
    return np.stack(given, axis=axes_of(below, 0)[0][0])


def _einsum(below: str, x: Any, y: Any) -> Any:
    return np.einsum(below.replace("→", "->").replace(" ", ""), x, y)


def zeros(below: str, *_: Any) -> Any:
    """With arrays at some places, which `_Reader.placed` reads."""
    return np.zeros(shape_of(below))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _plain(getattr(np, name)) for name in ("exp", "log", "sin", "cos", "tanh", "sign")},
    **{name: _plain(getattr(cr, name)) for name in ("relu", "softplus", "erf")},
    "gelu": lambda below, x: cr.gelu(x, approximate=below or "none"),
    "σ": _plain(cr.sigmoid),
    "ℓ": _plain(cr.squared_error),
    "stop": _plain(lambda x: x),
    "mean": reduced_by(cr.mean),
    "var": reduced_by(cr.var),
    "max": _largest,
    "min": _least,
    "softmax": _along_last(cr.softmax),
    "log softmax": _along_last(cr.log_softmax),
    "logsumexp": _along_last(cr.logsumexp),
    "reshape": lambda below, x: np.reshape(x, shape_of(below)),
    "broadcast": lambda below, x: np.broadcast_to(x, shape_of(below)),
    "transpose": lambda below, x: np.transpose(x, eval(below)),
    "stack": _stacked,
    "einsum": _einsum,
    "pad": zeros,
    "scatter": zeros,
}

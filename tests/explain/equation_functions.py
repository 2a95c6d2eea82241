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


def _loss(below: str, prediction: Any, target: Any) -> Any:
    """Of classes the cross-entropy, else the squared error."""
    is_class = np.asarray(target).dtype.kind in "iu"
    return (cr.cross_entropy if is_class else cr.squared_error)(prediction, target)


def zeros(below: str, *_: Any) -> Any:
    """With arrays at some places, which `_Reader.placed` reads."""
    return np.zeros(shape_of(below))


def _options(below: str) -> dict[str, Any]:
    """What stands below a function: padding = 2, stride = (2, 1)."""
    found = re.findall(r"(\w+) = (\([^)]*\)|\d+)", below)
    return {name: tuple(map(int, re.findall(r"\d+", value))) for name, value in found}


def _of_images(name: str) -> Callable[..., Any]:
    """A function of PyTorch's by the number of axes of its first argument, as said in NumPy."""

    def call(below: str, x: Any, *others: Any) -> Any:
        function = getattr(cr, f"{name}{x.ndim - 2}d")
        options = {k: v[0] if len(v) == 1 else v for k, v in _options(below).items()}
        return function(x, *others, **options)

    return call


def _windows(below: str, x: Any) -> Any:
    size = tuple(map(int, re.findall(r"\d+", below.split(")")[0])))
    stride = _options(below).get("stride", (1,) * len(size))
    axes = tuple(range(x.ndim - len(size), x.ndim))
    found = np.lib.stride_tricks.sliding_window_view(x, size, axes)
    return found[(..., *(slice(None, None, one) for one in stride), *(slice(None),) * len(size))]


def _fold(below: str, g: Any) -> Any:
    """Windows added back into zeros."""
    shape = shape_of(below.split(",")[0])
    count = g.ndim - len(shape)
    stride = _options(below).get("stride", (1,) * count)
    found = np.zeros(shape)
    positions, size = g.shape[-2 * count : -count], g.shape[-count:]
    for place in np.ndindex(*positions):
        at = tuple(slice(p * s, p * s + n) for p, s, n in zip(place, stride, size, strict=True))
        found[(..., *at)] += g[(..., *place, *(slice(None),) * count)]
    return found


def _spread(below: str, g: Any) -> Any:
    """The transpose of mean pooling without overlaps."""
    size = _options(below)["kernel_size"]
    for axis, times in enumerate(size * (g.ndim - 2) if len(size) == 1 else size, 2):
        g = np.repeat(g, times, axis) / times
    return g


def _to_largest(below: str, g: Any, x: Any) -> Any:
    """The transpose of max pooling without overlaps, where no elements tie."""
    size = _options(below)["kernel_size"]
    size = size * (g.ndim - 2) if len(size) == 1 else size
    found = np.zeros(x.shape)
    for place in np.ndindex(*g.shape):
        along = zip(place[2:], size, strict=True)
        window = (*place[:2], *(slice(at * length, (at + 1) * length) for at, length in along))
        found[window][x[window] == np.max(x[window])] = g[place]
    return found


def _normalised(x: Any, mean: Any, var: Any, weight: Any, bias: Any) -> Any:
    mean, var, weight, bias = (
        np.reshape(one, (-1, *(1,) * (np.ndim(x) - 2))) for one in (mean, var, weight, bias)
    )
    return (x - mean) / np.sqrt(var + 1e-5) * weight + bias


def _by_groups(below: str, x: Any, weight: Any, bias: Any) -> Any:
    (groups,) = _options(below)["num_groups"]
    return cr.group_norm(x, groups, weight, bias)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: _plain(getattr(np, name)) for name in ("exp", "log", "sin", "cos", "tanh", "sign")},
    **{name: _plain(getattr(cr, name)) for name in ("relu", "softplus", "erf")},
    "gelu": lambda below, x: cr.gelu(x, approximate=below or "none"),
    "σ": _plain(cr.sigmoid),
    "ℓ": _loss,
    "onehot": lambda below, y: cr.one_hot(y.astype(np.int64), int(below.translate(SUBSCRIPTS))),
    "stop": _plain(lambda x: x),
    "mean": reduced_by(cr.mean),
    "var": reduced_by(cr.var),
    "max": _largest,
    "min": _least,
    "diag": _plain(np.diag),
    "softmax": _along_last(cr.softmax),
    "log softmax": _along_last(cr.log_softmax),
    "logsumexp": _along_last(cr.logsumexp),
    "reshape": lambda below, x: np.reshape(x, shape_of(below)),
    "broadcast": lambda below, x: np.broadcast_to(x, shape_of(below)),
    "transpose": lambda below, x: np.transpose(x, eval(below)),
    "stack": _stacked,
    "einsum": _einsum,
    "∗": _of_images("conv"),
    "∗ᵀ": _of_images("conv_transpose"),
    "mean pool": _of_images("avg_pool"),
    "mean poolᵀ": _spread,
    "max poolᵀ": _to_largest,
    "norm": _plain(np.linalg.norm),
    "dropout": lambda below, x, key: cr.dropout(x, float(below[7:]), key=key.astype(np.uint32)),
    "max pool": _of_images("max_pool"),
    "windows": _windows,
    "fold": _fold,
    "LN": _plain(cr.layer_norm),
    "BN": _plain(_normalised),
    "GN": _by_groups,
    "pad": zeros,
    "scatter": zeros,
}

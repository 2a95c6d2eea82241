"""Complex numbers of PyTorch's programs as pairs of real arrays, and their Fourier transforms.

Inputs, parameters and results of a graph are real; what happens in between may be complex.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.exchange.pytorch.indexing import INDEXING
from chainrule.exchange.pytorch.products import PRODUCTS
from chainrule.exchange.pytorch.reductions import REDUCTIONS
from chainrule.exchange.pytorch.shapes import SHAPES
from chainrule.exchange.pytorch.values import dtype_of
from chainrule.numpy import fft


@dataclass(frozen=True)
class Complex:
    """real + i imag: two real arrays of one shape."""

    real: Any
    imag: Any

    def cast(self, dtype: np.dtype) -> Complex:
        """With parts as long as those of this complex dtype."""
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return Complex(_part(self.real, part), _part(self.imag, part))


def _part(x: Any, dtype: np.dtype) -> Any:
    return (
        x if dtype_of(x) == dtype else np.asarray(x, dtype) if np.isscalar(x) else x.astype(dtype)
    )


def parts_of(x: Any) -> Complex:
    """A value as a pair; of a real one the imaginary part is 0."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, complex):
        return Complex(x.real, x.imag)
    return Complex(x, 0.0 if isinstance(x, (bool, int, float)) else np.zeros_like(x))


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operator that moves elements, on both parts."""

    def call(x: Any, *args: Any, **options: Any) -> Any:
        if isinstance(x, list):  # of cat and stack
            pairs = [parts_of(one) for one in x]
            return Complex(
                function([one.real for one in pairs], *args, **options),
                function([one.imag for one in pairs], *args, **options),
            )
        pair = parts_of(x)
        real, imag = function(pair.real, *args, **options), function(pair.imag, *args, **options)
        if isinstance(real, (list, tuple)):
            return [Complex(*one) for one in zip(real, imag, strict=True)]
        return Complex(real, imag)

    return call


def _add(x: Any, other: Any, *, alpha: Any = 1) -> Complex:
    x, other = parts_of(x), _mul(other, alpha)
    return Complex(x.real + other.real, x.imag + other.imag)


def _sub(x: Any, other: Any, *, alpha: Any = 1) -> Complex:
    return _add(x, other, alpha=-alpha)


def _mul(x: Any, other: Any) -> Complex:
    if not isinstance(other, (Complex, complex)):
        x = parts_of(x)
        return Complex(x.real * other, x.imag * other)
    x, other = parts_of(x), parts_of(other)
    return Complex(
        x.real * other.real - x.imag * other.imag, x.real * other.imag + x.imag * other.real
    )


def _div(x: Any, other: Any) -> Complex:
    if not isinstance(other, (Complex, complex)):
        x = parts_of(x)
        return Complex(x.real / other, x.imag / other)
    other = parts_of(other)
    square = other.real * other.real + other.imag * other.imag
    found = _mul(x, Complex(other.real, -other.imag))
    return Complex(found.real / square, found.imag / square)


def _product(function: Callable[..., Any]) -> Callable[..., Any]:
    """A bilinear operator: (a + ib)(c + id)."""

    def call(x: Any, y: Any) -> Complex:
        x, y = parts_of(x), parts_of(y)
        return Complex(
            function(x.real, y.real) - function(x.imag, y.imag),
            function(x.real, y.imag) + function(x.imag, y.real),
        )

    return call


def _conj(x: Any) -> Complex:
    x = parts_of(x)
    return Complex(x.real, -x.imag)


def _exp(x: Any) -> Complex:
    x = parts_of(x)
    length = np.exp(x.real)
    return Complex(length * np.cos(x.imag), length * np.sin(x.imag))


def _cast(x: Any, *given: Any, dtype: Any = None, **options: Any) -> Any:
    found = next((one for one in given if isinstance(one, np.dtype)), dtype)
    if found is not None and found.kind != "c":
        return parts_of(x).real.astype(found)
    return parts_of(x)


def _copy(x: Any, src: Any, non_blocking: bool = False) -> Complex:
    src, shape = parts_of(src), np.shape(parts_of(x).real)
    return Complex(np.broadcast_to(src.real, shape), np.broadcast_to(src.imag, shape))


def _polar(length: Any, angle: Any) -> Complex:
    return Complex(length * np.cos(angle), length * np.sin(angle))


# Fourier transforms -----------------------------------------------------------------------------

_NORMS = ("backward", "ortho", "forward")  # PyTorch's numbers: by nothing, the root, the count


def _pair(x: Any) -> Any:
    return (x.real, x.imag) if isinstance(x, Complex) else x


def _real_to_complex(x: Any, dim: Any, normalization: int, onesided: bool) -> Complex:
    transform = fft.rfftn if onesided else fft.fftn
    return Complex(*transform(x, axes=tuple(dim), norm=_NORMS[normalization]))


def _complex_to_complex(x: Any, dim: Any, normalization: int, forward: bool) -> Complex:
    transform = fft.fftn if forward else fft.ifftn
    norm = _NORMS[normalization if forward else 2 - normalization]
    return Complex(*transform(_pair(parts_of(x)), axes=tuple(dim), norm=norm))


def _complex_to_real(x: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    lengths = [np.shape(parts_of(x).real)[axis] for axis in dim[:-1]]
    norm = _NORMS[2 - normalization]
    return fft.irfftn(_pair(parts_of(x)), (*lengths, last_dim_size), tuple(dim), norm)


_MOVING = (
    "view reshape _unsafe_view permute permute_copy transpose transpose_copy t expand squeeze "
    "unsqueeze split split_with_sizes chunk unbind diagonal alias clone contiguous lift_fresh_copy "
    "flatten unflatten movedim flip roll repeat cat stack constant_pad_nd detach unfold as_strided"
).split()

# What PyTorch itself would take apart into writes.
MADE = ("complex", "polar")

COMPLEX: dict[str, Any] = {
    **{name: _each(SHAPES[name]) for name in _MOVING},
    **{
        name: _each(INDEXING[name])
        for name in ("slice", "select", "index", "index_select", "narrow", "gather")
    },
    **{name: _each(REDUCTIONS[name]) for name in ("sum", "mean")},
    **{name: _product(PRODUCTS[name]) for name in ("mm", "bmm", "matmul", "mv", "outer")},
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": lambda x: Complex(-parts_of(x).real, -parts_of(x).imag),
    "exp": _exp,
    "abs": lambda x: np.hypot(parts_of(x).real, parts_of(x).imag),
    "angle": lambda x: np.arctan2(parts_of(x).imag, parts_of(x).real),
    **dict.fromkeys(("conj", "_conj", "conj_physical", "_conj_physical", "_conj_copy"), _conj),
    **dict.fromkeys(("resolve_conj", "resolve_neg"), parts_of),
    "real": lambda x: parts_of(x).real,
    "imag": lambda x: parts_of(x).imag,
    "view_as_real": lambda x: np.stack([parts_of(x).real, parts_of(x).imag], -1),
    "view_as_real_copy": lambda x: np.stack([parts_of(x).real, parts_of(x).imag], -1),
    "view_as_complex": lambda x: Complex(x[..., 0], x[..., 1]),
    "view_as_complex_copy": lambda x: Complex(x[..., 0], x[..., 1]),
    "complex": lambda real, imag: Complex(*np.broadcast_arrays(real, imag)),
    "polar": _polar,
    **dict.fromkeys(("_to_copy", "to"), _cast),
    "copy": _copy,
    "_fft_r2c": _real_to_complex,
    "_fft_c2c": _complex_to_complex,
    "_fft_c2r": _complex_to_real,
}

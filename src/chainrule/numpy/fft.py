"""Discrete Fourier transforms as in numpy.fft, of pairs of real arrays: `re, im = cr.fft.fft(x)`.

A spectrum is a pair (real part, imaginary part) of two arrays alike, since arrays here are real.
Where numpy.fft takes a complex array, these functions take such a pair, or a real array; where it
gives a complex array, they give a pair.  `n`, `s`, `axis`, `axes` and `norm` are those of
numpy.fft.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from chainrule.errors import DTypeError, InputError, ShapeError
from chainrule.frontend.composite import composite, trace_of
from chainrule.frontend.errors.refusing import refuse, shown
from chainrule.frontend.traced import Traced
from chainrule.graph.dtypes import dtype_kind, promoted
from chainrule.graph.sizes.sizes import Size, product
from chainrule.numpy.of_arrays import applied, positions_of, trace_among
from chainrule.numpy.statistics import size_value
from chainrule.numpy.windows import padded
from chainrule.primitives.fourier import dft, half_dft, half_dft_transpose

__all__ = [
    "fft",
    "fft2",
    "fftn",
    "fftshift",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftn",
]
MODULE = "cr.fft"
FORWARD = {None: 0.0, "backward": 0.0, "ortho": 0.5, "forward": 1.0}  # powers of 1 / n
Pair = tuple[Any, Any]


@composite(symbol="ℱ", latex=r"\mathcal{F}", module=MODULE)
def fft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Pair:
    """(re, im) of the sums over j of a[j] exp(-2πi jk/n) along an axis, as np.fft.fft."""
    return _complex("fft", a, None if n is None else (n,), (axis,), norm, -1)


@composite(symbol="ℱ⁻¹", latex=r"\mathcal{F}^{-1}", module=MODULE)
def ifft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Pair:
    """(re, im) of the inverse of `fft`, as np.fft.ifft."""
    return _complex("ifft", a, None if n is None else (n,), (axis,), norm, 1)


@composite(symbol="ℱ", latex=r"\mathcal{F}", module=MODULE)
def fft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Pair:
    """`fft` along two axes, as np.fft.fft2."""
    return _complex("fft2", a, s, axes, norm, -1)


@composite(symbol="ℱ⁻¹", latex=r"\mathcal{F}^{-1}", module=MODULE)
def ifft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Pair:
    """The inverse of `fft2`, as np.fft.ifft2."""
    return _complex("ifft2", a, s, axes, norm, 1)


@composite(symbol="ℱ", latex=r"\mathcal{F}", module=MODULE)
def fftn(a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Pair:
    """`fft` along all axes, or some, as np.fft.fftn."""
    return _complex("fftn", a, s, axes, norm, -1)


@composite(symbol="ℱ⁻¹", latex=r"\mathcal{F}^{-1}", module=MODULE)
def ifftn(
    a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Pair:
    """The inverse of `fftn`, as np.fft.ifftn."""
    return _complex("ifftn", a, s, axes, norm, 1)


@composite(symbol="ℱ", latex=r"\mathcal{F}", module=MODULE)
def rfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Pair:
    """The first n // 2 + 1 elements of `fft` of a real array, as np.fft.rfft: the others are their
    conjugates."""
    return _half("rfft", a, None if n is None else (n,), (axis,), norm)


@composite(symbol="ℱ", latex=r"\mathcal{F}", module=MODULE)
def rfft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Pair:
    """`rfft` along the last of two axes and `fft` along the other, as np.fft.rfft2."""
    return _half("rfft2", a, s, axes, norm)


@composite(symbol="ℱ", latex=r"\mathcal{F}", module=MODULE)
def rfftn(
    a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Pair:
    """`rfft` along the last axis and `fft` along the others, as np.fft.rfftn."""
    return _half("rfftn", a, s, axes, norm)


@composite(symbol="ℱ⁻¹", latex=r"\mathcal{F}^{-1}", module=MODULE)
def irfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Any:
    """The real array of n elements whose `rfft` is `a`, a pair; as np.fft.irfft, where n is
    2 (length - 1) unless given."""
    return _real("irfft", a, None if n is None else (n,), (axis,), norm)


@composite(symbol="ℱ⁻¹", latex=r"\mathcal{F}^{-1}", module=MODULE)
def irfft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Any:
    """The real array whose `rfft2` is `a`, a pair, as np.fft.irfft2."""
    return _real("irfft2", a, s, axes, norm)


@composite(symbol="ℱ⁻¹", latex=r"\mathcal{F}^{-1}", module=MODULE)
def irfftn(
    a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None
) -> Any:
    """The real array whose `rfftn` is `a`, a pair, as np.fft.irfftn."""
    return _real("irfftn", a, s, axes, norm)


def fftshift(x: Any, axes: Any = None) -> Any:
    """An array, or both of a pair, with frequency 0 in the middle, as np.fft.fftshift."""
    return _shifted(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of `fftshift`, as np.fft.ifftshift."""
    return _shifted(x, axes, -1)


def _shifted(x: Any, axes: Any, sign: int) -> Any:
    if isinstance(x, (tuple, list)):
        return tuple(_shifted(one, axes, sign) for one in x)
    axes = range(np.ndim(x)) if axes is None else axes
    axes = (axes,) if isinstance(axes, int) else tuple(axes)
    for axis in axes:
        half = np.shape(x)[axis] // 2
        x = np.roll(x, half if sign > 0 else -half, axis)
    return x


def _complex(asked: str, a: Any, s: Any, axes: Any, norm: Any, sign: int) -> Pair:
    re, im = _parts(a, asked)
    places, lengths = _places(re, s, axes, asked)
    packed = np.stack([re, np.zeros_like(re) if im is None else im], axis=-1)
    packed = _fitted(packed, places, lengths, asked)
    found = applied(dft, (packed,), axes=places, sign=sign)
    return _scaled(found, lengths, norm, sign, asked)


def _half(asked: str, a: Any, s: Any, axes: Any, norm: Any) -> Pair:
    re, im = _parts(a, asked)
    if im is not None:
        raise InputError(
            f"{asked} of a pair, the parts of complex numbers",
            hint=f"cr.fft.{asked.removeprefix('r')} takes pairs; {asked} takes one real array",
        )
    places, lengths = _places(re, s, axes, asked)
    found = applied(half_dft, (_fitted(re, places, lengths, asked),), axis=places[-1])
    if len(places) > 1:
        found = applied(dft, (found,), axes=places[:-1], sign=-1)
    return _scaled(found, lengths, norm, -1, asked)


def _real(asked: str, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    re, im = _parts(a, asked)
    places, lengths = _places(re, s, axes, asked)
    last = places[-1]
    if s is None:
        lengths = (*lengths[:-1], 2 * (np.shape(re)[last] - 1))
    count = lengths[-1] // 2 + 1
    packed = np.stack([re, np.zeros_like(re) if im is None else im], axis=-1)
    packed = _fitted(packed, places, (*lengths[:-1], count), asked)
    _require_elements(re, lengths, asked)
    if len(places) > 1:
        packed = applied(dft, (packed,), axes=places[:-1], sign=1)
    packed = packed * _twice(packed, last, count, lengths[-1])
    found = applied(half_dft_transpose, (packed,), length=lengths[-1], axis=last)
    return _times_factor(found, lengths, norm, 1, asked)


def _twice(packed: Any, axis: int, count: Any, length: Any) -> Any:
    """2 for the elements of which the conjugates are left out, 1 for the others."""
    numbers: Any = np.arange(count) if isinstance(count, int) else None
    if numbers is None:
        numbers = positions_of(trace_among(packed), count)
    size = size_value(length, packed) if isinstance(length, Size) else length
    alone = (numbers == 0) | (2 * numbers == size)
    rest = (1,) * (np.ndim(packed) - 1 - axis)
    return np.reshape(np.where(alone, 1.0, 2.0), (-1, *rest)).astype(packed.dtype)


def _parts(a: Any, asked: str) -> tuple[Any, Any]:
    """The real and the imaginary part, as arrays of one type; None where there is none."""
    if isinstance(a, (tuple, list)) and not (len(a) == 2 and all(map(_is_array, a))):
        what = f"a {type(a).__name__} of {len(a)}"
        refuse(InputError, a, f"{asked} of {what}", "a pair is (re, im), two arrays")
    pair: tuple[Any, Any] = (a[0], a[1]) if isinstance(a, (tuple, list)) else (a, None)
    if pair[1] is None and not isinstance(a, Traced):
        array: Any = np.asarray(pair[0])
        pair = (array.real, array.imag) if array.dtype.kind == "c" else (array, None)
    given = [one if isinstance(one, Traced) else np.asarray(one) for one in pair if one is not None]
    for one in given:
        if dtype_kind(one.dtype) not in "fiub":
            refuse(DTypeError, given, f"{asked} of {shown(one)}", "give real arrays")
        if np.ndim(one) == 0:
            refuse(ShapeError, given, f"{asked} of {shown(one)}", "it has no axis to transform")
    dtype = promoted(*(one.dtype for one in given))
    dtype = dtype if dtype_kind(dtype) == "f" else np.dtype(np.float64)
    if len(given) == 1:
        return given[0].astype(dtype), None
    if tuple(np.shape(given[0])) != tuple(np.shape(given[1])):
        refuse(
            ShapeError,
            given,
            f"{asked}: the real part {shown(given[0])} and the imaginary part {shown(given[1])}",
            "both parts of a pair have one shape",
        )
    return given[0].astype(dtype), given[1].astype(dtype)


def _is_array(value: Any) -> bool:
    return isinstance(value, (Traced, np.ndarray, np.generic))


def _places(x: Any, s: Any, axes: Any, asked: str) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The axes that are transformed, and how long each is then taken."""
    count = np.ndim(x)
    if axes is None:
        axes = range(count) if s is None else range(count - len(s), count)
    axes = tuple(operator.index(axis) for axis in axes)
    places = tuple(axis % count if -count <= axis < count else -1 for axis in axes)
    if -1 in places or len(set(places)) != len(places) or not places:
        shown_axes = axes[0] if len(axes) == 1 else axes
        refuse(
            ShapeError,
            (x,),
            f"{asked} along axis {shown_axes} of {shown(x)}",
            "axes are different ones that the array has",
        )
    own = tuple(np.shape(x)[place] for place in places)
    if s is None:
        return places, own
    if len(s) != len(places):
        raise InputError(f"{asked}: s={s!r} for axes {axes}", hint="one length for each axis")
    given = [n if one is None or one == -1 else one for one, n in zip(s, own, strict=True)]
    return places, tuple(n if isinstance(n, Size) else operator.index(n) for n in given)


def _require_elements(x: Any, lengths: Sequence[Any], asked: str) -> None:
    trace = trace_of((x,))
    for length in lengths:
        text = f"{asked} of {shown(x)}, taken as {length} elements"
        if isinstance(length, Size):
            assert trace is not None
            trace.require(length - 1, False, text)
        elif length < 1:
            refuse(ShapeError, (x,), text, "transforms are of at least one element")


def _fitted(x: Any, places: Sequence[int], lengths: Sequence[Any], asked: str) -> Any:
    """x cut, or with zeros at the ends of its axes."""
    _require_elements(x, lengths, asked)
    widths: list[tuple[Any, Any]] = [(0, 0)] * np.ndim(x)
    for place, length in zip(places, lengths, strict=True):
        widths[place] = (0, length - np.shape(x)[place])
    return padded(x, tuple(widths))


def _scaled(packed: Any, lengths: Sequence[Any], norm: Any, sign: int, asked: str) -> Pair:
    found = _times_factor(packed, lengths, norm, sign, asked)
    return found[..., 0], found[..., 1]


def _times_factor(x: Any, lengths: Sequence[Any], norm: Any, sign: int, asked: str) -> Any:
    """x times the power of 1 / n by which sums are multiplied."""
    if norm not in FORWARD:
        raise InputError(
            f"{asked}: norm={norm!r} is not known", hint='"backward", "ortho" or "forward"'
        )
    power = FORWARD[norm] if sign < 0 else 1 - FORWARD[norm]
    if power == 0:
        return x
    count = product(tuple(lengths))
    if not isinstance(count, Size):
        return x * float(count) ** -power
    number = size_value(count, x)
    return x / (np.sqrt(number) if power < 1 else number)

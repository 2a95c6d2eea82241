"""Discrete Fourier transforms of pairs of real arrays; the last axis has the two parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.pocketfft import pocketfft_bytes
from chainrule.primitives.primitive import Cut, Library, Linear, Primitive, Sample
from chainrule.primitives.python import calls_function

ANY = (-2.0, 2.0)
WIDE = np.dtype(np.float64)  # in which they compute, whatever the dtype
SCALE = 16  # bytes of the number by which NumPy multiplies
UNKNOWN = 10  # what log2 of a length counts as that is not known


def dft_of_pairs(x, axes, sign):
    """The sums over j of (x[j, 0] + i x[j, 1]) exp(2 pi i sign j k / n) along each of the axes, for
    k = 0, ..., n - 1, the sign being -1 or 1; in float64."""
    z = np.empty(x.shape[:-1], np.complex128)
    z.real, z.imag = x[..., 0], x[..., 1]
    for axis in axes:
        z = np.fft.fft(z, axis=axis) if sign < 0 else np.fft.ifft(z, axis=axis, norm="forward")
    return z[..., None].view(np.float64).astype(x.dtype, copy=False)


def _dft(xp: Any, x: Any, *, axes: tuple[int, ...], sign: int) -> Any:
    if xp is np:
        return dft_of_pairs(x, axes, sign)
    z = xp.fft.fftn if sign < 0 else xp.fft.ifftn
    found = z(x[..., 0] + 1j * x[..., 1], axes=axes, norm="backward" if sign < 0 else "forward")
    return xp.stack([found.real, found.imag], axis=-1)


def _dft_type(x: ArrayType, *, axes: tuple[int, ...], sign: int) -> ArrayType:
    if not x.is_float or x.ndim < 2 or x.shape[-1] != 2:
        raise TypeError(f"{x} are no pairs of real numbers")
    if not axes or len(set(axes)) != len(axes) or not all(0 <= axis < x.ndim - 1 for axis in axes):
        raise TypeError(f"{axes} are no axes of {x}, of which the last one has the pairs")
    if any(x.shape[axis] == 0 for axis in axes):
        raise TypeError(f"{x} has no elements along an axis of {axes}")
    return x.with_shape(x.shape)


def _flops(x: Any, axes: tuple[int, ...]) -> int | Size:
    """5 n log2 n for each row of n: Cooley & Tukey, as benchmarks count it."""
    logarithms = 0
    for axis in axes:
        length = x.type.shape[axis]
        logarithms += (length - 1).bit_length() if isinstance(length, int) else UNKNOWN
    return 5 * logarithms * x.type.size


def _other_axes(out: Node, axes: tuple[int, ...], count: int) -> tuple[Cut, ...]:
    return tuple([(axis, (axis,)) for axis in range(count) if axis not in axes])


def _wide(x: Any) -> int:
    return WIDE.itemsize * x.size


def _dft_scratch(out: Node, x: np.ndarray) -> int:
    """The pairs as complex numbers, and as many that an axis is transformed to."""
    if out.type.dtype == WIDE:
        return _wide(x) + SCALE
    return max(2 * _wide(x) + SCALE - out.type.nbytes, _wide(x))


def _half_dft_scratch(out: Node, x: np.ndarray) -> int:
    if out.type.dtype == WIDE:
        return SCALE + (0 if x.flags.c_contiguous else _wide(x))
    return max(_wide(x) + _wide(out.type) + SCALE - out.type.nbytes, _wide(out.type))


def _half_dft_transposed_scratch(out: Node, g: np.ndarray) -> int:
    if out.type.dtype == WIDE:
        return _wide(g) + SCALE
    return _wide(g) + _wide(out.type) + max(SCALE - out.type.nbytes, 0)


def _dft_library_bytes(out: Node, x: np.ndarray) -> int:
    """Of the axis that takes most."""
    lengths = [x.shape[axis] for axis in out.param("axes")]
    return max(pocketfft_bytes(n, x.size // (2 * n), False) for n in lengths)


def _half_dft_library_bytes(out: Node, x: np.ndarray) -> int:
    length = x.shape[out.param("axis")]
    return pocketfft_bytes(length, x.size // length, True)


def _half_dft_transposed_library_bytes(out: Node, g: np.ndarray) -> int:
    """In float64; before there is a result in another dtype."""
    length = out.param("length")
    taken = pocketfft_bytes(length, out.type.size // length, True)
    return taken if out.type.dtype == WIDE else max(0, taken - out.type.nbytes)


def _dft_batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    axes = tuple(axis + 1 for axis in out.param("axes"))
    return dft(inputs[0], axes=axes, sign=out.param("sign"))


def _dft_sample(shape: tuple[int, ...], axes: tuple[int, ...], sign: int) -> Sample:
    return Sample((shape,), (ANY,), (("axes", axes), ("sign", sign)))


dft = Primitive(
    name="dft",
    doc="The Fourier sums of pairs of real numbers along axes, with exp(2 pi i sign jk / n).",
    inputs=("x",),
    result_type=_dft_type,
    evaluate=_dft,
    derivative=Linear((lambda g, out, x: dft(g, axes=out.param("axes"), sign=-out.param("sign")),)),
    batch=_dft_batch,
    kernel=Library(wide=True),
    independent=lambda out: _other_axes(out, out.param("axes"), out.ndim - 1),
    flops=lambda out: _flops(out.inputs[0], out.param("axes")),
    scratch=_dft_scratch,
    library_bytes=_dft_library_bytes,
    latex=Latex(r"\operatorname{{dft}}_{{{sign}, {axes}}}({x})", ATOM, (0,)),
    samples=(
        _dft_sample((5, 2), (0,), -1),
        _dft_sample((2, 4, 2), (1,), 1),
        _dft_sample((3, 2, 2), (0, 1), -1),
        _dft_sample((2, 3, 1, 2), (1, 2), 1),
        _dft_sample((0, 3, 2), (1,), -1),
    ),
    python=calls_function(dft_of_pairs, "axes", "sign"),
)


def half_dft_of_reals(x, axis):
    """The sums over j of x[j] exp(-2 pi i j k / n) along an axis, for k = 0, ..., n // 2: pairs of
    the real and the imaginary part; in float64."""
    z = np.fft.rfft(np.ascontiguousarray(x, np.float64), axis=axis)
    return z[..., None].view(np.float64).astype(x.dtype, copy=False)


def _half_dft(xp: Any, x: Any, *, axis: int) -> Any:
    if xp is np:
        return half_dft_of_reals(x, axis)
    found = xp.fft.rfft(x, axis=axis)
    return xp.stack([found.real, found.imag], axis=-1)


def _half_dft_type(x: ArrayType, *, axis: int) -> ArrayType:
    if not x.is_float or not 0 <= axis < x.ndim or x.shape[axis] == 0:
        raise TypeError(f"{x} has no real numbers along axis {axis}")
    return x.with_shape((*x.shape[:axis], x.shape[axis] // 2 + 1, *x.shape[axis + 1 :], 2))


def half_dft_transposed(g, length, axis):
    """The sums over k of g[k, 0] cos(2 pi j k / n) - g[k, 1] sin(2 pi j k / n) along an axis, for
    j = 0, ..., n - 1, n being the length; in float64."""
    z = np.empty(g.shape[:-1], np.complex128)
    z.real, z.imag = g[..., 0], g[..., 1]
    inner = np.moveaxis(z, axis, 0)[1 : (length + 1) // 2]
    inner *= 0.5  # NumPy adds the conjugate of each, which the sums have not
    return np.fft.irfft(z, length, axis, "forward").astype(g.dtype, copy=False)


def _half_dft_transposed(xp: Any, g: Any, *, length: int, axis: int) -> Any:
    if xp is np:
        return half_dft_transposed(g, length, axis)
    pairs = xp.moveaxis(g[..., 0] + 1j * g[..., 1], axis, 0)
    pairs = xp.concatenate([pairs[:1], pairs[1:] / 2])
    if length % 2 == 0:
        pairs = xp.concatenate([pairs[:-1], pairs[-1:] * 2])
    return xp.fft.irfft(xp.moveaxis(pairs, 0, axis), length, axis, "forward")


def _half_dft_transposed_type(g: ArrayType, *, length: int | Size, axis: int) -> ArrayType:
    if not g.is_float or not 0 <= axis < g.ndim - 1 or g.shape[-1] != 2 or length == 0:
        raise TypeError(f"{g} has no pairs along axis {axis}")
    if g.shape[axis] != length // 2 + 1:
        raise TypeError(f"{g} has not {length // 2 + 1} pairs along axis {axis}")
    return g.with_shape((*g.shape[:axis], length, *g.shape[axis + 1 : -1]))


def _half_sample(shape: tuple[int, ...], axis: int) -> Sample:
    return Sample((shape,), (ANY,), (("axis", axis),))


half_dft = Primitive(
    name="half_dft",
    doc="The Fourier sums of real numbers along an axis, up to half of its length, as pairs.",
    inputs=("x",),
    result_type=_half_dft_type,
    evaluate=_half_dft,
    derivative=Linear(
        (
            lambda g, out, x: half_dft_transpose(
                g, length=x.type.shape[out.param("axis")], axis=out.param("axis")
            ),
        )
    ),
    batch=lambda size, inputs, batched, out: half_dft(inputs[0], axis=out.param("axis") + 1),
    kernel=Library(wide=True),
    independent=lambda out: _other_axes(out, (out.param("axis"),), out.ndim - 1),
    flops=lambda out: _flops(out.inputs[0], (out.param("axis"),)) // 2,
    scratch=_half_dft_scratch,
    library_bytes=_half_dft_library_bytes,
    latex=Latex(r"\operatorname{{rdft}}_{{{axis}}}({x})", ATOM, (0,)),
    samples=(
        _half_sample((5,), 0),
        _half_sample((2, 4), 1),
        _half_sample((3, 2), 0),
        _half_sample((2, 1), 1),
        _half_sample((0, 3), 1),
    ),
    python=calls_function(half_dft_of_reals, "axis"),
)


def _transposed_sample(shape: tuple[int, ...], length: int, axis: int) -> Sample:
    return Sample((shape,), (ANY,), (("axis", axis), ("length", length)))


half_dft_transpose = Primitive(
    name="half_dft_transpose",
    doc="The transpose of half_dft: real sums of cosines and sines, of pairs along an axis.",
    inputs=("g",),
    result_type=_half_dft_transposed_type,
    evaluate=_half_dft_transposed,
    derivative=Linear((lambda g, out, x: half_dft(g, axis=out.param("axis")),)),
    batch=lambda size, inputs, batched, out: half_dft_transpose(
        inputs[0], length=out.param("length"), axis=out.param("axis") + 1
    ),
    kernel=Library(wide=True),
    independent=lambda out: _other_axes(out, (out.param("axis"),), out.ndim),
    flops=lambda out: _flops(out, (out.param("axis"),)) // 2,
    scratch=_half_dft_transposed_scratch,
    library_bytes=_half_dft_transposed_library_bytes,
    latex=Latex(r"\operatorname{{rdft}}^{{\top}}_{{{axis}}}({g})", ATOM, (0,)),
    samples=(
        _transposed_sample((3, 2), 5, 0),
        _transposed_sample((2, 3, 2), 4, 1),
        _transposed_sample((2, 2, 2), 3, 0),
        _transposed_sample((2, 1, 2), 1, 1),
        _transposed_sample((0, 2, 2), 3, 1),
    ),
    python=calls_function(half_dft_transposed, "length", "axis"),
)

FOURIER = (dft, half_dft, half_dft_transpose)

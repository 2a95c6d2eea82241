"""Each differentiable primitive in PyTorch and in autograd, or the reason why it is not there."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import autograd.scipy.special as special
import numpy as np

# name -> f(library, *arrays, **params); a string is the reason for having none.
Entry = Callable[..., Any] | str

BOTH: dict[str, Entry] = {
    "add": lambda m, x, y: x + y,
    "subtract": lambda m, x, y: x - y,
    "negative": lambda m, x: -x,
    "multiply": lambda m, x, y: x * y,
    "divide": lambda m, x, y: x / y,
    "power": lambda m, x, y: x**y,
    "integer_power": lambda m, x, exponent: x**exponent,
    "exp": lambda m, x: m.exp(x),
    "expm1": lambda m, x: m.expm1(x),
    "log": lambda m, x: m.log(x),
    "log1p": lambda m, x: m.log1p(x),
    "sqrt": lambda m, x: m.sqrt(x),
    "sin": lambda m, x: m.sin(x),
    "cos": lambda m, x: m.cos(x),
    "tanh": lambda m, x: m.tanh(x),
    "logistic": lambda m, x: 1 / (1 + m.exp(-x)),
    "absolute": lambda m, x: m.abs(x),
    "maximum": lambda m, x, y: m.maximum(x, y),
    "minimum": lambda m, x, y: m.minimum(x, y),
    "exp2": lambda m, x: m.exp2(x),
    "log2": lambda m, x: m.log2(x),
    "log10": lambda m, x: m.log10(x),
    "tan": lambda m, x: m.tan(x),
    "arcsin": lambda m, x: m.arcsin(x),
    "arccos": lambda m, x: m.arccos(x),
    "arctan": lambda m, x: m.arctan(x),
    "arctan_slope": lambda m, x: 1 / (1 + x * x),
    "arctan2": lambda m, x, y: m.arctan2(x, y),
    "hypot": lambda m, x, y: m.hypot(x, y),
    "sinc": lambda m, x: m.sinc(x),
    "sinh": lambda m, x: m.sinh(x),
    "cosh": lambda m, x: m.cosh(x),
    "arcsinh": lambda m, x: m.arcsinh(x),
    "arccosh": lambda m, x: m.arccosh(x),
    "arctanh": lambda m, x: m.arctanh(x),
    "remainder": lambda m, x, y: m.remainder(x, y),
    "identity": lambda m, x: x,
    "where": lambda m, condition, x, y: m.where(condition, x, y),
    "reshape": lambda m, x, shape: m.reshape(x, shape),
    "broadcast_to": lambda m, x, shape: m.broadcast_to(x, shape),
    "slice": lambda m, x, start, step, shape: x[_grid(m, start, step, shape)],
    "gather": lambda m, x, *indices, wrap: x[indices],
    "windows": lambda m, x, window, stride, dilation: x[
        (..., *_in_windows(m, x.shape[x.ndim - len(window) :], window, stride, dilation))
    ],
    "library_log": lambda m, x: m.log(x),
    "library_tan": lambda m, x: m.tan(x),
    "matmul": lambda m, x, y: m.matmul(x, y),
    "contract": lambda m, x, y, x_axes, y_axes, out_axes: m.einsum(
        f"{_letters(x_axes)},{_letters(y_axes)}->{_letters(out_axes)}", x, y
    ),
    "solve": lambda m, a, b: m.linalg.solve(a, b),
    "inv": lambda m, x: m.linalg.inv(x),
    "det": lambda m, x: m.linalg.det(x),
    "cholesky": lambda m, x: m.linalg.cholesky(x),
    "cofactor": lambda m, x: _cofactors(m, x),
    "cofactor_change": lambda m, x, d: _change_of_cofactors(m, x, d),
}

TORCH: dict[str, Entry] = {
    **BOTH,
    "logistic": lambda m, x: m.sigmoid(x),
    "cbrt": lambda m, x: m.sign(x) * m.abs(x) ** (1 / 3),
    "fmod": lambda m, x, y: m.fmod(x, y),
    "copysign": lambda m, x, y: m.copysign(x, y),
    "erf": lambda m, x: m.erf(x),
    "erfinv": lambda m, x: m.erfinv(x),
    "erfc": lambda m, x: m.special.erfc(x),
    "erfcx": lambda m, x: m.special.erfcx(x),
    "erfcx_slope": lambda m, x: 2 * x * m.special.erfcx(x) - 2 / np.sqrt(np.pi),
    "erfcx_derivative": lambda m, x, order: (
        (4 * x * x + 2) * m.special.erfcx(x) - 4 * x / np.sqrt(np.pi)
    ),
    "ndtr": lambda m, x: m.special.erfc(-x / np.sqrt(2)) / 2,
    "log_ndtr": lambda m, x: m.log(m.special.erfcx(-x / np.sqrt(2)) / 2) - x * x / 2,
    "gammaln": "PyTorch's trigamma is right to 1e-9",
    "digamma": "PyTorch's trigamma is right to 1e-9",
    "polygamma": "PyTorch's trigamma is right to 1e-9",
    "betaln": "PyTorch's trigamma is right to 1e-9",
    "logit": lambda m, x: m.log(x) - m.log1p(-x),
    "xlogy": lambda m, x, y: m.xlogy(x, y),
    "entr": lambda m, x: -x * m.log(x),
    "i0e": lambda m, x: m.special.i0(x) * m.exp(-m.abs(x)),
    "i1e": lambda m, x: m.special.i1(x) * m.exp(-m.abs(x)),
    "i0e_slope": lambda m, x: (m.special.i1(x) - m.sign(x) * m.special.i0(x)) * m.exp(-m.abs(x)),
    "i1e_slope": lambda m, x: (
        (m.special.i0(x) - m.special.i1(x) * (m.sign(x) + 1 / x)) * m.exp(-m.abs(x))
    ),
    "bessel_derivative": lambda m, x, order, slope: (
        (2 * m.special.i0(x) - m.special.i1(x) * (2 * m.sign(x) + 1 / x)) * m.exp(-m.abs(x))
    ),
    "log_erfc": lambda m, x: m.log(m.special.erfcx(x)) - x * x,
    "log_expit": lambda m, x: m.nn.functional.logsigmoid(x),
    "gaussian": lambda m, x: m.exp(-x * x),
    "cast": lambda m, x, dtype, weak: x.to(getattr(m, np.dtype(dtype).name)),
    "transpose": lambda m, x, permutation: m.permute(x, permutation),
    "concatenate": lambda m, *arrays, axis: m.cat(arrays, axis),
    "sum": lambda m, x, axes: m.sum(x, dim=axes),
    "max": lambda m, x, axes: m.amax(x, dim=axes),
    "min": lambda m, x, axes: m.amin(x, dim=axes),
    "prod": lambda m, x, axes: _over(m.prod, x, axes),
    "cumsum": lambda m, x, axis, reverse: _walked(m.cumsum, m.flip, x, axis, reverse),
    "cumprod": lambda m, x, axis, reverse: _walked(m.cumprod, m.flip, x, axis, reverse),
    "cummax": lambda m, x, axis, reverse: _walked(_values(m.cummax), m.flip, x, axis, reverse),
    "cummin": lambda m, x, axis, reverse: _walked(_values(m.cummin), m.flip, x, axis, reverse),
    "recurrence": lambda m, a, b, axis, reverse: _recurring(m, a, b, axis, reverse),
    "pad": lambda m, x, start, step, shape: m.zeros(shape, dtype=x.dtype).index_put(
        _grid(m, start, step, tuple(x.shape)), x
    ),
    "fold_windows": lambda m, g, stride, dilation, shape: m.movedim(
        m.zeros((*shape[len(shape) - len(stride) :], *shape[: len(shape) - len(stride)]))
        .to(g.dtype)
        .index_put(
            _in_windows(
                m, shape[len(shape) - len(stride) :], g.shape[-len(stride) :], stride, dilation
            ),
            m.movedim(g, tuple(range(-2 * len(stride), 0)), tuple(range(2 * len(stride)))),
            accumulate=True,
        ),
        tuple(range(len(stride))),
        tuple(range(-len(stride), 0)),
    ),
    "scatter_add": lambda m, updates, *indices, shape, wrap: m.zeros(
        shape, dtype=updates.dtype
    ).index_put(indices, updates, accumulate=True),
    "pinv": lambda m, x, cutoff: m.linalg.pinv(x, rtol=cutoff),
    "eigh": lambda m, x, uplo: _packed(m, *m.linalg.eigh(x, uplo)),
    "eigvalsh": lambda m, x, uplo: m.linalg.eigvalsh(x, uplo),
    "svd": lambda m, x: _packed_svd(m, x, *m.linalg.svd(x, full_matrices=False)),
    "svdvals": lambda m, x: m.linalg.svdvals(x),
    "qr": lambda m, x: _packed_qr(m, *m.linalg.qr(x)),
    "slogdet": lambda m, x: m.stack(m.linalg.slogdet(x), -1),
    "solve_triangular": lambda m, a, b, is_lower, is_unit: m.linalg.solve_triangular(
        a, b, upper=not is_lower, unitriangular=is_unit
    ),
    "dft": lambda m, x, axes, sign: _spectrum(m, x, axes, sign) if x.numel() else 1 * x,
    "half_dft": lambda m, x, axis: _half_spectrum(m, x, axis),
    "half_dft_transpose": lambda m, g, length, axis: m.autograd.functional.vjp(
        lambda x: _half_spectrum(m, x, axis),
        m.zeros((*g.shape[:axis], length, *g.shape[axis + 1 : -1])).to(g.dtype),
        g,
        create_graph=True,
    )[1],
    "lu": lambda m, x: _packed_lu(m, *m.linalg.lu(x)),
    "expm": lambda m, x: m.linalg.matrix_exp(x),
}

AUTOGRAD: dict[str, Entry] = {
    **BOTH,
    "transpose": lambda m, x, permutation: m.transpose(x, permutation),
    "concatenate": lambda m, *arrays, axis: m.concatenate(arrays, axis),
    "sum": lambda m, x, axes: m.sum(x, axis=axes),
    "max": lambda m, x, axes: m.max(x, axis=axes),
    "min": lambda m, x, axes: m.min(x, axis=axes),
    "prod": lambda m, x, axes: _over(m.prod, x, axes),
    "cumsum": lambda m, x, axis, reverse: _walked(m.cumsum, _flip, x, axis, reverse),
    "cumprod": "autograd has no derivative of cumprod",
    "cummax": "autograd has no derivative of maximum.accumulate",
    "cummin": "autograd has no derivative of minimum.accumulate",
    "recurrence": lambda m, a, b, axis, reverse: _recurring(m, a, b, axis, reverse),
    # autograd's own broadcast_to does not differentiate new leading axes
    "broadcast_to": lambda m, x, shape: x * np.ones(shape),
    "cbrt": "autograd has no np.cbrt",
    "fmod": lambda m, x, y: m.sign(x) * m.remainder(m.abs(x), m.abs(y)),
    "copysign": "autograd has no np.copysign",
    "erf": lambda m, x: special.erf(x),
    "erfinv": lambda m, x: special.erfinv(x),
    "erfc": lambda m, x: special.erfc(x),
    "erfcx": lambda m, x: special.erfc(x) * m.exp(x * x),
    "erfcx_slope": lambda m, x: 2 * x * special.erfc(x) * m.exp(x * x) - 2 / np.sqrt(np.pi),
    "erfcx_derivative": lambda m, x, order: (
        (4 * x * x + 2) * special.erfc(x) * m.exp(x * x) - 4 * x / np.sqrt(np.pi)
    ),
    "ndtr": lambda m, x: special.erfc(-x / np.sqrt(2)) / 2,
    "log_ndtr": "autograd loses the digits of the derivative in the tail",
    "gammaln": lambda m, x: special.gammaln(x),
    "digamma": lambda m, x: special.digamma(x),
    "polygamma": lambda m, x, order: special.polygamma(order, x),
    "betaln": lambda m, x, y: special.gammaln(x) + special.gammaln(y) - special.gammaln(x + y),
    "logit": lambda m, x: special.logit(x),
    "xlogy": lambda m, x, y: x * m.log(y),
    "entr": lambda m, x: -x * m.log(x),
    "i0e": lambda m, x: special.i0(x) * m.exp(-m.abs(x)),
    "i1e": lambda m, x: special.i1(x) * m.exp(-m.abs(x)),
    "i0e_slope": lambda m, x: (special.i1(x) - m.sign(x) * special.i0(x)) * m.exp(-m.abs(x)),
    "i1e_slope": lambda m, x: (
        (special.i0(x) - special.i1(x) * (m.sign(x) + 1 / x)) * m.exp(-m.abs(x))
    ),
    "bessel_derivative": lambda m, x, order, slope: (
        (2 * special.i0(x) - special.i1(x) * (2 * m.sign(x) + 1 / x)) * m.exp(-m.abs(x))
    ),
    "log_erfc": "autograd loses the digits of the derivative in the tail",
    "log_expit": lambda m, x: -m.logaddexp(0.0, -x),
    "gaussian": lambda m, x: m.exp(-x * x),
    "cast": "autograd does not differentiate astype between dtypes",
    "pad": "autograd has no item assignment to write this with",
    "scatter_add": "autograd has no np.add.at",
    "fold_windows": "autograd has no np.add.at",
    "pinv": lambda m, x, cutoff: m.linalg.pinv(x),
    "eigh": "autograd differentiates the triangle that is read",
    "eigvalsh": "autograd has no eigvalsh",
    "svd": "autograd's second derivative of svd is not written for thin factors of every shape",
    "svdvals": "autograd differentiates svd with vectors only",
    "qr": "autograd has no qr",
    "slogdet": "autograd does not stack the results of slogdet",
    "solve_triangular": lambda m, a, b, is_lower, is_unit: m.linalg.solve(
        _triangle(m, a, is_lower, is_unit), b
    ),
    "lu": "autograd has no lu",
    "dft": "autograd has no view of complex numbers as pairs",
    "half_dft": "autograd has no view of complex numbers as pairs",
    "half_dft_transpose": "autograd has no view of complex numbers as pairs",
    "expm": "autograd has no expm",
}


def _grid(m: Any, start: tuple[int, ...], step: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """One index array for each axis, together the places start + step * position."""
    axes = [a + b * np.arange(n) for a, b, n in zip(start, step, shape, strict=True)]
    grid = np.ix_(*axes)
    return tuple(map(m.from_numpy, grid)) if hasattr(m, "from_numpy") else grid


def _in_windows(m: Any, lengths: Any, window: Any, stride: Any, dilation: Any) -> Any:
    """For each axis the places in all windows, to be broadcast: positions, then windows."""
    count, found = len(window), []
    for axis, (n, w, s, d) in enumerate(zip(lengths, window, stride, dilation, strict=True)):
        places = s * np.arange((n - d * (w - 1) - 1) // s + 1)[:, None] + d * np.arange(w)
        shape = [1] * (2 * count)
        shape[axis], shape[count + axis] = places.shape
        found.append(places.reshape(shape))
    return tuple(map(m.from_numpy, found)) if hasattr(m, "from_numpy") else tuple(found)


def _over(reduce: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """A reduction that takes one axis at a time."""
    for axis in axes[::-1]:
        x = reduce(x, axis)
    return x


def _values(function: Any) -> Any:
    """Of a function that gives places, too."""
    return lambda x, axis: function(x, axis)[0]


def _walked(function: Any, flip: Any, x: Any, axis: int, reverse: bool) -> Any:
    if not reverse:
        return function(x, axis)
    return flip(function(flip(x, (axis,)), axis), (axis,))


def _flip(x: Any, axes: tuple[int, ...]) -> Any:
    """np.flip, which autograd lacks."""
    return x[tuple(slice(None, None, -1 if i in axes else 1) for i in range(x.ndim))]


def _recurring(m: Any, a: Any, b: Any, axis: int, reverse: bool) -> Any:
    """Row after row, as the definition has it."""
    at = (slice(None),) * axis
    rows: list[Any] = []
    for k in range(b.shape[axis])[:: -1 if reverse else 1]:
        rows.append(b[(*at, k)] + (a[(*at, k)] * rows[-1] if rows else 0 * a[(*at, k)]))
    return m.stack(rows[:: -1 if reverse else 1], axis) if rows else a * b


def _letters(axes: tuple[int, ...]) -> str:
    return "".join(string.ascii_letters[axis] for axis in axes)


def _mt(m: Any, x: Any) -> Any:
    return m.swapaxes(x, -1, -2)


def _cofactors(m: Any, x: Any) -> Any:
    return m.linalg.det(x)[..., None, None] * _mt(m, m.linalg.inv(x))


def _change_of_cofactors(m: Any, x: Any, d: Any) -> Any:
    """By the product rule from `_cofactors`."""
    inverse = m.linalg.inv(x)
    moved = m.matmul(inverse, d)
    trace = m.sum(inverse * _mt(m, d), (-2, -1))[..., None, None]
    return m.linalg.det(x)[..., None, None] * _mt(m, trace * inverse - m.matmul(moved, inverse))


def _packed(m: Any, values: Any, vectors: Any) -> Any:
    return m.cat([values[..., None, :], vectors], -2)


def _packed_qr(m: Any, q: Any, r: Any) -> Any:
    return m.cat([q, r.mT], -2)


def _spectrum(m: Any, x: Any, axes: tuple[int, ...], sign: int) -> Any:
    z = m.complex(x[..., 0], x[..., 1])
    if sign < 0:
        return m.view_as_real(m.fft.fftn(z, dim=axes))
    return m.view_as_real(m.fft.ifftn(z, dim=axes, norm="forward"))


def _half_spectrum(m: Any, x: Any, axis: int) -> Any:
    if not x.numel():  # MKL fails
        shape = (*x.shape[:axis], x.shape[axis] // 2 + 1, *x.shape[axis + 1 :], 2)
        return m.sum(x) * m.ones(shape).to(x.dtype)
    return m.view_as_real(m.fft.rfft(x, dim=axis))


def _packed_lu(m: Any, p: Any, lower: Any, upper: Any) -> Any:
    k = lower.shape[-1]
    numbers = m.arange(p.shape[-1]).to(p.dtype)
    square = m.tril(lower[..., :k, :], -1) + upper[..., :k]
    packed = m.cat([square, upper[..., k:]], -1) if upper.shape[-1] > k else square
    packed = m.cat([packed, lower[..., k:, :]], -2) if lower.shape[-2] > k else packed
    return m.cat([packed, (numbers @ p)[..., None]], -1)


def _triangle(m: Any, a: Any, is_lower: bool, is_unit: bool) -> Any:
    part = np.tril if is_lower else np.triu
    ones = np.ones(a.shape[-2:])
    return a * part(ones, -1 if is_lower else 1) + np.eye(len(ones)) * (1.0 if is_unit else a)


def _packed_svd(m: Any, x: Any, u: Any, s: Any, vh: Any) -> Any:
    # The sign of a pair of vectors is any: NumPy's is taken.
    ours = np.linalg.svd(x.numpy(force=True), full_matrices=False)[0]
    signs = m.sign(m.sum(m.from_numpy(ours) * u.detach(), -2))[..., None, :]
    return m.cat([u * signs, s[..., None, :], vh.mT * signs], -2)

"""Replacements for common functions that are not traced; tests compare each with NumPy."""

from __future__ import annotations

from chainrule.frontend.hints.untraced import REFUSED

# By the names of functions of NumPy, its arrays and scipy.special; x and y are their arguments.
INSTEAD = {
    "beta": "np.exp(cr.betaln(x, y))",
    "exp10": "10.0**x",
    "rel_entr": "cr.xlogy(x, x / y)",
    "isin": "np.any(x[..., None] == y, axis=-1)",
}
# Where the expression is not as general as the function.
CONDITIONS = {
    "beta": "for x > 0 and y > 0",
    "rel_entr": "for x >= 0 and y > 0",
    "isin": "for an array y with one axis",
}
_OF_VALUES = (
    "the shape of its result would depend on values, which do not exist while tracing;\n"
    "keep the shape, and choose with np.where(condition, x, 0)"
)
_IN_PLACE = "traced arrays are values: x = x.at[key].set(value)"
# What to do in place of functions for which no expression stands.
REASONS = {
    **dict.fromkeys(("nonzero", "flatnonzero", "argwhere"), _OF_VALUES),
    **dict.fromkeys(("unique", "unique_values", "unique_counts", "unique_inverse"), _OF_VALUES),
    **dict.fromkeys(("union1d", "intersect1d", "setdiff1d", "setxor1d", "trim_zeros"), _OF_VALUES),
    **dict.fromkeys(("put", "putmask", "place", "put_along_axis", "setfield"), _IN_PLACE),
    "copyto": "traced arrays are values: np.broadcast_to(value, shape) is an array of one value",
    "histogram": "count with np.bincount(np.digitize(x, edges), minlength=len(edges) + 1)",
    "fill_diagonal": (
        "traced arrays are values; with i = np.cumsum(np.ones_like(x, shape=(n,), "
        "dtype=np.int64)) - 1,\n"
        "np.where(i[:, None] == i, value, x) is x (n x n) with value on its diagonal"
    ),
    "fill": "traced arrays are values: np.full_like(x, value)",
    "flat": "use np.ravel(x)",
}
_SPECTRUM = (
    "arrays are real here; a spectrum is a pair of them: re, im = cr.fft.rfft(x) is "
    "np.fft.rfft(x).real and .imag,\nre**2 + im**2 its power, and cr.fft.irfft((re, im), n) is x; "
    "cr.fft has the others, too; np.convolve and np.correlate are traced"
)
PAGE = 'the page "NumPy on traced arrays" (docs/numpy.md in the repository)'


def primitive_of(function: str) -> str:
    """The hint for a function that only the user can give a derivative."""
    return (
        f"cr.primitive({function}, ...) makes an operation of it, with a derivative rule that you "
        'give;\nthe page "Operations of your own" (docs/custom-operations.md) shows how'
    )


def instead_of(name: str) -> str:
    """The hint for a function or method that is not traced."""
    if name.startswith("fft."):
        return _SPECTRUM
    expression = INSTEAD.get(name.rpartition(".")[2])
    reason = REASONS.get(name.rpartition(".")[2])
    if reason is not None:
        return reason
    if expression is None:
        because = f"it {REFUSED[name]};\n" if name in REFUSED else ""
        return (
            f"{because}write it with functions that are traced, or compute it before the call;\n"
            f"{PAGE} lists them"
        )
    condition = CONDITIONS.get(name.rpartition(".")[2])
    return f"write {expression}" + (f", {condition}" if condition else "")

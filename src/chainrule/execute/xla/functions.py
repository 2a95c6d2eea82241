"""Elementary functions where XLA's own are wrong by more than 4 ulp, or stop short.

These are methods of a `Space`.  Formulas must not rest on rounding that XLA's rewrites undo: it
takes (x + 1) - 1 for x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.execute.xla.jax_here import jax_here
from chainrule.graph.dtypes import dtype_kind

if TYPE_CHECKING:
    from chainrule.execute.xla.tracing import Space

WIDE = np.dtype(np.float64)


def log1p(space: Space, x: Any) -> Any:
    """log(1 + x), in float64 by Kahan's formula (see Higham, Accuracy and Stability, section
    1.14.1): XLA's own was found to be wrong by 127 ulp."""
    jax = jax_here()
    if x.dtype != WIDE:
        return jax.numpy.log1p(x)
    u = jax.lax.optimization_barrier(1 + x)  # that u - 1 is not x
    corrected = space.log(u) * (x / (u - 1))
    return space.where(u == 1, x, space.where(u == np.inf, u, corrected))


def arctanh(space: Space, x: Any) -> Any:
    """In float64 by `log1p`: XLA's own has the errors of its own."""
    jax = jax_here()
    if x.dtype != WIDE:
        return jax.numpy.arctanh(x)
    size = abs(x)
    return space.copysign(log1p(space, 2 * size / (1 - size)) / 2, x)


def exp2(space: Space, x: Any) -> Any:
    """2 to the power x, of the whole part of x by its exponent: the error of XLA's own grows with
    x."""
    jax = jax_here()
    whole = space.rint(x)
    least, most = (float(found) for found in (np.finfo(x.dtype).minexp, np.finfo(x.dtype).maxexp))
    inner = space.exp((x - whole) * space.asarray(np.log(2.0), x.dtype))
    scaled = jax.numpy.ldexp(inner, whole.astype("int32"))
    return space.where((x > least) & (x < most), scaled, jax.numpy.exp2(x))


def cosh(space: Space, x: Any) -> Any:
    """Of the square of exp(x / 2), which does not overflow before its half: the error of XLA's own
    grows with x."""
    half = space.exp(abs(x) / 2)
    return half / 2 * half + 1 / half / (2 * half)


def sinh(space: Space, x: Any) -> Any:
    """As `cosh`, of numbers that are not small."""
    half = space.exp(abs(x) / 2)
    large = space.copysign(half / 2 * half - 1 / half / (2 * half), x)
    return space.where(abs(x) < 1, jax_here().numpy.sinh(x), large)


def power(space: Space, x: Any, y: Any) -> Any:
    """x to the power y; of integers by squaring, through all bits of y: JAX looks at 6."""
    jax = jax_here()
    if dtype_kind(x.dtype) not in "iu" or dtype_kind(y.dtype) not in "iu":
        return jax.numpy.power(x, y)
    if dtype_kind(y.dtype) == "i":  # which NumPy refuses
        space.fail((y < 0).any())

    def one_bit(_: Any, carry: Any) -> Any:
        found, x, y = carry
        return jax.numpy.where(y & 1, found * x, found), x * x, y >> 1

    ones = jax.numpy.ones_like(x)
    return jax.lax.fori_loop(0, 8 * y.dtype.itemsize, one_bit, (ones, x, y))[0]


def floor_divide(space: Space, x: Any, y: Any) -> Any:
    """The quotient rounded down, as NumPy computes it: of the rest that `fmod` leaves, since
    floor(1 / 0.1) is one too much; an integer divided by zero is zero."""
    jnp = jax_here().numpy
    if dtype_kind(x.dtype) in "iu":
        return space.where(y == 0, 0, jnp.floor_divide(x, space.where(y == 0, 1, y)))
    dtype = x.dtype
    if dtype.itemsize < 4:  # NumPy rounds once, too
        x, y = x.astype("float32"), y.astype("float32")
    rest = jnp.fmod(x, y)
    turns = (rest != 0) & ((rest < 0) != (y < 0))
    whole = (x - rest) / y - turns
    floor = jnp.floor(whole)
    floor = floor + (whole - floor > 0.5)
    floor = space.where(whole == 0, jnp.copysign(0.0 * whole, x / y), floor)
    return space.where(y == 0, x / y, floor).astype(dtype)


def remainder(space: Space, x: Any, y: Any) -> Any:
    """What is left of `floor_divide`, with the sign of the divisor, as NumPy gives it; zero has
    that sign, too."""
    jnp = jax_here().numpy
    if dtype_kind(x.dtype) in "iu":
        return jnp.remainder(x, y)
    rest = jnp.fmod(x, y)
    rest = space.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
    return space.where(rest == 0, jnp.copysign(0.0 * rest, y), rest)


def sign(space: Space, x: Any) -> Any:
    """-1, 0 or 1; NumPy's 0 has no sign, also of -0."""
    found = jax_here().numpy.sign(x)
    return found if dtype_kind(x.dtype) in "iu" else space.where(x == 0, 0.0, found)

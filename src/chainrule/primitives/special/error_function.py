"""The error function, and the bell curve that is its derivative."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.primitives import arithmetic
from chainrule.primitives.families import elementwise
from chainrule.primitives.notation import ATOM, POWER, Latex
from chainrule.primitives.python import calls_own
from chainrule.primitives.python_functions import ERF, GAUSSIAN
from chainrule.primitives.sources import full_like


def _erf(xp: Any, x: Any) -> Any:
    if xp is not np:
        from jax.scipy.special import erf as jax_erf  # only JAX shares this evaluation

        return jax_erf(x if x.dtype.kind not in "iu" else x.astype(np.float64))
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))  # as ufuncs have it
    along = x.transpose(*order)
    found = np.fromiter(map(math.erf, along.flat), x.dtype, x.size).reshape(along.shape)
    return found.transpose(*sorted(range(x.ndim), key=order.__getitem__))


erf = elementwise(
    "erf",
    "The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
    _erf,
    lambda out, x: (2 / math.sqrt(math.pi)) * gaussian(x),
    kernel="erf(x)",
    latex=Latex(r"\operatorname{{erf}}({x})", ATOM, (0,)),
    weight=12,
    python=calls_own(ERF),
)


def _gaussian_slope(out: Any, x: Any) -> Any:
    # Beyond 40 all derivatives are 0 in every format, and x may be infinite.
    inside = arithmetic.maximum(x, full_like(x, -40))
    return -2 * arithmetic.minimum(inside, full_like(x, 40)) * out


gaussian = elementwise(
    "gaussian",
    "exp(-x^2).",
    lambda xp, x: xp.exp(xp.multiply(xp.negative(x), x)),
    _gaussian_slope,
    kernel="exp(-(x * x))",
    latex=Latex(r"\exp(-{x}^2)", ATOM, (POWER + 1,)),
    weight=12,
    scratch=lambda out, x: x.nbytes,
    python=calls_own(GAUSSIAN),
)

"""Functions of one primitive that NumPy has not: `erf`, `sigmoid`, `stop_gradient`."""

from __future__ import annotations

import numpy as np

from chainrule.frontend.composite import unary
from chainrule.primitives import arithmetic

erf = unary(
    arithmetic.erf,
    np.exp,
    "erf",
    """The error function, elementwise: 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.""",
)

sigmoid = unary(
    arithmetic.logistic,
    np.exp,
    "sigmoid",
    """The logistic sigmoid 1 / (1 + exp(-x)), elementwise; exact in both tails.""",
)

stop_gradient = unary(
    arithmetic.stop_gradient,
    np.positive,
    "stop_gradient",
    """x itself, as a constant for differentiation: no derivative flows through it.""",
)

"""Special functions under SciPy's names; `scipy.special.erfc` calls them for traced arrays."""

from __future__ import annotations

import numpy as np

from chainrule.frontend.composite import binary, unary
from chainrule.primitives import arithmetic
from chainrule.primitives.special import bessel, special

erfc = unary(
    special.erfc,
    np.exp,
    "erfc",
    """1 - erf(x), elementwise; accurate for large x, where 1 - erf(x) has no digits left.""",
)

erfcx = unary(
    special.erfcx,
    np.exp,
    "erfcx",
    """exp(x**2) erfc(x), elementwise: about 1 / (x sqrt(pi)) for large x; inf below -26.7.""",
)

ndtr = unary(
    special.ndtr,
    np.exp,
    "ndtr",
    """The distribution function of the standard normal distribution, accurate in both tails.""",
)

log_ndtr = unary(
    special.log_ndtr,
    np.exp,
    "log_ndtr",
    """The logarithm of ndtr, elementwise: finite where ndtr is 0, and accurate where it is 1.""",
)

gammaln = unary(
    special.gammaln,
    np.exp,
    "gammaln",
    """The logarithm of |Γ(x)|, elementwise; inf at 0, -1, -2, ...""",
)

digamma = unary(
    special.digamma,
    np.exp,
    "digamma",
    """The derivative of gammaln, elementwise; -inf at 0, NaN at -1, -2, ...""",
)

betaln = binary(
    special.betaln,
    np.arctan2,
    "betaln",
    """log(Γ(x) Γ(y) / Γ(x + y)), elementwise, also where the three cancel.""",
)

logit = unary(
    special.logit,
    np.exp,
    "logit",
    """log(x / (1 - x)), elementwise: -inf at 0, inf at 1, NaN outside; the inverse of expit.""",
)

expit = unary(
    arithmetic.logistic,
    np.exp,
    "expit",
    """The logistic sigmoid 1 / (1 + exp(-x)), elementwise: another name of `sigmoid`.""",
)

xlogy = binary(
    special.xlogy,
    np.arctan2,
    "xlogy",
    """x log(y), elementwise, and 0 where x is 0 (NaN if y is).

    Its derivatives are log(y) and x / y; 0 instead of -inf or NaN where x is 0 and y not positive.
    """,
)

entr = unary(
    special.entr,
    np.exp,
    "entr",
    """-x log(x), elementwise: 0 at 0, where its slope is inf, and -inf below.""",
    np.float32,
)

i0e = unary(
    bessel.i0e,
    np.exp,
    "i0e",
    """exp(-|x|) times the modified Bessel function I0, elementwise; its derivative at 0 is 0.""",
)

i1e = unary(
    bessel.i1e,
    np.exp,
    "i1e",
    """exp(-|x|) times the modified Bessel function I1, elementwise.""",
)

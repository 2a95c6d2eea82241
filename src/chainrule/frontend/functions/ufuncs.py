"""Maps the ufuncs of NumPy and scipy.special to primitives."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping

import numpy as np

from chainrule.primitives import arithmetic, logic
from chainrule.primitives.primitive import Primitive

EVERYDAY: dict[np.ufunc, Primitive] = {
    np.add: arithmetic.add,
    np.subtract: arithmetic.subtract,
    np.negative: arithmetic.negative,
    np.multiply: arithmetic.multiply,
    np.true_divide: arithmetic.divide,
    np.power: arithmetic.power,
    np.exp: arithmetic.exp,
    np.expm1: arithmetic.expm1,
    np.log: arithmetic.log,
    np.log1p: arithmetic.log1p,
    np.sqrt: arithmetic.sqrt,
    np.sin: arithmetic.sin,
    np.cos: arithmetic.cos,
    np.tanh: arithmetic.tanh,
    np.sign: arithmetic.sign,
    np.absolute: arithmetic.absolute,
    np.maximum: arithmetic.maximum,
    np.minimum: arithmetic.minimum,
    np.equal: logic.equal,
    np.not_equal: logic.not_equal,
    np.less: logic.less,
    np.less_equal: logic.less_equal,
    np.greater: logic.greater,
    np.greater_equal: logic.greater_equal,
    np.logical_and: logic.logical_and,
    np.logical_or: logic.logical_or,
    np.logical_not: logic.logical_not,
    np.fabs: arithmetic.absolute,
}

# Others, by the module of primitives that has one of this name: it is loaded when it is used.
LATER: dict[np.ufunc, str] = {
    np.exp2: "logarithms",
    np.log2: "logarithms",
    np.log10: "logarithms",
    np.cbrt: "logarithms",
    np.tan: "trigonometric",
    np.arcsin: "trigonometric",
    np.arccos: "trigonometric",
    np.arctan: "trigonometric",
    np.arctan2: "trigonometric",
    np.hypot: "trigonometric",
    np.sinh: "hyperbolic",
    np.cosh: "hyperbolic",
    np.arcsinh: "hyperbolic",
    np.arccosh: "hyperbolic",
    np.arctanh: "hyperbolic",
    np.floor: "rounding",
    np.ceil: "rounding",
    np.trunc: "rounding",
    np.rint: "rounding",
    np.floor_divide: "rounding",
    np.remainder: "rounding",
    np.fmod: "rounding",
    np.copysign: "rounding",
    np.left_shift: "shifts",
    np.right_shift: "shifts",
}

# Those of scipy.special, by the names that they have there.
SCIPYS: dict[str, tuple[str, str]] = {
    **{
        name: ("special.special", name)
        for name in (
            *("erfc", "erfcx", "erfinv", "ndtr", "log_ndtr", "gammaln", "betaln", "logit"),
            *("xlogy", "entr", "log_expit"),
        )
    },
    "i0e": ("special.bessel", "i0e"),
    "i1e": ("special.bessel", "i1e"),
    "erf": ("arithmetic", "erf"),
    "expit": ("arithmetic", "logistic"),
    "expm1": ("arithmetic", "expm1"),
    "log1p": ("arithmetic", "log1p"),
    "psi": ("special.special", "digamma"),
    "exp2": ("logarithms", "exp2"),
    "cbrt": ("logarithms", "cbrt"),
}


def _of_scipy(ufunc: object) -> tuple[str, str] | None:
    """The module and the name of the primitive of a ufunc of scipy.special, if it is one."""
    if not isinstance(ufunc, np.ufunc) or ufunc.__name__ not in SCIPYS:
        return None
    special = sys.modules.get("scipy.special")  # who has its ufunc has imported it
    is_there = getattr(special, ufunc.__name__, None) is ufunc
    return SCIPYS[ufunc.__name__] if is_there else None


class Ufuncs(Mapping[np.ufunc, Primitive]):
    """The primitives of all ufuncs, listed without SciPy's; to ask for one loads nothing."""

    def __getitem__(self, ufunc: np.ufunc) -> Primitive:
        found = EVERYDAY.get(ufunc)
        if found is None:
            place, name = _of_scipy(ufunc) or (LATER[ufunc], ufunc.__name__)
            found = getattr(importlib.import_module(f"chainrule.primitives.{place}"), name)
        return found

    def __contains__(self, ufunc: object) -> bool:
        return ufunc in EVERYDAY or ufunc in LATER or _of_scipy(ufunc) is not None

    def __iter__(self) -> Iterator[np.ufunc]:
        yield from EVERYDAY
        yield from LATER

    def __len__(self) -> int:
        return len(EVERYDAY) + len(LATER)


UFUNCS = Ufuncs()

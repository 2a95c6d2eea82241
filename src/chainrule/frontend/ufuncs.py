"""Which primitive a ufunc of NumPy is on traced arrays."""

from __future__ import annotations

import importlib
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


class Ufuncs(Mapping[np.ufunc, Primitive]):
    """The primitives of all ufuncs; to ask whether there is one loads nothing."""

    def __getitem__(self, ufunc: np.ufunc) -> Primitive:
        found = EVERYDAY.get(ufunc)
        if found is None:
            module = importlib.import_module(f"chainrule.primitives.{LATER[ufunc]}")
            found = getattr(module, ufunc.__name__)
        return found

    def __contains__(self, ufunc: object) -> bool:
        return ufunc in EVERYDAY or ufunc in LATER

    def __iter__(self) -> Iterator[np.ufunc]:
        yield from EVERYDAY
        yield from LATER

    def __len__(self) -> int:
        return len(EVERYDAY) + len(LATER)


UFUNCS = Ufuncs()

"""Evaluates the scalar expressions of kernels over NumPy arrays."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def _logistic(x: Any) -> Any:
    # Not the formula of the primitive: tanh has no overflow either.
    return 0.5 * (1 + np.tanh(x / 2))


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _by_scipy(formula: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """A formula of x with the functions of SciPy, which is loaded at the first call."""

    def function(x: Any) -> Any:
        from scipy import special

        return formula(special, x)

    return function


def _erfcx_slope(special: Any, x: Any) -> Any:
    far = -1 / (math.sqrt(math.pi) * x * x)  # in which nothing cancels
    return np.where(x > 1e8, far, 2 * x * special.erfcx(x) - 2 / math.sqrt(math.pi))


def _gammaln(special: Any, x: Any) -> Any:
    return np.where(np.abs(x) < 1e-300, -np.log(np.abs(x)), special.gammaln(x))


def _i1e_slope(special: Any, x: Any) -> Any:
    ratio = np.where(np.abs(x) < 1e-300, 0.5, special.i1e(x) / x)
    return special.i0e(x) - np.sign(x) * special.i1e(x) - ratio


def _threefry(mix: Callable[[int, int], int]) -> Any:
    """Threefry-2x32 with Python's integers, turn by turn as its paper has it."""

    def one(k0: int, k1: int, c0: int, c1: int) -> int:
        words = [k0, k1, k0 ^ k1 ^ 0x1BD11BDA]
        x, y = (c0 + k0) % 2**32, (c1 + k1) % 2**32
        for turn in range(20):
            rotation = (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]
            x = (x + y) % 2**32
            y = ((y << rotation | y >> 32 - rotation) % 2**32) ^ x
            if turn % 4 == 3:
                s = turn // 4 + 1
                x, y = (x + words[s % 3]) % 2**32, (y + words[(s + 1) % 3] + s) % 2**32
        return mix(x, y)

    of_arrays = np.vectorize(lambda *words: one(*map(int, words)), otypes=[np.uint32])
    return lambda *words: of_arrays(*words) if words[0].size else words[0]


# Every function that an expression may use: those of C's math.h by C's names, and a few of ours.
SCALAR_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "digamma": _by_scipy(lambda s, x: s.psi(x)),
    "erf": _erf,
    "erfc": _by_scipy(lambda s, x: s.erfc(x)),
    "erfcx": _by_scipy(lambda s, x: s.erfcx(x)),
    "erfcx_slope": _by_scipy(_erfcx_slope),
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fabs": np.abs,
    "floor": np.floor,
    "floor_divide": np.floor_divide,
    "fmax_nan": np.maximum,
    "fmin_nan": np.minimum,
    "fmod": np.fmod,
    "gammaln": _by_scipy(_gammaln),
    "hypot": np.hypot,
    "i0e": _by_scipy(lambda s, x: s.i0e(x)),
    "i0e_slope": _by_scipy(lambda s, x: s.i1e(x) - np.sign(x) * s.i0e(x)),
    "i1e": _by_scipy(lambda s, x: s.i1e(x)),
    "i1e_slope": _by_scipy(_i1e_slope),
    "left_shift": np.left_shift,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "logistic": _logistic,
    "ndtr": _by_scipy(lambda s, x: s.ndtr(x)),
    "pow": np.power,
    "remainder": np.remainder,
    "right_shift": np.right_shift,
    "rint": np.rint,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "threefry_first": _threefry(lambda x, y: x),
    "threefry_mixed": _threefry(operator.xor),
    "threefry_second": _threefry(lambda x, y: y),
    "trunc": np.trunc,
    "where": np.where,
}

OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def evaluate_expression(expression: str, names: Mapping[str, Any]) -> Any:
    """The value of a kernel's expression, with inputs and parameters given by name.

    `cast(x)` converts to the parameter `dtype`.  Raises ValueError for anything but these names,
    numbers, OPERATORS and SCALAR_FUNCTIONS.
    """
    functions = SCALAR_FUNCTIONS
    if "dtype" in names:
        functions = {**functions, "cast": lambda x: np.asarray(x).astype(names["dtype"])}

    def value(node: ast.AST) -> Any:
        match node:
            case ast.Expression(body):
                return value(body)
            case ast.Name(name) if name in names:
                return names[name]
            case ast.Constant(int() | float() as number):
                return number
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
            case ast.UnaryOp(op, operand) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(operand))
            case ast.Compare(left, [op], [right]) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
            case ast.Call(ast.Name(name), args, []) if name in functions:
                return functions[name](*map(value, args))
        raise ValueError(f"{expression!r}: {ast.unparse(node)!r} is no known name or operation")

    try:
        parsed = ast.parse(expression, mode="eval")
    except SyntaxError as error:
        raise ValueError(f"{expression!r} is not an expression in Python's grammar") from error
    return value(parsed)

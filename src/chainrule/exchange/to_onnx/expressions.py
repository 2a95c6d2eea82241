"""Writes the scalar expressions of `Map` kernels (`where(x > 0, x, 0)`) as ONNX nodes."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from chainrule.exchange.to_onnx.writer import INT64, Writer
from chainrule.graph.dtypes import dtype_kind
from chainrule.primitives.threefry import cipher

BOOL = np.dtype(np.bool_)
WIDE = np.dtype(np.float64)


class Refused(Exception):
    """There is no ONNX operator for this; its text says for what."""


@lru_cache(maxsize=1024)
def parsed(expression: str) -> ast.expr:
    """The expression of a primitive's declaration; nothing evaluates it."""
    return ast.parse(expression, mode="eval").body


class Value:
    """A value of the file under construction: its name, its dtype, and its number if it is one."""

    __slots__ = ("dtype", "name", "number")

    def __init__(self, name: str, dtype: np.dtype, number: Any = None) -> None:
        self.name, self.dtype, self.number = name, dtype, number


class Scalars:
    """Writes one expression; numbers in it have the dtype of the arrays that they meet."""

    def __init__(self, writer: Writer, values: Mapping[str, Any]) -> None:
        self.writer, self.values = writer, values

    def emit(self, operator: str, *operands: Any, dtype: Any = None, **attributes: Any) -> Value:
        """A node of operands, numbers among them, which all have one dtype."""
        given = next((one.dtype for one in operands if isinstance(one, Value)), None)
        if given is None:
            raise Refused("an expression of numbers alone")
        names = [self.value(one, given).name for one in operands]
        if given == BOOL:
            operator = _OF_BOOLEANS.get(operator, operator)
        return Value(self.writer.emit(operator, *names, **attributes), dtype or given)

    def value(self, one: Any, dtype: np.dtype) -> Value:
        """A number as a constant of this dtype; a value as it is."""
        if isinstance(one, Value):
            return one
        return Value(self.writer.constant(np.asarray(one, dtype)), dtype)

    def written(self, tree: ast.expr) -> Any:
        """The value of an expression, or a number."""
        match tree:
            case ast.Constant(value=number):
                return number
            case ast.Name(id=name):
                if name not in self.values:
                    raise Refused(name)
                return self.values[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                inner = self.written(operand)
                if isinstance(inner, Value) and inner.dtype.kind == "u":
                    return self.emit("Sub", 0, inner)
                return self.emit("Neg", inner) if isinstance(inner, Value) else -inner
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                inner = self.written(operand)
                return self.emit("Not" if inner.dtype == BOOL else "BitwiseNot", inner)
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(type(op), self.written(left), self.written(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.compared(type(op), self.written(left), self.written(right))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                given = [self.written(one) for one in arguments]
                if name not in FUNCTIONS:
                    raise Refused(name)
                return FUNCTIONS[name](self, *given)
        raise Refused(ast.unparse(tree))

    def binary(self, op: type, left: Any, right: Any) -> Any:
        if not isinstance(left, Value) and not isinstance(right, Value):
            return _OF_NUMBERS[op](left, right)
        dtype = left.dtype if isinstance(left, Value) else right.dtype
        if dtype == WIDE and op in (ast.Mult, ast.Div):
            if _is_almost_1(right):
                number = _number(right) if op is ast.Mult else 1 / _number(right)
                return self.text("x + x * y", x=left, y=number - 1)
            if op is ast.Mult and _is_almost_1(left):
                return self.binary(op, right, left)
        if op in _ARITHMETIC:
            return self.emit(_ARITHMETIC[op], left, right)
        if op in _LOGIC:
            return self.emit(_LOGIC[op][dtype != BOOL], left, right)
        raise Refused(op.__name__)

    def compared(self, op: type, left: Any, right: Any) -> Value:
        found = left if isinstance(left, Value) else right
        if op is ast.NotEq:
            return self.emit("Not", self.emit("Equal", left, right, dtype=BOOL))
        if found.dtype == BOOL:
            left, right = (self.cast(one, np.dtype(np.int32)) for one in (left, right))
        return self.emit(_COMPARED[op], left, right, dtype=BOOL)

    def cast(self, x: Value, dtype: np.dtype) -> Value:
        return x if x.dtype == dtype else Value(self.writer.cast(x.name, dtype), dtype)

    def where(self, condition: Value, x: Any, y: Any) -> Value:
        """By `And` and `Or` of booleans, and for most integers in int64: onnxruntime has no other
        kernels."""
        dtype = next(one.dtype for one in (x, y) if isinstance(one, Value))
        x, y = self.value(x, dtype), self.value(y, dtype)
        if dtype == BOOL:
            return self.text("(c & x) | (~c & y)", c=condition, x=x, y=y)
        is_plain = dtype_kind(dtype) == "f" or dtype.name in ("uint8", "int32", "int64")
        other = dtype if is_plain else INT64
        names = [self.cast(one, other).name for one in (x, y)]
        found = Value(self.writer.emit("Where", condition.name, *names), other)
        return self.cast(found, dtype)

    def text(self, expression: str, **values: Any) -> Any:
        """An expression of other values."""
        return Scalars(self.writer, values).written(parsed(expression))


def _number(x: Any) -> Any:
    return x.number if isinstance(x, Value) else x


def _is_almost_1(x: Any) -> bool:
    """Whether x is a number that is 1 in float32 only: onnxruntime (1.30) leaves out products with
    such numbers, and quotients."""
    number = _number(x)
    return number is not None and number != 1 and np.float32(number) == 1


_ARITHMETIC = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div"}
_LOGIC = {
    ast.BitAnd: ("And", "BitwiseAnd"),
    ast.BitOr: ("Or", "BitwiseOr"),
    ast.BitXor: ("Xor", "BitwiseXor"),
}
_OF_BOOLEANS = {"Abs": "Identity", "Add": "Or", "Max": "Or", "Min": "And", "Mul": "And"}
_COMPARED = {
    ast.Eq: "Equal",
    ast.Lt: "Less",
    ast.LtE: "LessOrEqual",
    ast.Gt: "Greater",
    ast.GtE: "GreaterOrEqual",
}
_OF_NUMBERS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}


def one(operator: str) -> Callable[..., Value]:
    """A function that is one operator of ONNX."""
    return lambda scalars, *operands: scalars.emit(operator, *operands)


def formula(expression: str) -> Callable[..., Value]:
    """A function of x (and y) that is an expression of others."""
    return lambda scalars, *operands: scalars.text(
        expression, **dict(zip("xy", operands, strict=False))
    )


def _power(scalars: Scalars, x: Value, y: Any) -> Value:
    """Of integers by squaring: runtimes compute `Pow` of them in float64."""
    if isinstance(y, int) and y in (1, 2):
        return scalars.emit("Identity", x) if y == 1 else scalars.emit("Mul", x, x)
    if dtype_kind(x.dtype) == "f":
        return scalars.emit("Pow", x, y)
    if x.dtype == BOOL or (isinstance(y, int) and y < 0):
        raise Refused(f"powers of {x.dtype}")
    if not isinstance(y, Value):
        y = scalars.value(y, x.dtype)
    found, base = scalars.text("x * 0 + 1", x=x), x
    for bit in range(8 * y.dtype.itemsize - (y.dtype.kind == "i")):
        one = Value(scalars.writer.constant(np.array(1 << bit).astype(y.dtype)), y.dtype)
        found = scalars.text("where((y & one) != 0, r * x, r)", x=base, y=y, one=one, r=found)
        base = scalars.emit("Mul", base, base)
    return found


def _sign(scalars: Scalars, x: Value) -> Value:
    """NaN of NaN, as in NumPy."""
    found = scalars.emit("Sign", x)
    return (
        scalars.where(scalars.text("x == x", x=x), found, x)
        if dtype_kind(x.dtype) == "f"
        else found
    )


def _floor_divide(scalars: Scalars, x: Value, y: Value) -> Value:
    if dtype_kind(x.dtype) == "f":
        rest = _remainder(scalars, x, y)
        return scalars.text(
            "where(y == 0, x / y, rint(q))",
            x=x,
            y=y,
            q=scalars.text("(x - r) / y", x=x, y=y, r=rest),
        )
    if x.dtype.kind == "u":
        return scalars.emit("Div", x, y)
    rest = scalars.emit("Mod", x, y)
    return scalars.emit("Div", scalars.emit("Sub", x, rest), y)


def _remainder(scalars: Scalars, x: Value, y: Value) -> Value:
    if dtype_kind(x.dtype) != "f":
        return scalars.emit("Mod", x, y)
    rest = scalars.emit("Mod", x, y, fmod=1)
    moved = scalars.text("where((x != 0) & ((x < 0) != (y < 0)), x + y, x)", x=rest, y=y)
    return moved


def _copysign(scalars: Scalars, x: Value, y: Value) -> Value:
    """1/y tells -0 from 0; the sign of NaN counts as +."""
    return scalars.text("where((y < 0) | (1 / y < 0), -fabs(x), fabs(x))", x=x, y=y)


def _hypot(scalars: Scalars, x: Value, y: Value) -> Value:
    """The larger one times a square root, so that no square overflows; inf even beside NaN."""
    sizes = {"x": scalars.text("fabs(x)", x=x), "y": scalars.text("fabs(y)", y=y)}
    sizes["inf"] = scalars.value(math.inf, x.dtype)
    large, small = (scalars.text(f"{name}(x, y)", **sizes) for name in ("fmax_nan", "fmin_nan"))
    ratio = scalars.text("where(x > 0, y / x, 0)", x=large, y=small)
    length = scalars.text("x * sqrt(1 + r * r)", x=large, r=ratio)
    return scalars.text("where((x == inf) | (y == inf), inf, r)", **sizes, r=length)


def _atan2(scalars: Scalars, y: Value, x: Value) -> Value:
    """The angle of the ratio that is at most 1, moved to its octant."""
    sizes = {"x": scalars.text("fabs(x)", x=x), "y": scalars.text("fabs(y)", y=y)}
    sizes["inf"] = scalars.value(math.inf, x.dtype)
    large, small = (scalars.text(f"{name}(x, y)", **sizes) for name in ("fmax_nan", "fmin_nan"))
    ratio = scalars.text("where(x == 0, x, y / x)", x=large, y=small)
    ratio = scalars.text("where((x == inf) & (y == inf), 1, r)", **sizes, r=ratio)
    angle = scalars.text("atan(r)", r=ratio)
    angle = scalars.text(f"where(y > x, {math.pi / 2!r} - a, a)", **sizes, a=angle)
    angle = scalars.text(f"where((x < 0) | (1 / x < 0), {math.pi!r} - a, a)", x=x, a=angle)
    return _copysign(scalars, angle, y)


def _shift(direction: str) -> Callable[..., Value]:
    def of_words(scalars: Scalars, x: Value, y: Value) -> Value:
        bits = 8 * x.dtype.itemsize
        shifted = scalars.emit("BitShift", x, y, direction=direction)
        return scalars.where(scalars.emit("Less", y, bits, dtype=BOOL), shifted, 0)

    def function(scalars: Scalars, x: Value, y: Value) -> Value:
        """ONNX shifts unsigned integers alone: of a negative x, -x (or ~x to the right)."""
        if x.dtype.kind == "u":
            return of_words(scalars, x, y)
        back = "-x" if direction == "LEFT" else "-1 - x"
        word = np.dtype(f"u{x.dtype.itemsize}")
        negative = scalars.text("x < 0", x=x)
        size = scalars.where(negative, scalars.text(back, x=x), x)
        shifted = of_words(scalars, scalars.cast(size, word), scalars.cast(y, word))
        shifted = scalars.cast(shifted, x.dtype)
        return scalars.where(negative, scalars.text(back, x=shifted), shifted)

    return function


class Word:
    """A value of 32-bit words, on which the formula of a cipher computes."""

    def __init__(self, scalars: Scalars, value: Value) -> None:
        self.scalars, self.value = scalars, value

    def _with(self, operator: str, other: Any, **attributes: Any) -> Word:
        other = other.value if isinstance(other, Word) else other
        return Word(self.scalars, self.scalars.emit(operator, self.value, other, **attributes))

    def __add__(self, other: Any) -> Word:
        return self._with("Add", other)

    def __xor__(self, other: Any) -> Word:
        return self._with("BitwiseXor", other)

    def __or__(self, other: Any) -> Word:
        return self._with("BitwiseOr", other)

    def __lshift__(self, other: Any) -> Word:
        return self._with("BitShift", other, direction="LEFT")

    def __rshift__(self, other: Any) -> Word:
        return self._with("BitShift", other, direction="RIGHT")


def _threefry(place: int) -> Callable[..., Value]:
    """The first word of an encrypted counter, the second, or both mixed."""

    def function(scalars: Scalars, *words: Value) -> Value:
        key = ("threefry", *[one.name for one in words])
        known = scalars.writer.written.get(key)
        if known is None:
            x, y = cipher(*[Word(scalars, one) for one in words], number=int)
            known = scalars.writer.written[key] = (x.value.name, y.value.name, (x ^ y).value.name)
        return Value(known[place], words[0].dtype)

    return function


_LN2, _LN10 = math.log(2), math.log(10)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": one("Acos"),
    "acosh": one("Acosh"),
    "asin": one("Asin"),
    "asinh": one("Asinh"),
    "atan": one("Atan"),
    "atan2": _atan2,
    "atanh": one("Atanh"),
    "cbrt": formula("sign(x) * pow(fabs(x), 0.3333333333333333)"),
    "ceil": one("Ceil"),
    "copysign": _copysign,
    "cos": one("Cos"),
    "cosh": one("Cosh"),
    "erf": one("Erf"),
    "exp": one("Exp"),
    "exp2": formula(f"exp(x * {_LN2!r})"),
    # tanh keeps the digits of small arguments, which exp(x) - 1 has not.
    "expm1": formula("where(fabs(x) < 0.5, 2 * tanh(x / 2) / (1 - tanh(x / 2)), exp(x) - 1)"),
    "fabs": one("Abs"),
    "floor": one("Floor"),
    "floor_divide": _floor_divide,
    "fmax_nan": one("Max"),
    "fmin_nan": one("Min"),
    "fmod": lambda scalars, x, y: scalars.emit("Mod", x, y, fmod=1),
    "hypot": _hypot,
    "left_shift": _shift("LEFT"),
    "log": one("Log"),
    "log10": formula(f"log(x) / {_LN10!r}"),
    # Goldberg, What every computer scientist should know about floating-point arithmetic, theorem 4
    "log1p": formula(
        "where((1 + x == 1) | (fabs(x) > 1e30), where(x < 1e30, x, log(x)), "
        "log(1 + x) * (x / ((1 + x) - 1)))"
    ),
    "log2": formula(f"log(x) / {_LN2!r}"),
    "logistic": one("Sigmoid"),
    "pow": _power,
    "remainder": _remainder,
    "right_shift": _shift("RIGHT"),
    "rint": one("Round"),
    "sign": _sign,
    "sin": one("Sin"),
    "sinh": one("Sinh"),
    "sqrt": one("Sqrt"),
    "tan": one("Tan"),
    "tanh": one("Tanh"),
    "threefry_first": _threefry(0),
    "threefry_mixed": _threefry(2),
    "threefry_second": _threefry(1),
    "trunc": formula("where(x < 0, ceil(x), floor(x))"),
    "where": lambda scalars, condition, x, y: scalars.where(condition, x, y),
}


def functions_that_lack(expression: str) -> list[str]:
    """The functions in an expression that ONNX cannot compute."""
    calls = [one for one in ast.walk(parsed(expression)) if isinstance(one, ast.Call)]
    names = [one.func.id for one in calls if isinstance(one.func, ast.Name)]
    return [name for name in names if name not in FUNCTIONS]

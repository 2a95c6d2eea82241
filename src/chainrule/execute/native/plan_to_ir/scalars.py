"""Expressions of kernels as code: Python's grammar, computed with NumPy's meaning in each lane."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from chainrule.execute.native.libm.mathematics import (
    FUNCTIONS,
    OF_INTEGERS,
    OF_WORDS,
    integer_power,
)
from chainrule.execute.native.plan_to_ir import conversions
from chainrule.execute.native.plan_to_ir.emit import Code, Operand, constant
from chainrule.graph.dtypes import computed_in, dtype_kind, is_bfloat16

BOOL, FLOAT16, FLOAT32 = np.dtype(bool), np.dtype(np.float16), np.dtype(np.float32)
WORD = np.dtype(np.uint32)

# LLVM's words for floats, integers and booleans; None where NumPy has no such operation.
ARITHMETIC: dict[type[ast.AST], tuple[str | None, str | None, str | None]] = {
    ast.Add: ("fadd", "add", "or"),
    ast.Sub: ("fsub", "sub", None),
    ast.Mult: ("fmul", "mul", "and"),
    ast.Div: ("fdiv", None, None),
    ast.BitAnd: (None, "and", "and"),
    ast.BitOr: (None, "or", "or"),
}
# The relation of floats (NaN differs from all, and is in no other relation), and of integers.
COMPARISONS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Eq: ("oeq", "eq"),
    ast.NotEq: ("une", "ne"),
    ast.Lt: ("olt", "lt"),
    ast.LtE: ("ole", "le"),
    ast.Gt: ("ogt", "gt"),
    ast.GtE: ("oge", "ge"),
}


class Typed(NamedTuple):
    """An operand and what its bits mean: LLVM's integers have no sign.

    `factors` of a product: what is added to it becomes one instruction with it, rounded once.
    Not what is subtracted: equal products would differ by a rounding, and sqrt(x x - y y) be NaN.
    """

    operand: Operand
    dtype: np.dtype
    factors: tuple[Operand, Operand] | None = None

    def family(self) -> int:
        """The column of ARITHMETIC."""
        return {"f": 0, "i": 1, "u": 1, "b": 2}[dtype_kind(self.dtype)]


def emit_expression(
    code: Code, expression: str, names: Mapping[str, Any], dtype: np.dtype
) -> Operand:
    """The value of a kernel's expression as an operand of the dtype of the kernel's result.

    `names` gives inputs as `Typed` or as pairs (operand, dtype), all with as many lanes, and
    static parameters as they are: an int `exponent`, and the `dtype` to which `cast` converts.
    Both operands of an operation have one dtype; a number in the text takes that of the other
    operand.  float16 and bfloat16 are computed in float32 and rounded at the end.

    ValueError for what is not in the language, or has no meaning for these dtypes.
    """
    reader = _Reader(code, expression, names)
    value = reader.value(_parsed(expression))
    if not isinstance(value, Typed):
        raise ValueError(f"{expression!r} has no operand, only a number")
    operand, found = value.operand, value.dtype
    if found != dtype and not (found == FLOAT32 and computed_in(dtype) in (FLOAT16, FLOAT32)):
        raise ValueError(f"{expression!r} gives {found}, not {dtype}")
    return conversions.cast(code, operand, found, dtype)


@lru_cache(maxsize=256)
def _parsed(expression: str) -> ast.expr:
    try:
        return ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{expression!r} is not an expression in Python's grammar") from error


class _Reader:
    """Emits the nodes of one expression."""

    def __init__(self, code: Code, expression: str, names: Mapping[str, Any]) -> None:
        self.code, self.expression, self.names = code, expression, names

    def value(self, node: ast.AST) -> Typed | int | float:
        """One node with all below it; numbers and static parameters are Python's."""
        match node:
            case ast.Name(name) if name in self.names:
                return self.named(self.names[name])
            case ast.Constant(int() | float() as number):
                return number
            case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
                return self.arithmetic(node, *self.operands(left, right))
            case ast.Compare(left, [op], [right]) if type(op) in COMPARISONS:
                return self.comparison(COMPARISONS[type(op)], *self.operands(left, right))
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
                return -number
            case ast.UnaryOp(ast.USub() | ast.Invert(), below):
                return self.unary(node, *self.operands(below))
            case ast.Call(ast.Name(name), args, []):
                return self.call(node, name, args)
        raise self.refusal(node)

    def refusal(self, node: ast.AST) -> ValueError:
        """What to raise where a node has no meaning."""
        dtypes = [str(one[1]) for one in self.names.values() if isinstance(one, tuple)]
        return ValueError(
            f"{self.expression!r}: {ast.unparse(node)!r} is no known name or operation "
            f"on {', '.join(dtypes) or 'nothing'}"
        )

    def named(self, value: Any) -> Typed | int | float:
        """An input or a static parameter."""
        if not isinstance(value, tuple):
            return value
        value = Typed(*value)
        if is_bfloat16(value.dtype):  # in registers it is a float
            return value._replace(dtype=FLOAT32)
        if value.dtype == FLOAT16:
            return Typed(conversions.cast(self.code, value.operand, FLOAT16, FLOAT32), FLOAT32)
        return value

    def operands(self, *nodes: ast.AST) -> list[Typed]:
        """The values of nodes, of which one at least is an operand; they get one dtype."""
        values = [self.value(node) for node in nodes]
        first = next((value for value in values if isinstance(value, Typed)), None)
        if first is None:
            raise ValueError(f"{self.expression!r}: {ast.unparse(nodes[0])!r} is only a number")
        result = []
        for value in values:
            if not isinstance(value, Typed):
                value = self.number(value, first)
            if value.dtype != first.dtype or value.operand.type != first.operand.type:
                raise ValueError(f"{self.expression!r} mixes {first.dtype} and {value.dtype}")
            result.append(value)
        return result

    def number(self, value: float, other: Typed) -> Typed:
        """A number of the text in the dtype of the other operand."""
        if dtype_kind(other.dtype) != "f" and value != int(value):
            raise ValueError(f"{self.expression!r}: {value} is no {other.dtype}")
        return Typed(constant(value, other.operand.type), other.dtype)

    def arithmetic(self, node: ast.BinOp, x: Typed, y: Typed) -> Typed:
        """+ - * / & |."""
        code, op = self.code, node.op
        word = ARITHMETIC[type(op)][x.family()]
        if word is None:
            raise self.refusal(node)
        if isinstance(op, ast.Add) and (x.factors or y.factors):
            return Typed(self.sum(x, y), x.dtype)
        factors = (x.operand, y.operand) if word == "fmul" else None
        return Typed(code.binary(word, x.operand, y.operand), x.dtype, factors)

    def sum(self, x: Typed, y: Typed) -> Operand:
        """x + y, of which one is a product.

        Always the same instructions for the same expression: a value that two kernels compute
        must have the same bits in both, or it would not equal itself.
        """
        if x.factors:
            return self.code.fma(*x.factors, y.operand)
        assert y.factors is not None
        return self.code.fma(*y.factors, x.operand)

    def comparison(self, relation: tuple[str, str], x: Typed, y: Typed) -> Typed:
        """A truth in each lane."""
        of_floats, of_integers = relation
        if dtype_kind(x.dtype) == "f":
            word = f"fcmp {of_floats}"
        elif of_integers in ("eq", "ne"):
            word = f"icmp {of_integers}"
        else:
            word = f"icmp {'s' if x.dtype.kind == 'i' else 'u'}{of_integers}"
        return Typed(self.code.compare(word, x.operand, y.operand), BOOL)

    def unary(self, node: ast.UnaryOp, x: Typed) -> Typed:
        """- and ~."""
        code, operand = self.code, x.operand
        if isinstance(node.op, ast.Invert):
            if dtype_kind(x.dtype) == "f":
                raise self.refusal(node)
            ones = constant(True if x.dtype == BOOL else -1, operand.type)
            return Typed(code.binary("xor", operand, ones), x.dtype)
        if x.dtype == BOOL:
            raise self.refusal(node)
        if dtype_kind(x.dtype) == "f":
            return Typed(code.negative(operand), x.dtype)
        return Typed(code.binary("sub", constant(0, operand.type), operand), x.dtype)

    def call(self, node: ast.Call, name: str, args: list[ast.expr]) -> Typed:
        """`where`, `cast`, or a function of FUNCTIONS."""
        if name == "where" and len(args) == 3:
            (condition,) = self.operands(args[0])
            x, y = self.operands(*args[1:])
            return Typed(self.code.select(condition.operand, x.operand, y.operand), x.dtype)
        if name == "cast" and len(args) == 1 and "dtype" in self.names:
            return self.cast(*self.operands(args[0]))
        if name == "pow" and len(args) == 2:
            exponent = self.value(args[1])
            if isinstance(exponent, int):
                (base,) = self.operands(args[0])
                return Typed(integer_power(self.code, base.operand, exponent), base.dtype)
        operands = self.operands(*args) if args else []
        texts = [one.operand for one in operands]
        if name in OF_WORDS and operands and operands[0].dtype == WORD:
            return Typed(OF_WORDS[name](self.code, *texts), WORD)
        if not operands:
            raise self.refusal(node)
        if dtype_kind(operands[0].dtype) == "f":
            if name not in FUNCTIONS:
                raise self.refusal(node)
            return Typed(FUNCTIONS[name](self.code, *texts), operands[0].dtype)
        return self.whole(node, name, operands[0].dtype, *texts)

    def cast(self, x: Typed) -> Typed:
        """To the parameter `dtype`; float16 and bfloat16 are left to the end of the expression."""
        dtype = self.names["dtype"]
        if dtype == FLOAT16 and dtype_kind(x.dtype) == "f":
            # Not by way of float32, which would round twice.
            narrow = conversions.cast(self.code, x.operand, x.dtype, FLOAT16)
            return Typed(conversions.cast(self.code, narrow, FLOAT16, FLOAT32), FLOAT32)
        wanted = FLOAT32 if dtype == FLOAT16 else computed_in(dtype)
        return Typed(conversions.cast(self.code, x.operand, x.dtype, wanted), wanted)

    def whole(self, node: ast.Call, name: str, dtype: np.dtype, *operands: Operand) -> Typed:
        """The few functions that integers and booleans have too."""
        code, x = self.code, operands[0]
        letter = "s" if dtype.kind == "i" else "u"
        match name:
            case "fmax_nan" | "fmin_nan":
                value = code.intrinsic(f"{letter}{name[1:4]}", *operands)
            case "fabs":
                value = x
                if letter == "s":
                    negative = code.binary("sub", constant(0, x.type), x)
                    value = code.intrinsic("smax", x, negative)
            case "sign" if dtype != BOOL:
                zero = constant(0, x.type)
                value = code.convert("zext", code.compare("icmp ne", x, zero), x.type)
                if letter == "s":
                    below = code.compare("icmp slt", x, zero)
                    value = code.select(below, constant(-1, x.type), value)
            case "floor" | "ceil" | "trunc":
                value = x
            case _ if name in OF_INTEGERS and dtype != BOOL and len(operands) == 2:
                value = OF_INTEGERS[name](code, x, operands[1], letter)
            case _:
                raise self.refusal(node)
        return Typed(value, dtype)

"""Writes one operation as NumPy source, with brackets only where they are needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.graph.dtypes import dtype_kind, in_python
from chainrule.graph.sizes.sizes import Size, is_nonnegative, is_positive
from chainrule.primitives.notation import (
    ADDITIVE,
    AND,
    ATOM,
    COMPARISON,
    OR,
    PREFIX,
    PRODUCT,
)

if TYPE_CHECKING:
    from chainrule.graph.node import Node


def never(*values: Any) -> bool:
    """Python's own numbers are not used for the operation."""
    return False


def always(*values: Any) -> bool:
    """On floats the operator is the same for Python and for NumPy."""
    return True


def _if_it_divides(x: Any, y: Any) -> bool:
    return bool(y)  # Python divides by no zero, and the number is known only of a literal


# Python's operators: how strongly each binds, whether it is the same on Python's floats, and a name
# for its result.
OPERATORS: dict[str, tuple[int, Callable[..., bool], str]] = {
    "==": (COMPARISON, never, "equal"),
    "!=": (COMPARISON, never, "unequal"),
    "<": (COMPARISON, never, "less"),
    "<=": (COMPARISON, never, "less"),
    ">": (COMPARISON, never, "greater"),
    ">=": (COMPARISON, never, "greater"),
    "|": (OR, never, "either"),
    "&": (AND, never, "both"),
    "+": (ADDITIVE, always, "total"),
    "-": (ADDITIVE, always, "difference"),
    "*": (PRODUCT, always, "product"),
    "/": (PRODUCT, _if_it_divides, "ratio"),
    "@": (PRODUCT, never, "product"),
}
SIGNS: dict[str, tuple[Callable[..., bool], str]] = {"-": (always, "negated"), "~": (never, "no")}


@dataclass(frozen=True)
class Written:
    """An expression as Python source; `binding` is the strength of its outermost operator.

    `before` are statements that have to run before it.
    """

    text: str
    binding: int = ATOM
    before: tuple[str, ...] = ()

    def within(self, strength: int) -> str:
        """The text as an operand that has to bind at least so strongly."""
        return self.text if self.binding >= strength else f"({self.text})"


class Writing(Protocol):
    """What a spelling may ask of the source that it becomes a part of."""

    def size(self, size: int | Size) -> str:
        """A size, an expression of the named sizes."""
        ...

    def helper(self, source: str) -> str:
        """The name under which the function that `source` defines can be called."""
        ...


@dataclass(frozen=True)
class Python:
    """The call of a primitive as NumPy source that gives the same bits as its `evaluate`.

    `template` has the inputs by name, as in `{x} + {y}`; where the text depends on shapes or
    parameters it is a function `(out, writing, *operands)` of the node, a `Writing` and a `Written`
    for each operand, to a `Written`.  `binding` and `operands` are as those of `Latex`.
    `numbers(*values)` says whether Python's floats give the same as NumPy's float64; the values are
    those of literals, None for others.  `noun` names an intermediate value.
    """

    template: str | Callable[..., Written]
    binding: int = ATOM
    operands: tuple[int, ...] = ()
    numbers: Callable[..., bool] = never
    noun: str = ""

    def write(self, out: Node, writing: Writing, operands: list[Written]) -> Written:
        """The call as source."""
        if not isinstance(self.template, str):
            return self.template(out, writing, *operands)
        names = out.primitive.inputs
        strengths = self.operands or (0,) * len(names)
        shown = {
            name: operand.within(strength)
            for name, operand, strength in zip(names, operands, strengths, strict=True)
        }
        return Written(self.template.format(**shown), self.binding)


def calls_function(function: Callable[..., Any], *params: str) -> Python:
    """The call of a function of this package, which is written into the source as it is here."""

    def write(out: Node, writing: Writing, *operands: Written) -> Written:
        name = writing.helper(f"\n{inspect.getsource(function)}")
        options = (repr(out.param(param)) for param in params)
        return Written(f"{name}({', '.join((*(one.text for one in operands), *options))})")

    return Python(write)


def calls(function: str, inputs: tuple[str, ...], noun: str = "") -> Python:
    """The call of a function of NumPy: `np.maximum({x}, {y})`."""
    shown = ", ".join(f"{{{name}}}" for name in inputs)
    return Python(f"np.{function}({shown})", noun=noun or function)


def calls_own(source: str) -> Python:
    """The call of a function that is written into the source."""
    return Python(
        lambda out, writing, *operands: Written(
            f"{writing.helper(source)}({', '.join(operand.text for operand in operands)})"
        )
    )


def operator_of(expression: str) -> Python | None:
    """The spelling of `x + y` or `-x`; None for an expression that is not one operator."""
    match expression.split():
        case ["x", symbol, "y"] if symbol in OPERATORS:
            binding, numbers, noun = OPERATORS[symbol]
            left = binding + (binding == COMPARISON)  # a < b < c is another thing in Python
            return Python(f"{{x}} {symbol} {{y}}", binding, (left, binding + 1), numbers, noun)
        case [("-x" | "~x") as signed]:
            numbers, noun = SIGNS[signed[0]]
            return Python(f"{signed[0]}{{x}}", PREFIX, (PREFIX,), numbers, noun)
    return None


UNCHANGED = Python(lambda out, writing, x: x, numbers=always)


def dtype_text(dtype: np.dtype) -> str:
    """`np.float32`; NumPy's boolean type is `np.bool_`."""
    return "np.bool_" if dtype.kind == "b" else in_python(dtype)


def shape_text(writing: Writing, shape: tuple[int | Size, ...]) -> str:
    """A shape as a tuple: `(n, 4)`."""
    return f"({', '.join(map(writing.size, shape))}{',' if len(shape) == 1 else ''})"


def axes_text(axes: tuple[int, ...]) -> str:
    """Axes as NumPy takes them: one as a number, several as a tuple."""
    return str(axes[0]) if len(axes) == 1 else str(axes)


def number_text(value: Any, dtype: np.dtype) -> str:
    """A number as a literal: the shortest that is this value in the dtype."""
    if dtype_kind(dtype) != "f":
        return str(value)
    if np.isnan(value) or np.isinf(value):
        return f"{'-' if value < 0 else ''}np.{'nan' if np.isnan(value) else 'inf'}"
    if value == int(value) and abs(value) < 1e6 and str(value) != "-0.0":
        return str(int(value))
    short = str(dtype.type(value))
    return short if dtype.type(float(short)) == value else repr(float(value))


def slices_text(writing: Writing, start: tuple, step: tuple, counts: tuple, lengths: tuple) -> str:
    """`count` elements from `start` on in each axis of these lengths, as a key: `1:, ::-1`.

    Empty where the key would be all elements in their order.
    """
    pairs = zip(start, step, counts, lengths, strict=True)
    shown = [_slice_text(writing, *one) for one in pairs]
    while shown and shown[-1] == ":":
        shown.pop()
    return ", ".join(shown)


def _slice_text(
    writing: Writing, start: int | Size, step: int, count: int | Size, length: int | Size
) -> str:
    stop = start + step * count
    if count == 0:
        return "0:0"
    low = "" if start == (0 if step > 0 else length - 1) else writing.size(start)
    if step > 0:
        high = "" if is_nonnegative(stop - length) else writing.size(stop)
    elif is_nonnegative(-1 - stop):
        high = ""
    else:
        high = writing.size(stop)
        if not is_nonnegative(stop):
            high = f"{high} if {high} >= 0 else None"
        if not is_positive(count):
            shown = f"slice({writing.size(start)}, {high}, {step})"
            return f"{shown} if {writing.size(count)} else slice(0, 0)"
    simple = low.isalnum() + high.isalnum() + (not low) + (not high) == 2
    colon = ":" if simple else " : " if low and high else ": " if high else " :"
    return f"{low}{colon}{high}" + (f":{step}" if step != 1 else "")

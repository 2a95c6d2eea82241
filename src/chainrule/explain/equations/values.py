"""Writes numbers, sizes and array types as parts of formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.explain.equations import parts
from chainrule.explain.equations.parts import (
    COMMA,
    Bound,
    Fence,
    Fraction,
    Part,
    Row,
    Script,
    Symbol,
    row,
    separated,
)
from chainrule.explain.memory import polynomials
from chainrule.explain.reading.numbers import root_of
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.graph import Graph
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType
from chainrule.primitives.notation import ADDITIVE, ATOM, FRACTION, PRODUCT, TEXT_FRACTION

SETS = {"b": (r"\{0, 1\}", "{0, 1}"), "i": (r"\mathbb{Z}", "ℤ"), "u": (r"\mathbb{N}", "ℕ")}
REAL = (r"\mathbb{R}", "ℝ")
WHOLE = Symbol(":", ":")  # all of an axis
KEEPDIMS = "keepdims"  # says that a reduction keeps its axes, with length 1


def number(value: Any, dtype: np.dtype) -> Bound:
    """A Python number as the dtype has it: `0.5`, `∞`, `10⁻³⁰⁰`; negative ones bind weakly."""
    if dtype.kind == "b":
        word = "true" if value else "false"
        return Bound(Symbol(rf"\mathrm{{{word}}}", word))
    value = dtype.type(value)
    if dtype_kind(dtype) == "f" and np.signbit(value) and not math.isnan(value):
        inner = _magnitude(-value)
        sign = row(Symbol("-", "−"), inner)
        return Bound(sign, ADDITIVE, ADDITIVE, negated=inner)
    if dtype.kind == "i" and value < 0:
        inner = _magnitude(-int(value))
        return Bound(row(Symbol("-", "−"), inner), ADDITIVE, ADDITIVE, negated=inner)
    return _magnitude(value)


def _magnitude(value: Any) -> Bound:
    if isinstance(value, (int, np.integer)):
        return Bound(Symbol(str(value), str(value)))
    if math.isnan(value):
        return Bound(Symbol(r"\mathrm{NaN}", "NaN"))
    if math.isinf(value):
        return Bound(Symbol(r"\infty ", "∞"))
    if (inside := root_of(value)) is not None:
        root = Symbol(rf"\sqrt{{{abs(inside)}}}", f"√{abs(inside)}")
        one = Bound(Symbol("1", "1"))
        if inside > 0:
            return Bound(root)
        return Bound(Fraction(one, Bound(root)), FRACTION, TEXT_FRACTION)
    shown = str(value)
    if isinstance(value, float | np.floating) and value >= 1e6:
        shown = np.format_float_scientific(value, trim="-")
    mantissa, _, exponent = shown.partition("e")
    mantissa = mantissa.removesuffix(".0")
    if not exponent:
        return Bound(Symbol(mantissa, mantissa))
    power = Script(
        Symbol("10", "10"), above=Symbol(shown := str(int(exponent)), shown.replace("-", "−"))
    )
    if mantissa == "1":
        return Bound(power, ATOM - 1, ATOM - 1)
    times = Symbol(rf"{mantissa} \cdot ", f"{mantissa} · ")
    return Bound(row(times, power), PRODUCT, PRODUCT)


class Shapes:
    """Sizes and shapes as a graph's formulas write them."""

    def __init__(self, graph: Graph) -> None:
        self.names = graph.sizes
        self._kinds: dict[ArrayType, Part] = {}

    def size(self, size: int | Size) -> Bound:
        """One size; sums bind weakly, products like factors side by side."""
        plain = polynomials.text(size, self.names).replace("-", "−")
        latex = polynomials.latex(size, self.names)
        if not isinstance(size, Size):
            return Bound(Symbol(latex, plain), ATOM if size >= 0 else ADDITIVE)
        binding = ATOM if " " not in plain or plain.startswith(("min(", "max(")) else PRODUCT
        if len(size.terms) > 1 or any(value < 0 for _, value in size.terms):
            binding = ADDITIVE
        return Bound(Symbol(latex, plain), binding, binding)

    def shape(self, shape: tuple[int | Size, ...]) -> Part:
        """n×h, with brackets around sums and products."""
        several = len(shape) > 1
        shown: list[Part] = []
        for size in shape:
            one = self.size(size)
            shown.append(bracketed(one) if several and one.binding < ATOM else one)
        return separated(shown, Symbol(r" \times ", "×"))

    def kind(self, type_: ArrayType) -> Part:
        """The set of all arrays of a type: ℝ^{n×h}, ℤ, {0, 1}^n."""
        if type_ not in self._kinds:
            part = self._kind(type_)
            self._kinds[type_] = Symbol(parts.latex(part), parts.text(part))
        return self._kinds[type_]

    def _kind(self, type_: ArrayType) -> Part:
        latex, plain = SETS.get(type_.dtype.kind, REAL)
        symbol = Symbol(latex, plain)
        if not type_.shape:
            return symbol
        return Script(symbol, above=self.shape(type_.shape))

    def span(self, start: int | Size, step: int, count: int | Size, length: int | Size) -> Part:
        """The positions start, start + step, ... as Python writes a slice: `1:n`, `::2`, `:`."""
        if step == 1 and start == 0 and count == length:
            return WHOLE
        stop = start + step * count
        if step < 0 and start == length - 1:
            first: Part = Row(())
        else:
            first = Row(()) if start == 0 and step > 0 else self.size(start)
        ends = stop == length or (isinstance(stop, int) and stop < 0)
        if isinstance(stop, Size) and step > 1:
            ends = ends or (length - stop) in range(-step + 1, 1)
        last: Part = Row(()) if ends and count != 0 else self.size(stop)
        colon = Symbol(r"{:}", ":")
        end = () if step == 1 else (colon, number(step, np.dtype(np.int64)))
        return row(first, colon, last, *end)

    def positions(self, length: int | Size) -> Part:
        """(0, …, n − 1)"""
        last = self.size(length - 1)
        return row(Symbol(r"(0, \ldots, ", "(0, …, "), last, Symbol(")", ")"))


def bracketed(part: Bound) -> Bound:
    """The part in round brackets."""
    return Bound(Fence(part))


def tuple_of(values: tuple[Any, ...]) -> Part:
    """Integers with commas between them: `0, 2`."""
    return separated([number(one, np.dtype(np.int64)) for one in values], COMMA)

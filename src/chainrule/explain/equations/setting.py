"""Formulas are set: records' templates are filled in, with brackets where bindings need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from chainrule.explain.equations import parts
from chainrule.explain.equations.building import is_unseen
from chainrule.explain.equations.formula import (
    Applied,
    Auxiliary,
    Called,
    Chain,
    Formula,
    Named,
    Pulled,
    Slope,
    Total,
    Unit,
)
from chainrule.explain.equations.joining import added, dotted, elementwise, fenced
from chainrule.explain.equations.parts import (
    COMMA,
    FRACTION,
    SIDE_BY_SIDE,
    TEXT_FRACTION,
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
from chainrule.explain.equations.templates import filled, parsed, symbol_of
from chainrule.explain.equations.values import Shapes, number, tuple_of
from chainrule.explain.reading.symbols import Notation, escape, parted
from chainrule.explain.words import printable
from chainrule.graph.node import Node
from chainrule.primitives.primitive import ADDITIVE, ATOM, Map
from chainrule.primitives.sources import full

# The gradient ∂J/∂o is one factor without brackets, and has some under an exponent or a slash.
LEAF_GRADIENT, TEXT_GRADIENT = FRACTION + 5, SIDE_BY_SIDE
Setting = Callable[["Setter", Applied, bool], Bound | None]


@dataclass(frozen=True)
class Setter:
    """How the formulas of one graph are set: its notation, sizes, and letter for auxiliaries.

    `special` sets primitives whose notation depends on the shapes; it may leave a formula (None) to
    the template of the record.
    """

    notation: Notation
    shapes: Shapes
    letter: str
    special: Mapping[object, Setting]
    written: dict[tuple[str, bool], Bound] = field(default_factory=dict)

    def name(self, name: str, is_local: bool = False) -> Bound:
        """A value by its name; where `is_local`, ∂o/∂W₂, which no seed is multiplied to."""
        key = (name, is_local)
        if key not in self.written:
            bare = replace(self.notation, seeds={}) if is_local else self.notation
            self.written[key] = self._name(name, bare)
        return self.written[key]

    def _name(self, name: str, notation: Notation) -> Bound:
        written = printable(notation.text(name))
        symbol = Symbol(notation.latex(name), written)
        if name not in notation.symbols and parted(name) is not None:
            return Bound(symbol, LEAF_GRADIENT, TEXT_GRADIENT)
        return Bound(symbol)

    def auxiliary(self, number_: int) -> Bound:
        """The symbol that stands for a formula of the equations' own."""
        digits = Symbol(str(number_), str(number_))
        return Bound(Script(Symbol(self.letter, self.letter), below=digits))

    def set(self, formula: Formula, is_free: bool = True) -> Bound:
        """The formula as it is set.

        Where `is_free`, the reader broadcasts: a number stands for an array of it.
        """
        match formula:
            case Named(name=name):
                return self.name(name)
            case Auxiliary(number=place):
                return self.auxiliary(place)
            case Called(unit=unit) if unit is not None:
                return self._called(unit, formula.operands)
            case Slope(unit=unit, variable=variable) if unit is not None and variable is not None:
                return self._slope(unit, variable, formula.operands)
            case Pulled():
                return self._pulled(formula)
            case Chain(local=local):
                return _prod(self.set(formula.operands[0]), self.name(local, is_local=True))
            case Total():
                return self._total(formula)
            case _:
                return self._applied(formula, is_free)

    def _applied(self, formula: Formula, is_free: bool) -> Bound:
        assert isinstance(formula, Applied)
        primitive = formula.node.primitive
        special = self.special.get(primitive)
        found = special(self, formula, is_free) if special is not None else None
        return found if found is not None else self.by_template(formula, is_free)

    def by_template(self, formula: Formula, is_free: bool) -> Bound:
        """The template of the primitive's record, with operands and parameters filled in."""
        node = formula.node
        latex = node.primitive.latex
        slots: dict[str, Part | None] = self.parameters(node)
        inner = self.is_free_inside(formula, is_free)
        needs = (*latex.operands, *latex.operands[-1:] * len(formula.operands))
        last = len(node.primitive.inputs) - 1
        for place, operand in enumerate(formula.operands):
            part = self.operand(operand, needs[place], inner)
            if place <= last:
                slots[node.primitive.inputs[place]] = part
            else:
                key = node.primitive.inputs[last]
                slots[key] = row(slots[key] or Row(()), COMMA, part)
        part = filled(parsed(latex.template), slots)
        if isinstance(part, Fraction):
            return Bound(part, FRACTION, TEXT_FRACTION)
        return Bound(part, latex.binding, latex.binding)

    def is_free_inside(self, formula: Formula, is_free: bool) -> bool:
        """Whether the operands of a formula may be written without their broadcasting."""
        if not isinstance(formula.node.primitive.kernel, Map):
            return False
        if is_free:
            return True
        return len(formula.operands) > 1 and any(one.spans for one in formula.operands)

    def operand(self, formula: Formula, need: int, is_free: bool, text_need: int = -1) -> Bound:
        """An operand, in brackets where it binds more weakly than `need`."""
        part = self.set(formula, is_free)
        return fenced(part, need, need if text_need < 0 else text_need)

    def parameters(self, node: Node) -> dict[str, Part | None]:
        """The static parameters as templates show them."""
        shown: dict[str, Part | None] = {}
        for key, value in node.params:
            match key:
                case "axes" | "axis":
                    shown[key] = self.axes(node, value)
                case "shape":
                    shown[key] = self.shapes.shape(value)
                case "permutation":
                    shown[key] = Fence(tuple_of(value))
                case "value" if node.primitive is full:
                    shown[key] = number(value, node.dtype)
                case "size":
                    shown[key] = self.shapes.size(value)
                case _:
                    word = printable(str(value))
                    shown[key] = Symbol(escape(word), word)
        return shown

    def axes(self, node: Node, axes: int | tuple[int, ...]) -> Part | None:
        """`axis 0` below an operator; None where it goes over all axes."""
        several = axes if isinstance(axes, tuple) else (axes,)
        if node.inputs and len(several) == node.inputs[0].ndim and node.inputs[0].ndim > 0:
            return None
        if not several:
            return None
        word = "axis" if len(several) == 1 else "axes"
        return row(Symbol(rf"\mathrm{{{word}}}\,", f"{word} "), tuple_of(several))

    def _function(self, unit: Unit) -> Part:
        symbol = symbol_of(unit.latex, unit.symbol)
        if not unit.below:
            return symbol
        below = printable(unit.below)
        return Script(symbol, below=Symbol(rf"\mathrm{{{escape(below)}}}", below))

    def _call(self, unit: Unit, operands: tuple[Formula, ...], mark: Part | None) -> Bound:
        """symbol(arguments), with a mark (′) after the symbol."""
        formulas = iter(operands)
        arguments: list[Part] = []
        for one in unit.arguments:
            if isinstance(one, Node):
                arguments.append(self.set(next(formulas), False))
            else:
                word = printable(one)
                arguments.append(Symbol(rf"\mathrm{{{escape(word)}}}", word))
        function = self._function(unit)
        shown = function if mark is None else row(function, mark)
        return Bound(row(shown, Fence(separated(arguments))))

    def _called(self, unit: Unit, operands: tuple[Formula, ...]) -> Bound:
        return self._call(unit, operands, None)

    def _slope(self, unit: Unit, variable: Node, operands: tuple[Formula, ...]) -> Bound:
        """φ'(z); of several arguments, or where it is a number, ∂φ(z, w)/∂z."""
        if len(unit.arguments) == 1 and unit.result.shape == variable.shape:
            return self._call(unit, operands, Symbol("'", "′"))
        return self._partial(unit, variable, operands)

    def _partial(self, unit: Unit, variable: Node, operands: tuple[Formula, ...]) -> Bound:
        below = next(
            formula
            for node, formula in zip(unit.variables, operands, strict=True)
            if node is variable
        )
        sign = Symbol(r"\partial ", "∂")
        bottom = fenced(self.set(below, False), ATOM, ATOM)
        top, bottom = row(sign, self._called(unit, operands)), row(sign, bottom)
        return Bound(Fraction(Bound(top), Bound(bottom)), LEAF_GRADIENT, TEXT_GRADIENT)

    def _pulled(self, formula: Pulled) -> Bound:
        unit, variable = formula.unit, formula.variable
        assert unit is not None and variable is not None
        upstream, *operands = formula.operands
        if formula.is_elementwise:
            slope = self._slope(unit, variable, tuple(operands))
        else:
            slope = self._partial(unit, variable, tuple(operands))
        node = upstream.node
        if (
            node.primitive is full
            and node.param("value") == 1
            and (formula.is_elementwise or not node.shape)
        ):
            return slope
        is_number = node.primitive is full
        if formula.is_elementwise and node.shape and not is_number:
            return elementwise(self.set(upstream), slope)
        if formula.is_elementwise or not node.shape:
            return dotted(self.set(upstream), slope)
        return _prod(self.set(upstream, False), slope)

    def _total(self, formula: Formula) -> Bound:
        first, *others = formula.operands
        result = self.operand(first, ADDITIVE, True)
        for one in others:
            result = added(result, self.set(one, True))
        return result


def _prod(upstream: Bound, local: Bound) -> Bound:
    """The product of the chain rule, whatever the axes are: prod(∂J/∂o, ∂o/∂W)."""
    return Bound(row(parts.upright("prod"), Fence(row(upstream, COMMA, local))))


def is_scalar(formula: Formula) -> bool:
    """Whether the formula is written as a single number."""
    while isinstance(formula, Applied) and is_unseen(formula) and formula.operands:
        formula = formula.operands[0]
    node = formula.node
    return not node.shape or (isinstance(formula, Applied) and node.primitive is full)


def operator(setter: Setter, formula: Applied, word: str, below: Part | None) -> Bound:
    symbol = parts.upright(word)
    name: Part = symbol if below is None else Script(symbol, below=below)
    return Bound(row(name, Fence(setter.set(formula.operands[0], False))))

"""Typesets formulas: fills in templates, with brackets where precedence needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from chainrule.dataclass import dataclass, field, replace
from chainrule.explain.equations import parts
from chainrule.explain.equations.formula import (
    Applied,
    Auxiliary,
    Called,
    Chain,
    Curved,
    Formula,
    Named,
    Pulled,
    Result,
    Slope,
    Total,
    Unit,
)
from chainrule.explain.equations.joining import (
    dotted,
    doubled,
    elementwise,
    fenced,
    side_by_side,
    total,
)
from chainrule.explain.equations.parts import (
    COMMA,
    Bound,
    Fence,
    Fraction,
    Name,
    Part,
    Row,
    Script,
    Symbol,
    row,
    separated,
)
from chainrule.explain.equations.spanning import is_unseen
from chainrule.explain.equations.templates import filled, parsed, symbol_of
from chainrule.explain.equations.values import KEEPDIMS, Shapes, tuple_of
from chainrule.explain.reading.symbols import Notation, escape, parted
from chainrule.graph.cached import cached_property
from chainrule.graph.node import Node
from chainrule.graph.words import printable
from chainrule.primitives.notation import (
    ATOM,
    FRACTION,
    GRADIENT,
    SIDE_BY_SIDE,
    TEXT_FRACTION,
    Form,
)
from chainrule.primitives.primitive import Map
from chainrule.primitives.sources import full

Setting = Callable[["Setter", Applied, bool], Bound]


class Text(Protocol):
    """A loop or a choice as equations."""

    def result(self, place: int) -> Bound:
        """How one of its results is written; for a place below 0, how all of them are."""
        ...


@dataclass(frozen=True)
class Setter:
    """How the formulas of one graph are set: its notation, sizes, and letter for auxiliaries.

    `forms` writes the forms that the records of primitives name, in place of a template.
    """

    notation: Notation
    shapes: Shapes
    letter: str
    forms: Mapping[Form, Setting]
    named: dict[str, Bound] = field(init=False, default_factory=dict)
    held: dict[Node, Text] = field(init=False, default_factory=dict)

    def name(self, name: str) -> Bound:
        """A value by its name."""
        found = self.named.get(name)
        if found is None:
            found = self.named[name] = _named(name, self.notation)
        return found

    @cached_property
    def _local(self) -> Notation:
        """For ∂o/∂W₂, which no seed is multiplied to."""
        return replace(self.notation, seeds={}) if self.notation.seeds else self.notation

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
            case Curved(unit=unit) if unit is not None:
                return self._curved(unit, formula.operands)
            case Chain(local=local):
                return _prod(self.set(formula.operands[0]), _named(local, self._local))
            case Total():
                return self._total(formula)
            case Result(holder=holder, place=place) if holder is not None:
                return self.held[holder].result(place)
            case _:
                return self._applied(formula, is_free)

    def _applied(self, formula: Formula, is_free: bool) -> Bound:
        assert isinstance(formula, Applied)
        form = formula.node.primitive.latex.form
        if form is None:
            return self.by_template(formula, is_free)
        return self.forms[form](self, formula, is_free)

    def by_template(self, formula: Formula, is_free: bool) -> Bound:
        """The template of the primitive's record, with operands and parameters filled in."""
        node = formula.node
        latex = node.primitive.latex
        keeps = isinstance(formula, Applied) and formula.keeps
        slots: dict[str, Part | None] = self.parameters(node, keeps)
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
        if isinstance(part, Bound):
            return part
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

    def parameters(self, node: Node, keeps: bool = False) -> dict[str, Part | None]:
        """The static parameters as templates show them; `keeps` is said beside the axes."""
        shown: dict[str, Part | None] = {}
        for key, value in node.params:
            match key:
                case "axes" | "axis":
                    shown[key] = self.axes(node, value, keeps)
                case "shape":
                    shown[key] = self.shapes.shape(value)
                case "permutation":
                    shown[key] = Fence(tuple_of(value))
                case "size":
                    shown[key] = self.shapes.size(value)
                case "type":
                    pass  # of sources: no template shows it
                case _:
                    word = printable(str(value))
                    shown[key] = Symbol(escape(word), word)
        return shown

    def axes(self, node: Node, axes: int | tuple[int, ...], keeps: bool = False) -> Part | None:
        """`axis 0` below an operator; None where it goes over all axes."""
        several = axes if isinstance(axes, tuple) else (axes,)
        is_all = bool(node.inputs) and len(several) == node.inputs[0].ndim
        word = "axis" if len(several) == 1 else "axes"
        shown: list[Part] = []
        if several and not is_all:
            shown = [row(Symbol(rf"\mathrm{{{word}}}\,", f"{word} "), tuple_of(several))]
        if keeps:
            shown.append(Symbol(rf"\mathrm{{{KEEPDIMS}}}", KEEPDIMS))
        return separated(shown) if shown else None

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
        return Bound(Fraction(Bound(top), Bound(bottom)), GRADIENT, SIDE_BY_SIDE)

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
        if formula.is_elementwise and node.shape:
            join = side_by_side if is_scalar(upstream) else elementwise
            return join(self.set(upstream), slope)
        if formula.is_elementwise or not node.shape:
            return dotted(self.set(upstream), slope)
        return _prod(self.set(upstream, False), slope)

    def _curved(self, unit: Unit, operands: tuple[Formula, ...]) -> Bound:
        result = self._call(unit, operands[-1:], Symbol("''", "″"))
        for one in operands[-2::-1]:
            if not one.node.shape:
                result = dotted(self.set(one), result)
            else:
                join = side_by_side if is_scalar(one) else elementwise
                result = join(self.set(one), result)
        return result

    def _total(self, formula: Formula) -> Bound:
        """A sum, in which equal terms that follow each other are taken together."""
        groups: list[list[Formula]] = []
        for one in formula.operands:
            is_plain = isinstance(one, (Named, Auxiliary, Applied))
            if is_plain and groups and groups[-1][-1].node is one.node and len(groups[-1]) == 1:
                groups[-1].append(one)
            else:
                groups.append([one])
        terms = (
            doubled(self.set(one, True)) if again else self.set(one, True) for one, *again in groups
        )
        return total(terms)


def _named(name: str, notation: Notation) -> Bound:
    if name not in notation.symbols and parted(name) is not None:
        return Bound(Name(notation, name), GRADIENT, SIDE_BY_SIDE)
    return Bound(Name(notation, name))


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

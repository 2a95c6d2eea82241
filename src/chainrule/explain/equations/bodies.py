"""Writes the equations of the body of a loop or a choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from chainrule.dataclass import dataclass, field
from chainrule.explain.equations.building import Builder
from chainrule.explain.equations.formula import Auxiliary, Formula, Held, Named
from chainrule.explain.equations.functions import Functions
from chainrule.explain.equations.indexing import BETWEEN, Alphabet, Indexed, Iterations, whole
from chainrule.explain.equations.joining import fenced
from chainrule.explain.equations.naming import Names
from chainrule.explain.equations.parts import Bound, Part, Row, Script, Symbol, separated
from chainrule.explain.equations.setting import Setter
from chainrule.explain.equations.sides import Given, Piece, Sides
from chainrule.explain.equations.writing import Line
from chainrule.explain.reading.bodies import Result
from chainrule.explain.reading.statements import FORWARD, Statement
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.notation import ADDITIVE
from chainrule.primitives.sources import input_

WITH = Symbol(r",\quad ", ", ")


@dataclass(frozen=True, eq=False)
class Opened:
    """One equation of a body: of which value, its right sides, and how it is written."""

    node: Node
    formulas: tuple[Formula, ...]
    line: Line


@dataclass
class Page:
    """What the bodies of one graph share: free names, letters, and how one of them is opened.

    `results` says which values of the graph are results of loops, `values` which those of each loop
    are; `letter` is for auxiliary symbols.
    """

    graph: Graph
    results: Mapping[Node, Result]
    values: Mapping[Node, Sequence[Node]]
    alphabet: Alphabet
    letter: str
    shapes: bool
    open: Callable[[Page, Setter, Held, tuple[Iterations, ...]], list[Opened]]
    auxiliaries: int = 0
    calls: dict[object, object] = field(default_factory=dict)  # the first loop of each call


@dataclass(frozen=True)
class BodySetter(Setter):
    """Sets formulas of a body.  Its auxiliary symbols have the indices `below`, and are counted
    after `first` others; `indexed` are names that take one more index."""

    below: tuple[Part, ...] = ()
    first: int = 0
    indexed: dict[str, Indexed] = field(init=False, default_factory=dict)

    def auxiliary(self, number_: int) -> Bound:
        """The symbol that stands for a formula of the equations' own."""
        digits = str(self.first + number_)
        below = separated([Symbol(digits, digits), *self.below], BETWEEN)
        return Bound(Script(Symbol(self.letter, self.letter), below=below))


def indexed_name(setter: Setter, formula: Formula) -> Indexed | None:
    """A value that has a name, for one more index; None for others."""
    if not isinstance(formula, Named):
        return None
    if isinstance(setter, BodySetter):
        return setter.indexed.get(formula.name)
    return Indexed(whole(setter.name(formula.name), formula.name))


class Sheet:
    """The equations of one body, while they are written.

    `around` are the loops around it, its own included.  `bounds` says how values of the body are
    written, `indexed` which of these take one more index.
    """

    def __init__(
        self, page: Page, outer: Setter, graph: Graph, around: tuple[Iterations, ...]
    ) -> None:
        self.page, self.outer, self.graph, self.around = page, outer, graph, around
        self.bounds: dict[Node, Bound] = {}
        self.indexed: dict[Node, Indexed] = {}
        self.lines: list[Opened] = []

    @property
    def below(self) -> tuple[Part, ...]:
        """The indices of a value of the body."""
        return indices(self.around)

    def put(self, node: Node, value: Indexed, *index: Part) -> None:
        """Write a value of the body so, with this index."""
        self.bounds[node] = value.at(*index)
        self.indexed[node] = Indexed(value.base, value.above, (*value.below, *index))

    def fix(self, name: str, inner: Node, formula: Formula, around: tuple[Iterations, ...]) -> None:
        """Write what all iterations are given as outside; what is long, by a name of its own."""
        known = indexed_name(self.outer, formula)
        if known is not None:
            self.indexed[inner] = known
        if isinstance(formula, (Named, Auxiliary)) or (not inner.shape and not formula.operands):
            self.bounds[inner] = self.outer.set(formula)
            return
        self.put(inner, self.page.alphabet.indexed(name, inner, below=indices(around)))
        self.say(inner, (formula,), self.bounds[inner], self.outer, around)

    def say(
        self,
        node: Node,
        formulas: Iterable[Formula],
        left: Bound,
        setter: Setter,
        around: tuple[Iterations, ...],
    ) -> None:
        """One more equation, for all iterations of the loops `around`."""
        several, kind = tuple(formulas), self._kind(node)

        def composed() -> tuple[Bound, list[Bound], Part | None]:
            return left, [fenced(setter.set(one), ADDITIVE, ADDITIVE) for one in several], kind

        self.lines.append(Opened(node, several, Line(composed, ranges(around))))

    def state(
        self,
        node: Node,
        left: Bound,
        right: Bound,
        around: tuple[Iterations, ...],
        *,
        typed: bool = True,
    ) -> None:
        """One more equation, whose right side is set already."""
        kind = self._kind(node) if typed else None
        self.lines.append(Opened(node, (), Line(lambda: (left, [right], kind), ranges(around))))

    def _kind(self, node: Node) -> Part | None:
        return self.outer.shapes.kind(node.type) if self.page.shapes else None

    def values(self, wanted: Iterable[Node]) -> Iterator[tuple[Node, tuple[Formula, ...], Setter]]:
        """The right sides of these values, and what sets them.

        Equations of auxiliary symbols, and of bodies inside, are said on the way.
        """
        names = {item.node: item.name for item in self.graph.inputs}
        for name, node in self.graph.names.items():
            names.setdefault(node, name)
        for number, node in enumerate(self.bounds):
            names.setdefault(node, f" {number}")
        shown = {names[node]: node for node in self.graph.nodes if node in self.bounds}
        known = Names(self.graph.replace(names=shown))
        sides = Sides(known, Functions(known.reading, self.page.alphabet.owners))
        builder = Builder(sides)
        entries = builder.entries([_given(names.get(one, ""), one, sides) for one in wanted])
        page, outer = self.page, self.outer
        setter = BodySetter(
            outer.notation,
            outer.shapes,
            page.letter,
            outer.forms,
            self.below,
            page.auxiliaries,
        )
        page.auxiliaries += len(builder.defined)
        setter.named.update({name: self.bounds[node] for name, node in shown.items()})
        setter.indexed.update(
            {name: self.indexed[node] for name, node in shown.items() if node in self.indexed}
        )
        for entry in entries:
            if isinstance(held := entry.sides[0], Held):
                self.lines += page.open(page, setter, held, self.around)
            elif entry.is_auxiliary:
                left = setter.auxiliary(entry.number)
                self.say(entry.node, entry.sides, left, setter, self.around)
            else:
                yield entry.statement.value, entry.sides, setter


def indices(around: Iterable[Iterations]) -> tuple[Part, ...]:
    """t, or t, s"""
    return tuple([one.now() for one in around])


def ranges(around: Iterable[Iterations]) -> Part:
    """, t = 1, …, n"""
    return Row(tuple([part for one in around for part in (WITH, one.range)]))


def _given(name: str, node: Node, sides: Sides) -> Given:
    pieces = sides.of_value(node)
    if node.primitive is input_:
        pieces = [Piece(Named, node, (), {"name": name})]
    return Given(name, Statement(name, node, (), (node,), FORWARD), pieces)

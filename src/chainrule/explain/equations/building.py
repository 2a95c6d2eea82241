"""Builds formulas from pieces: fills in operands, and names parts that are long or repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from chainrule.dataclass import dataclass, replace
from chainrule.explain.equations.formula import (
    DEEPEST,
    LONGEST,
    LONGEST_REPEATED,
    Applied,
    Auxiliary,
    Formula,
    Held,
    Named,
    Pulled,
    Result,
    Slope,
    Total,
)
from chainrule.explain.equations.order import settled
from chainrule.explain.equations.renaming import Renaming
from chainrule.explain.equations.sides import Given, Piece, Sides
from chainrule.explain.equations.spanning import (
    PASSED_ON,
    is_doubled,
    is_passed_on,
    is_unseen,
    spans,
)
from chainrule.explain.reading.statements import FORWARD, Direction, Pass, Statement
from chainrule.graph.node import Node
from chainrule.primitives.sources import full

MOST_LOOKED_AT = 300  # nodes of one argument
SHORT = 6  # formulas up to this weight are written out where their value is no gradient


@dataclass(frozen=True, eq=False)
class Entry:
    """One equation before it is written: a name (or an auxiliary symbol) and its right sides.

    `node` is the value, `statement` the one it belongs to.  What is `Held` stands for the equations
    of a body.
    """

    name: str
    node: Node
    sides: tuple[Formula, ...]
    statement: Statement
    number: int = 0

    @property
    def is_auxiliary(self) -> bool:
        """Whether the equations made the symbol, because a formula was long or repeated."""
        return self.number > 0

    @property
    def is_body(self) -> bool:
        """Whether it stands for the equations of a loop or a choice."""
        return isinstance(self.sides[0], Held)


class Builder:
    """Makes formulas of pieces, in the order of the equations; each node is done once a pass."""

    def __init__(self, sides: Sides) -> None:
        self.sides, self.names = sides, sides.names
        self.pieces: dict[Node, Piece] = {}
        self.uses: Counter[Node] = Counter()
        self.apart: set[Node] = set()
        self.formulas: dict[Node, Formula] = {}
        self.auxiliaries: dict[Node, Auxiliary] = {}
        self.defined: dict[Node, Formula] = {}
        self.held: dict[Node, Held] = {}
        self.counted: set[Node] = set()  # loops and choices
        self.spelled: dict[Node, Formula] = {}
        self.during, self.said = FORWARD, self.names.said(FORWARD)
        self.renaming = Renaming({}, self.names.only_gradients, {}, self.defined)
        self.doubtful: set[Node] = set()

    def entries(self, given: Iterable[Given]) -> list[Entry]:
        """The equations for names, statements and right sides, each before its auxiliary ones."""
        given = list(given)
        places = {one.name: place for place, one in enumerate(given)}
        is_settled = True
        for place, one in enumerate(given):
            last = max([places.get(name, -1) for name in self._count(one)], default=-1)
            is_settled &= last <= place
        if not is_settled:
            given = settled(given, self.names, self.pieces)
        for piece in (*self.pieces.values(), *(piece for one in given for piece in one.pieces)):
            if piece.kind in (Slope, Pulled, Total):
                self.apart.update(self._alike(piece))
        found: list[Entry] = []
        for one in given:
            if one.during is not self.during and one.during != self.during:
                self._enter(one.during)
            made = self._make(one)
            sides = tuple([self._side(piece, one) for piece in one.pieces])
            for piece in one.pieces:
                self._hold(piece, one, made)
            found.append(Entry(one.name, one.pieces[-1].node, sides, one.statement))
            found += made
        return found

    def _enter(self, during: Pass) -> None:
        """Begin another pass: more names are said, and formulas made for fewer are forgotten."""
        late, self.during, self.said = self.names.late, during, self.names.said(during)
        for node in late:
            formula = self.formulas.get(node)
            if formula is not None and not isinstance(formula, Named):
                self.spelled.setdefault(node, formula)
        if late:
            self.formulas = {
                node: formula for node, formula in self.auxiliaries.items() if node not in late
            }
        for node in self.names.zeros:  # are written as numbers from here on
            self.formulas.pop(node, None)
            self.pieces.setdefault(node, self.sides.inner(node))
        is_backward = during.direction is Direction.BACKWARD
        numbers = self.names.only_gradients if is_backward else self.names.only_intermediate
        written = {
            node: formula
            for node, formula in self.spelled.items()
            if is_backward and late[node] == during.order
            if formula.spans and formula.weight <= SHORT
        }
        self.renaming = Renaming({}, numbers, written, self.defined)
        self.doubtful |= {node for node in numbers if node.primitive is full} | written.keys()

    def _renamed(self, formula: Formula, given: Given) -> Formula:
        """The formula with its gradients by the names that are meant."""
        if self.during == FORWARD or not (given.upstream or formula.node in self.doubtful):
            return formula
        return replace(self.renaming, upstream=given.upstream).applied(formula)

    def _count(self, given: Given) -> list[str]:
        """How often each unnamed node is written in formulas, if each is written out once.

        The names that are said, of unnamed nodes that were counted before left out.
        """
        said, names = self.names.said(given.during), given.said
        stack = [one for piece in given.pieces for one in self._counted(piece)]
        while stack:
            node = stack.pop()
            if name := said.get(node):
                names.append(name)
                continue
            self.uses[node] += 1
            if node not in self.pieces:
                piece = self.pieces[node] = self.sides.inner(node)
                stack += self._counted(piece)
            elif self.pieces[node].kind is Applied and node.primitive.latex.form in PASSED_ON:
                stack += self.pieces[node].children  # are what is written again
        return names

    def _counted(self, piece: Piece) -> Iterable[Node]:
        """What is written for a piece; what a loop is given is written once for all its results."""
        if piece.kind is Result:
            if piece.details["holder"] in self.counted:
                return ()
            self.counted.add(piece.details["holder"])
        return piece.children

    def _make(self, given: Given) -> list[Entry]:
        """Formulas for all unnamed nodes that the pieces need; the equations that this takes."""
        made: list[Entry] = []
        stack = [one for piece in given.pieces for one in piece.children][::-1]
        while stack:
            node = stack[-1]
            if node in self.formulas:
                stack.pop()
            elif name := self.said.get(node):
                self.formulas[node] = Named(node, name=name)
            elif missing := [one for one in self.pieces[node].children if one not in self.formulas]:
                stack.extend(missing[::-1])
            else:
                formula = self.formulas[node] = self._formula(self.pieces[node])
                self._hold(self.pieces[node], given, made)
                if self._is_cut(formula):
                    formula = self.defined[node] = self._renamed(formula, given)
                    number = len(self.defined)
                    symbol = self.auxiliaries[node] = Auxiliary(node, number=number)
                    self.formulas[node] = symbol
                    made.append(Entry("", node, (formula,), given.statement, number))
        return made

    def _hold(self, piece: Piece, given: Given, made: list[Entry]) -> None:
        """The equations of a loop or a choice, where its first result is written."""
        if piece.kind is not Result or piece.details["holder"] in self.held:
            return
        holder = piece.details["holder"]
        operands = tuple([self._renamed(self.formulas[one], given) for one in holder.inputs])
        before = holder.origin.node
        also = (before,) if before in self.held else ()
        held = self.held[holder] = Held(holder, operands, also=also)
        made.append(Entry("", holder, (held,), given.statement))

    def _side(self, piece: Piece, given: Given) -> Formula:
        """A right side; where the value has had an auxiliary symbol in an earlier pass, that."""
        if piece.kind is Applied and piece.node in self.auxiliaries:
            return self.auxiliaries[piece.node]
        return self._renamed(self._formula(piece), given)

    def _alike(self, piece: Piece) -> Iterator[Node]:
        """The unnamed arguments of a partial derivative that are made of the same values.

        They need symbols of their own: ∂ℓ(x, softmax(x))/∂x would read as the whole derivative.
        """
        for inner in piece.operands:
            if isinstance(inner, Piece):
                yield from self._alike(inner)
        unit, variable = piece.details.get("unit"), piece.details.get("variable")
        if unit is None or variable is None or len(unit.variables) < 2:
            return
        by = self._leaves(variable)
        for one in unit.variables:
            if one is not variable and not by.isdisjoint(self._leaves(one)):
                yield from (node for node in (one, variable) if node in self.pieces)

    def _leaves(self, node: Node) -> set[Node]:
        """The named values of which the formula of a node is made."""
        found, stack, seen = set[Node](), [node], {node}
        while stack and len(seen) < MOST_LOOKED_AT:
            one = stack.pop()
            if one not in self.pieces:
                found.add(one)
                continue
            children = [child for child in self.pieces[one].children if child not in seen]
            seen.update(children)
            stack.extend(children)
        return found

    def _is_cut(self, formula: Formula) -> bool:
        if formula.node in self.apart:
            return True
        if formula.depth > DEEPEST:
            return True
        if formula.weight > LONGEST:
            return not is_unseen(formula)
        if self.uses[formula.node] < 2 or is_unseen(formula):
            return False
        is_softmax = self.sides.rewriting.probabilities.is_softmax(formula.node)
        return is_softmax or formula.weight > LONGEST_REPEATED

    def _formula(self, piece: Piece) -> Formula:
        operands: list[Formula] = []
        node, weight, depth = piece.node, 0, 0
        for one in piece.operands:
            formula = self._formula(one) if isinstance(one, Piece) else self.formulas[one]
            operands.append(formula)
            weight += formula.weight
            depth = max(depth, formula.depth)
            if formula.node in self.doubtful:
                self.doubtful.add(node)
        several = tuple(operands)
        if piece.kind is Applied and is_doubled(node):
            weight = operands[0].weight
        if piece.kind is not Applied:
            return piece.kind(node, several, weight + 1, depth + 1, **piece.details)
        if not is_passed_on(node, several):
            weight += 1
        return Applied(node, several, weight or 1, depth + 1, spans(node, several))

"""From pieces to formulas: operands filled in, and cut where they grow long or are repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chainrule.explain.equations.formula import (
    DEEPEST,
    LONGEST,
    LONGEST_REPEATED,
    Applied,
    Auxiliary,
    Formula,
    Named,
)
from chainrule.explain.equations.sides import Piece, Sides
from chainrule.explain.reading.statements import Statement
from chainrule.graph.node import Node
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to, reshape
from chainrule.primitives.primitive import Fold, Map
from chainrule.primitives.sources import full


@dataclass(frozen=True, eq=False)
class Entry:
    """One equation before it is written: a name (or an auxiliary symbol) and its right sides.

    `node` is the value, `statement` the one it belongs to.
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


class Builder:
    """Makes formulas of pieces, in the order of the equations; each node is done once."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        self.pieces: dict[Node, Piece] = {}
        self.uses: Counter[Node] = Counter()
        self.formulas: dict[Node, Formula] = {}
        self.auxiliaries = 0

    def entries(self, given: Iterable[tuple[str, Statement, list[Piece]]]) -> list[Entry]:
        """The equations for names, statements and right sides, each before its auxiliary ones."""
        given = list(given)
        for _, _, pieces in given:
            self._count(pieces)
        found: list[Entry] = []
        for name, statement, pieces in given:
            made = list(self._make(pieces, statement))
            sides = tuple(self._formula(piece) for piece in pieces)
            found += [Entry(name, pieces[-1].node, sides, statement), *made]
        return found

    def _count(self, pieces: list[Piece]) -> None:
        """How often each unnamed node is written in formulas, if each is written out once."""
        stack = [child for piece in pieces for child in piece.children]
        while stack:
            node = stack.pop()
            if self.sides.name_of(node):
                continue
            self.uses[node] += 1
            if node not in self.pieces:
                self.pieces[node] = self.sides.inner(node)
                stack.extend(self.pieces[node].children)

    def _make(self, pieces: list[Piece], statement: Statement) -> Iterator[Entry]:
        """Formulas for all unnamed nodes that the pieces need; the equations that this takes."""
        stack = [(child, False) for piece in pieces[::-1] for child in piece.children[::-1]]
        while stack:
            node, is_ready = stack.pop()
            if node in self.formulas:
                continue
            name = self.sides.name_of(node)
            if name:
                self.formulas[node] = Named(node, name=name)
            elif not is_ready:
                stack.append((node, True))
                stack.extend((child, False) for child in self.pieces[node].children[::-1])
            else:
                formula = self._formula(self.pieces[node])
                self.formulas[node] = formula
                if self._is_cut(formula):
                    self.auxiliaries += 1
                    self.formulas[node] = Auxiliary(node, number=self.auxiliaries)
                    yield Entry("", node, (formula,), statement, self.auxiliaries)

    def _is_cut(self, formula: Formula) -> bool:
        if formula.depth > DEEPEST:
            return True
        if formula.weight > LONGEST:
            return not is_unseen(formula)
        repeated = self.uses[formula.node] > 1 and formula.weight > LONGEST_REPEATED
        return repeated and not is_unseen(formula)

    def _formula(self, piece: Piece) -> Formula:
        operands = tuple(
            self.formulas[one] if isinstance(one, Node) else self._formula(one)
            for one in piece.operands
        )
        weight = sum(one.weight for one in operands)
        draft = Formula(
            piece.node,
            operands,
            weight=max(weight + (not _is_passed_on(piece, operands)), 1),
            depth=1 + max((one.depth for one in operands), default=0),
            spans=_spans(piece, operands),
        )
        return piece.kind(**vars(draft), **piece.details)


def is_unseen(formula: Formula) -> bool:
    """Whether the formula is written as its operand is, or not at all (in most places)."""
    return isinstance(formula, Applied) and formula.node.primitive in (cast, broadcast_to, full)


def _is_passed_on(piece: Piece, operands: tuple[Formula, ...]) -> bool:
    if piece.kind is not Applied:
        return False
    return piece.node.primitive in (cast, broadcast_to) or is_kept_axis(piece.node, operands)


def is_kept_axis(node: Node, operands: tuple[Formula, ...]) -> bool:
    """Whether a reshape gives a reduction the axes of length 1 that `keepdims` keeps."""
    if node.primitive is not reshape or not only_unit_axes(node):
        return False
    inner = operands[0]
    return isinstance(inner, Applied) and isinstance(inner.node.primitive.kernel, Fold)


def only_unit_axes(node: Node) -> bool:
    """Whether a reshape only adds or drops axes of length 1."""
    return _without_ones(node.shape) == _without_ones(node.inputs[0].shape)


def _without_ones(shape: tuple) -> list:
    return [size for size in shape if not (isinstance(size, int) and size == 1)]


def _spans(piece: Piece, operands: tuple[Formula, ...]) -> bool:
    """Whether the formula has the shape of its node without the reader's broadcasting."""
    node = piece.node
    if not node.shape or piece.kind is not Applied:
        return True
    if node.primitive is full:
        return False
    if node.primitive is broadcast_to:
        return operands[0].spans and operands[0].node.shape == node.shape
    if is_kept_axis(node, operands):
        return False
    if isinstance(node.primitive.kernel, Map) and operands:
        return any(one.spans for one in operands)
    return True

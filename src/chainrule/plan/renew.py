"""Operands of late products that a nest can write anew, so that nobody keeps them until then.

The gradient of weights is a product with a value of the forward pass, reshaped to a matrix: gelu's
result, layer_norm's.  A nest of the backward pass reads what the value was computed from, for its
derivative.  Where that nest writes the matrix, too, the value is free after the forward pass, and
the matrix takes the bytes of what the nest is the last to read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from chainrule.graph.node import Node
from chainrule.plan.keep import AGAIN, EXACT
from chainrule.plan.roles import TRANSPARENT, Role, size_of
from chainrule.plan.sweeps import expression_cost
from chainrule.plan.work import NestWork, ProductWork, Work
from chainrule.primitives.movement import reshape

Ways = dict[int, set[Node | None]]


@dataclass(frozen=True, eq=False)
class Renewal:
    """The work `nest` can write `matrix`, a reshape of a value that was written before, for the
    works `products`, which alone read it and can wait for it; works are given by their numbers."""

    matrix: Node
    nest: int
    products: tuple[int, ...]

    @property
    def value(self) -> Node:
        """The value in memory that the matrix shows."""
        return self.matrix.inputs[0]


def renewals(
    works: Sequence[Work],
    roles: Mapping[Node, Role],
    results: Container[Node],
    overwrites: Mapping[Node, Node],
) -> list[Renewal]:
    """What nests can write anew; `works` are in a right order, `results` and `overwrites` as in
    `plan`."""
    seen = _Seen(works, roles, overwrites)
    found: list[Renewal] = []
    for value, ways in _ways(works, seen.writer).items():
        shown = ways[max(ways)]
        if value in results or roles[value] is not Role.MAP or len(shown) > 1:
            continue
        (matrix,) = shown
        if matrix is None or matrix.primitive is not reshape:
            continue
        late = tuple(number for number, way in ways.items() if way == shown)
        early = max([seen.writer[value], *(number for number in ways if number not in late)])
        between = range(early + 1, seen.latest(late) + 1)
        ends = {seen.last[one] for one in seen.made_from(value) if one in seen.last}
        candidates = sorted(ends.intersection(between), reverse=True)
        nest = next((number for number in candidates if seen.can_write(number, value)), None)
        if nest is not None:
            found.append(Renewal(matrix, nest, late))
    return found


def order_with(found: Iterable[Renewal], count: int) -> list[int]:
    """The numbers of `count` works, each product after the nest that writes its operand."""
    place = {number: (number, False) for number in range(count)}
    for one in found:
        for number in one.products:
            place[number] = max(place[number], (one.nest, True))
    return sorted(place, key=place.__getitem__)


def _ways(works: Sequence[Work], written: Container[Node]) -> Mapping[Node, Ways]:
    """For each value and each work that reads it: what shows it to a product's operand, and None
    where it is read otherwise."""
    found: dict[Node, Ways] = defaultdict(lambda: defaultdict(set))
    for number, work in enumerate(works):
        if isinstance(work, ProductWork):
            for node, matrix in _operands(work, written):
                found[node][number].add(matrix)
        for node in work.reads:
            if not found[node][number]:
                found[node][number].add(None)
    return {node: ways for node, ways in found.items() if node in written}


def _operands(work: ProductWork, written: Container[Node]) -> Iterator[tuple[Node, Node | None]]:
    """The values in memory that a product multiplies, and what shows each first, if not itself."""
    for term, _ in work.products.terms:
        for node in term.inputs:
            shown = None
            while node not in written and node not in work.reads:
                shown, node = node, node.inputs[0]
            yield node, shown


class _Seen:
    """What works read and write, by their numbers."""

    def __init__(
        self, works: Sequence[Work], roles: Mapping[Node, Role], overwrites: Mapping[Node, Node]
    ) -> None:
        self.works, self.roles = works, roles
        self.writer = {node: number for number, work in enumerate(works) for node in work.writes}
        self.last = {node: number for number, work in enumerate(works) for node in work.reads}
        self.first: dict[Node, int] = {}
        for number, work in enumerate(works):
            for node in work.reads:
                self.first.setdefault(node, number)
        self.gone = {given: self.writer[result] for given, result in overwrites.items()}

    def latest(self, numbers: Collection[int]) -> int:
        """The last work after which these could run as well: before what reads what they write, and
        what overwrites what they read."""
        end = len(self.works)
        for number in numbers:
            end = min([end, *(self.first.get(node, end) for node in self.works[number].writes)])
            gone = (self.gone.get(node, end) for node in self.works[number].reads)
            end = min([end, *(one for one in gone if one > number)])
        return end - 1

    def made_from(self, value: Node) -> list[Node]:
        """The arrays that the value is computed from."""
        found, pending, seen = list[Node](), [value], {value}
        while pending:
            node = pending.pop()
            if node is not value and (node in self.writer or self.roles[node] is Role.GIVEN):
                found.append(node)
                continue
            pending += (one for one in node.inputs if one not in seen)
            seen.update(node.inputs)
        return found

    def can_write(self, number: int, value: Node) -> bool:
        """Whether the work is a nest that can as well compute the value: from arrays that are
        there, at little cost, and from none of the value's size but what the nest reads, one of
        them as the last."""
        work = self.works[number]
        if not isinstance(work, NestWork) or len(work.layouts) > 1:
            return False
        computed: Collection[Node] = {*work.inner, *work.writes}
        pending, seen, cost, dies = [value], {value}, 0, False
        while pending:
            node = pending.pop()
            if node is not value and (node in self.writer or self.roles[node] is Role.GIVEN):
                large = size_of(node) >= size_of(value)
                if not self._is_there(node, number) or (large and node not in work.reads):
                    return False
                dies |= large and self.last[node] == number
                continue
            maps = self.roles[node] in (Role.MAP, Role.SCALAR)
            if node.primitive in EXACT or not (maps or self.roles[node] in TRANSPARENT):
                return False
            if maps and node not in computed:
                cost += expression_cost(node)
            pending += (one for one in node.inputs if one not in seen)
            seen.update(node.inputs)
        return dies and cost <= AGAIN

    def _is_there(self, node: Node, number: int) -> bool:
        """Whether the value is in its array when the work begins, and until it ends."""
        return self.writer.get(node, -1) < number < self.gone.get(node, len(self.works))

"""Gives values a second life: a nest that has what they are computed from writes them again.

The gradient of weights is a product with a value of the forward pass: gelu's result, layer_norm's,
an activation.  A nest of the backward pass reads what the value was computed from, for its
derivative.  Where that nest writes the value, too, its bytes are free between the forward pass and
that nest, and it then takes the bytes of what the nest is the last to read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence

from chainrule.dataclass import dataclass
from chainrule.graph.node import Node
from chainrule.plan.checks import reliance
from chainrule.plan.choose_stored import AGAIN, EXACT
from chainrule.plan.loops.loop_work import Kind
from chainrule.plan.loops.sweeps import expression_cost
from chainrule.plan.roles import TRANSPARENT, Role, nbytes_of, size_of, sources
from chainrule.plan.storage import Storage
from chainrule.plan.work import NestWork, Work
from chainrule.schedule.lives import Life
from chainrule.schedule.records import aligned


@dataclass(frozen=True, eq=False)
class Again:
    """The work `nest` can write the `value` a second time, for the works `readers`, which run
    after it or can wait for it; works are given by their numbers."""

    value: Node
    nest: int
    readers: tuple[int, ...]


def rematerialisable(
    works: Sequence[Work],
    roles: Mapping[Node, Role],
    results: Container[Node],
    overwrites: Mapping[Node, Node],
) -> list[Again]:
    """The values that nests can write again; `works` are in a right order, `results` and
    `overwrites` as in `plan`."""
    seen = _Seen(works, roles, overwrites)
    found: list[Again] = []
    for value in seen.writer:
        if roles[value] is not Role.MAP or value in results:
            continue
        ends = {seen.last[one] for one in seen.made_from(value) if one in seen.last}
        for nest in sorted(ends, reverse=True):
            late = seen.late(value, nest)
            if late and seen.can_write(nest, value):
                found.append(Again(value, nest, late))
                break
    return found


def mattering(found: Iterable[Again], storage: Storage) -> list[Again]:
    """Those without which the storage that has all of them would need more.

    A value may as well be kept where that adds to no instruction at the peak; it is kept where its
    nest could not take it in.
    """
    lives, loads = storage.lives, storage.loads
    peak = max(loads, default=0)
    spans = {
        one: range(lives.last[Life(one.value)] + 1, lives.first[Life(one.value, 1)] + 1)
        for one in found
        if Life(one.value, 1) in lives.first
    }
    kept = set[Again]()
    for one, span in sorted(spans.items(), key=lambda pair: len(pair[1])):
        nbytes = aligned(nbytes_of(one.value))
        if max(loads[number] for number in span) + nbytes > peak:
            kept.add(one)
            continue
        for number in span:
            loads[number] += nbytes
    return [one for one in spans if one in kept]


def order_with(found: Iterable[Again], count: int) -> list[int]:
    """The numbers of `count` works, each reader of a second life after the nest that begins it."""
    place = {number: (number, False) for number in range(count)}
    for one in found:
        for number in one.readers:
            place[number] = max(place[number], (one.nest, True))
    return sorted(place, key=place.__getitem__)


class _Seen:
    """What works read and write, by their numbers."""

    def __init__(
        self, works: Sequence[Work], roles: Mapping[Node, Role], overwrites: Mapping[Node, Node]
    ) -> None:
        self.works, self.roles = works, roles
        self.writer = {node: number for number, work in enumerate(works) for node in work.writes}
        self.readers: dict[Node, list[int]] = defaultdict(list)
        for number, work in enumerate(works):
            for node in work.reads:
                self.readers[node].append(number)
        self.last = {node: numbers[-1] for node, numbers in self.readers.items()}
        self.gone = {given: self.writer[result] for given, result in overwrites.items()}
        self.stops, _ = reliance(works)

    def late(self, value: Node, nest: int) -> tuple[int, ...]:
        """The works that read the value after the nest, or can wait for it; the nest itself need
        not read what it computes."""
        others = [one for one in self.readers[value] if one != nest]
        late = [one for one in others if one > nest or self._can_wait(one, nest)]
        return tuple(late) if self.writer[value] < nest else ()

    def _can_wait(self, number: int, nest: int) -> bool:
        """Whether the work can run right after the nest: before what reads what it writes, and what
        overwrites what it reads; one that may stop the run does not wait."""
        work, end = self.works[number], len(self.works)
        following = [self.readers[node][0] for node in work.writes if node in self.last]
        following += [one for node in work.reads if (one := self.gone.get(node, end)) > number]
        return not self.stops[number] and min([end, *following]) > nest

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
        if any(self.roles[one] in (Role.ASSEMBLED, Role.SCATTER) for one in work.writes):
            return False  # no nest that takes others in
        if not self._need_not_read(work, value):
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

    def _need_not_read(self, work: NestWork, value: Node) -> bool:
        """Whether the nest does not read the value, or only element by element, and to compute with
        it: not by indices, and not to compare all its bits."""
        if value not in work.reads:
            return True
        loads = [one for one in work.layouts[0].nest.instances if one.source is value]
        exact = [one for one in (*work.inner, *work.writes) if one.primitive in EXACT]
        compared = any(value in sources(one, self.roles) for one in exact)
        return [one.kind for one in loads] == [Kind.LOAD] and not compared

    def _is_there(self, node: Node, number: int) -> bool:
        """Whether the value is in its array when the work begins, and until it ends."""
        return self.writer.get(node, -1) < number < self.gone.get(node, len(self.works))

"""Cuts loop nests into fragments, each of which writes one large value and can run again alone.

A nest may write what several layers keep for the backward pass.  Within a budget, not all of that
should be computed again where one value is wanted.  Fragments that run one after another are
joined: all of them are the nest itself, and a value that they alone read is never stored.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence, Set

from chainrule.graph.node import Node
from chainrule.plan.checks import checks_of
from chainrule.plan.loops.fragment import fragment, has_fragments, is_readable, needed_for
from chainrule.plan.loops.loop_work import Instance, Store
from chainrule.plan.loops.nest import computed_by, nest_label
from chainrule.plan.roles import nbytes_of
from chainrule.plan.tasks import SMALL
from chainrule.plan.work import NestWork, Work

Homes = list[tuple[int, Work]]  # works with the number of that which each is (a fragment) of


class Fragments:
    """Works in an order that is right, some of them cut: those that write several values of
    `saved`.

    `works` are the works and fragments, in a right order; `home` has the number of the work that
    each is of.  `cut` are the numbers of fragments; those of `once` are not to run again: they
    write small values, which stay, or values of `outside`, which have arrays of their own.
    """

    def __init__(self, given: Sequence[Work], outside: Set[Node], saved: Container[Node]) -> None:
        self.given, self.outside = given, outside
        self.works: list[Work] = []
        self.home: list[int] = []
        self.cut: set[int] = set()
        self.once: set[int] = set()
        self._made: dict[tuple[int, frozenset[Node], frozenset[Node]], Work | None] = {}
        self._touched: dict[
            tuple[int, ...], tuple[frozenset[Node], frozenset[Node], frozenset[Node]]
        ] = {}
        for number, work in enumerate(given):
            several = sum(node in saved for node in work.writes) > 1
            found = self._fragments(number, work) if several else []
            for one, once in found or [(work, False)]:
                if found:
                    self.cut.add(len(self.works))
                if once:
                    self.once.add(len(self.works))
                self.works.append(one)
                self.home.append(number)
        self._apart = [[one] for one in zip(self.home, self.works, strict=True)]
        cut = [self.works[one] for one in self.cut]
        written = {node for work in cut for node in work.writes}
        read = {node for work in cut for node in work.reads}
        self._from_fragments = [_among(one.reads, written) for one in self.works]
        self._by_fragments = [_among(one.writes, written) for one in self.works]
        self._for_fragments = [_among(one.writes, read) for one in self.works]

    def _fragments(self, number: int, work: Work) -> list[tuple[Work, bool]]:
        """The fragments of a work, and which of them run once; nothing where it has none."""
        if not isinstance(work, NestWork) or len(work.layouts) > 1:
            return []
        found: list[tuple[Work, bool]] = []
        for stores, once in _groups(work, self.outside):
            nodes = frozenset(store.node for store in stores)
            one = self._fragment(number, nodes, nodes)
            if one is None:
                return []
            found.append((one, once))
        return found

    def _fragment(
        self, number: int, wanted: frozenset[Node], inside: frozenset[Node]
    ) -> Work | None:
        """The part of a work that writes some values, and computes all of `inside` itself."""
        key = number, wanted, inside
        if key not in self._made:
            self._made[key] = self._built(*key)
        return self._made[key]

    def _built(
        self, number: int, wanted: frozenset[Node], inside: frozenset[Node]
    ) -> NestWork | None:
        work = self.given[number]
        assert isinstance(work, NestWork)
        (layout,) = work.layouts
        known = {node for node in work.writes if node not in inside and node not in self.outside}
        made = fragment(layout, wanted, known)
        if made is None:
            return None
        nest = made.nest
        writes = tuple(node for node in work.writes if node in wanted)
        inner = tuple(node for node in computed_by([nest]) if node not in wanted)
        label, checks = nest_label((*inner, *writes)), checks_of((*inner, *writes))
        return NestWork((made,), writes, tuple(nest.reads), inner, label, checks)

    def ways(self, sequence: Sequence[int]) -> Iterator[Homes]:
        """Ways to run a sequence: fragments as they come, and gathered where they run first."""
        if not self.cut:
            yield self._each(sequence)
            return
        yield self._joined(sequence)
        gathered = self._gathered(sequence)
        if gathered != list(sequence):
            yield self._joined(gathered)

    def _gathered(self, sequence: Sequence[int]) -> list[int]:
        """The sequence in which fragments run first where the first of their work does, unless
        something between them makes what they read, or they write to arrays from outside."""
        keys: list[tuple[int, int]] = []
        made: dict[Node, tuple[int, int]] = {}  # when it was written last
        ends: dict[int, tuple[int, int]] = {}  # of each work, behind its fragments
        seen: set[int] = set()
        for place, one in enumerate(sequence):
            key = place, 0
            if one in self.cut and one not in seen:
                work = self.works[one]
                end = ends.get(self.home[one], key)
                inputs = (made[node] for node in work.reads if node in made)
                if self.outside.isdisjoint(work.writes) and all(at < end for at in inputs):
                    key = end
                ends[self.home[one]] = key[0], key[1] + 1
                seen.add(one)
            for node in self._for_fragments[one]:
                made[node] = key
            keys.append(key)
        return [sequence[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]

    def _joined(self, sequence: Sequence[int]) -> Homes:
        """The works of a sequence of numbers; fragments of one work that follow one another are
        one."""
        found: list[Homes] = []
        read: set[Node] = set()  # later, before they are written again
        for some in reversed([*self._runs(sequence)]):
            if len(some) == 1:
                (one,) = some
                found.append(self._apart[one])
                read.difference_update(self._by_fragments[one])
                read.update(self._from_fragments[one])
                continue
            run = tuple(some)
            if run not in self._touched:
                self._touched[run] = self._touches(run)
            reads, nodes, outside = self._touched[run]
            wanted = outside | (nodes & read)
            if wanted:
                found.append(self._together(run, wanted, nodes))
            read.difference_update(nodes)
            read.update(reads)
        return [one for homes in reversed(found) for one in homes]

    def _touches(
        self, run: Sequence[int]
    ) -> tuple[frozenset[Node], frozenset[Node], frozenset[Node]]:
        """What a run reads that it does not write, what it writes, and of these, what lies in an
        array from outside."""
        nodes = frozenset(node for one in run for node in self.works[one].writes)
        reads = frozenset(node for one in run for node in self.works[one].reads) - nodes
        return reads, nodes, nodes & self.outside

    def _each(self, sequence: Sequence[int]) -> Homes:
        return [(self.home[one], self.works[one]) for one in sequence]

    def _together(
        self, run: Sequence[int], wanted: frozenset[Node], inside: frozenset[Node]
    ) -> Homes:
        """Fragments as one, which writes what is wanted; as they are where that cannot be."""
        number = self.home[run[0]]
        if len(wanted) == len(self.given[number].writes):
            return [(number, self.given[number])]
        one = self._fragment(number, wanted, inside)
        return self._each(run) if one is None else [(number, one)]

    def _runs(self, sequence: Sequence[int]) -> Iterator[list[int]]:
        """Fragments of one work that follow one another, each once; others one by one."""
        run: list[int] = []
        for one in sequence:
            if run and (one not in self.cut or self.home[one] != self.home[run[0]] or one in run):
                yield run
                run = []
            run.append(one)
        if run:
            yield run


def _among(nodes: Sequence[Node], some: Container[Node]) -> tuple[Node, ...]:
    return tuple([node for node in nodes if node in some])


def _groups(work: NestWork, outside: Container[Node]) -> Iterator[tuple[Collection[Store], bool]]:
    """What fragments write, and whether they run once: each large value, after the small ones that
    it needs; and what is left."""
    (layout,) = work.layouts
    nest = layout.nest
    inside = [one for one in nest.stores if one.node not in outside]
    if not has_fragments(layout):
        return
    place = {one: number for number, one in enumerate(nest.instances)}
    largest = max((nbytes_of(one.node) for one in inside), default=0)
    large = [one for one in inside if nbytes_of(one.node) * SMALL > largest and not one.fold]
    small = [one for one in inside if one not in large and is_readable(one)]
    lying: set[Instance] = set()
    placed: set[Node] = set()
    for store in sorted(large, key=lambda one: place[one.value]):
        needed = needed_for([store], lying)
        before = [one for one in small if one.value in needed and one.node not in placed]
        for stores, once in ((before, True), ([store], False)):
            if stores:
                placed.update(one.node for one in stores)
                lying.update(one.value for one in stores if is_readable(one))
                yield stores, once
    rest = [one for one in nest.stores if one.node not in placed]
    if rest:
        yield rest, True

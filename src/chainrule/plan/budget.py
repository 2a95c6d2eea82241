"""Plans within a budget: the works of a plan, some of them or of their parts run again, in fewer
bytes of scratch memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf

from chainrule.dataclass import dataclass, replace
from chainrule.graph.node import Node
from chainrule.plan.duration import work_nanoseconds
from chainrule.plan.foreign import ForeignWork
from chainrule.plan.fragments import Fragments
from chainrule.plan.least_load import LeastLoad
from chainrule.plan.planner import Plan
from chainrule.plan.roles import nbytes_of
from chainrule.plan.speeds import Speeds
from chainrule.plan.storage import Outside, Storage
from chainrule.plan.tasks import Tasks, may_repeat, tasks_of
from chainrule.plan.ways import Way, ways
from chainrule.plan.work import Work
from chainrule.schedule.lives import BEFORE, lives_of
from chainrule.schedule.records import aligned

# Where fragments take so many times as long as without a budget, whole works may need less.
DEAR = 1.25
PLACED = 4  # ways of which offsets are looked for, where none is within the budget


@dataclass(frozen=True)
class Candidate:
    """Works in the order in which they run, and about how long that takes."""

    works: Sequence[Work]
    nanoseconds: int


def within(
    plan: Plan, nbytes: int, code_nbytes: Callable[[Sequence[Work]], int] = lambda works: 0
) -> Plan:
    """The quickest plan that is found whose scratch memory has at most `nbytes`; where none is
    found, that which has the least.

    `code_nbytes` says what the code of works takes: what is more than that of `plan` counts as
    well.  Works are those of `plan`, or parts of them, and so are values: results have the same
    bits.
    """
    if plan.schedule.scratch_nbytes <= nbytes:
        return plan
    search = _Search(plan)
    found = search.candidates()
    code = code_nbytes(plan.works)
    beside: list[int] = []
    for one in found:
        beside.append(code_nbytes(one.works) - code)
        if search.least.of(one.works) <= nbytes - beside[-1]:
            best = search.stored(one.works)
            if best.fits(nbytes - beside[-1]):
                break
    else:
        every = [(search.stored(one.works), more) for one, more in zip(found, beside, strict=True)]
        every.sort(key=lambda one: one[0].load_nbytes + one[1])
        best, _ = min(every[:PLACED], key=lambda one: one[0].scratch_nbytes + one[1])
    return _stored_so(plan, best)


@dataclass(frozen=True)
class Shorter:
    """Works of a plan, some of them again; `nbytes` are the most of the values that are there at
    once and are no results, each with bytes of its own."""

    works: tuple[Work, ...]
    nbytes: int


def shorter_ways(plan: Plan) -> list[Shorter]:
    """The ways that are found to run the works of a plan in fewer bytes, the quickest first; the
    plan itself is one.  For who lays out memory without `plan`."""
    search = _Search(plan)
    found = dict.fromkeys([plan.works, *(tuple(one.works) for one in search.candidates())])
    return [Shorter(works, _values_nbytes(works, search.outside)) for works in found]


def _values_nbytes(works: Sequence[Work], outside: Container[Node]) -> int:
    lives = lives_of((work.reads, work.writes) for work in works)
    change = [0] * (len(works) + 1)
    for life, first in lives.first.items():
        if first != BEFORE and life.node not in outside:
            change[first] += nbytes_of(life.node)
            change[lives.last[life] + 1] -= nbytes_of(life.node)
    return max(accumulate(change))


def with_works(plan: Plan, works: Sequence[Work]) -> Plan:
    """The plan with works of `shorter_ways` in place of its own."""
    return _stored_so(plan, _Search(plan).stored(works))


def _stored_so(plan: Plan, found: Storage) -> Plan:
    schedule = found.schedule(plan.schedule.graph)  # which has factors of matrices, too
    works = tuple(found.works)
    return replace(plan, schedule=schedule, works=works, load_nbytes=found.load_nbytes)


class _Search:
    """The works of a plan, and the ways that are found to do the same in fewer bytes."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.arrays = Outside(list(plan.schedule.given), plan.schedule.results, plan.overwrites)
        self.outside = {*plan.schedule.results, *plan.overwrites.values()}
        self.least = LeastLoad(self.arrays)
        self.sources, self.costs = _Sources(plan.works), _Costs(plan.speeds)
        self.found: dict[tuple[Work, ...], Candidate] = {}

    def stored(self, works: Sequence[Work]) -> Storage:
        """The storage of works in place of those of the plan."""
        return Storage(works, self.arrays)

    def candidates(self) -> list[Candidate]:
        """The ways that are found, the quickest first."""
        whole = Fragments(self.plan.works, self.outside, ())
        fragments = Fragments(self.plan.works, self.outside, self._saved())
        if fragments.cut:
            found = self._add(fragments)
            dear = [one.nbytes for one in found if one.nanoseconds > DEAR * found[0].nanoseconds]
            self._add(whole, max(dear, default=min(one.nbytes for one in found)))
        else:
            self._add(whole)
        return sorted(self.found.values(), key=lambda one: one.nanoseconds)

    def _add(self, given: Fragments, highest: int | None = None) -> Sequence[Way]:
        """Note the ways to run works or fragments in at most so many bytes."""
        found = ways(self._tasks(given), highest=highest)
        for way in found:
            for made in given.ways(way.sequence):
                works = tuple(work for _, work in made)
                if works not in self.found and self.sources.same(made):
                    costs = map(self.costs.__getitem__, works)
                    self.found[works] = Candidate(works, sum(costs))
        return found

    def _saved(self) -> set[Node]:
        """The values that lie in scratch memory while most of it is in use, and are not read
        then."""
        storage = self.stored(self.plan.works)
        loads, lives = storage.loads, storage.lives
        peak = max(range(len(loads)), key=loads.__getitem__, default=0)
        spans = ((life, lives.first[life], lives.last[life]) for life in storage.scratch)
        return {life.node for life, first, last in spans if first < peak < last}

    def _tasks(self, given: Fragments) -> Tasks:
        """Works and fragments as tasks; results take nothing, as their arrays come from outside."""
        works, storage = given.works, self.stored(given.works)

        def nbytes(node: Node) -> int:
            return 0 if node in self.outside else aligned(nbytes_of(node))

        once = given.once | {
            number
            for number, work in enumerate(works)
            if not self.outside.isdisjoint(work.writes)
            or (isinstance(work, ForeignWork) and not may_repeat(work.node))
        }
        spaces = [aligned(work.workspace_nbytes) for work in works]
        readers = Counter(node for work in works for node in work.reads)
        for life, source in storage.in_place.items():
            if readers[source.node] == 1 and nbytes(source.node) == nbytes(life.node):
                spaces[storage.lives.first[life]] -= nbytes(life.node)
        took, overwrites = map(self.costs.__getitem__, works), self.plan.overwrites
        return tasks_of(
            works, nbytes, spaces, took, once=once, fixed=given.cut, overwrites=overwrites
        )


class _Costs(dict[Work, int]):
    """About how long each work takes, in nanoseconds; counted when it is asked first.

    Without the processor's `window`: with it, the search finds dearer ways for most tight budgets
    (a transformer in 30 % of its saved bytes: 26 instead of 19 % longer, by the same count).
    """

    def __init__(self, speeds: Speeds) -> None:
        self.speeds = replace(speeds, window=inf)

    def __missing__(self, work: Work) -> int:
        self[work] = found = work_nanoseconds(work, self.speeds)
        return found


class _Sources:
    """Which work of a plan reads which value of which work, of the values that several works write:
    these need not round them alike."""

    def __init__(self, works: Sequence[Work]) -> None:
        counts = Counter(node for work in works for node in work.writes)
        self.several = {node for node, count in counts.items() if count > 1}
        self._touched: dict[Work, tuple[list[Node], list[Node]]] = {}
        homes = list(enumerate(works))
        self.known = set(self._of(homes))
        self.known.update((a, node, a) for a, work in homes for node in work.writes)  # fragments

    def same(self, works: Iterable[tuple[int, Work]]) -> bool:
        """Whether works read no others, each with the number of that which it is (a fragment) of.

        A fragment reads and writes nothing but what its work does.
        """
        return not self.several or all(one in self.known for one in self._of(works))

    def _of(self, works: Iterable[tuple[int, Work]]) -> Iterator[tuple[int, Node, int]]:
        writer: dict[Node, int] = {}
        for number, work in works:
            if work not in self._touched:
                self._touched[work] = (
                    [node for node in work.reads if node in self.several],
                    [node for node in work.writes if node in self.several],
                )
            reads, writes = self._touched[work]
            for node in reads:
                if node in writer:
                    yield number, node, writer[node]
            for node in writes:
                writer[node] = number

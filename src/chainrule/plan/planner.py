"""From a concrete graph to a plan: units in order, what they read and write, and where it lies."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass
from chainrule.errors import SizeError
from chainrule.graph.frozen import NotPickled
from chainrule.graph.graph import Graph
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.node import Node, topological
from chainrule.graph.uses import uses
from chainrule.plan.choose_stored import stored_values
from chainrule.plan.foreign import ForeignWork, needs_of_body
from chainrule.plan.loops.fuse import Nest
from chainrule.plan.loops.loop_work import Builder, NotAffineError
from chainrule.plan.order import Alone, Ordering, Unit
from chainrule.plan.overwriting import harmful
from chainrule.plan.products.fold import Products, folded_products
from chainrule.plan.products.layouts import product_layouts
from chainrule.plan.rematerialise import Again, mattering, order_with, rematerialisable
from chainrule.plan.reorder import orders
from chainrule.plan.roles import TRANSPARENT, Role, roles_of
from chainrule.plan.routine_work import factors_of, with_factors
from chainrule.plan.speeds import Speeds, speeds_of
from chainrule.plan.storage import Outside, Storage
from chainrule.plan.touched_rows import with_touched_rows
from chainrule.plan.work import Work, Worker
from chainrule.primitives.affine import row_major
from chainrule.schedule.records import Buffer, Compute, Schedule

if TYPE_CHECKING:
    from chainrule.plan.times import PlanTimes


@dataclass(frozen=True, eq=False)
class Plan(NotPickled, ShownByText):
    """How a graph runs: for each instruction that computes, the work that it stands for.

    `strides` are those, in elements, of the array of every value in memory.  `overwrites` maps
    a given value to the result that takes its array.  It is made for vectors of
    `vector_nbytes`, and with `multiplies_pairs` for processors that multiply pairs of bfloat16.
    `load_nbytes` are the most bytes of scratch memory in use at one instruction,
    so that no arena is smaller.
    """

    _called = "a plan"
    _instead = "str(plan) is its text"

    graph: Graph
    schedule: Schedule
    works: tuple[Work, ...]
    strides: Mapping[Node, tuple[int, ...]]
    overwrites: Mapping[Node, Node]
    threads: int
    vector_nbytes: int
    load_nbytes: int
    multiplies_pairs: bool = False

    def __str__(self) -> str:
        """One line for each instruction: what it is, how many threads and why, what it writes."""
        from chainrule.plan.text import text

        return text(self)

    def _repr_html_(self) -> str:
        from chainrule.plan.text import html

        return html(self)

    def measured(self, inputs: Mapping[str, Any] | None = None) -> PlanTimes:
        """How long each instruction takes on this machine, beside the prediction: `print` it.

        The code is compiled with a time stamp after each instruction, and runs at least six times
        and half a second on arrays that are made up; inputs named in `inputs` have these elements,
        repeated or cut to their shape.  UnsupportedError where it cannot be compiled here,
        MemoryLimitError where there is no memory for it.
        """
        from chainrule.plan.times import PlanTimes

        return PlanTimes(self, uses.measured(self, inputs or {}))

    @property
    def speeds(self) -> Speeds:
        """How quick its target is taken to be."""
        return speeds_of(self.vector_nbytes)

    @property
    def computes(self) -> list[Compute]:
        """The instructions that compute; each has its work."""
        return [one for one in self.schedule.instructions if isinstance(one, Compute)]

    @property
    def places(self) -> list[dict[Node, Buffer]]:
        """For each instruction that computes, where what it reads and writes lies then."""
        now = dict(self.schedule.given)
        found = []
        for one in self.computes:
            now.update(zip(one.nodes, one.into, strict=True))
            found.append({node: now[node] for node in (*one.reads, *one.nodes)})
        return found

    @property
    def arenas(self) -> dict[Node, str]:
        """Where the results lie: the names of the arrays given from outside."""
        into = {n: b for one in self.computes for n, b in zip(one.nodes, one.into, strict=True)}
        return {node: into[node].arena for node in self.schedule.results}

    @property
    def foreign(self) -> list[Node]:
        """The nodes that have no kernel."""
        return [one.node for one in self.works if isinstance(one, ForeignWork)]


def plan(
    graph: Graph,
    results: Sequence[Node],
    overwrites: Mapping[Node, Node] | None = None,
    *,
    threads: int = 1,
    vector_nbytes: int = 64,
    multiplies_pairs: bool = False,
    blas_from: float = math.inf,
    plain: bool = False,
    placement_seconds: float = 0.0,
    nested: bool = False,
) -> Plan:
    """The plan that computes `results` of a concrete graph (all its sizes are integers).

    `overwrites` says which inputs' arrays may take which results (parameters: W1 by W1_next);
    where that cannot be, the plan's own `overwrites` lacks the pair.  Up to `threads` threads
    share an instruction, where it is worth it.  `vector_nbytes` is the width of the processor's
    vectors, `multiplies_pairs` whether it has an instruction that multiplies pairs of bfloat16 and
    adds them up in float32; BLAS does products of more than `blas_from` multiplications.  With
    `plain` instructions stay in the order of the graph, whatever memory that takes.  Where quick
    offsets waste scratch memory, better ones are searched for `placement_seconds`.  `nested`: it is
    the body of a loop or a choice.
    SizeError where a size is a name.
    """
    if graph.sizes:
        raise SizeError(
            f"a plan of {graph.name} is made for integers, and these sizes are names: "
            + ", ".join(graph.sizes),
            hint=f"plan({', '.join(f'{name}=...' for name in graph.sizes)})",
        )
    settings = {
        "threads": threads,
        "vector_nbytes": vector_nbytes,
        "multiplies_pairs": multiplies_pairs,
        "blas_from": blas_from,
    }
    of_body = partial(needs_of_body, plan, {**settings, "plain": plain})
    worker = partial(Worker, **settings, of_body=of_body, nested=nested)
    once = dict(overwrites or {})
    return _Planner(graph, results, once, threads, worker, plain, placement_seconds).planned()


class _Planner:
    def __init__(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: dict[Node, Node],
        threads: int,
        worker: Callable[..., Worker],
        plain: bool,
        placement_seconds: float,
    ) -> None:
        self.placement_seconds = placement_seconds
        self.traced, self.threads, self.worker, self.plain = graph, threads, worker, plain
        needed, self.computed = _needed(graph, results), graph
        self.factors = factors_of(needed.nodes, roles_of(needed))
        if self.factors:  # what routines read beside the nodes of the graph
            needed = needed.replace(nodes=with_factors(needed.nodes, self.factors))
            every = dict.fromkeys((*graph.nodes, *needed.nodes))  # %3 is the same with factors
            self.computed = graph.replace(nodes=tuple(every))
        self.graph, self.roles = needed, roles_of(self.computed)
        self.results = [
            node for node in dict.fromkeys(results) if self.roles[node] is not Role.GIVEN
        ]
        once: dict[Node, Node] = {}
        for given, result in overwrites.items():
            if result in self.results:
                once.setdefault(result, given)
        self.overwrites = {given: result for result, given in once.items()}
        self.stored = {node for node in self.results if self.roles[node] in TRANSPARENT}
        self.whole: set[Node] = set()  # given arrays that nothing may need while they are taken

    def planned(self) -> Plan:
        while True:
            made = self._planned()
            if made is not None:
                return made

    def _planned(self) -> Plan | None:
        """The plan; None where some values turn out to be read in ways that loops cannot follow,
        so that they must be stored, or some results cannot take a given array: that is noted, and
        changes everything."""
        graph, roles = self.graph, self.roles
        products = folded_products(graph, roles, self.results, self.overwrites)
        layouts = product_layouts(graph, products, roles, {*self.results, *self.stored})
        ordering = Ordering(
            graph, roles, products, self.stored, self.overwrites, layouts, self.factors
        )
        units = ordering.run()
        if ordering.unreadable:
            self.stored |= ordering.unreadable
            return None
        if ordering.copied:
            for node in ordering.copied:
                self.overwrites = {a: b for a, b in self.overwrites.items() if b is not node}
            return self._planned()
        overwrites = {given: result for result, given in ordering.taken.items()}
        values = stored_values(
            graph, roles, units, self.results, self.stored, overwrites, self.whole
        )
        strides = {
            node: layouts.get(node) or row_major(node.shape)
            for node in self.computed.nodes
            if node in values or roles[node] is Role.GIVEN
        }
        worker = self.worker(roles, strides, set(overwrites.values()))
        available = {node for node in graph.nodes if roles[node] is Role.GIVEN}
        made: list[tuple[Unit, Work]] = []
        unfit: set[Node] = set()
        for unit in units:
            try:
                made += [(unit, work) for work in self._work(unit, worker, available, values)]
            except NotAffineError as error:
                unfit.add(error.node)
            available.update(node for node in _nodes(unit) if node in values)
        if unfit:
            assert not unfit & self.stored, unfit & self.stored
            self.stored |= unfit
            return None
        works = [work for _, work in made]
        taken = {result: given for given, result in overwrites.items()}
        harmed = {taken[node] for work in works for node in harmful(work, taken)}
        if harmed:
            copied = harmed & self.whole
            self.overwrites = {a: b for a, b in self.overwrites.items() if a not in copied}
            self.whole |= harmed
            return None
        made = with_touched_rows(made, worker, values, taken)
        works = [work for _, work in made]
        best = self._least(works, overwrites)
        assert best is not None
        if not self.plain:
            best = self._with_second_lives(best, made, worker, values)
        schedule, load = best.schedule(self.computed), best.load_nbytes
        return Plan(
            self.traced,
            schedule,
            tuple(best.works),
            strides,
            overwrites,
            self.threads,
            worker.vector_nbytes,
            load,
            worker.multiplies_pairs,
        )

    def _least(
        self, works: Sequence[Work], overwrites: Mapping[Node, Node], below: float = math.inf
    ) -> Storage | None:
        """The storage that needs least, of all orders of the works; the first of several.  None
        where none needs less than `below`."""
        given = [node for node in self.traced.nodes if self.roles[node] is Role.GIVEN]
        stored = partial(Storage, outside=Outside(given, self.results, overwrites))
        different = dict.fromkeys(map(tuple, self._orders(works, overwrites)))
        found = list(enumerate(map(stored, different)))
        found.sort(key=lambda one: one[1].load_nbytes)  # below which none can be
        best, least = None, (below, -1)
        for number, one in found:
            if (one.load_nbytes, number) < least and (one.scratch_nbytes, number) < least:
                best, least = one, (one.scratch_nbytes, number)
        better = [one for _, one in found if one.load_nbytes < least[0]]
        if self.placement_seconds:
            for one in better:
                longer = stored(one.works, seconds=self.placement_seconds / len(better))
                if longer.scratch_nbytes < least[0]:
                    best, least = longer, (longer.scratch_nbytes, -1)
        return best

    def _orders(
        self, works: Sequence[Work], overwrites: Mapping[Node, Node]
    ) -> Iterator[Sequence[Work]]:
        """The orders to choose from."""
        found = orders(self.graph, works, self.results, overwrites)
        if self.plain:
            yield next(found)
        else:
            yield works
            yield from found

    def _with_second_lives(
        self,
        best: Storage,
        made: Sequence[tuple[Unit, Work]],
        worker: Worker,
        values: set[Node],
    ) -> Storage:
        """The storage in which some values are computed again, where that needs less than `best`;
        no value is that does not matter at the peak."""
        works, overwrites = [work for _, work in made], best.overwrites
        again = rematerialisable(works, self.roles, self.results, overwrites)
        again_works = self._rematerialised(made, again, worker, values, overwrites)
        if again_works is None:
            return best
        found = self._least(again_works, overwrites, best.scratch_nbytes)
        if found is None:
            return best
        fewer = mattering(again, found)
        if len(fewer) == len(again):
            return found
        fewer_works = self._rematerialised(made, fewer, worker, values, overwrites)
        if fewer_works is None:
            return found
        # Of two that need as much, that in which fewer values are computed again.
        return self._least(fewer_works, overwrites, found.scratch_nbytes + 1) or found

    def _rematerialised(
        self,
        made: Sequence[tuple[Unit, Work]],
        found: Sequence[Again],
        worker: Worker,
        values: set[Node],
        overwrites: Mapping[Node, Node],
    ) -> list[Work] | None:
        """The works in which nests write the values of `found` again; None if one cannot, or if
        there is no value."""
        if not found:
            return None
        works = [work for _, work in made]
        taken = {result: given for given, result in overwrites.items()}
        again: dict[int, list[Node]] = defaultdict(list)
        for one in found:
            again[one.nest].append(one.value)
        available = {node for node in self.graph.nodes if self.roles[node] is Role.GIVEN}
        for number, (unit, work) in enumerate(made):
            if number in again:
                assert isinstance(unit, Nest)
                there = available.difference(again[number])
                try:
                    nest = unit.joined_by(again[number])
                    (works[number],) = self._work(nest, worker, there, values)
                except NotAffineError:
                    return None
                if harmful(works[number], taken):
                    return None
            available.update(work.writes)
        return [works[number] for number in order_with(found, len(works))]

    def _work(
        self, unit: Unit, worker: Worker, available: set[Node], values: set[Node]
    ) -> list[Work]:
        if isinstance(unit, Products):
            return worker.products(unit, available)
        if isinstance(unit, Alone):
            return worker.alone(unit, available)
        wanted = [node for node in unit.members if node in values]
        if not wanted:
            return []
        builder = Builder(unit, self.roles, worker.strides, available)
        return [worker.nest(builder.built(wanted))]


def _needed(graph: Graph, results: Sequence[Node]) -> Graph:
    """The graph without the nodes that no result needs."""
    needed = set(topological(results))
    if len(needed) == len(graph.nodes):
        return graph
    return graph.replace(nodes=tuple(node for node in graph.nodes if node in needed))


def _nodes(unit: Unit) -> list[Node]:
    """The nodes that a unit computes."""
    if isinstance(unit, Products):
        return [unit.root]
    return [unit.node] if isinstance(unit, Alone) else list(unit.members)

"""From a concrete graph to a plan: units in order, what they read and write, and where it lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from chainrule.errors import SizeError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.access import row_major
from chainrule.plan.fold import Products, folded_products
from chainrule.plan.keep import stored_values
from chainrule.plan.loops import Builder, NotAffineError
from chainrule.plan.order import Alone, Ordering, Unit
from chainrule.plan.overwriting import harmful
from chainrule.plan.place import Request, place
from chainrule.plan.roles import TRANSPARENT, Role, roles_of
from chainrule.plan.schedule import SCRATCH, Buffer, Compute, Free, Instruction, Schedule
from chainrule.plan.work import ForeignWork, Work, Worker
from chainrule.primitives.movement import reshape, transpose


@dataclass(frozen=True, eq=False)
class Plan:
    """How a graph runs: for each instruction that computes, the work that it stands for.

    `strides` are those, in elements, of the array of every value in memory.  `overwrites` maps
    a given value to the result that takes its array.
    """

    graph: Graph
    schedule: Schedule
    works: tuple[Work, ...]
    strides: Mapping[Node, tuple[int, ...]]
    overwrites: Mapping[Node, Node]
    threads: int

    def __str__(self) -> str:
        """One line for each instruction: what it is, how many threads and why, what it writes."""
        from chainrule.plan.text import text

        return text(self)

    @property
    def computes(self) -> list[Compute]:
        """The instructions that compute; each has its work."""
        return [one for one in self.schedule.instructions if isinstance(one, Compute)]

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
    blas: bool = False,
) -> Plan:
    """The plan that computes `results` of a concrete graph (all its sizes are integers).

    `overwrites` says which inputs' arrays may take which results (parameters: W1 by W1_next);
    where that cannot be, the plan's own `overwrites` lacks the pair.  Up to `threads` threads
    share an instruction, where it is worth it.  `vector_nbytes` is the width of the processor's
    vectors; with `blas` all matrix products are BLAS' (`tiles`).  SizeError where a size is a name.
    """
    if graph.sizes:
        raise SizeError(
            f"a plan of {graph.name} is made for integers, and these sizes are names: "
            + ", ".join(graph.sizes),
            hint=f"plan({', '.join(f'{name}=...' for name in graph.sizes)})",
        )
    worker = partial(Worker, threads=threads, vector_nbytes=vector_nbytes, blas=blas)
    return _Planner(graph, results, dict(overwrites or {}), threads, worker).planned()


class _Planner:
    def __init__(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: dict[Node, Node],
        threads: int,
        worker: Callable[..., Worker],
    ) -> None:
        self.graph, self.threads, self.worker = graph, threads, worker
        self.roles = roles_of(graph)
        self.results = [
            node for node in dict.fromkeys(results) if self.roles[node] is not Role.GIVEN
        ]
        once: dict[Node, Node] = {}
        for given, result in overwrites.items():
            if result in self.results:
                once.setdefault(result, given)
        self.overwrites = {given: result for result, given in once.items()}
        self.stored = {node for node in self.results if self.roles[node] in TRANSPARENT}

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
        layouts = self._layouts(products)
        ordering = Ordering(graph, roles, products, self.stored, self.overwrites, layouts)
        units = ordering.run()
        if ordering.copied:
            for node in ordering.copied:
                self.overwrites = {a: b for a, b in self.overwrites.items() if b is not node}
            return self._planned()
        overwrites = {given: result for result, given in ordering.taken.items()}
        values = stored_values(graph, roles, units, self.results, self.stored, overwrites)
        strides = {
            node: layouts.get(node) or row_major(node.shape)
            for node in graph.nodes
            if node in values or roles[node] is Role.GIVEN
        }
        worker = self.worker(roles, strides)
        available = {node for node in graph.nodes if roles[node] is Role.GIVEN}
        works: list[Work] = []
        unfit: set[Node] = set()
        for unit in units:
            try:
                works += self._work(unit, worker, available, values)
            except NotAffineError as error:
                unfit.add(error.node)
            available.update(node for node in _nodes(unit) if node in values)
        if unfit:
            assert not unfit & self.stored, unfit & self.stored
            self.stored |= unfit
            return None
        taken = {result: given for given, result in overwrites.items()}
        harmed = {node for work in works for node in harmful(work, taken)}
        if harmed:
            self.overwrites = {a: b for a, b in overwrites.items() if b not in harmed}
            return None
        schedule = self._schedule(works, overwrites)
        return Plan(graph, schedule, tuple(works), strides, overwrites, self.threads)

    def _layouts(self, products: Mapping[Node, Products]) -> dict[Node, tuple[int, ...]]:
        """The strides of products that lie in the order of the one transpose that reads them, so
        that its reshape needs no copy."""
        found: dict[Node, tuple[int, ...]] = {}
        users: dict[Node, list[Node]] = {}
        for node in self.graph.nodes:
            for parent in dict.fromkeys(node.inputs):
                users.setdefault(parent, []).append(node)
        for root in products:
            readers = users.get(root, [])
            if root in self.results or len(readers) != 1:
                continue
            reader = readers[0]
            again = users.get(reader, [])
            if reader.primitive is not transpose or reader in self.stored:
                continue
            if any(one.primitive is reshape for one in again):
                moved = dict(zip(reader.param("permutation"), row_major(reader.shape), strict=True))
                found[root] = tuple(moved[axis] for axis in range(root.ndim))
        return found

    def _work(
        self, unit: Unit, worker: Worker, available: set[Node], values: set[Node]
    ) -> list[Work]:
        if isinstance(unit, Products):
            return worker.products(unit, available)
        if isinstance(unit, Alone):
            return worker.alone(unit.node, available)
        wanted = [node for node in unit.members if node in values]
        if not wanted:
            return []
        builder = Builder(unit, self.roles, worker.strides, available)
        return [worker.nest(builder.built(wanted))]

    def _schedule(self, works: list[Work], overwrites: Mapping[Node, Node]) -> Schedule:
        """The instructions with their buffers."""
        taken = {result: given for given, result in overwrites.items()}
        given = {
            node: Buffer(f"given {place}", 0, int(node.type.nbytes))
            for place, node in enumerate(
                node for node in self.graph.nodes if self.roles[node] is Role.GIVEN
            )
        }
        outside = {
            node: Buffer(f"result {place}", 0, int(node.type.nbytes))
            for place, node in enumerate(self.results)
        }
        outside.update({result: given[one] for result, one in taken.items()})
        last: dict[Node, int] = {}
        first: dict[Node, int] = {}
        for number, work in enumerate(works):
            for node in work.writes:
                first.setdefault(node, number)
                last[node] = number
            for node in work.reads:
                last[node] = number
        scratch = [node for node in first if node not in outside]
        requests = [Request(int(n.type.nbytes), first[n], last[n]) for n in scratch]
        spaces = [(k, w.workspace_nbytes) for k, w in enumerate(works) if w.workspace_nbytes]
        requests += [Request(nbytes, number, number) for number, nbytes in spaces]
        placement = place(requests)
        buffers = dict(outside)
        for node, offset in zip(scratch, placement.offsets, strict=False):
            buffers[node] = Buffer(SCRATCH, offset, int(node.type.nbytes))
        workspaces = {
            number: Buffer(SCRATCH, offset, nbytes)
            for (number, nbytes), offset in zip(
                spaces, placement.offsets[len(scratch) :], strict=True
            )
        }
        dying: dict[int, list[Node]] = {}
        for node in scratch:
            dying.setdefault(last[node], []).append(node)
        instructions: list[Instruction] = []
        for number, work in enumerate(works):
            in_place = tuple((node, taken[node]) for node in work.writes if node in taken)
            instructions.append(
                Compute(
                    nodes=tuple(work.writes),
                    into=tuple(buffers[node] for node in work.writes),
                    reads=tuple(work.reads),
                    inner=tuple(work.inner),
                    workspace=workspaces.get(number),
                    in_place=in_place,
                    fails=work.fails,
                    label=work.label,
                )
            )
            instructions += [Free(node) for node in dying.get(number, ())]
        return Schedule(
            graph=self.graph,
            instructions=tuple(instructions),
            given=given,
            results=tuple(self.results),
            overwrites=dict(overwrites),
            scratch_nbytes=placement.nbytes,
        )


def _nodes(unit: Unit) -> list[Node]:
    """The nodes that a unit computes."""
    if isinstance(unit, Products):
        return [unit.root]
    return [unit.node] if isinstance(unit, Alone) else list(unit.members)

"""A loop or a choice as one instruction: what its bodies do are instructions of the same code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from chainrule.dataclass import dataclass
from chainrule.graph.body import Body, Chosen, Flow, Scanned, Unwound, Whiled
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.checks import Check
from chainrule.plan.foreign import ForeignWork, over_in
from chainrule.plan.inner_plans import Copying, Filling, InnerPlan, Laying, Spot
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.roles import nbytes_of
from chainrule.plan.sharing import busiest, sharing
from chainrule.primitives.primitive import Library

if TYPE_CHECKING:
    from chainrule.plan.planner import Plan
    from chainrule.plan.work import Work, Worker

PARTS_A_THREAD = 16  # so that none waits long for another, and the caller not for a signal
# How many times as long as with equal shares a loop may take whose iterations threads share; else
# they rather share what each iteration does.
MOST_UNEVEN = 1.25


@dataclass(frozen=True, eq=False)
class FlowWork:
    """A loop or a choice of native code alone.

    `bodies` are the iteration, of a loop with a condition this and the iteration, of a way back
    these and the iteration back, of a choice both branches.  `decides` is where the boolean lies
    that a condition gives, or that chooses.  `before` is done once, `rows` when an iteration
    begins.  A way back keeps states: when an iteration forth begins by `kept`, when the first one
    of a segment does by `firsts`.

    Where iterations need nothing of each other, `threads` may share them, in so many `parts`: each
    thread does whole iterations alone, with `own_nbytes` of its own at the end of the workspace.
    """

    node: Node
    flow: Flow
    reads: tuple[Node, ...]
    inner: tuple[Node, ...]
    workspace_nbytes: int
    bodies: tuple[InnerPlan, ...]
    decides: Spot | None
    before: tuple[Filling, ...]
    rows: tuple[Filling, ...]
    kept: tuple[Copying, ...] = ()
    firsts: tuple[Copying, ...] = ()
    checks: tuple[Check, ...] = ()  # those of its works may fail whenever they run
    parts: int = 1
    threads: int = 1
    own_nbytes: int = 0

    allocated_nbytes: ClassVar[int] = 0

    @property
    def writes(self) -> tuple[Node, ...]:
        """The one node."""
        return (self.node,)

    @property
    def label(self) -> str:
        """The name of the primitive."""
        return self.node.primitive.name

    @property
    def works(self) -> tuple[Work, ...]:
        """Those of the bodies."""
        return tuple([work for body in self.bodies for work in body.plan.works])

    @property
    def fails(self) -> bool:
        """Whether it may stop the run: a body may, and in a long loop Python may raise (Ctrl-C)."""
        return not isinstance(self.flow, Chosen) or any(one.fails for one in self.bodies)

    @property
    def nanoseconds_alone(self) -> float:
        """About how long it takes on one thread, as far as that is known before it runs; like
        those of all works it decides what is shared, and nothing else."""
        times = self.flow.length if isinstance(self.flow, Scanned) else 1
        return times * sum(one.nanoseconds_alone for one in self.works)

    @property
    def layouts(self) -> list[NestLayout]:
        """The nests that copy what bodies are given."""
        return [one.layout for one in (*self.before, *self.rows)]

    @property
    def copied_nbytes(self) -> int:
        """What is copied at each iteration."""
        rows = sum(nbytes_of(one.stored) for one in self.rows)
        after = (one for body in self.bodies for one in body.after)
        return rows + sum(one.nbytes for one in (*after, *self.kept))


def parts_of_iterations(length: int, threads: int) -> int:
    """In how many parts so many threads share so many iterations."""
    return min(length, PARTS_A_THREAD * threads)


def may_stop(work: Work) -> bool:
    """Whether it may stop the run, for another reason than that Python says so."""
    if isinstance(work, FlowWork) and isinstance(work.flow, Scanned):
        return any(map(may_stop, work.works))
    return work.fails or bool(work.checks)


def flow_work(
    node: Node,
    reads: tuple[Node, ...],
    inner: tuple[Node, ...],
    worker: Worker,
    available: set[Node],
) -> FlowWork | None:
    """The loop or choice as one instruction; None for other nodes, and where Python takes part."""
    kernel = node.primitive.kernel
    if not isinstance(kernel, Library) or kernel.flow is None:
        return None
    flow = kernel.flow(node)
    if flow is None:
        return None
    return _Making(node, flow, worker, available).work(reads, inner)


class _Making:
    """Makes the instruction of one node."""

    def __init__(self, node: Node, flow: Flow, worker: Worker, available: set[Node]) -> None:
        self.node, self.flow, self.worker = node, flow, worker
        self.available = available
        self.laying = Laying(worker, available)
        self.kept: list[Copying] = []
        self.firsts: list[Copying] = []

    def work(self, reads: tuple[Node, ...], inner: tuple[Node, ...]) -> FlowWork | None:
        """The instruction; None where Python takes part."""
        match self.flow:
            case Scanned():
                found = self._scanned(self.flow)
            case Whiled():
                found = self._whiled(self.flow)
            case Unwound():
                found = self._unwound(self.flow)
            case Chosen():
                found = self._chosen(self.flow)
        if found is None:
            return None
        (bodies, decides), laying = found, self.laying
        length, threads = getattr(self.flow, "length", 1), self.worker.threads
        parts = parts_of_iterations(length, threads) if laying.is_shared else 1
        return FlowWork(
            self.node,
            self.flow,
            reads,
            inner,
            laying.workspace_nbytes + threads * laying.own_nbytes,
            bodies,
            decides,
            tuple(laying.before),
            tuple(laying.rows_copied),
            tuple(self.kept),
            tuple(self.firsts),
            parts=parts,
            threads=threads,
            own_nbytes=laying.own_nbytes,
        )

    def _plans(self, bodies: list[Body], *, alone: bool) -> list[Plan] | None:
        """Those of the bodies, for one thread if `alone`; None where one is not all native."""
        found: list[Plan] = []
        for body in bodies:
            plan = self.worker.of_body(body, over_in(self.node, body), alone=alone).plan
            if plan is None or any(isinstance(one, ForeignWork) for one in plan.works):
                return None
            found.append(plan)
        return found

    def _scratch(self, plans: list[Plan]) -> Spot:
        """The arena of plans that run one after another."""
        return self.laying.space_inside(max(one.schedule.scratch_nbytes for one in plans))

    def _result(self, types: list[Node], lengths: list[int]) -> list[int]:
        """Where each value begins in the result, of so many in a row."""
        pairs = zip(types, lengths, strict=True)
        return list(accumulate((nbytes_of(one) * n for one, n in pairs), initial=0))[:-1]

    def _states(self, outputs: list[Node]) -> list[Spot]:
        """Where the carries lie: those of the dtype in the result."""
        shown = [one for one in outputs if one.dtype == self.node.dtype]
        starts = iter(self._result(shown, [1] * len(shown)))
        return [
            Spot(self.node, next(starts))
            if one.dtype == self.node.dtype
            else self.laying.space(nbytes_of(one))
            for one in outputs
        ]

    def _shared(self, flow: Scanned) -> list[Plan] | None:
        """The plan of a thread that does whole iterations alone; None where threads rather share
        what each iteration does."""
        threads = self.worker.threads
        if flow.carries or self.worker.nested or threads == 1 or flow.length < threads:
            return None
        parts = parts_of_iterations(flow.length, threads)
        if threads * busiest(flow.length, parts, threads) > MOST_UNEVEN:
            return None
        plans = self._plans([flow.body], alone=True)
        if plans is None or any(map(may_stop, plans[0].works)):
            return None
        nanoseconds = flow.length * sum(one.nanoseconds_alone for one in plans[0].works)
        is_small = threads * plans[0].schedule.scratch_nbytes <= nbytes_of(self.node)
        return plans if is_small and sharing(nanoseconds, threads).parts > 1 else None

    def _scanned(self, flow: Scanned) -> tuple[tuple[InnerPlan, ...], None] | None:
        shared = self._shared(flow)
        plans = shared or self._plans([flow.body], alone=False)
        if plans is None:
            return None
        begin = (flow.length - 1, -1) if flow.reverse else (0, 1)
        self.laying = Laying(self.worker, self.available, *begin, is_shared=shared is not None)
        laying, (plan,), outputs = self.laying, plans, _ends(flow.body.graph)[1]
        first, operands = flow.constants + flow.carries, self.node.inputs
        scratch = self._scratch(plans)
        carried, stacked = outputs[: flow.carries], outputs[flow.carries :]
        shown = [one for one in carried if one.dtype == self.node.dtype]
        lengths = [1] * len(shown) + [flow.length] * len(stacked)
        starts = self._result([*shown, *stacked], lengths)[len(shown) :]
        pairs = zip(starts, stacked, strict=True)
        stacks = [laying.rows_of(self.node, start, nbytes_of(one)) for start, one in pairs]
        fixed, states = self._begun(flow.constants, self._states(carried), operands[:first])
        given = [*fixed, *states, *map(laying.row, operands[first:])]
        return (self._inner(plan, given, states, stacks, scratch),), None

    def _whiled(self, flow: Whiled) -> tuple[tuple[InnerPlan, ...], Spot] | None:
        plans = self._plans([flow.condition, flow.body], alone=self.worker.nested)
        if plans is None:
            return None
        (condition, body), outputs = plans, _ends(flow.body.graph)[1]
        scratch, decides = self._scratch(plans), self.laying.space(1)
        fixed, states = self._begun(flow.constants, self._states(outputs), self.node.inputs)
        given = [*fixed, *states]
        return (
            self._inner(condition, given, [], [decides], scratch),
            self._inner(body, given, states, [], scratch),
        ), decides

    def _unwound(self, flow: Unwound) -> tuple[tuple[InnerPlan, ...], Spot] | None:
        plans = self._plans([flow.condition, flow.step, flow.body], alone=self.worker.nested)
        if plans is None:
            return None
        (condition, step, back), laying = plans, self.laying
        scratch, decides = self._scratch(plans), laying.space(1)
        sizes = [nbytes_of(one) for one in _ends(flow.step.graph)[1]]
        states = [*map(laying.space, sizes)]
        gone = self._states(_ends(flow.body.graph)[1])
        fixed, _ = self._begun(flow.constants, [*states, *gone], self.node.inputs)
        rows = {i: laying.rows(sizes[i], flow.length) for i in flow.read}
        befores = [rows.get(i, one) for i, one in enumerate(states)]
        self.kept = [Copying(states[i], row, sizes[i]) for i, row in rows.items()]
        count = -(-flow.limit // flow.length)
        pairs = zip(states, sizes, strict=True) if rows else ()
        self.firsts = [Copying(one, laying.rows(nbytes, count), nbytes) for one, nbytes in pairs]
        forth = [*fixed, *states]
        return (
            self._inner(condition, forth, [], [decides], scratch),
            self._inner(step, forth, states, [], scratch),
            self._inner(back, [*fixed, *befores, *gone], gone, [], scratch),
        ), decides

    def _begun(
        self, constants: int, states: list[Spot], operands: Sequence[Node]
    ) -> tuple[list[Spot], list[Spot]]:
        """Where the constants lie, and the states, which hold the values that they begin with."""
        fixed = [*map(self.laying.constant, operands[:constants])]
        for initial, spot in zip(operands[constants:], states, strict=True):
            self.laying.fill(initial, spot)
        return fixed, states

    def _inner(
        self,
        plan: Plan,
        given: list[Spot],
        states: list[Spot],
        stacks: list[Spot],
        scratch: Spot,
    ) -> InnerPlan:
        """A body that finds there what it is given; see `Laying.inner`."""
        inputs, outputs = _ends(plan.graph)
        known = dict(zip(inputs, given, strict=True))
        return self.laying.inner(plan, known, outputs, states, stacks, scratch)

    def _chosen(self, flow: Chosen) -> tuple[tuple[InnerPlan, ...], Spot] | None:
        plans = self._plans([*flow], alone=self.worker.nested)
        if plans is None:
            return None
        laying, scratch = self.laying, self._scratch(plans)
        predicate, *operands = self.node.inputs
        decides, given = laying.constant(predicate), [*map(laying.constant, operands)]
        made = list[InnerPlan]()
        for plan in plans:
            outputs = _ends(plan.graph)[1]
            starts = self._result(outputs, [1] * len(outputs))
            places = [Spot(self.node, start) for start in starts]
            made.append(self._inner(plan, given, [], places, scratch))
        return tuple(made), decides


def _ends(graph: Graph) -> tuple[list[Node], list[Node]]:
    """What a body is given, and what it gives."""
    return [item.node for item in graph.inputs], [node for _, node in graph.outputs]

"""A loop or a choice as one instruction: what its bodies do are instructions of the same code."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from chainrule.dataclass import dataclass
from chainrule.graph.body import Body, Chosen, Flow, Scanned, Whiled
from chainrule.graph.node import Node
from chainrule.plan.checks import Check
from chainrule.plan.foreign import ForeignWork, over_in
from chainrule.plan.inner_plans import Filling, InnerPlan, Laying, Spot
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.roles import nbytes_of
from chainrule.primitives.primitive import Library

if TYPE_CHECKING:
    from chainrule.plan.planner import Plan
    from chainrule.plan.work import Work, Worker


@dataclass(frozen=True, eq=False)
class FlowWork:
    """A loop or a choice of native code alone.

    `bodies` are the iteration, of a loop with a condition this and the iteration, of a choice both
    branches.  `decides` is where the boolean lies that a condition gives, or that chooses.
    `before` is done once, `rows` when an iteration begins.
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
    checks: tuple[Check, ...] = ()  # those of its works may fail whenever they run

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
    def layouts(self) -> list[NestLayout]:
        """The nests that copy what bodies are given."""
        return [one.layout for one in (*self.before, *self.rows)]

    @property
    def copied_nbytes(self) -> int:
        """What is copied at each iteration."""
        rows = sum(nbytes_of(one.stored) for one in self.rows)
        return rows + sum(one.nbytes for body in self.bodies for one in body.after)


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
        self.laying = Laying(worker, available)
        if isinstance(flow, Scanned) and flow.reverse:
            self.laying = Laying(worker, available, flow.length - 1, -1)

    def work(self, reads: tuple[Node, ...], inner: tuple[Node, ...]) -> FlowWork | None:
        """The instruction; None where Python takes part."""
        match self.flow:
            case Scanned():
                found = self._scanned(self.flow)
            case Whiled():
                found = self._whiled(self.flow)
            case Chosen():
                found = self._chosen(self.flow)
        if found is None:
            return None
        (bodies, decides), laying = found, self.laying
        return FlowWork(
            self.node,
            self.flow,
            reads,
            inner,
            laying.workspace_nbytes,
            bodies,
            decides,
            tuple(laying.before),
            tuple(laying.rows),
        )

    def _plans(
        self, bodies: list[Body], over: Mapping[Node, Node], *, alone: bool
    ) -> list[Plan] | None:
        """Those of the bodies, for one thread if `alone`; None where one is not all native."""
        found: list[Plan] = []
        for body in bodies:
            plan = self.worker.of_body(body, over, alone=alone).plan
            if plan is None or any(isinstance(one, ForeignWork) for one in plan.works):
                return None
            found.append(plan)
        return found

    def _scratch(self, plans: list[Plan]) -> Spot:
        """The arena of plans that run one after another."""
        return self.laying.space(max(one.schedule.scratch_nbytes for one in plans))

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

    def _scanned(self, flow: Scanned) -> tuple[tuple[InnerPlan, ...], None] | None:
        plans = self._plans([flow.body], over_in(self.node), alone=False)
        if plans is None:
            return None
        laying, (plan,), (given, outputs) = self.laying, plans, _ends(flow.body)
        first, operands = flow.constants + flow.carries, self.node.inputs
        scratch = self._scratch(plans)
        carried, stacked = outputs[: flow.carries], outputs[flow.carries :]
        states = self._states(carried)
        shown = [one for one in carried if one.dtype == self.node.dtype]
        lengths = [1] * len(shown) + [flow.length] * len(stacked)
        starts = self._result([*shown, *stacked], lengths)[len(shown) :]
        pairs = zip(starts, stacked, strict=True)
        stacks = [laying.row_of(self.node, start, nbytes_of(one)) for start, one in pairs]
        spots = [*map(laying.constant, operands[: flow.constants])]
        for initial, spot in zip(operands[flow.constants : first], states, strict=True):
            laying.fill(initial, spot)
        spots += [*states, *map(laying.row, operands[first:])]
        known = dict(zip(given, spots, strict=True))
        return (laying.inner(plan, known, outputs, states, stacks, scratch),), None

    def _whiled(self, flow: Whiled) -> tuple[tuple[InnerPlan, ...], Spot] | None:
        if flow.limit is None and self.worker.nested:
            return None  # Python has to have turns, or it might never end
        plans = self._plans([flow.condition, flow.body], {}, alone=True)
        if plans is None:
            return None
        laying, operands = self.laying, self.node.inputs
        scratch, decides = self._scratch(plans), laying.space(1)
        states = self._states(_ends(flow.body)[1])
        spots = [*map(laying.constant, operands[: flow.constants])]
        for initial, spot in zip(operands[flow.constants :], states, strict=True):
            laying.fill(initial, spot)
        made = list[InnerPlan]()
        wanted: tuple[tuple[list[Spot], list[Spot]], ...] = ([], [decides]), (states, [])
        for plan, body, ends in zip(plans, (flow.condition, flow.body), wanted, strict=True):
            given, outputs = _ends(body)
            known = dict(zip(given, [*spots, *states], strict=True))
            made.append(laying.inner(plan, known, outputs, *ends, scratch))
        return tuple(made), decides

    def _chosen(self, flow: Chosen) -> tuple[tuple[InnerPlan, ...], Spot] | None:
        plans = self._plans([*flow], {}, alone=True)
        if plans is None:
            return None
        laying, scratch = self.laying, self._scratch(plans)
        predicate, *operands = self.node.inputs
        decides, spots = laying.constant(predicate), [*map(laying.constant, operands)]
        made = list[InnerPlan]()
        for plan, body in zip(plans, flow, strict=True):
            given, outputs = _ends(body)
            starts = self._result(outputs, [1] * len(outputs))
            places = [Spot(self.node, start) for start in starts]
            known = dict(zip(given, spots, strict=True))
            made.append(laying.inner(plan, known, outputs, [], places, scratch))
        return tuple(made), decides


def _ends(body: Body) -> tuple[list[Node], list[Node]]:
    """What a body is given, and what it gives."""
    graph = body.graph
    return [item.node for item in graph.inputs], [node for _, node in graph.outputs]

"""What an operation without a kernel takes while it is evaluated: of the arena, and from NumPy.

A loop whose iterations are compiled writes its result into the arena, where its body works, too:
the body has a plan of its own, whose arena is part of the loop's workspace, with an array for each
output of an iteration.  Every other operation makes its result in arrays of NumPy's, which are
copied: piece by piece where it can, at once where it may read what it writes over.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from chainrule.dataclass import dataclass
from chainrule.graph.body import Body, bodies_of, holds_bodies
from chainrule.graph.node import Node
from chainrule.plan.checks import Check, checks_of
from chainrule.plan.pieces import evaluation_nbytes, piece_of
from chainrule.plan.roles import nbytes_of, repeats_compiled_code
from chainrule.primitives.primitive import Library
from chainrule.primitives.sources import is_uniform
from chainrule.schedule.in_numpy import taken_nbytes, without_memory
from chainrule.schedule.plain import Outlines, iteration_nbytes
from chainrule.schedule.records import aligned

if TYPE_CHECKING:
    from chainrule.plan.planner import Plan
    from chainrule.plan.work import Work


@dataclass(frozen=True, eq=False)
class ForeignWork:
    """A node that has no kernel; what it takes, see `foreign.needs`.

    `fails`: it may stop the run by more than its `checks`, whenever it runs.  `works` are those of
    one iteration, of a loop whose bodies are compiled.
    """

    node: Node
    reads: tuple[Node, ...]
    fails: bool
    inner: tuple[Node, ...] = ()
    label: str = ""
    workspace_nbytes: int = 0
    allocated_nbytes: int = 0
    works: tuple[Work, ...] = ()

    nanoseconds_alone: ClassVar[float] = 0.0  # not counted

    @property
    def writes(self) -> tuple[Node, ...]:
        """The one node."""
        return (self.node,)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Those of its indices."""
        return checks_of(self.writes)


class Needs(NamedTuple):
    """Bytes of the arena, and those that are allocated outside of it at its fullest; of a loop of
    compiled bodies, the works of one iteration; of a body, its plan."""

    workspace_nbytes: int
    allocated_nbytes: int
    works: tuple[Work, ...] = ()
    plan: Plan | None = None


class OfBody(Protocol):
    """What iterations of a compiled body take; `alone`: on one thread."""

    def __call__(self, body: Body, over: Mapping[Node, Node], *, alone: bool = False) -> Needs: ...


def needs(
    node: Node,
    reads: Mapping[Node, tuple[int, ...]],
    of_body: OfBody,
    *,
    direct: bool,
) -> Needs:
    """What evaluating `node` takes, given the values `reads` (each with its strides, in elements).

    Operands are what `execute.native` makes of these: views, and arrays where NumPy copies; all are
    there until the end.  `direct`: the result is written where it lies while operands are read.
    """
    outlines = Outlines()
    for one, strides in reads.items():
        lying = tuple(k * one.dtype.itemsize for k in strides)
        outlines.give(one, without_memory(one.shape, one.dtype, lying))
    held = fullest = 0
    for one in _between(reads, node):
        operands = outlines.of_inputs(one)
        if getattr(one.primitive.kernel, "keeps", False):
            held += sum(operand.nbytes for operand in operands)
        if one is node:
            break
        scratch = taken_nbytes(one, operands)
        outlines.follow(one)
        if is_uniform(one):
            scratch = one.dtype.itemsize  # its number, for a moment
        elif outlines.owners.get(one) is one:
            held += nbytes_of(one)
        fullest = max(fullest, held + scratch)
    operands = outlines.of_inputs(node)
    if not holds_bodies(node):
        piece = piece_of(node) if direct else ()
        return Needs(0, max(fullest, held + evaluation_nbytes(node, piece, operands)))
    workspace, scratch = 0, taken_nbytes(node, operands)
    works: tuple[Work, ...] = ()
    if repeats_compiled_code(node):
        bodies = list(bodies_of(node))
        found = [of_body(body, over_in(node, body)) for body in bodies]
        workspace = sum(one.workspace_nbytes for one in found)
        scratch -= max(map(iteration_nbytes, bodies))
        scratch += max(one.allocated_nbytes for one in found)
        works = tuple(work for one in found for work in one.works)
    result = 0 if direct else nbytes_of(node)
    return Needs(workspace, max(fullest, held + scratch + result), works)


def needs_of_body(
    plan: Callable[..., Plan],
    settings: Mapping[str, Any],
    body: Body,
    over: Mapping[Node, Node],
    *,
    alone: bool = False,
) -> Needs:
    """What the iterations of a compiled body take, by the plan that it has with these settings,
    arguments of `plan`; `alone`: on one thread."""
    settings = {**settings, "threads": 1} if alone else settings
    key = ("needs", *settings.values(), *numbers_of(body, over))
    found = body.made.get(key)
    if found is None:
        outputs = [node for _, node in body.graph.outputs]
        made = plan(body.graph, outputs, over, **settings, nested=True)
        schedule = made.schedule
        taken = {*made.overwrites.values()}
        workspace = workspace_of_iterations(schedule.scratch_nbytes, body, taken)
        nbytes = schedule.allocated_nbytes
        found = body.made[key] = Needs(workspace, nbytes, made.works, plan=made)
    return found


def over_in(node: Node, body: Body) -> Mapping[Node, Node]:
    """Which inputs of one of its bodies may lose their place to which outputs, in compiled
    iterations."""
    kernel = node.primitive.kernel
    assert isinstance(kernel, Library)
    given = {item.node for item in body.graph.inputs}
    every = {} if kernel.over is None else kernel.over(node)
    return {one: after for one, after in every.items() if one in given}


def numbers_of(body: Body, overwrites: Mapping[Node, Node]) -> list[tuple[int, int]]:
    """Which output may take which input, by their numbers."""
    given = [item.node for item in body.graph.inputs]
    outputs = [node for _, node in body.graph.outputs]
    return [(given.index(one), outputs.index(after)) for one, after in overwrites.items()]


def workspace_of_iterations(arena_nbytes: int, body: Body, elsewhere: Container[Node]) -> int:
    """The bytes in which compiled iterations work: their arena, and an array for each output that
    does not lie elsewhere."""
    outputs = dict.fromkeys(node for _, node in body.graph.outputs if node not in elsewhere)
    return aligned(arena_nbytes) + sum(aligned(nbytes_of(node)) for node in outputs)


def _between(reads: Mapping[Node, object], node: Node) -> list[Node]:
    """The nodes that are evaluated for `node`, itself the last, operands first."""
    found: dict[Node, None] = {}
    pending = [node]
    while pending:
        missing = [one for one in pending[-1].inputs if one not in found and one not in reads]
        if missing:
            pending += missing
        else:
            found.setdefault(pending.pop())
    return list(found)

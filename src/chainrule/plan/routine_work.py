"""The work of an instruction that LAPACK does: the same routine for each matrix of a stack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import ClassVar

from chainrule.dataclass import dataclass
from chainrule.graph.node import Node, topological
from chainrule.plan.checks import Check
from chainrule.plan.loops.addresses import Strides, axis_by_axis, place_in_memory
from chainrule.plan.loops.loop_work import NotAffineError
from chainrule.plan.roles import Role
from chainrule.plan.sharing import Sharing, sharing
from chainrule.primitives.affine import row_major
from chainrule.primitives.primitive import Library
from chainrule.primitives.routines import WIDE, Block, Operand, Routine, operand_array
from chainrule.schedule.records import aligned

CALL_NANOSECONDS = 150.0  # of one matrix, however small
FLOPS_EACH_NANOSECOND = 25.0
# Nanoseconds for one matrix that is alone: then threads share the steps for it.  On two cores of a
# Zen 3, a Cholesky factor of 200 takes dpotrf 0.21 ms by one thread.
WORTH_TOGETHER = 150_000.0
LEAST_COLUMNS = 8  # of a system that threads share by columns


@dataclass(frozen=True)
class Stack:
    """Where an operand lies: the value in memory, its first element, and what a step along each
    axis of the stack adds, in elements."""

    node: Node
    first: int
    strides: Strides


@dataclass(frozen=True, eq=False)
class RoutineWork:
    """`routine` on each of the matrices of a stack of this shape, which `strides` in the result;
    blocks of columns that threads share are one more axis of the stack.

    Each of the threads that share the stack has rooms of its own.  Of one matrix, they share the
    steps that can be done together.
    """

    node: Node
    routine: Routine
    stack: tuple[int, ...]
    strides: Strides
    operands: tuple[Stack, ...]
    sharing: Sharing
    reads: tuple[Node, ...]
    inner: tuple[Node, ...] = ()

    allocated_nbytes: ClassVar[int] = 0

    @property
    def writes(self) -> tuple[Node, ...]:
        """The one node."""
        return (self.node,)

    @property
    def checks(self) -> tuple[Check, ...]:
        """It looks at no index."""
        return ()

    @property
    def label(self) -> str:
        """The operation."""
        return self.node.primitive.name

    @property
    def nanoseconds_alone(self) -> float:
        """About how long it takes on one thread, as `sharing` counts."""
        return self.sharing.nanoseconds

    @property
    def fails(self) -> bool:
        """Whether a matrix may stop the run."""
        return self.routine.may_stop

    @property
    def room_nbytes(self) -> int:
        """The bytes of all rooms of one thread."""
        return sum(aligned(one.nbytes) for one in self.routine.rooms)

    @property
    def workspace_nbytes(self) -> int:
        """Rooms for all threads that share the stack."""
        return (self.sharing.parts if prod(self.stack) > 1 else 1) * self.room_nbytes


def routine_work(
    node: Node,
    operands: Sequence[Node],
    reads: Sequence[Node],
    inner: Sequence[Node],
    roles: Mapping[Node, Role],
    available: set[Node],
    strides: Mapping[Node, Strides],
    threads: int,
) -> RoutineWork:
    """The work of a node that `operands` are read for.  NotAffineError where one lies in a way that
    strides cannot say."""
    kernel = node.primitive.kernel
    assert isinstance(kernel, Library) and kernel.routine is not None
    depth = operands[0].ndim - 2
    stack = tuple(operands[0].shape[:depth])
    count, columns = prod(stack), int(node.shape[-1])
    each = CALL_NANOSECONDS + int(node.primitive.flops(node)) / count / FLOPS_EACH_NANOSECOND
    decided = sharing(each * count, threads)
    blocks = 1
    if kernel.by_columns and count < decided.parts:
        blocks = _blocks(columns, decided.parts)
    stacks, seen = list[Stack](), list[Operand]()
    for index, one in enumerate(operands):
        own = axis_by_axis(one.shape)
        found = place_in_memory(one, own, one.shape, roles, available, strides)
        if found is None:
            raise NotAffineError(one)
        base, (first, *steps) = found
        across = steps[-1] * (columns // blocks) if index == len(operands) - 1 else 0
        stacks.append(Stack(base, first, (*steps[:depth], across)))
        block = Block(operand_array(index), *steps[depth:])
        seen.append(Operand(block, one.dtype == WIDE))
    in_result = (*row_major(node.shape)[:depth], columns // blocks)
    pieces = count * blocks
    write, shared = kernel.routine, decided.at_most(pieces)
    if pieces == 1:
        shared = decided.prevented("it is one matrix")
        if kernel.large_routine is not None and each > WORTH_TOGETHER:
            write, shared = kernel.large_routine, decided
    options = {"columns": columns // blocks} if kernel.by_columns else {}
    return RoutineWork(
        node,
        write(node, *seen, **options),
        (*stack, blocks),
        in_result,
        tuple(stacks),
        shared,
        tuple(reads),
        tuple(inner),
    )


def _blocks(columns: int, parts: int) -> int:
    """In how many blocks of equal width columns are cut for so many threads: as few as are enough,
    or else as many as there can be."""
    most = columns // LEAST_COLUMNS
    found = [count for count in range(1, most + 1) if columns % count == 0]
    enough = [count for count in found if count >= parts]
    return min(enough) if enough else max(found, default=1)


def factors_of(nodes: Iterable[Node], roles: Mapping[Node, Role]) -> dict[Node, Node]:
    """For each node whose routine reads a factor in place of its first operand, the node of that
    factor: one for all that read the same."""
    made: dict[Node, Node] = {}
    found: dict[Node, Node] = {}
    for node in nodes:
        kernel = node.primitive.kernel
        if roles[node] is not Role.ROUTINE or not isinstance(kernel, Library):
            continue
        if kernel.factored is not None:
            base_of, factor_of = kernel.factored
            base = base_of(node)
            if base not in made:
                made[base] = factor_of(base)
            found[node] = made[base]
    return found


def with_factors(nodes: Sequence[Node], factors: Mapping[Node, Node]) -> tuple[Node, ...]:
    """The nodes of a graph, those of factors where they are first needed."""
    if not factors:
        return tuple(nodes)
    known, found = set(nodes), list[Node]()
    for node in nodes:
        factor = factors.get(node)
        if factor is not None and factor not in known:
            fresh = [one for one in topological([factor]) if one not in known]
            found += fresh
            known.update(fresh)
        found.append(node)
    return tuple(found)

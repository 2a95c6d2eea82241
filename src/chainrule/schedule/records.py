"""A `Schedule` is a list of plain records: what is computed when, and in which bytes it lies."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.dataclass import dataclass, field
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

ALIGNMENT = 64  # bytes: a cache line, and the widest vector

SCRATCH = "scratch"  # the arena of one run; every other place is an array given from outside


@dataclass(frozen=True, slots=True)
class Buffer:
    """`nbytes` bytes at `offset` of the scratch arena, or of an array given from outside.

    `arena` is SCRATCH, or the name of the argument, constant or result whose array it is.  The
    offset is a multiple of ALIGNMENT; the array of a result begins with it, at 0.
    """

    arena: str
    offset: int
    nbytes: int

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.offset + self.nbytes

    def __str__(self) -> str:
        place = "the scratch arena" if self.arena == SCRATCH else f"the array {self.arena}"
        if not self.nbytes:
            return f"no bytes of {place}"
        return f"bytes {self.offset} to {self.end - 1} of {place}"


@dataclass(frozen=True, eq=False, slots=True)
class Compute:
    """One kernel: reads values, computes others, writes some of them.

    `nodes` are written, each into its buffer of `into`.  `reads` are the values read from memory.
    `inner` are computed on the way and never written; a node that another instruction writes, too,
    is computed again here.  Generated values (constants, positions) and other views of what is
    read (transposes, slices) may go unmentioned.  `workspace` are bytes of the scratch arena,
    needed only while it runs.  `in_place` pairs a written node with a value read whose bytes it
    may take (element by element, each read before it is written); where it does, the life of that
    value ends here, without a Free.  `fails` says whether it can stop the run (an index out of
    range).  `allocated_nbytes` is what it allocates itself, beside the arena, and frees again.
    """

    nodes: tuple[Node, ...]
    into: tuple[Buffer, ...]
    reads: tuple[Node, ...] = ()
    inner: tuple[Node, ...] = ()
    workspace: Buffer | None = None
    in_place: tuple[tuple[Node, Node], ...] = ()
    fails: bool = False
    label: str = ""
    allocated_nbytes: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """`node` is the bytes of `of`, seen from `offset` with other strides; it owns none.

    It is there as long as those bytes hold `of`.
    """

    node: Node
    of: Node
    offset: int  # in bytes from the first element of `of`
    strides: tuple[int, ...]  # in bytes


@dataclass(frozen=True, eq=False, slots=True)
class Free:
    """The bytes of a value may be used again; it may be computed again, there or elsewhere."""

    node: Node


Instruction = Compute | View | Free


@dataclass(frozen=True, eq=False)
class Schedule:
    """Instructions in order, for a concrete graph.

    `given` are the buffers of the values that exist before the first instruction (inputs and
    constants), `results` the values that must exist, unharmed, after the last one.  `overwrites`
    says which given value's bytes take which result (parameters: W1's take W1_next); nothing else
    is ever written into an array that holds a given value.
    """

    graph: Graph
    instructions: tuple[Instruction, ...]
    given: Mapping[Node, Buffer]
    results: tuple[Node, ...]
    overwrites: Mapping[Node, Node] = field(default_factory=dict)
    scratch_nbytes: int = 0

    @property
    def allocated_nbytes(self) -> int:
        """The most that an instruction allocates beside the arena."""
        found = (getattr(one, "allocated_nbytes", 0) for one in self.instructions)
        return max(found, default=0)


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to a whole number of ALIGNMENT."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT

"""What is kept of a compiled plan: machine code, and where its pointers go, by positions of nodes.

It has no node, no name and no value in it, so it serves every graph of the same structure, in this
process and (see `cache`) in later ones.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence

from chainrule.dataclass import dataclass
from chainrule.execute.native.lapack.lapack import LAPACK_ROUTINES
from chainrule.execute.native.plan_to_ir.driver import RUNTIME, program
from chainrule.execute.native.planned import planned
from chainrule.execute.native.products.blas import ROUTINES
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.machine_code.compiling import Compiling
from chainrule.machine_code.target import Target, llvm_versions
from chainrule.plan.foreign import ForeignWork
from chainrule.plan.planner import Plan
from chainrule.schedule.records import SCRATCH, Buffer, Compute

Strides = tuple[int, ...]

MOST_THREADS = 1 << 12
MOST_BARRIERS = 1 << 20
MOST_AXES = 64  # NumPy's own limit
FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
# What code assumes about the BLAS.  Which one it is does not matter: its functions are called
# through pointers that are put into place when the code is loaded.
BLAS_CONVENTION = "Fortran's, with integers of 32 bits"


@dataclass(frozen=True)
class Place:
    """The array of a node (by position): its arena, its offset and its strides, in bytes."""

    node: int
    arena: str
    offset: int
    strides: Strides


@dataclass(frozen=True)
class Foreign:
    """A node without a kernel: what must be read to evaluate it, and where its value goes.

    `direct`: it is written there while the others are read.  The workspace is where compiled bodies
    work.
    """

    result: Place
    reads: tuple[Place, ...]
    direct: bool
    workspace_offset: int
    workspace_nbytes: int


@dataclass(frozen=True)
class Part:
    """One native function, and the node that is evaluated after it; `shared`: by many threads.

    `asks`: Python has turns in its loops, and is called with its lock.
    """

    function: str
    shared: bool
    then: Foreign | None
    asks: bool = False


@dataclass(frozen=True)
class Artifact:
    """Everything that running a plan needs, but for the arrays.

    `code` are the object files one after another, of so many bytes each.
    `arenas` are the arrays given from outside, in the order of their pointers; `overwritten` says
    for each of the overwrites that were asked for whether it is so.  `threaded_products`: BLAS
    would use threads of its own.  `barrier_count`: see `barriers`.  `allocated_nbytes`: the most
    an evaluation of a node without a kernel takes beside the scratch memory.
    """

    code: bytes
    code_nbytes: tuple[int, ...]
    parts: tuple[Part, ...]
    arenas: tuple[str, ...]
    scratch_nbytes: int
    allocated_nbytes: int
    threads: int
    overwritten: tuple[bool, ...]
    routines: tuple[str, ...]
    threaded_products: bool
    barrier_count: int

    @property
    def objects(self) -> list[bytes]:
        """The object files."""
        ends = [*itertools.accumulate(self.code_nbytes)]
        return [self.code[end - one : end] for end, one in zip(ends, self.code_nbytes, strict=True)]


def key_of(
    graph: Graph,
    results: Sequence[Node],
    overwrites: Mapping[Node, Node],
    threads: int,
    target: Target,
    plain: bool = False,
    placement_seconds: float = 0.0,
    memory_nbytes: int | None = None,
    nested: bool = False,
) -> str:
    """What determines an artifact, as a SHA-256; the values of constants and names do not.

    `plain`, `placement_seconds` and `nested` as in `plan`, `memory_nbytes` as in `planned`.
    """
    positions = positions_of(graph)
    pairs = [(positions[given], positions[result]) for given, result in overwrites.items()]
    wanted = [positions[node] for node in results]
    # The hash alone does not tell (x - A) * B + A from (x - A) * B + B, for constants of one type.
    wiring = [[positions[parent] for parent in node.inputs] for node in graph.nodes]
    settings = f"{threads}|{target}|{plain}|{placement_seconds}|{memory_nbytes}|{nested}"
    tools = f"{llvm_versions()}|{BLAS_CONVENTION}"
    text = f"{graph.structural_hash}|{wiring}|{wanted}|{pairs}|{settings}|{tools}"
    return hashlib.sha256(text.encode()).hexdigest()


def positions_of(graph: Graph) -> dict[Node, int]:
    """The place of each node in the graph's order."""
    return {node: place for place, node in enumerate(graph.nodes)}


def compiled(
    graph: Graph,
    results: Sequence[Node],
    overwrites: Mapping[Node, Node],
    threads: int,
    target: Target,
    plain: bool = False,
    placement_seconds: float = 0.0,
    memory_nbytes: int | None = None,
    nested: bool = False,
) -> Artifact:
    """Plan and compile a concrete graph; the rest as for `key_of`."""
    made = planned(
        graph, results, overwrites, threads, target, plain, placement_seconds, memory_nbytes, nested
    )
    return artifact_of(made, overwrites, target)


def artifact_of(
    made: Plan, overwrites: Mapping[Node, Node], target: Target, timed: bool = False
) -> Artifact:
    """The machine code of a plan; `timed` as in `program`."""
    attributes, named_nbytes = target.function_attributes, target.named_nbytes
    with Compiling(target, made.threads) as compiling:
        written = program(
            made,
            attributes,
            compiling.add,
            named_nbytes,
            timed,
            fetches=not target.fetches_by_itself,
        )
        objects = compiling.objects()
    positions = positions_of(made.graph)

    def place(node: Node, buffer: Buffer) -> Place:
        strides = tuple(k * node.dtype.itemsize for k in made.strides[node])
        return Place(positions[node], buffer.arena, buffer.offset, strides)

    taken = set(made.overwrites.values())

    def foreign_of(node: Node, compute: Compute, places: Mapping[Node, Buffer]) -> Foreign:
        reads = tuple([place(one, places[one]) for one in compute.reads])
        space = compute.workspace or Buffer(SCRATCH, 0, 0)
        result = place(node, places[node])
        return Foreign(result, reads, node not in taken, space.offset, space.nbytes)

    foreign = [
        foreign_of(work.node, compute, places)
        for compute, work, places in zip(made.computes, made.works, made.places, strict=True)
        if isinstance(work, ForeignWork)
    ]
    parts = tuple(
        Part(one.name, one.shared, None if one.then is None else foreign[one.then], one.asks)
        for one in written.segments
    )
    return Artifact(
        code=b"".join(objects),
        code_nbytes=tuple(map(len, objects)),
        parts=parts,
        arenas=written.slots.arenas,
        scratch_nbytes=made.schedule.scratch_nbytes,
        allocated_nbytes=made.schedule.allocated_nbytes,
        threads=made.threads,
        overwritten=tuple(made.overwrites.get(g) is r for g, r in overwrites.items()),
        routines=tuple(sorted(written.routines)),
        threaded_products=written.threaded_products,
        barrier_count=written.barrier_count,
    )


def slot_count(artifact: Artifact) -> int:
    """The number of pointers in a context."""
    return len(RUNTIME) + len(artifact.arenas)


def is_sensible(artifact: Artifact) -> bool:
    """What `machine` relies on, beyond the types of the fields: a file may hold anything."""
    names = [part.function for part in artifact.parts]
    foreign = [part.then for part in artifact.parts if part.then is not None]
    places = [place for one in foreign for place in (one.result, *one.reads)]
    arenas = set(artifact.arenas)
    return bool(
        names
        and artifact.code
        and sum(artifact.code_nbytes) == len(artifact.code)
        and all(one > 0 for one in artifact.code_nbytes)
        and len(set(names)) == len(names)
        and all(map(FUNCTION.fullmatch, names))
        and len(arenas) == len(artifact.arenas)
        and SCRATCH not in arenas
        and 0 <= artifact.scratch_nbytes
        and 0 <= artifact.allocated_nbytes
        and 1 <= artifact.threads <= MOST_THREADS
        and 0 <= artifact.barrier_count <= MOST_BARRIERS
        and {*artifact.routines} <= {*ROUTINES, *LAPACK_ROUTINES} & {*RUNTIME}
        and all(_is_sensible_place(place, arenas) for place in places)
        and all(_has_room(one, artifact.scratch_nbytes) for one in foreign)
    )


def _has_room(foreign: Foreign, scratch_nbytes: int) -> bool:
    """Whether the workspace lies in the scratch memory."""
    offset, nbytes = foreign.workspace_offset, foreign.workspace_nbytes
    return 0 <= offset and 0 <= nbytes and (not nbytes or offset + nbytes <= scratch_nbytes)


def _is_sensible_place(place: Place, arenas: set[str]) -> bool:
    return (
        (place.arena == SCRATCH or place.arena in arenas)
        and place.node >= 0
        and place.offset >= 0
        and len(place.strides) <= MOST_AXES
    )

"""Estimates what a run takes besides its arrays; never part of the exact numbers.

The constants are upper bounds of what was measured on x86-64 (OpenBLAS 0.3, LLVM 20); tests
measure them anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from chainrule.explain.memory.phase import Phase
from chainrule.graph.body import bodies_of
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.roles import Role, repeats_compiled_code, roles_of
from chainrule.plan.schedule import ALIGNMENT, SCRATCH
from chainrule.plan.tiles import COLUMNS
from chainrule.primitives.primitive import Contract, Library

CODE_NBYTES = 4 << 10  # of any compiled graph or body of a loop: its entry, its counters
CODE_NBYTES_PER_INSTRUCTION = 2 << 10  # measured: 250 to 1,300
STACK_NBYTES = 64 << 10  # that one more thread really touches
BLAS_NBYTES_PER_THREAD = 8 << 20  # where OpenBLAS packs matrices; measured: 1.2 to 4.4 MiB
NUMPY_NBYTES = 256 << 10  # 8192 elements (np.getbufsize()) of each operand; measured: 64 to 129 KiB


def overhead_of(phase: Phase, executor: str) -> dict[str, int]:
    """The estimated bytes by what they are; the numbers of the phase do not hold them."""
    from chainrule.run.native.pool import thread_count

    threads = thread_count()
    blas, numpy = BLAS_NBYTES_PER_THREAD * threads, NUMPY_NBYTES
    if executor != "native":
        return {"buffers of BLAS": blas, "buffers of NumPy": numpy}
    from chainrule.run.native.target import host_target

    outside = sum(life.arena != SCRATCH and not life.in_place for life in phase.usage.lives)
    found = {
        "compiled code": _code_nbytes(phase.usage.count, phase.computed),
        "stacks of threads": STACK_NBYTES * (threads - 1),
        "alignment of arrays": ALIGNMENT * (outside + 1),
    }
    evaluated = list(_evaluated(phase.graph))
    no_tiles = host_target().vector_nbytes not in COLUMNS  # then all products are BLAS'
    if no_tiles or any(map(_calls_blas, evaluated)):
        found["buffers of BLAS"] = blas
    if evaluated:
        found["buffers of NumPy"] = numpy
    return found


def _evaluated(graph: Graph, *, compiled: bool = True) -> Iterator[Node]:
    """The nodes that NumPy evaluates beside compiled code, those in bodies among them."""
    for node, role in roles_of(graph).items():
        if role is Role.FOREIGN or not compiled:
            yield node
            for body in bodies_of(node):
                yield from _evaluated(body.graph, compiled=repeats_compiled_code(node))


def _calls_blas(node: Node) -> bool:
    """Whether NumPy may evaluate a node by routines of BLAS, or of LAPACK, which calls these."""
    match node.primitive.kernel:
        case Contract():
            return True
        case Library(routine):
            return routine.startswith("lapack")
    return False


def _code_nbytes(instructions: int, nodes: Iterable[Node]) -> int:
    """The machine code of so many instructions, and of the loops among the nodes."""
    nbytes = CODE_NBYTES + CODE_NBYTES_PER_INSTRUCTION * instructions
    loops = [node for node in nodes if repeats_compiled_code(node)]
    bodies = [body.graph for node in loops for body in bodies_of(node)]
    return nbytes + sum(_code_nbytes(len(graph.nodes), graph.nodes) for graph in bodies)


def overhead_words(overhead: Mapping[str, int]) -> str:
    """What is outside the numbers, in one sentence."""
    parts = ", ".join(f"{what} {in_bytes(nbytes)}" for what, nbytes in overhead.items() if nbytes)
    return (
        f"outside these numbers, estimated: {in_bytes(sum(overhead.values()))} ({parts}); "
        "Python, its libraries and the compiler are not counted"
    )

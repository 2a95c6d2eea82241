"""Estimates what compiled code takes beside its arrays.

The constants are upper bounds of what was measured on x86-64 (LLVM 20); tests measure them anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from chainrule.execute.native.runtime.pool import thread_count
from chainrule.execute.overhead import arrays_nbytes, blas_nbytes, numpy_nbytes
from chainrule.graph.body import bodies_of, inner_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.machine_code.target import host_target
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.foreign import ForeignWork
from chainrule.plan.planner import Plan
from chainrule.plan.products.tiles import COLUMNS
from chainrule.plan.roles import repeats_compiled_code
from chainrule.plan.work import ProductWork, Work
from chainrule.primitives.primitive import Library

CODE_NBYTES = 4 << 10  # of any compiled graph or body of a loop: its entry, its counters
CODE_NBYTES_PER_INSTRUCTION = 2 << 10  # measured: 250 to 1,300
CODE_NBYTES_PER_REPETITION = 256  # of one that runs again, its call; measured: 80 to 160
STACK_NBYTES = 64 << 10  # that one more thread really touches


def overhead_of(plan: Plan, graph: Graph, arrays: int) -> dict[str, int]:
    """The estimated bytes by what they are; `arrays` are large ones beside the scratch memory."""
    found = {
        "compiled code": code_nbytes(plan.works),
        "stacks of threads": STACK_NBYTES * (thread_count() - 1),
        "ends of arrays": arrays_nbytes(arrays + 1),
    }
    evaluated = list(_evaluated(plan.works))
    no_tiles = host_target().vector_nbytes not in COLUMNS or _multiplies_by_blas(plan.works)
    others = [*graph.nodes, *inner_nodes(graph)]
    if not no_tiles:
        others = [one for one in others if _has_routine(one)]
    if buffers := blas_nbytes(evaluated) + blas_nbytes(others):  # NumPy's, and SciPy's
        found["buffers of BLAS"] = buffers
    if evaluated:
        found["buffers of NumPy"] = numpy_nbytes()
    return found


def _multiplies_by_blas(works: Iterable[Work]) -> bool:
    """Whether BLAS does a product of matrices, in an instruction or in a body of loops."""
    for work in works:
        if isinstance(work, ForeignWork | FlowWork) and _multiplies_by_blas(work.works):
            return True
        calls = work.calls if isinstance(work, ProductWork) else ()
        if any(one.by_routine and one.gemm.routine == "gemm" for one in calls):
            return True
    return False


def _has_routine(node: Node) -> bool:
    """Whether SciPy's LAPACK is called for it."""
    kernel = node.primitive.kernel
    return isinstance(kernel, Library) and kernel.routine is not None


def code_nbytes(works: Sequence[Work]) -> int:
    """The machine code of works, of which some may be there several times."""
    distinct = dict.fromkeys(works)
    loops = (one.node for one in distinct if isinstance(one, ForeignWork))
    again = CODE_NBYTES_PER_REPETITION * (len(works) - len(distinct))
    again += sum(code_nbytes(one.works) for one in distinct if isinstance(one, FlowWork))
    return _code_nbytes(len(distinct), loops) + again


def _evaluated(works: Iterable[Work]) -> Iterator[Node]:
    """The nodes that NumPy evaluates beside compiled code, those in bodies among them."""
    for work in works:
        if isinstance(work, ForeignWork):
            yield work.node
            if work.works:
                yield from _evaluated(work.works)
            else:
                for body in bodies_of(work.node):
                    yield from (*body.graph.nodes, *inner_nodes(body.graph))


def _code_nbytes(instructions: int, nodes: Iterable[Node]) -> int:
    """The machine code of so many instructions, and of the loops among the nodes."""
    nbytes = CODE_NBYTES + CODE_NBYTES_PER_INSTRUCTION * instructions
    loops = [node for node in nodes if repeats_compiled_code(node)]
    bodies = [body.graph for node in loops for body in bodies_of(node)]
    return nbytes + sum(_code_nbytes(len(graph.nodes), graph.nodes) for graph in bodies)

"""Within a budget of memory, loops keep fewer states: their backward passes compute them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from chainrule.errors import MemoryLimitError
from chainrule.execute.executors import prepare
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Library

Wanted = tuple[Sequence[Node], Mapping[Node, Node]]


def shorter_form(executor: str, graph: Graph, wanted: Callable[[Graph], Wanted]) -> Graph:
    """The concrete graph, or that of its shorter forms which takes the least time within the
    budget of the executor; where none is within it, the one that needs the least.

    See `in_memory`.
    """
    forms = [graph, *_shorter(graph)]
    if len(forms) == 1:
        return graph
    return min(forms, key=lambda form: _rank(executor, form, wanted))


def _shorter(graph: Graph) -> Iterator[Graph]:
    kernels = (node.primitive.kernel for node in graph.nodes)
    found = (one.shorter for one in kernels if isinstance(one, Library))
    for shorter in dict.fromkeys(one for one in found if one is not None):
        yield from shorter(graph)


def _rank(executor: str, graph: Graph, wanted: Callable[[Graph], Wanted]) -> tuple[bool, float]:
    """Whether it fits, and then how long it takes; or how much it needs."""
    try:
        program = prepare(executor, graph, *wanted(graph))
        program.schedule({})
    except MemoryLimitError as error:
        return True, error.needed_nbytes or inf
    return False, getattr(program, "nanoseconds", 0.0)

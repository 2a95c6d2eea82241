"""Other forms of a graph for a run: loops that do nothing twice, or that keep fewer states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute.executors import prepare
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Library

Wanted = tuple[Sequence[Node], Mapping[Node, Node]]


def joined_form(graph: Graph) -> Graph:
    """The graph in which what several loops do is done once."""
    for join in dict.fromkeys(one.joined for one in _libraries(graph) if one.joined is not None):
        graph = join(graph)
    return graph


def shorter_form(
    executor: str, graph: Graph, joined: Graph, wanted: Callable[[Graph], Wanted]
) -> Graph:
    """That form of the concrete graph which takes the least time within the budget of the executor:
    `joined`, the graph itself, or one whose loops keep fewer states; where none is within it, the
    one that needs the least.

    See `in_memory`.
    """
    forms = list(dict.fromkeys([joined, graph, *_shorter(graph)]))
    if len(forms) == 1:
        return graph
    return min(forms, key=lambda form: _rank(executor, form, wanted))


def form_like(graph: Graph, concrete: Graph) -> Graph:
    """That form of a graph of named sizes of which `concrete` is the one at some sizes.

    InputError where, within a budget, loops of `concrete` keep fewer states.
    """
    wanted = [one.primitive for one in concrete.nodes]
    for form in (graph, joined_form(graph)):
        if [one.primitive for one in form.nodes] == wanted:
            return form
    raise InputError(
        f"within its budget, loops of {graph.name} keep as many states as fit at these sizes, so "
        "its bytes are no formulas of sizes",
        hint="the formulas of a report without memory=",
    )


def _libraries(graph: Graph) -> list[Library]:
    kernels = (node.primitive.kernel for node in graph.nodes)
    return [one for one in kernels if isinstance(one, Library)]


def _shorter(graph: Graph) -> Iterator[Graph]:
    found = (one.shorter for one in _libraries(graph))
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

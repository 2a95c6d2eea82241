"""Other forms of a graph for a run: loops that compute nothing twice, or that keep fewer states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf

from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute.executors import prepare
from chainrule.graph.body import bodies_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Library
from chainrule.transforms.widen import widen

Wanted = tuple[Sequence[Node], Mapping[Node, Node]]


def quick_forms(graph: Graph, sizes: Mapping[str, int]) -> Iterator[Graph]:
    """The forms in which loops compute nothing twice, the quickest first, and then that in which
    they do; all have the same bits.

    `sizes` are those of names by which what is kept is chosen, where the graph has such.
    """
    quicker = {one.quicker: None for one in _libraries(graph) if one.quicker is not None}
    seen = set[Graph]()
    for forms in quicker:
        for form in forms(graph, sizes):
            if form not in seen:
                seen.add(form)
                yield form
    if not seen:
        yield graph


def shorter_form(
    executor: str, forms: Sequence[Graph], graph: Graph, wanted: Callable[[Graph], Wanted]
) -> Graph:
    """That form of a concrete graph which takes the least time within the budget of the executor:
    one of these, or one whose loops keep fewer states.

    Where none of those with the same bits is within it, the same of the graph as it is, whose sums
    are made in its loops; where none of these is, the one that needs the least.  See `in_memory`.
    """
    alike = dict.fromkeys([*forms, *_shorter(graph, same_bits=True)])
    if len(alike) == 1 and graph in alike:
        return graph
    others = [] if graph in alike else [graph, *_shorter(graph, same_bits=False)]
    needs: dict[Graph, float] = {}
    for form in dict.fromkeys([*alike, *others]):
        needs[form] = _beyond(executor, form, wanted)
        if not needs[form]:
            return form
    return min(needs, key=lambda form: needs[form])


def form_like(graph: Graph, concrete: Graph, sizes: Mapping[str, int]) -> Graph:
    """That form of a graph of named sizes of which `concrete` is the one at these sizes.

    InputError where, within a budget, loops of `concrete` keep fewer states, and where at these
    sizes something is computed in blocks.
    """
    notes = [body.note for node in concrete.nodes for body in bodies_of(node) if body.note]
    if notes:
        raise InputError(
            f"how many blocks {graph.name} computes hangs on sizes ({notes[0]}), so its bytes are "
            "no formulas of sizes",
            hint="graph.memory(...) at each of the sizes",
        )
    graph, wanted = widen(graph), [_shape(one) for one in concrete.nodes]
    for form in dict.fromkeys([*quick_forms(graph, sizes), graph]):
        if [_shape(one) for one in form.nodes] == wanted:
            return form
    raise InputError(
        f"within its budget, loops of {graph.name} keep as many states as fit at these sizes, so "
        "its bytes are no formulas of sizes",
        hint="the formulas of a report without memory=",
    )


def _shape(node: Node) -> tuple[object, ...]:
    """What forms differ in: the primitive, and what a loop stacks."""
    return node.primitive, len(node.inputs), [len(one.graph.outputs) for one in bodies_of(node)]


def _libraries(graph: Graph) -> list[Library]:
    kernels = (node.primitive.kernel for node in graph.nodes)
    return [one for one in kernels if isinstance(one, Library)]


def _shorter(graph: Graph, *, same_bits: bool) -> Iterator[Graph]:
    found = (one.shorter for one in _libraries(graph))
    for shorter in dict.fromkeys(one for one in found if one is not None):
        yield from shorter(graph, same_bits)


def _beyond(executor: str, graph: Graph, wanted: Callable[[Graph], Wanted]) -> float:
    """The bytes that it needs at least, if it does not fit; else 0."""
    try:
        prepare(executor, graph, *wanted(graph)).schedule({})
    except MemoryLimitError as error:
        return error.needed_nbytes or inf
    return 0

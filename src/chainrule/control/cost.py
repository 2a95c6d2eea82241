"""Counts the cost of loops and choices: the cost of their bodies times their repetitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce

from chainrule.control.repeated import repeated
from chainrule.graph.body import Body, Chosen, Scanned, Unwound, Whiled, bodies_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.arithmetic import add
from chainrule.primitives.primitive import Library


def _shorter(graph: Graph, same_bits: bool) -> Iterable[Graph]:
    from chainrule.control.segments import shorter  # where there is a budget of memory

    return shorter(graph, sums_after=same_bits)


def _quicker(graph: Graph, sizes: Mapping[str, int]) -> Iterator[Graph]:
    from chainrule.control.joined import joined
    from chainrule.control.kept import kept
    from chainrule.control.sums import summed

    once = joined(graph)
    yield summed(kept(once, sizes), sizes)
    yield summed(once, sizes)
    yield summed(graph, sizes)


def over(body: Body, constants: int, carries: int) -> dict[Node, Node]:
    """Which states of a loop's body lose their place to which large outputs: not those that are
    stacked, too, nor to what is given as it is."""
    before = [item.node for item in body.graph.inputs][constants : constants + carries]
    outputs = [node for _, node in body.graph.outputs]
    given = {item.node for item in body.graph.inputs}
    return {
        one: after
        for one, after in zip(before, outputs, strict=False)
        if one.type.nbytes >= (SUM_NBYTES if is_sum(one, after) else LARGE_NBYTES)
        and one not in outputs
        and after not in given
        and outputs[:carries].count(after) == 1
    }


def is_sum(before: Node, after: Node) -> bool:
    """Whether a state is added to, perhaps several times.  A product is added to a sum where that
    lies, piece by piece: in a loop as after it, for the same bits."""
    while after.primitive is add and before not in after.inputs:
        after = after.inputs[0]
    return after.primitive is add


def _repeated(out: Node) -> Whiled | Unwound:
    does = repeated(out)
    if does.step is None:
        return Whiled(does.body, does.condition, does.constants, does.carries, does.limit)
    assert does.limit is not None
    length = does.segments[0]
    there = does.body, does.condition, does.step, does.constants, does.states
    return Unwound(*there, does.limit, does.read, length)


def _over_repeated(out: Node) -> dict[Node, Node]:
    does = repeated(out)
    return over(does.body, does.back, does.carries)


SUM_NBYTES = 1 << 12
LARGE_NBYTES = 1 << 16  # of an output: copying less after each iteration takes little time
SCAN = Library(
    turns=lambda out: out.param("length"),
    shorter=_shorter,
    quicker=_quicker,
    flow=lambda out: Scanned(*map(out.param, Scanned._fields)),
    over=lambda out: over(out.param("body"), out.param("constants"), out.param("carries")),
)
COND = Library(flow=lambda out: Chosen(*map(out.param, Chosen._fields)))
WHILE = Library(turns=lambda out: None, flow=_repeated, over=_over_repeated)


def summed(node: Node, of: Callable[[Node], int | Size]) -> int | Size:
    """The sum of `of` over the nodes of the bodies that a node holds; 0 where it holds none.

    All iterations of a scan, the branch of a choice that takes more, as many iterations of a while
    loop as it may have, with its condition, or one where it has no limit; twice as many forth as
    back where it is gone back through.
    """
    found = [_sum(body, of) for body in bodies_of(node)]
    if node.primitive.kernel is SCAN:
        return node.param("length") * found[0]
    if node.primitive.kernel is COND:
        return reduce(sizes.maximum, found)
    limit = dict(node.params).get("limit")
    if limit is None:
        return sum(found)
    if len(found) == 3:  # back through a loop: see its parameters, in the order of their names
        back, condition, step = found
        return limit * (back + 2 * step) + (limit + 1) * condition
    body, condition = found
    return limit * body + (limit + 1) * condition


def flops(node: Node) -> int | Size:
    """The floating-point operations of a loop or a choice."""
    return summed(node, lambda one: one.primitive.flops(one))


def _sum(body: Body, of: Callable[[Node], int | Size]) -> int | Size:
    total: int | Size = 0
    for node in body.graph.nodes:
        total = total + of(node)
    return total

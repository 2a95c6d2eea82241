"""Which values go to memory: those that a kernel cannot just as well compute again.

A value that a later loop nest needs is computed again there where it comes, elementwise and at
little cost, from at most one array of its size that is in memory anyway, and is no wider.  So gelu
keeps only its input for the backward pass, and layer_norm its input and what belongs to a row.  A
small value that a nest would compute anew for each of many rows is stored, unless that is cheap.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from math import prod

from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.loops.access import pulled
from chainrule.plan.loops.fuse import Level, Nest
from chainrule.plan.loops.row_lanes import LONGEST
from chainrule.plan.loops.sweeps import CHEAP, expression_cost
from chainrule.plan.order import Alone, Unit
from chainrule.plan.products.fold import Products
from chainrule.plan.roles import TRANSPARENT, Role, nbytes_of, needed, size_of, sources, sources_of
from chainrule.primitives.logic import equal, not_equal
from chainrule.primitives.primitive import Gather

AGAIN = 48  # operations for each element that are cheaper than an array written and read
# The same, where one element is needed at many points of a nest; and what is stored for it at most.
REPEATED, SMALL_NBYTES = 4 * AGAIN, 1 << 18
# Whether two values are equal hangs on their last bits; who computes one of them again may get
# others (of a product that a sum takes in), and would not find the largest element.
EXACT = (equal, not_equal)


def stored_values(
    graph: Graph,
    roles: Mapping[Node, Role],
    units: Sequence[Unit],
    results: Iterable[Node],
    stored: Iterable[Node],
    overwrites: Mapping[Node, Node],
    whole: Container[Node],
) -> set[Node]:
    """The computed values that are written to memory; `overwrites` as in `plan`.

    Where a given array is taken, the nest that does so may compute values again from it, element
    by element; not from one of `whole`.
    """
    extra = set(stored)
    must: set[Node] = set(results)
    home: dict[Node, int] = {}
    crossing: dict[Node, set[int]] = {}
    times: dict[Node, float] = {}
    for number, unit in enumerate(units):
        if isinstance(unit, Nest):
            home.update(dict.fromkeys(unit.members, number))
        else:
            home[unit.root if isinstance(unit, Products) else unit.node] = number
    for number, unit in enumerate(units):
        if isinstance(unit, Products):
            must.add(unit.root)
            for term, _ in unit.terms:
                must.update(sources(term, roles, extra))
            for scalar in unit.scalars:
                must.update(needed(scalar, roles, extra))
        elif isinstance(unit, Alone):
            must.add(unit.node)
            must.update(sources_of(unit.operands, roles, extra))
        else:
            for member in unit.members:
                read = sources(member, roles, extra)
                compares = member.primitive in EXACT and len(read) > 1
                stores = compares or isinstance(member.primitive.kernel, Gather)
                for source in read:
                    if home.get(source, number) != number:
                        crossing.setdefault(source, set()).add(number)
                        again = _evaluations(unit, member, source, roles) / max(size_of(source), 1)
                        times[source] = max(times.get(source, 1.0), again)
                        if stores:
                            must.add(source)
    lost = {
        given: (home[result], home[result] + (given not in whole))
        for given, result in overwrites.items()
        if result in home
    }
    for node in graph.nodes:
        if node in crossing and node not in must:
            last = max(crossing[node])
            where = home, lost, last
            if not _again(node, roles, units[home[node]], must, extra, *where, times[node]):
                must.add(node)
    return {node for node in must if node in home}


def _evaluations(nest: Nest, member: Node, source: Node, roles: Mapping[Node, Role]) -> int:
    """At how many points the nest would compute the source to compute the member: at all, or once
    for each row.  That is nothing beside the columns of a long row."""
    pending = [(one, nest.where(member)) for one in member.inputs]
    while pending:
        node, where = pending.pop()
        if where is None or len(where) != node.ndim:
            continue
        if node is source:
            varies = any(any(one[1 + len(nest.rows) :]) for one in where)
            is_short = prod(nest.columns) <= LONGEST
            return prod(nest.domain) if varies else prod(nest.rows) * is_short
        if roles[node] is Role.MOVED:
            where = pulled(node, where, nest.domain)
        if roles[node] in TRANSPARENT:
            pending += [(one, where) for one in node.inputs]
    return 0


def _is_wider(one: Node, node: Node) -> bool:
    """Whether an array has more bytes than a value of floats that was rounded to fewer: it would be
    kept only for that."""
    more = prod(one.shape) * one.dtype.itemsize > prod(node.shape) * node.dtype.itemsize
    return more and dtype_kind(node.dtype) == "f" and one.dtype.itemsize > node.dtype.itemsize


def _again(
    node: Node,
    roles: Mapping[Node, Role],
    unit: Unit,
    must: set[Node],
    extra: set[Node],
    home: Container[Node],
    lost: Mapping[Node, tuple[int, int]],
    last: int,
    times: float,
) -> bool:
    """Whether other nests, up to the unit `last`, may compute the value again, each element up to
    so many times.

    What it needs of each row is then stored.  `home` has what units compute; `lost` says from
    which unit on a given array is not there: for a value that needs other elements than its own,
    and for one that does not.
    """
    if not isinstance(unit, Nest) or unit.members[node] is Level.TOTAL:
        return False
    points, cost, arrays = prod(node.shape), 0, 0
    elementwise = True  # so far
    seen: set[Node] = set()
    by_row: list[Node] = []
    pending = [node]
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        role = roles[one]
        if one is not node and role is Role.FOLD and prod(one.shape) < points:
            by_row.append(one)
            continue
        if one is not node and (one in must or role is Role.GIVEN):
            if one in lost and last >= lost[one][elementwise]:
                return False
            if role is not Role.GIVEN and points and _is_wider(one, node):
                return False
            arrays += prod(one.shape) >= points
            continue
        if one.primitive in EXACT:
            read = sources(one, roles, extra)
            again = [x for x in read if x in home and x not in must and roles[x] is not Role.FOLD]
            if len(read) > 1 and again:
                return False
        if one in extra or role not in (Role.MAP, Role.SCALAR, Role.MOVED, Role.GENERATED):
            return False
        if role in (Role.MAP, Role.SCALAR):
            cost += expression_cost(one)
        elementwise &= role is not Role.MOVED
        pending += one.inputs
    is_small = nbytes_of(node) <= SMALL_NBYTES
    if arrays > 1 or cost > AGAIN or (is_small and cost > CHEAP and cost * times > REPEATED):
        return False
    must.update(by_row)
    return True

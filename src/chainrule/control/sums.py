"""Adds up products of all iterations of a loop after it, many iterations at once.

The backward pass of a loop adds, in each iteration, a product to the gradient of each weight: few
rows each time, and all of the sum is read and written.  Here the loop stacks the factors instead,
and the product of the rows of many iterations is that of one matrix.  Iterations are taken in
blocks, of which each is one product: where the loop is done in segments, which hold whole blocks,
its sums have the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np

from chainrule.control.bodies import between, reached
from chainrule.control.kept import TYPICAL
from chainrule.control.loops import Loop
from chainrule.control.packing import in_parts, some_rows
from chainrule.control.scan_node import scan
from chainrule.control.scan_rules import loop_of, shown_carries
from chainrule.dataclass import dataclass, replace
from chainrule.graph.body import inner_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, stamp
from chainrule.graph.sizes import sizes as sizes_
from chainrule.graph.sizes.size_values import evaluate
from chainrule.graph.sizes.sizes import Size
from chainrule.plan.products.contraction import labels_of
from chainrule.primitives.arithmetic import add
from chainrule.primitives.movement import reshape, transpose
from chainrule.primitives.products import PRODUCTS, contract
from chainrule.primitives.sources import is_uniform

BLOCKS, LEAST_BLOCK = 8, 16  # of a loop at most; iterations of one
# Of a longer loop, a budget may have no room for the rows of a block, and its sums would differ.
MOST_ITERATIONS = 512
MOST_ROWS = 32  # that a product of one iteration sums: one of more is about as quick alone
LEAST_SIZE = 1024  # elements of a sum

Sizes = Mapping[str, int]


@dataclass(frozen=True, eq=False)
class Factor:
    """A value of an iteration, and the labels of its axes in a product."""

    value: Node
    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Product:
    """The contraction of two values of an iteration, and the labels of its axes."""

    x: Factor
    y: Factor
    axes: tuple[int, ...]


@dataclass(frozen=True)
class Sums:
    """Which sums are made after a loop: those of a dtype, `block` iterations at a time; 0: none."""

    dtype: np.dtype
    block: int | Size


def block_of(length: int | Size, sizes: Sizes) -> int | Size:
    """The iterations of a block; 0 where a loop is too short for blocks, or too long."""
    iterations = int(evaluate(length, sizes))
    if not 2 * LEAST_BLOCK <= iterations <= MOST_ITERATIONS:
        return 0
    return length // BLOCKS if iterations // BLOCKS > LEAST_BLOCK else LEAST_BLOCK


def bounds(length: int | Size, block: int | Size, sizes: Sizes) -> list[int | Size]:
    """Where blocks begin and end, counted as iterations are done.  The first one has what is left,
    too: at least as many iterations as the others, and fewer than twice as many."""
    others = int(evaluate(length, sizes)) // int(evaluate(block, sizes)) - 1
    return [0, *(length - k * block for k in range(others, -1, -1))]


def sums_of(loop: Loop, dtype: np.dtype, sizes: Sizes) -> dict[int, list[Product]]:
    """What is added to carries in each iteration that is better added after the loop, by the
    numbers of the carries.

    A sum of products of small matrices that both change from iteration to iteration; nothing in
    the loop reads it.
    """
    outputs = [*(one.after for one in loop.carries), *loop.stacked]
    nodes = between(loop.inner, outputs)
    uses = Counter([*outputs, *(parent for node in nodes for parent in node.inputs)])
    varying = reached(nodes, [*(c.before for c in loop.carries), *(s.inner for s in loop.slices)])
    found = {}
    for i, one in enumerate(loop.carries):
        if one.after.primitive is not add or uses[one.before] != 1 or one.before.dtype != dtype:
            continue
        if one.before not in one.after.inputs:
            continue
        pending, products = [one.after], []
        while pending:
            node = pending.pop()
            if node is one.before:
                continue
            if uses[node] == 1 and node.primitive is add:
                pending += node.inputs[::-1]
                continue
            product = _product(node, uses)
            if product is None or not _pays(product, node, varying, sizes):
                break
            products.append(product)
        else:
            found[i] = products
    return found


def _product(node: Node, uses: Mapping[Node, int]) -> Product | None:
    """The product that a node is, perhaps with its axes in another order."""
    order = tuple(range(node.ndim))
    while node.primitive is transpose and uses[node] == 1:
        order = tuple([node.param("permutation")[axis] for axis in order])
        node = node.inputs[0]
    if node.primitive not in PRODUCTS or uses[node] != 1:
        return None
    own, other, axes = labels_of(node)[:3]
    x, y = (_factor(*one) for one in zip(node.inputs, (own, other), strict=True))
    return Product(x, y, tuple([axes[axis] for axis in order]))


def _factor(value: Node, axes: Sequence[int]) -> Factor:
    """A value with these axes, or what it is the transpose of."""
    while value.primitive is transpose:
        places = value.param("permutation")
        axes = [axes[places.index(axis)] for axis in range(value.ndim)]
        value = value.inputs[0]
    return Factor(value, tuple(axes))


def _pays(product: Product, node: Node, varying: Collection[Node], sizes: Sizes) -> bool:
    """Whether the sum is moved more than the factors would be, and a product sums few rows."""
    factors = product.x, product.y
    if any(one.value not in varying or one.value.dtype != node.dtype for one in factors):
        return False
    size = int(evaluate(node.type.size, sizes))
    inner = set(product.x.axes) - set(product.axes)
    shape = dict(zip(product.x.axes, product.x.value.type.shape, strict=True))
    rows = int(evaluate(sizes_.product(tuple(shape[label] for label in inner)), sizes))
    moved = sum(int(evaluate(one.value.type.size, sizes)) for one in factors)
    return size >= LEAST_SIZE and rows <= MOST_ROWS and moved <= 2 * size


# The loop without its sums ----------------------------------------------------------------------


def run(
    loop: Loop,
    carries: Collection[int],
    stacked: Collection[int],
    after: Sums,
    sizes: Sizes = MappingProxyType({}),
) -> tuple[dict[int, Any], dict[int, Any]]:
    """As `Loop.run`, with these sums made after the loop."""
    sums = sums_of(loop, after.dtype, sizes) if evaluate(after.block, sizes) else {}
    sums = {i: products for i, products in sums.items() if i in carries}
    if not sums:
        return loop.run(scan, carries, stacked)
    factors = [one.value for several in sums.values() for p in several for one in (p.x, p.y)]
    rows = {one: _rows_given(loop, one) for one in dict.fromkeys(factors)}
    extra = [one for one, there in rows.items() if there is None and one not in loop.stacked]
    whole = replace(loop, stacked=(*loop.stacked, *extra))
    place_of = {one: whole.stacked.index(one) for one, there in rows.items() if there is None}
    others = [i for i in carries if i not in sums]
    finals, stacks = whole.run(scan, others, sorted({*stacked, *place_of.values()}))
    rows |= {one: stacks[place] for one, place in place_of.items()}
    for i, products in sums.items():
        total: Any = loop.carries[i].initial
        total = None if is_uniform(total) and total.param("value") == 0 else total
        for begin, end in pairwise(bounds(loop.length, after.block, sizes)):
            span = (loop.length - end, loop.length - begin) if loop.reverse else (begin, end)
            for product in products:
                part = _over(product, rows, *span)
                total = part if total is None else add(total, part)
        finals[i] = total
    return finals, {place: stacks[place] for place in stacked}


def _rows_given(loop: Loop, value: Node) -> Any:
    """The rows of a value of which the loop is given those of all iterations; None of others."""
    for one in loop.slices:
        if one.inner is value:
            return one.outer
    if value.primitive is reshape:
        rows = _rows_given(loop, value.inputs[0])
        return None if rows is None else reshape(rows, shape=(loop.length, *value.type.shape))
    return None


def _over(product: Product, rows: Mapping[Node, Any], start: int | Size, stop: int | Size) -> Any:
    """The sum of the products of these iterations."""
    label = max([*product.x.axes, *product.y.axes], default=0) + 1
    x, y = (some_rows(rows[one.value], start, stop) for one in (product.x, product.y))
    x_axes, y_axes = ((label, *one.axes) for one in (product.x, product.y))
    return contract(x, y, x_axes=x_axes, y_axes=y_axes, out_axes=product.axes)


def parts_after(node: Node, inputs: Sequence[Node], sizes: Sizes) -> list[Any] | None:
    """The parts of the flat result of a scan, of which sums are made after it; None where none
    are.  Loops that were made for blocks of large products are left as they are."""
    if node.primitive is not scan or node.param("body").note:
        return None
    block, loop = block_of(node.param("length"), sizes), loop_of(node, inputs)
    if not evaluate(block, sizes) or not sums_of(loop, node.dtype, sizes):
        return None
    shown, stacked = shown_carries(node, loop), range(len(loop.stacked))
    finals, rows = run(loop, shown, stacked, Sums(node.dtype, block), sizes)
    parts = [*(finals[i] for i in shown), *(rows[i] for i in stacked)]
    stamp(parts, node.origin)
    return parts


def summed(graph: Graph, sizes: Sizes) -> Graph:
    """The graph in which sums of products are made after their loops."""
    known = {name: sizes.get(name, TYPICAL) for name in graph.sizes}
    return in_parts(graph, lambda node, inputs, _: parts_after(node, inputs, known))[0]


def count_in_loops(graph: Graph) -> int:
    """How many sums of a graph, as it runs, are added up in loops that `sums_of` finds in them.

    More than in another form of the graph: then these have other last digits.
    """
    loops = [one for one in (*graph.nodes, *inner_nodes(graph)) if one.primitive is scan]
    sizes = dict.fromkeys(graph.sizes, TYPICAL)
    return sum(len(sums_of(loop_of(one, one.inputs), one.dtype, sizes)) for one in loops)

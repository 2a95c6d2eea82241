"""Finds products so large that they are not to be stored, and what is computed of them by rows.

The scores of attention, q k^T, have a number for each query and each key, and rows of them are
independent: softmax, masks and products with v take rows to rows, and the gradients of k and v are
sums over rows.  A region is a set of such nodes; what leaves it is small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from chainrule.control.cuts import Cut, operand_cuts, result_cut
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.plan.products.far_larger import LEAST_RATIO, is_far_larger
from chainrule.plan.roles import nbytes_of, size_of
from chainrule.primitives.movement import transpose
from chainrule.primitives.primitive import Contract, Move

# Of the bytes of such products to all that products with them read: layers of a network have less.
LEAST_GAIN = 2


@dataclass
class Region:
    """Values computed in blocks of rows: `squares`, and `rows`, which are small; by node the cut of
    each, and those of its operands.

    `leaving` are small values computed of them that the rest of the graph reads, in the order of
    the graph; of `summed` ones, by the numbers of the chosen axes over which they are sums.
    `lengths` are those of the chosen axes: of a stack's, and of rows, the last one.
    """

    lengths: tuple[int, ...]
    squares: set[Node] = field(default_factory=set)
    rows: set[Node] = field(default_factory=set)
    leaving: list[Node] = field(default_factory=list)
    cuts: dict[Node, Cut] = field(default_factory=dict)
    operands: dict[Node, list[Cut]] = field(default_factory=dict)
    summed: dict[Node, frozenset[int]] = field(default_factory=dict)
    levels: dict[Node, int] = field(default_factory=dict)

    @property
    def computed(self) -> set[Node]:
        """All of them."""
        return self.squares | self.rows | set(self.leaving)


def regions(graph: Graph, results: Sequence[Node]) -> Iterator[Region]:
    """The regions of a concrete graph, one after another."""
    order = topological(results)
    tried = set[tuple[int, ...]]()
    for seed in order:
        if is_far_larger(seed) and seed.shape not in tried:
            tried.add(seed.shape)
            for chosen in (range(seed.ndim - 1), (seed.ndim - 2,)):
                axes = tuple([axis for axis in chosen if seed.shape[axis] > 1])
                if seed.shape[seed.ndim - 2] > 1:
                    found = list(_Finder(order, set(results), seed, axes).regions())
                    yield from found
                    if found:
                        break


def _source(node: Node) -> Node:
    """What a node shows the elements of."""
    while isinstance(node.primitive.kernel, Move):
        (node,) = node.inputs
    return node


class _Finder:
    """Follows the axes of the products of one shape through the graph."""

    def __init__(
        self, order: Sequence[Node], results: set[Node], seed: Node, axes: tuple[int, ...]
    ) -> None:
        self.order, self.results, self.seed, self.axes = order, results, seed, axes
        self.lengths = tuple([seed.shape[axis] for axis in axes])
        self.users: dict[Node, list[Node]] = defaultdict(list)
        for node in order:
            for one in dict.fromkeys(node.inputs):
                self.users[one].append(node)
        self.all = Region(self.lengths)
        self.failed: set[Node] = set()
        self.owner: dict[Node, Node] = {}  # of a region: a tree of nodes, by the one above

    def regions(self) -> list[Region]:
        """Those of which nothing is read elsewhere but what is small."""
        leads = self._leading()
        for node in self.order:
            self._follow(node, leads)
        parts: dict[Node, Region] = defaultdict(lambda: Region(self.lengths))
        whole = self.all
        for node in self.order:
            if node in self.owner:
                part = parts[self._root(node)]
                if node in whole.squares:
                    part.squares.add(node)
                elif node in whole.rows:
                    part.rows.add(node)
                part.cuts[node], part.operands[node] = whole.cuts[node], whole.operands[node]
                part.summed[node] = whole.summed[node]
        failed = {self._root(node) for node in self.failed if node in self.owner}
        found = [one for root, one in parts.items() if root not in failed]
        return [one for one in found if self._completed(one)]

    def _leading(self) -> set[Node]:
        """The nodes that large values are computed of."""
        found = set[Node]()
        for node in reversed(self.order):
            if any(self._is_large(one) or one in found for one in self.users[node]):
                found.add(node)
        return found

    def _is_large(self, node: Node) -> bool:
        return size_of(node) >= size_of(self.seed)

    def _follow(self, node: Node, leads: set[Node]) -> None:
        """Puts the node into the region of its operands, if it belongs there."""
        whole = self.all
        inside = {i: one for i, one in enumerate(node.inputs) if one in whole.cuts}
        if node.primitive is transpose and inside and self._is_sum(node.inputs[0]):
            self._turn(node)
            return
        inside = {i: one for i, one in inside.items() if not self._is_sum(one)}
        squares = [one for one in inside.values() if one in whole.squares]
        large = self._is_large(node)
        is_product = isinstance(node.primitive.kernel, Contract)
        if not inside:
            if is_far_larger(node) and node.shape == self.seed.shape:
                self._add(node, self.axes, operand_cuts(node, self.axes), ())
                whole.squares.add(node)
            return
        if not squares and not large and (is_product or node not in leads):
            return
        known = {i: whole.cuts[one] for i, one in inside.items()}
        found = result_cut(node, known, len(self.lengths))
        if found is None:
            if squares or large:
                self.failed.update(inside.values())
            return
        cut, operands, summed = found
        if not squares and (summed or None in cut) and not large:
            return
        self._add(node, cut, operands, inside.values(), summed)
        if large and not summed:
            whole.squares.add(node)
        elif not is_product and not summed and node in leads and cut[-1] is not None:
            whole.rows.add(node)

    def _turn(self, node: Node) -> None:
        """A product that nothing reads but its transpose is computed as that."""
        (product,) = node.inputs
        whole = self.all
        alone = len(self.users[product]) == 1 and product not in self.results
        if alone and isinstance(product.primitive.kernel, Contract):
            order = node.param("permutation")
            cut = [None if axis is None else order.index(axis) for axis in whole.cuts[product]]
            self._add(node, tuple(cut), whole.operands[product], (product,), whole.summed[product])

    def _is_sum(self, node: Node) -> bool:
        """Whether it is computed of squares and no longer by rows."""
        return node not in self.all.squares and node not in self.all.rows

    def _add(
        self,
        node: Node,
        cut: Cut,
        operands: list[Cut] | None,
        inside: Iterable[Node],
        summed: frozenset[int] = frozenset(),
    ) -> None:
        self.owner[node] = node
        for one in inside:
            self.owner[self._root(one)] = self._root(node)
        if operands is None:
            self.failed.add(node)
            operands = []
        self.all.cuts[node], self.all.operands[node] = cut, operands
        self.all.summed[node] = summed

    def _root(self, node: Node) -> Node:
        while self.owner[node] is not node:
            node = self.owner[node]
        return node

    def _completed(self, region: Region) -> bool:
        """Whether what leaves it is small; notes that, and the levels."""
        computed = set(region.cuts)
        if region.squares & self.results:
            return False
        small = sum(nbytes_of(one) for one in computed - region.squares)
        if small * LEAST_RATIO > sum(map(nbytes_of, region.squares)):
            return False
        products = [one for one in computed if isinstance(one.primitive.kernel, Contract)]
        read = {_source(one) for node in products for one in node.inputs} - computed
        if LEAST_GAIN * sum(map(nbytes_of, read)) > max(map(nbytes_of, region.squares)):
            return False
        for node in self.order:
            if node not in computed:
                continue
            outside = [one for one in self.users[node] if one not in computed]
            # of another value of the region that is no longer by rows
            if self._is_sum(node):
                outside += [one for one in self.users[node] if one in computed]
                outside = [one for one in outside if not self._turned(one, computed)]
            if node in region.squares and outside:
                return False
            if node not in region.squares and (outside or node in self.results):
                region.leaving.append(node)
        region.levels = self._levels(region, computed)
        dtypes = {one.dtype for one in region.leaving}
        return bool(region.leaving) and len(dtypes) == 1

    def _turned(self, node: Node, computed: set[Node]) -> bool:
        """Whether it is computed as the transpose of a product."""
        return node in computed and node.primitive is transpose and self._is_sum(node.inputs[0])

    def _leaves(self, node: Node, user: Node, computed: set[Node]) -> bool:
        if self._turned(user, computed):
            return False
        return user not in computed or self._is_sum(node)

    def _levels(self, region: Region, computed: set[Node]) -> dict[Node, int]:
        """How often the way to each node leaves the region and comes back."""
        levels: dict[Node, int] = {}
        for node in self.order:
            before = [
                levels[one] + int(one in computed and self._leaves(one, node, computed))
                for one in node.inputs
            ]
            levels[node] = max(before, default=0)
        return levels

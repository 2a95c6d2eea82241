"""Computes products that are too large to store in blocks of rows, by loops.

A program for a run has the scores of attention in no memory: a loop computes them for some rows,
and what leaves the region (`squares`) of these rows; another one, where gradients come back,
computes them again.  What is small for each row (maxima, sums) is kept in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from chainrule.control.cuts import Cut, operand_cuts, piece_of, turned_product
from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.packing import zeros_like
from chainrule.control.scan_node import scan
from chainrule.control.scan_rules import variable
from chainrule.control.squares import Region, regions
from chainrule.dataclass import dataclass
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, stamp, topological
from chainrule.graph.rebuild import substituted
from chainrule.graph.types import array_type
from chainrule.plan.roles import WORTH_COMPILING, nbytes_of, size_of
from chainrule.primitives import primitive as P
from chainrule.primitives.affine import row_major
from chainrule.primitives.arithmetic import add, multiply
from chainrule.primitives.movement import broadcast_to, concatenate, reshape, slice_, transpose
from chainrule.primitives.sources import full_like, iota, is_uniform

BLOCK_NBYTES = 1 << 20  # of one product: it stays in the second-level caches of two threads
GRAIN = 16  # a block has a multiple of so many rows

Key = tuple[Node, Cut]


def blocked(graph: Graph, results: Sequence[Node]) -> Graph:
    """The graph in which large products are computed in blocks, as far as `results` need them."""
    while True:
        region = next(regions(graph, results), None)
        if region is None:
            return graph
        graph, new = _rewritten(graph, results, region)
        results = [new.get(node, node) for node in results]


def _rewritten(
    graph: Graph, results: Sequence[Node], region: Region
) -> tuple[Graph, dict[Node, Node]]:
    """The graph with loops in place of a region, and what nodes have become."""
    bodies = _bodies(graph, region)
    of_node = {node: body for body in bodies for node in body.outputs}
    new: dict[Node, Node] = {}
    pending = list(results)
    while pending:
        node = pending[-1]
        if node in new:
            pending.pop()
            continue
        body = of_node.get(node)
        needed = node.inputs if body is None else [one for one, _ in body.given]
        missing = [one for one in needed if one not in new]
        if missing:
            pending += missing
        elif body is None:
            pending.pop()
            inputs = tuple([new[one] for one in node.inputs])
            new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
        else:
            new.update(body.run({key: new[key[0]] for key in body.given}))
    # what no result needs stays, where it does not rest on the region
    needed_before = set(topological(results))
    for node in graph.nodes:
        is_free = node not in needed_before or isinstance(node.primitive.kernel, P.Given)
        if node not in new and is_free and all(one in new for one in node.inputs):
            inputs = tuple([new[one] for one in node.inputs])
            new[node] = node if inputs == node.inputs else node.with_inputs(inputs)
    kept = [new[node] for node in graph.nodes if node in new]
    return substituted(graph, new, tuple(topological(kept))), new


@dataclass(frozen=True, eq=False)
class _Body:
    """What a loop over blocks computes: its outputs, what it is given for that, and in between."""

    region: Region
    outputs: tuple[Node, ...]
    given: tuple[Key, ...]
    steps: tuple[tuple[Key, tuple[Key, ...]], ...]
    names: Mapping[Node, str]
    is_again: bool = False

    @property
    def name(self) -> str:
        """That of the loop."""
        shown = [name for name in self._shown() if name.isidentifier()]
        return f"blocks_of_{shown[0]}" if shown else "blocks"

    @property
    def note(self) -> str:
        """`s, p in 64 blocks of 64 rows, never whole in memory`."""
        shown = self._shown()
        what = ", ".join(shown) if shown else str(next(iter(self.region.squares)).type)
        count = -(-self.region.lengths[-1] // self.block)
        each = f" for each of {prod(self.region.lengths[:-1])}" if self._stack else ""
        again = "; computed again" if self.is_again else ""
        return f"{what} in {count} blocks of {self.block} rows{each}, never whole in memory{again}"

    def _shown(self) -> list[str]:
        computed = [node for (node, _), _ in self.steps if node in self.region.squares]
        return [self.names[node] for node in computed if node in self.names]

    @property
    def _stack(self) -> int:
        """How many matrices there are, if more than one."""
        found = prod(self.region.lengths[:-1])
        return found if found > 1 else 0

    def run(self, outer: Mapping[Key, Node]) -> dict[Node, Node]:
        """The nodes of the outputs, from those of what it is given."""
        lengths = self.region.lengths
        found = self._over(tuple(range(len(lengths))), dict(outer), list(lengths))
        origin = next(iter(self.region.squares)).origin
        stamp(found, origin)
        return dict(zip(self.outputs, found, strict=True))

    @property
    def block(self) -> int:
        """How many rows a block has."""
        rows = self.region.lengths[-1]
        stack = prod(self.region.lengths[:-1])
        squares = [node for (node, _), _ in self.steps if node in self.region.squares]
        row_nbytes = max(nbytes_of(node) for node in squares) // (stack * rows)
        most = max(GRAIN, BLOCK_NBYTES // row_nbytes // GRAIN * GRAIN)
        if most >= rows:
            return rows
        even = [one for one in range(most, most // 2, -GRAIN) if rows % one == 0]
        return even[0] if even else most

    def _over(
        self, axes: tuple[int, ...], values: Mapping[Key, Node], lengths: list[int]
    ) -> list[Any]:
        """The outputs, by loops over these chosen axes; others have a block's length."""
        if not axes:
            return self._computed(values, lengths)
        number, *rest = axes
        whole = lengths[number]
        block = self.block if number == len(self.region.lengths) - 1 else 1
        count = whole // block
        parts: list[tuple[int, list[Any]]] = []  # of the axis: how long, and the outputs there
        start = 0
        if count >= WORTH_COMPILING:
            parts.append((count * block, self._scanned(axes, values, lengths, block)))
            start = count * block
        while start < whole:
            length = min(block, whole - start)
            some = {
                key: _sliced(value, key[1][number], start, length) for key, value in values.items()
            }
            shorter = [*lengths[:number], length, *lengths[number + 1 :]]
            parts.append((length, self._over(tuple(rest), some, shorter)))
            start += length
        return [
            _together([found[place] for _, found in parts], self._axis(node, number))
            for place, node in enumerate(self.outputs)
        ]

    def _axis(self, output: Node, number: int) -> int | None:
        """Where an output has a chosen axis; None where it is a sum over it."""
        if number in self.region.summed[output]:
            return None
        return self.region.cuts[output][number]

    def _scanned(
        self, axes: tuple[int, ...], values: Mapping[Key, Node], lengths: list[int], block: int
    ) -> list[Any]:
        """The outputs for all whole blocks along the first of the axes, by one loop."""
        number, *rest = axes
        count = lengths[number] // block
        constants, slices = [], []
        inner: dict[Key, Node] = {}
        for key, value in values.items():
            axis = key[1][number]
            name = self.names.get(key[0], "x")
            if axis is None:
                inner[key] = variable(value)
                constants.append(Given(name, value, inner[key]))
                continue
            rows = _stacked(value, axis, count, block)
            inner[key] = variable(_sliced(value, axis, 0, block))
            slices.append(Given(name, rows, inner[key]))
        shorter = [*lengths[:number], block, *lengths[number + 1 :]]
        outputs = self._over(tuple(rest), inner, shorter)
        carries, stacked = [], []
        for node, one in zip(self.outputs, outputs, strict=True):
            if self._axis(node, number) is None:
                before = variable(one)
                name = self.names.get(node, "sum")
                carries.append(Carry(name, zeros_like(one), before, add(before, one)))
            else:
                stacked.append(one)
        loop = Loop(
            self.name,
            tuple(constants),
            tuple(carries),
            tuple(slices),
            tuple(stacked),
            count,
            False,
            note=self.note,
        )
        finals, found = loop.run(scan, range(len(carries)), range(len(stacked)))
        sums, rows_ = iter(finals.values()), iter(found.values())
        return [
            next(sums) if axis is None else _unstacked(next(rows_), axis)
            for axis in [self._axis(node, number) for node in self.outputs]
        ]

    def _computed(self, values: Mapping[Key, Node], lengths: Sequence[int]) -> list[Any]:
        """The outputs of one block."""
        found = dict(values)
        for (node, cut), operands in self.steps:
            pieces = tuple([found[key] for key in operands])
            made = turned_product(node) if _is_turned(node, self.region) else node
            found[node, cut] = piece_of(made, cut, lengths, pieces)
        return [found[node, self.region.cuts[node]] for node in self.outputs]


def _bodies(graph: Graph, region: Region) -> list[_Body]:
    """The loops of a region, one for each level; each keeps the rows that later ones read."""
    names = graph.name_of
    by_level: dict[int, list[Node]] = {}
    for node in region.leaving:
        by_level.setdefault(region.levels[node], []).append(node)
    (dtype,) = {node.dtype for node in region.leaving}
    found: list[_Body] = []
    for level in sorted(by_level, reverse=True):
        outputs = tuple(dict.fromkeys(by_level[level]))
        given: dict[Key, None] = {}
        places: dict[Node, Node] = {}
        steps: dict[Key, tuple[Key, ...]] = {}
        pending = [(node, region.cuts[node]) for node in outputs]
        while pending:
            key = pending[-1]
            node, cut = key
            if key in steps or key in given:
                pending.pop()
                continue
            operands = _operands(region, node, cut, level, outputs)
            is_kept = node in region.rows and region.levels[node] < level and node.dtype == dtype
            if is_kept or operands is None:
                pending.pop()
                given[key] = None
                earlier = by_level.setdefault(region.levels[node], []) if is_kept else [node]
                if node not in earlier:
                    earlier.append(node)
                continue
            operands = [(_by_axes(one, places), cut) for one, cut in operands]
            missing = [one for one in operands if one not in steps and one not in given]
            if missing:
                pending += missing
            else:
                pending.pop()
                steps[key] = tuple(operands)
        again = any(region.levels[node] < level for node, _ in steps if node in region.squares)
        found.append(_Body(region, outputs, tuple(given), tuple(steps.items()), names, again))
    return found


def _is_turned(node: Node, region: Region) -> bool:
    """Whether it is the transpose of a product that nothing else reads."""
    return node in region.leaving and node.primitive is transpose


def _operands(
    region: Region, node: Node, cut: Cut, level: int, outputs: Sequence[Node]
) -> list[Key] | None:
    """What a piece of a node is computed of in a block; None where the loop is given it."""
    inside = node in region.squares or node in region.rows or node in outputs
    if inside and cut == region.cuts[node]:
        made = node.inputs[0] if _is_turned(node, region) else node
        return list(zip(made.inputs, region.operands[made], strict=True))
    if is_uniform(node):
        return []
    square = max(map(size_of, region.squares))
    kernel = node.primitive.kernel
    if isinstance(kernel, P.Given) or (size_of(node) < square and not isinstance(kernel, P.Move)):
        return None
    cuts = operand_cuts(node, cut)
    return None if cuts is None else list(zip(node.inputs, cuts, strict=True))


def _by_axes(node: Node, known: dict[Node, Node]) -> Node:
    """Positions in the order of memory (counters of random numbers) as a sum of those along each
    axis, so that blocks count their own; other nodes as they are."""
    if node.primitive is not reshape or node.inputs[0].primitive is not iota or node.ndim < 2:
        return node
    if node not in known:
        total: Any = None
        for axis, (size, stride) in enumerate(zip(node.shape, row_major(node.shape), strict=True)):
            one: Any = iota(type=array_type(node.dtype, (size,)))
            if stride != 1:
                one = multiply(one, full_like(one, stride))
            shape = [size if at == axis else 1 for at in range(node.ndim)]
            one = broadcast_to(reshape(one, shape=tuple(shape)), shape=node.shape)
            total = one if total is None else add(total, one)
        stamp([total], node.origin)
        known[node] = total
    return known[node]


# Pieces along an axis ----------------------------------------------------------------------------


def _sliced(value: Any, axis: int | None, start: int, length: int) -> Any:
    """So many elements of an axis."""
    if axis is None or length == value.shape[axis]:
        return value
    begin, shape = [0] * value.ndim, list(value.shape)
    begin[axis], shape[axis] = start, length
    return slice_(value, start=tuple(begin), step=(1,) * value.ndim, shape=tuple(shape))


def _stacked(value: Any, axis: int, count: int, block: int) -> Any:
    """Blocks along an axis, one after another along a new first one."""
    value = _sliced(value, axis, 0, count * block)
    shape = value.shape
    value = reshape(value, shape=(*shape[:axis], count, block, *shape[axis + 1 :]))
    return _moved(value, axis, 0)


def _unstacked(rows: Any, axis: int) -> Any:
    """What `_stacked` has taken apart."""
    count, *shape = rows.shape
    shape[axis] *= count
    return reshape(_moved(rows, 0, axis), shape=tuple(shape))


def _moved(value: Any, source: int, into: int) -> Any:
    order = [axis for axis in range(value.ndim) if axis != source]
    order.insert(into, source)
    if order == sorted(order):
        return value
    return transpose(value, permutation=tuple(order))


def _together(parts: list[Any], axis: int | None) -> Any:
    """Parts along an axis put together; None: their sum."""
    if axis is not None:
        return parts[0] if len(parts) == 1 else concatenate(*parts, axis=axis)
    total = parts[0]
    for one in parts[1:]:
        total = add(total, one)
    return total

"""The reference executor's storage as a schedule: every value an array of its own, or a view.

What NumPy makes of a node depends on how its operands lie in memory: a reshape is a view or a
copy, and a sum of transposed arrays is transposed, too.  So each value is followed as an *outline*:
an array that is right in dtype, shape and strides, and has no memory behind it, so that it costs
nothing at any size.  Inputs and constants count as arrays in C order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
from numpy.lib.stride_tricks import as_strided

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.plan.layout import whole
from chainrule.plan.schedule import (
    SCRATCH,
    Buffer,
    Compute,
    Free,
    Instruction,
    Schedule,
    View,
    aligned,
)
from chainrule.plan.virtual import shows_its_input
from chainrule.primitives.primitive import VIEWS, Contract, Gather, Library
from chainrule.primitives.sources import is_uniform


def plain_schedule(graph: Graph, results: Sequence[Node]) -> Schedule:
    """What `run.reference.evaluate(graph, inputs, results)` does, for a concrete graph.

    One Compute for each needed node that gets an array, in the order of the graph; a result that
    is a view gets one, too, for its copy.  Every array is a place of its own: no two ever share
    bytes.  Workspaces are the scratch that primitives declare.  Results that are given are copied
    before the first instruction; the schedule does not show these copies.
    """
    return _Plain(graph, results).schedule()


class _Plain:
    """The needed nodes in order; their outlines; and whose bytes they are (uniform: nobody's)."""

    def __init__(self, graph: Graph, results: Sequence[Node]) -> None:
        needed = set(topological(results))
        self.graph, self.results = graph, dict.fromkeys(results)
        self.order = [node for node in graph.nodes if node in needed]
        self.given = dict.fromkeys(item.node for item in graph.inputs)
        self.outlines: dict[Node, np.ndarray] = {}
        self.owners: dict[Node, Node] = {}
        self.scratch_nbytes = 0
        self.numbers = count()
        for node in self.order:
            self.follow(node)

    def follow(self, node: Node) -> None:
        """The outline of a node, from those of its inputs."""
        if node.primitive.kernel == Library("argument"):
            self.given[node] = None
        elif is_uniform(node):
            self.outlines[node] = node.primitive.evaluate(np, **dict(node.params))
            return
        elif shows_its_input(node.primitive):
            (source,) = node.inputs
            try:
                view = node.primitive.evaluate(VIEWS, self.outlines[source], **dict(node.params))
            except ValueError:  # a reshape that copies
                pass
            else:
                self.outlines[node] = view
                if source in self.owners:
                    self.owners[node] = self.owners[source]
                return
        self.owners[node] = node
        self.outlines[node] = _outline(node, [self.outlines[one] for one in node.inputs])

    def schedule(self) -> Schedule:
        """The records for all nodes in order."""
        ends = {
            self.owners[one]: node
            for node in self.order
            for one in (node, *node.inputs)
            if one in self.owners
        }
        instructions: list[Instruction] = []
        for node in self.order:
            instructions += self.instructions(node)
            owners = dict.fromkeys(self.owners.get(one) for one in (*node.inputs, node))
            instructions += [
                Free(one)
                for one in owners
                if one and ends[one] is node and one not in self.given and one not in self.results
            ]
        given = {
            node: Buffer(f"given {place}", 0, int(node.type.nbytes))
            for place, node in enumerate(self.given)
        }
        results, scratch = tuple(self.results), self.scratch_nbytes
        return Schedule(self.graph, tuple(instructions), given, results, scratch_nbytes=scratch)

    def instructions(self, node: Node) -> Iterator[Instruction]:
        """The Compute or the View of a node; nothing for one that is given or uniform."""
        owner = self.owners.get(node)
        if node in self.given or (owner is None and node not in self.results):
            return
        if owner is node or node in self.results:
            read = (node,) if owner is not node else node.inputs
            workspace = 0
            if owner is node:
                operands = [self.outlines[one] for one in node.inputs]
                workspace = node.primitive.scratch(node, *operands)
            yield Compute(
                nodes=(node,),
                into=(self.buffer(node),),
                reads=tuple(dict.fromkeys(self.owners[one] for one in read if one in self.owners)),
                workspace=self.scratch(workspace) if workspace else None,
                fails=isinstance(node.primitive.kernel, Gather),
                label=node.primitive.name,
            )
        elif owner is not None and node.type.size and self.outlines[owner].flags.c_contiguous:
            # of another order the simulator knows nothing; it sees through the view by itself
            view, base = self.outlines[node], self.outlines[owner]
            yield View(node, owner, _address(view) - _address(base), view.strides)

    def buffer(self, node: Node) -> Buffer:
        """A new place for a value: the array of a result, or in scratch."""
        nbytes = int(node.type.nbytes)
        if node in self.results:
            return Buffer(f"result {next(self.numbers)}", 0, nbytes)
        return self.scratch(nbytes)

    def scratch(self, nbytes: int) -> Buffer:
        """New bytes of scratch."""
        offset = self.scratch_nbytes
        self.scratch_nbytes += aligned(nbytes)
        return Buffer(SCRATCH, offset, nbytes)


def _outline(node: Node, operands: list[np.ndarray]) -> np.ndarray:
    """The outline of an array that the node's evaluation makes."""
    if _in_c_order(node, operands):
        return _without_memory(node.shape, node.dtype, whole(node).strides)
    with np.errstate(all="ignore"):
        small = node.primitive.evaluate(np, *map(_miniature, operands), **dict(node.params))
    strides, step = [0] * node.ndim, node.dtype.itemsize
    for axis in _from_the_innermost(np.asarray(small)):
        strides[axis] = step
        step *= node.shape[axis]
    return _without_memory(node.shape, node.dtype, tuple(strides))


def _in_c_order(node: Node, operands: list[np.ndarray]) -> bool:
    """Whether the result is in C order for a reason that can be seen without a trial.

    What is told a shape fills it, or copies into it; one axis has one order.
    """
    if node.ndim < 2 or "shape" in dict(node.params):
        return True
    return not isinstance(node.primitive.kernel, Contract) and all(
        one.flags.c_contiguous for one in operands
    )


def _miniature(outline: np.ndarray) -> np.ndarray:
    """An array of zeros in the same order in memory, with lengths of at most 2."""
    shape = [min(length, 2) for length in outline.shape]
    strides, step, start = [0] * outline.ndim, outline.itemsize, 0
    contiguous = outline.itemsize  # of the next axis, if there is no gap before it
    for axis in _from_the_innermost(outline):
        stride = outline.strides[axis]
        if shape[axis] < 2 or not stride:
            continue
        step *= 1 if abs(stride) == contiguous else 2
        contiguous = abs(stride) * outline.shape[axis]
        strides[axis] = step if stride > 0 else -step
        start += step if stride < 0 else 0
        step *= 2
    memory = np.zeros(step // outline.itemsize + 1, outline.dtype)
    return as_strided(memory[start // outline.itemsize :], shape, strides)


def _from_the_innermost(array: np.ndarray) -> list[int]:
    """The axes from the smallest stride to the largest; of two that are equal the last first."""
    axes = range(array.ndim - 1, -1, -1)
    return sorted(axes, key=lambda axis: abs(array.strides[axis]) if array.shape[axis] > 1 else 0)


def _without_memory(
    shape: tuple[int, ...], dtype: np.dtype, strides: tuple[int, ...]
) -> np.ndarray:
    """An array that must not be read."""
    return as_strided(np.empty(1, dtype), shape, strides)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]

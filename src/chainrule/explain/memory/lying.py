"""Predicts which arguments an executor or NumPy copies because of their memory layout.

Reports count arguments as arrays in C order where nothing else is said.  Compiled code reads such
arrays alone, so others are copied for as long as a call takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from chainrule.dataclass import dataclass, replace
from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.structure import flatten
from chainrule.nearest import perhaps
from chainrule.schedule.in_numpy import without_memory

Layout = str | Mapping[str, "str | np.ndarray | Mapping | list | tuple"]
ORDERS = ("C", "F")


@dataclass(frozen=True)
class Lying:
    """How an array lies: `axes` from the outermost to the innermost in memory, those in which
    elements repeat, and whether there are gaps.  `shape` and `strides` are those of an example;
    None without one.  `swapped`: of the other byte order; `aligned`: elements at natural places.
    """

    axes: tuple[int, ...]
    repeated: frozenset[int] = frozenset()
    gaps: bool = False
    shape: tuple[int, ...] | None = None
    strides: tuple[int, ...] = ()
    swapped: bool = False
    aligned: bool = True

    def outline(self, node: Node) -> np.ndarray:
        """An array of the node's type that lies so, and must not be read."""
        if node.shape == self.shape:
            return without_memory(node.shape, node.dtype, self.strides)
        found, step = [0] * node.ndim, node.dtype.itemsize * (1 + self.gaps)
        for axis in reversed(self.axes):
            if axis not in self.repeated:
                found[axis] = step
                step *= node.shape[axis]
        return without_memory(node.shape, node.dtype, tuple(found))

    def copies(self, node: Node, *, c_order_only: bool) -> int:
        """How many arrays a call makes of it: one of the machine's byte order, and one in C order
        where an executor reads no other."""
        plain = self.aligned or self.swapped
        plain = plain and self.outline(node).flags.c_contiguous
        return self.swapped + (c_order_only and not plain)

    def part(self, whole: Node, axis: int, length: int) -> Lying:
        """How a part of `whole` lies that has this length along an axis."""
        one = self.outline(whole)
        lies = one[(slice(None),) * axis + (slice(length),)]
        dense = np.transpose(lies, self.axes).flags.c_contiguous
        return replace(
            self,
            gaps=not dense and not self.repeated,
            shape=lies.shape,
            strides=lies.strides,
            swapped=False,
        )


def of_array(array: np.ndarray) -> Lying:
    """How an array lies."""
    axes = tuple(sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis])))
    if not array.dtype.isnative:  # NumPy's copy is dense
        return Lying(axes, swapped=True)
    repeated = {k for k, stride in enumerate(array.strides) if not stride and array.shape[k] > 1}
    dense = np.transpose(array, axes).flags.c_contiguous
    return Lying(
        axes,
        repeated=frozenset(repeated),
        gaps=not dense and not repeated,
        shape=array.shape,
        strides=array.strides,
        aligned=array.flags.aligned,
    )


def lying_of(
    graph: Graph, layout: Layout | None, given: Collection[str] | None = None
) -> dict[str, Lying]:
    """How each input lies of which `layout` says something: "C" or "F" for all, or by name (of an
    input, or of the container that it is in), also as an array that lies so.

    `given` are the inputs that a call is given (default: all).  InputError for other names, and
    for what is no layout.
    """
    known = [item for item in graph.inputs if given is None or item.name in given]
    ranks = {item.name: item.type.ndim for item in known}
    if layout is None or isinstance(layout, str):
        layout = {} if layout is None else {name: layout for name in ranks}
    if not isinstance(layout, Mapping):
        raise InputError(
            f"layout={layout!r} is not a memory layout",
            hint=f'"C", "F", or layouts by name: layout={{{next(iter(ranks), "x")!r}: "F"}}',
        )
    found: dict[str, Lying] = {}
    for name, value in layout.items():
        structure = graph.structures.get(name)
        leaves = [name] if structure is None else structure.leaf_names
        if not set(leaves) <= set(ranks):
            raise InputError(
                f"layout says how {name} lies, which is no array that a call is given",
                hint=f"{perhaps(name, list(ranks))}one of: {', '.join(ranks)}",
            )
        parts = [value] * len(leaves) if isinstance(value, str) else flatten(value, name)[0]
        for leaf, part in zip(leaves, parts, strict=True):
            found[leaf] = _lying(leaf, part, ranks[leaf])
    return found


def _lying(name: str, value: object, rank: int) -> Lying:
    if isinstance(value, str) and value in ORDERS:
        axes = range(rank) if value == "C" else reversed(range(rank))
        return Lying(tuple(axes))
    if isinstance(value, np.ndarray) and value.ndim == rank:
        return of_array(value)
    raise InputError(
        f"layout says that {name}, an array of {rank} axes, lies as {value!r}",
        hint='"C", "F", or an array that lies as the argument will',
    )

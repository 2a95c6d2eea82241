"""np.einsum as sums, transposes and contractions of two arrays at a time, left to right."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from chainrule.errors import ShapeError, UnsupportedError
from chainrule.frontend.elementwise import as_node, kind_of, resolve, to_dtype
from chainrule.frontend.trace import Trace
from chainrule.graph.node import Node
from chainrule.primitives.indexing import gather
from chainrule.primitives.movement import transpose
from chainrule.primitives.products import contract
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import positions

Labels = tuple[str, ...]


def einsum(trace: Trace, subscripts: Any, *operands: Any) -> Node:
    """np.einsum with a subscripts string, for example "bij,bjk->bik" or "ii->" or "...i,i"."""
    if not isinstance(subscripts, str):
        raise UnsupportedError(
            "np.einsum is traced with a subscripts string only",
            where=trace.where(),
            hint='write np.einsum("ij,jk->ik", x, y)',
        )
    nodes = [as_node(trace, operand) for operand in operands]
    inputs, output = parse(trace, subscripts, [node.ndim for node in nodes])
    dtype = _dtype(nodes)
    terms: list[tuple[Node, Labels]] = []
    for node, labels in zip(nodes, inputs, strict=True):
        terms.append(_diagonal(trace, to_dtype(trace, node, dtype), labels))
    _check_sizes(trace, subscripts, terms)
    while len(terms) > 1:
        later = set(output).union(*(labels for _, labels in terms[2:]))
        terms[:2] = [_pair(trace, terms[0], terms[1], later)]
    node, labels = _sum_out(trace, *terms[0], set(output))
    order = tuple(labels.index(label) for label in output)
    if order != tuple(range(len(order))):
        node = trace.build(transpose, node, permutation=order)
    return node


def _dtype(nodes: list[Node]) -> np.dtype:
    dtype = nodes[0].type.dtype
    for node in nodes[1:]:
        found = resolve(np.multiply, (dtype, kind_of(node)))
        dtype = found[0] if found else dtype
    return dtype


def parse(trace: Trace, subscripts: str, ndims: list[int]) -> tuple[list[Labels], Labels]:
    """The axis labels of each operand and of the result; an ellipsis becomes labels of its own."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    parts = left.split(",")

    def refuse(why: str) -> ShapeError:
        return ShapeError(
            f"np.einsum({subscripts!r}): {why}",
            where=trace.where(),
            hint="one letter for each axis, commas between operands, -> before the result",
        )

    if len(parts) != len(ndims):
        raise refuse(f"{len(parts)} operands are described, {len(ndims)} are given")
    inputs, widest = [], 0
    for part, ndim in zip(parts, ndims, strict=True):
        before, dots, after = part.partition("...")
        letters = len(before) + len(after)
        if not set(before + after) <= set(string.ascii_letters):
            raise refuse(f"{part!r} has characters that are no letters")
        if letters > ndim or (not dots and letters != ndim):
            raise refuse(f"{part!r} has {letters} axes, its operand {ndim}")
        extra = ndim - letters
        widest = max(widest, extra)
        inputs.append((*before, *(f"...{i}" for i in range(extra, 0, -1)), *after))
    ellipsis = tuple(f"...{i}" for i in range(widest, 0, -1))
    if arrow:
        before, dots, after = right.partition("...")
        output: Labels = (*before, *(ellipsis if dots else ()), *after)
    else:
        letters = [label for labels in inputs for label in labels if not label.startswith("...")]
        output = (*ellipsis, *sorted(label for label in set(letters) if letters.count(label) == 1))
    known = {label for labels in inputs for label in labels}
    if len(set(output)) != len(output) or not set(output) <= known:
        raise refuse(f"the result {right!r} repeats a letter or has one that no operand has")
    return inputs, output


def _check_sizes(trace: Trace, subscripts: str, terms: list[tuple[Node, Labels]]) -> None:
    found: dict[str, Any] = {}
    for node, labels in terms:
        for label, size in zip(labels, node.type.shape, strict=True):
            if found.setdefault(label, size) != size:
                raise ShapeError(
                    f"np.einsum({subscripts!r}): axis {label} is {found[label]} and {size} long "
                    f"({trace.show(node)})",
                    where=trace.where(),
                    hint="an axis with one letter has one size",
                )


def _diagonal(trace: Trace, node: Node, labels: Labels) -> tuple[Node, Labels]:
    """Repeated letters of one operand: its diagonal."""
    while len(set(labels)) != len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        one = labels.index(label)
        two = labels.index(label, one + 1)
        if node.type.shape[one] != node.type.shape[two]:
            raise ShapeError(
                f"np.einsum: the axes called {label!r} of {trace.show(node)} differ",
                where=trace.where(),
                hint="a letter that an operand repeats takes its diagonal",
            )
        rest = [axis for axis in range(len(labels)) if axis not in (one, two)]
        node = trace.build(transpose, node, permutation=(one, two, *rest))
        line = positions(node.type.shape[0], np.dtype(np.int64))
        line = trace.build(line.primitive, **dict(line.params))
        node = trace.build(gather, node, line, line, wrap=True)
        labels = (label, *(labels[axis] for axis in rest))
    return node, labels


def _sum_out(trace: Trace, node: Node, labels: Labels, keep: set[str]) -> tuple[Node, Labels]:
    axes = tuple(axis for axis, label in enumerate(labels) if label not in keep)
    if not axes:
        return node, labels
    return trace.build(sum_, node, axes=axes), tuple(label for label in labels if label in keep)


def _pair(
    trace: Trace, left: tuple[Node, Labels], right: tuple[Node, Labels], later: set[str]
) -> tuple[Node, Labels]:
    """Two operands as one: axes that nothing else needs are summed."""
    x, x_labels = _sum_out(trace, *left, later | set(right[1]))
    y, y_labels = _sum_out(trace, *right, later | set(left[1]))
    numbers = {label: i for i, label in enumerate(dict.fromkeys((*x_labels, *y_labels)))}
    out = tuple(label for label in numbers if label in later)
    node = trace.build(
        contract,
        x,
        y,
        x_axes=tuple(numbers[label] for label in x_labels),
        y_axes=tuple(numbers[label] for label in y_labels),
        out_axes=tuple(numbers[label] for label in out),
    )
    return node, out

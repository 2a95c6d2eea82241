"""Writes np.einsum as sums, transposes and contractions of two arrays at a time."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from chainrule.errors import InputError, ShapeError
from chainrule.frontend.functions.elementwise import as_node, resolve, to_dtype
from chainrule.frontend.trace import Trace
from chainrule.graph.node import Node
from chainrule.graph.sizes import size_values, sizes
from chainrule.primitives.indexing import gather
from chainrule.primitives.movement import reshape, transpose
from chainrule.primitives.products import contract
from chainrule.primitives.reduce import sum_
from chainrule.primitives.sources import positions

Labels = tuple[str, ...]
Term = tuple[Node, Labels]

LETTERS = string.ascii_uppercase + string.ascii_lowercase  # of the labels 0 to 51, in their order
TYPICAL = 64  # what a named size counts for where an order of contractions is chosen


def einsum(trace: Trace, subscripts: Any, *operands: Any, optimize: Any = False) -> Node:
    """np.einsum, with subscripts ("bij,bjk->bik", "ii->", "...i,i") or lists of axes.

    Two operands at a time: from left to right, or in the order that np.einsum_path finds for
    `optimize` (of a named size it takes 64 elements).
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _as_subscripts(trace, (subscripts, *operands))
    arrays = [np.asarray(one) if isinstance(one, (bool, int, float)) else one for one in operands]
    nodes = [as_node(trace, array) for array in arrays]
    inputs, output = parse(trace, subscripts, [node.ndim for node in nodes])
    dtype = _dtype(nodes)
    terms: list[Term] = []
    for node, labels in zip(nodes, inputs, strict=True):
        terms.append(_diagonal(trace, to_dtype(trace, node, dtype), labels))
    terms = _broadcast(trace, subscripts, terms)
    path = _path(terms, output, optimize) if optimize and len(terms) > 2 else []
    while len(terms) > 1:
        chosen = path.pop(0) if path else (0, 1)
        taken = [terms[place] for place in chosen]
        rest = [term for place, term in enumerate(terms) if place not in chosen]
        made = taken.pop(0)
        while taken:
            second = taken.pop(0)
            later = set(output).union(*(labels for _, labels in (*taken, *rest)))
            made = _pair(trace, made, second, later)
        terms = [*rest, made] if optimize else [made, *rest]
    node, labels = _sum_out(trace, *terms[0], set(output))
    order = tuple(labels.index(label) for label in output)
    if order != tuple(range(len(order))):
        node = trace.build(transpose, node, permutation=order)
    return node


def _as_subscripts(trace: Trace, given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The call with lists of axes as one with subscripts."""
    operands, lists = given[: len(given) // 2 * 2 : 2], given[1::2]
    texts = [_subscript(trace, axes) for axes in lists]
    arrow = f"->{_subscript(trace, given[-1])}" if len(given) % 2 else ""
    return ",".join(texts) + arrow, operands


def _subscript(trace: Trace, axes: Any) -> str:
    try:
        return "".join("..." if axis is Ellipsis else LETTERS[int(axis)] for axis in axes)
    except (TypeError, ValueError, IndexError):
        raise InputError(
            f"np.einsum: {axes!r} is no list of axes",
            where=trace.where(),
            hint="write integers from 0 to 51 or an Ellipsis after each operand, for example "
            'np.einsum(x, [0, 1], y, [1, 2], [0, 2]), or np.einsum("ij,jk->ik", x, y)',
        ) from None


def _path(terms: list[Term], output: Labels, optimize: Any) -> list[tuple[int, ...]]:
    """Which terms to take together, one pair (or more) after another, by np.einsum_path."""
    distinct = dict.fromkeys(label for _, labels in terms for label in labels)
    letters = dict(zip(distinct, LETTERS, strict=False))
    if any(label not in letters for _, labels in terms for label in labels):
        return []
    texts = ["".join(letters[label] for label in labels) for _, labels in terms]
    shapes: list[Any] = []
    for node, _ in terms:
        names = {name: TYPICAL for size in node.type.shape for name in sizes.names(size)}
        shapes.append(tuple(size_values.evaluate(size, names) for size in node.type.shape))
    arrays = [np.broadcast_to(np.float64(0), shape) for shape in shapes]
    subscripts = f"{','.join(texts)}->{''.join(letters[label] for label in output)}"
    return list(np.einsum_path(subscripts, *arrays, optimize=optimize)[0][1:])


def _dtype(nodes: list[Node]) -> np.dtype:
    dtype = nodes[0].type.dtype
    for node in nodes[1:]:
        found = resolve(np.multiply, (dtype, node.type.dtype))
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
        ).resting_on()

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


def _broadcast(trace: Trace, subscripts: str, terms: list[Term]) -> list[Term]:
    """The terms without axes of literal length 1 that are longer in another term."""
    found: dict[str, Any] = {}
    for node, labels in terms:
        for label, size in zip(labels, node.type.shape, strict=True):
            known = found.setdefault(label, size)
            if known != size and _is_one(known):
                found[label] = size
            elif known != size and not _is_one(size):
                raise ShapeError(
                    f"np.einsum({subscripts!r}): axis {label} is {known} and {size} long "
                    f"({trace.show(node)})",
                    where=trace.where(),
                    hint="each letter stands for one size",
                ).resting_on((known, size), (known, 1), (size, 1))
    return [_squeezed(trace, node, labels, found) for node, labels in terms]


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _squeezed(trace: Trace, node: Node, labels: Labels, found: dict[str, Any]) -> Term:
    pairs = zip(labels, node.type.shape, strict=True)
    kept = tuple(label for label, size in pairs if size == found[label])
    if kept == labels:
        return node, labels
    shape = tuple(found[label] for label in kept)
    return trace.build(reshape, node, shape=shape), kept


def _diagonal(trace: Trace, node: Node, labels: Labels) -> Term:
    """Repeated letters of one operand: its diagonal."""
    while len(set(labels)) != len(labels):
        label = next(label for label in labels if labels.count(label) > 1)
        one = labels.index(label)
        two = labels.index(label, one + 1)
        if node.type.shape[one] != node.type.shape[two]:
            raise ShapeError(
                f"np.einsum: the axes called {label!r} of {trace.show(node)} differ",
                where=trace.where(),
                hint="a letter repeated in an operand takes its diagonal",
            ).resting_on((node.type.shape[one], node.type.shape[two]))
        rest = [axis for axis in range(len(labels)) if axis not in (one, two)]
        node = trace.build(transpose, node, permutation=(one, two, *rest))
        line = positions(node.type.shape[0], np.dtype(np.int64))
        line = trace.build(line.primitive, **dict(line.params))
        node = trace.build(gather, node, line, line, wrap=True)
        labels = (label, *(labels[axis] for axis in rest))
    return node, labels


def _sum_out(trace: Trace, node: Node, labels: Labels, keep: set[str]) -> Term:
    axes = tuple(axis for axis, label in enumerate(labels) if label not in keep)
    if not axes:
        return node, labels
    return trace.build(sum_, node, axes=axes), tuple(label for label in labels if label in keep)


def _pair(trace: Trace, left: Term, right: Term, later: set[str]) -> Term:
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

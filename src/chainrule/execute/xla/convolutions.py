"""Products of windows, and sums of windows, as XLA's convolutions, which do not copy the windows.

Zeros around or between the elements of what has windows, and parts of the result, are given to the
convolution, not made or cut by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from chainrule.execute.xla.jax_here import jax_here
from chainrule.graph.dtypes import FLOAT32
from chainrule.graph.node import Node
from chainrule.primitives.movement import pad, slice_, transpose
from chainrule.primitives.parts import part_of_product
from chainrule.primitives.products import contract
from chainrule.primitives.windows import fold_windows, windows

SPATIAL = 2  # axes of windows at most: of more, XLA's convolutions on CPUs are slow
Labels = tuple[int, ...]
Counts = tuple[int, ...]


class Sides(NamedTuple):
    """The labels of the axes of what has windows, of the other operand, and of the product."""

    own: Labels
    other: Labels
    out: Labels


class Shown(NamedTuple):
    """Windows of the last axes of `x`, with `gap` - 1 zeros between its elements; the first window
    begins `before` elements before the first of them."""

    x: Any
    window: Counts
    stride: Counts
    dilation: Counts
    before: Counts
    gap: Counts


def convolved(node: Node, values: Mapping[Node, Any], reads: Mapping[Node, int]) -> Any:
    """The value of a product of windows, or of windows of a product that are added, in float32;
    None for others.

    A product that sums over the places in the windows is a convolution with the other operand; one
    that sums over the positions of the windows (the gradient of a kernel) has a kernel of the shape
    of the positions.  Windows that are added (the gradient of what is convolved) are a convolution
    with the kernel turned round, of positions with zeros between them.  A part of any of these that
    is all that is read of it is computed alone; `reads` says how often nodes are read.
    """
    if node.dtype != FLOAT32 or not prod(node.shape):
        return None
    if node.primitive is contract:
        return _product(node, values)
    ones, zeros = (1,) * node.ndim, (0,) * node.ndim
    if node.primitive is fold_windows:
        return _added(node, values, zeros, ones, node.shape)
    if node.primitive is slice_:
        return _part(node, values, reads)
    return None


def _part(node: Node, values: Mapping[Node, Any], reads: Mapping[Node, int]) -> Any:
    """A slice of a convolution that nothing else reads: XLA then drops the whole of it."""
    source, start, step, shape = node.inputs[0], node.param("start"), node.param("step"), node.shape
    if reads[source] > 1:
        return None
    if source.primitive is fold_windows:
        return _added(source, values, start, step, shape)
    orders = []
    while source.primitive is transpose:
        orders.append(source.param("permutation"))
        at = [orders[-1].index(axis) for axis in range(node.ndim)]
        start, step, shape = (tuple(one[i] for i in at) for one in (start, step, shape))
        source = source.inputs[0]
        if reads[source] > 1:
            return None
    if source.primitive is not contract:
        return None
    found = _product(part_of_product(source, start, step, shape), values)
    for order in reversed(orders) if found is not None else ():
        found = jax_here().numpy.transpose(found, order)
    return found


def _product(node: Node, values: Mapping[Node, Any]) -> Any:
    axes = [node.param(name) for name in ("x_axes", "y_axes")]
    for place, operand in enumerate(node.inputs):
        shown = _shown(operand, values)
        other = node.inputs[1 - place]
        if shown is not None and other in values:
            sides = Sides(axes[place], axes[1 - place], node.param("out_axes"))
            found = _convolved(operand, shown, other, values[other], sides)
            if found is not None:
                return found
    return None


def _shown(node: Node, values: Mapping[Node, Any]) -> Shown | None:
    """The windows that a node has, perhaps those at some positions, perhaps of a padded array."""
    at = node if node.primitive is slice_ else None
    node = node if at is None else node.inputs[0]
    if node.primitive is not windows or len(node.param("window")) > SPATIAL:
        return None
    window, stride, dilation = (node.param(one) for one in ("window", "stride", "dilation"))
    count = len(window)
    first = node.ndim - 2 * count
    before = (0,) * count
    if at is not None:
        if not _only_along(at, node, range(first, first + count)):
            return None
        start, step = (at.param(one)[first : first + count] for one in ("start", "step"))
        before = tuple(-s * k for s, k in zip(stride, start, strict=True))
        stride = tuple(s * k for s, k in zip(stride, step, strict=True))
    source, gap = node.inputs[0], (1,) * count
    if source.primitive is pad and source.inputs[0] in values and prod(source.inputs[0].shape):
        padded = source.inputs[0]
        if _only_along(source, padded, range(first, first + count)):
            around, gap = source.param("start")[first:], source.param("step")[first:]
            before = tuple(b + a for b, a in zip(before, around, strict=True))
            source = padded
    if source not in values:
        return None
    return Shown(values[source], window, stride, dilation, before, gap)


def _only_along(node: Node, whole: Node, axes: Sequence[int]) -> bool:
    """Whether a slice or padding leaves all axes but these as they are, and turns none round."""
    steps = [*zip(node.param("start"), node.param("step"), node.shape, whole.shape, strict=True)]
    return all(
        step > 0 if axis in axes else (start, step, length) == (0, 1, other)
        for axis, (start, step, length, other) in enumerate(steps)
    )


def _convolved(operand: Node, shown: Shown, other: Node, y: Any, sides: Sides) -> Any:
    count = len(shown.window)
    first = operand.ndim - 2 * count
    front = sides.own[:first]
    positions, places = sides.own[first : first + count], sides.own[first + count :]
    if _are(places, sides.other, sides.out) and _are(positions, sides.out, sides.other):
        summed, left, strides, dilations = places, positions, shown.stride, shown.dilation
    elif _are(positions, sides.other, sides.out) and _are(places, sides.out, sides.other):
        summed, left, strides, dilations = positions, places, shown.dilation, shown.stride
    else:
        return None
    batch = [one for one in front if one in sides.out and one not in sides.other]
    inner = [one for one in front if one in sides.other and one not in sides.out]
    made = [one for one in sides.other if one in sides.out]
    if len(batch) + len(inner) != first or len(made) + len(inner) + count != len(sides.other):
        return None
    sizes = dict(zip(sides.own, operand.shape, strict=True))
    sizes |= dict(zip(sides.other, other.shape, strict=True))
    if not all(sizes.values()):
        return None
    spatial = [-1 - axis for axis in reversed(range(count))]  # no labels have these
    lengths = dict(zip(spatial, shown.x.shape[first:], strict=True))
    x = _grouped(shown.x, (*front, *spatial), batch, inner, spatial, sizes | lengths)
    y = _grouped(y, sides.other, made, inner, summed, sizes)
    counts = [sizes[one] for one in left]
    found = _convolution(x, y, counts, strides, dilations, shown.before, shown.gap)
    return _ungrouped(found, (*batch, *made, *left), sides.out, sizes)


def _added(node: Node, values: Mapping[Node, Any], start: Counts, step: Counts, shape: Any) -> Any:
    """The part of added windows from `start` on, at these steps, of this shape."""
    product, count = node.inputs[0], len(node.param("stride"))
    first = node.ndim - count
    if product.primitive is not contract or count > SPATIAL or min(step) < 1:
        return None
    if any(found != 0 for found in start[:first]) or shape[:first] != node.shape[:first]:
        return None
    parts = [*zip(start[first:], step[first:], shape[first:], strict=True)]
    axes = product.param("x_axes"), product.param("y_axes")
    for place, sides in enumerate((axes, axes[::-1])):
        found = None
        g, kernel = product.inputs[place], product.inputs[1 - place]
        if g in values and kernel in values:
            found = _turned(
                node,
                (g, values[g]),
                (kernel, values[kernel]),
                Sides(*sides, product.param("out_axes")),
                parts,
            )
        if found is not None:
            return found
    return None


def _turned(
    node: Node,
    g: tuple[Node, Any],
    kernel: tuple[Node, Any],
    sides: Sides,
    parts: Sequence[tuple[int, int, int]],
) -> Any:
    """Added windows of the product of `g`, which has the positions, and a kernel, which has the
    places in the windows: of each last axis the part with this start, step and length."""
    stride, dilation, count = node.param("stride"), node.param("dilation"), len(parts)
    own, other, out = sides
    front, positions, places = out[: -2 * count], out[-2 * count : -count], out[-count:]
    batch = [one for one in front if one in own and one not in other]
    inner = [one for one in front if one in other and one not in own]
    summed = [one for one in own if one in other and one not in out]
    if (
        not (_are(positions, own, other) and _are(places, other, own))
        or len(batch) + len(inner) != len(front)
        or len(batch) + len(summed) + count != len(own)
        or len(inner) + len(summed) + count != len(other)
    ):
        return None
    sizes = dict(zip(own, g[0].shape, strict=True)) | dict(zip(other, kernel[0].shape, strict=True))
    if not all(sizes.values()):
        return None
    x = _grouped(g[1], own, batch, summed, positions, sizes)
    y = _grouped(kernel[1], other, inner, summed, places, sizes)
    y = jax_here().numpy.flip(y, range(2, 2 + count))
    starts, steps, lengths = zip(*parts, strict=True)
    before = [d * (sizes[one] - 1) - s for d, one, s in zip(dilation, places, starts, strict=True)]
    found = _convolution(x, y, lengths, steps, dilation, before, stride)
    left = dict(zip(positions, lengths, strict=True))
    return _ungrouped(found, (*batch, *inner, *positions), (*front, *positions), sizes | left)


def _convolution(
    x: Any,
    y: Any,
    counts: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
    gaps: Sequence[int],
) -> Any:
    """`counts` sums along the last axes of products of x (batch, inner, ...), with gaps between its
    elements, and of y (made, inner, ...): the first begins `before` elements before the first of x.
    """
    around = []
    for axis, (count, stride, dilation) in enumerate(zip(counts, strides, dilations, strict=True)):
        there = gaps[axis] * (x.shape[2 + axis] - 1) + 1
        needed = stride * (count - 1) + dilation * (y.shape[2 + axis] - 1) + 1
        around.append((before[axis], needed - before[axis] - there))
    return jax_here().lax.conv_general_dilated(
        x, y, strides, around, lhs_dilation=gaps, rhs_dilation=dilations
    )


def _grouped(
    x: Any,
    labels: Sequence[int],
    one: Sequence[int],
    other: Sequence[int],
    last: Sequence[int],
    sizes: Mapping[int, int],
) -> Any:
    """x with two axes, of one group of labels and of the other, and the last ones after them."""
    jnp = jax_here().numpy
    x = jnp.transpose(x, [labels.index(found) for found in (*one, *other, *last)])
    groups = [prod(sizes[found] for found in group) for group in (one, other)]
    return jnp.reshape(x, (*groups, *(sizes[found] for found in last)))


def _ungrouped(
    x: Any, labels: Sequence[int], wanted: Sequence[int], sizes: Mapping[int, int]
) -> Any:
    """x, whose axes stand for groups of these labels, with the labels that are wanted."""
    jnp = jax_here().numpy
    x = jnp.reshape(x, [sizes[one] for one in labels])
    return jnp.transpose(x, [labels.index(one) for one in wanted])


def _are(labels: Sequence[int], among: Sequence[int], outside: Sequence[int]) -> bool:
    """Whether all are among some, and none among others."""
    return all(one in among and one not in outside for one in labels)

"""Products of windows as XLA's convolutions, which do not copy the windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from chainrule.execute.xla.jax_here import jax_here
from chainrule.graph.dtypes import FLOAT32
from chainrule.graph.node import Node
from chainrule.primitives.products import contract
from chainrule.primitives.windows import windows

SPATIAL = 2  # axes of windows at most: of more, XLA's convolutions on CPUs are slow


class Sides(NamedTuple):
    """The labels of the axes of what has windows, of the other operand, and of the product."""

    own: tuple[int, ...]
    other: tuple[int, ...]
    out: tuple[int, ...]


def convolved(node: Node, values: Mapping[Node, Any]) -> Any:
    """The value of a product of windows in float32, and None for others.

    Where it sums over the places in the windows, that is a convolution with the other operand;
    where it sums over the positions of the windows (the gradient of a kernel), one whose kernel has
    the shape of the positions.
    """
    if node.primitive is not contract or node.dtype != FLOAT32 or not prod(node.shape):
        return None
    axes = [node.param(name) for name in ("x_axes", "y_axes")]
    for place, shown in enumerate(node.inputs):
        if shown.primitive is windows and shown.inputs[0] in values:
            other = node.inputs[1 - place]
            sides = Sides(axes[place], axes[1 - place], node.param("out_axes"))
            found = _convolved(shown, values[shown.inputs[0]], other, values[other], sides)
            if found is not None:
                return found
    return None


def _convolved(shown: Node, x: Any, other: Node, y: Any, sides: Sides) -> Any:
    stride, dilation, window = (shown.param(one) for one in ("stride", "dilation", "window"))
    count = len(window)
    if count > SPATIAL:
        return None
    first = shown.ndim - 2 * count
    front = sides.own[:first]
    positions, places = sides.own[first : first + count], sides.own[first + count :]
    if _are(places, sides.other, sides.out) and _are(positions, sides.out, sides.other):
        summed, left, strides, dilations = places, positions, stride, dilation
    elif _are(positions, sides.other, sides.out) and _are(places, sides.out, sides.other):
        summed, left, strides, dilations = positions, places, dilation, stride
    else:
        return None
    batch = [one for one in front if one in sides.out and one not in sides.other]
    inner = [one for one in front if one in sides.other and one not in sides.out]
    made = [one for one in sides.other if one in sides.out]
    if len(batch) + len(inner) != first or len(made) + len(inner) + count != len(sides.other):
        return None
    sizes = dict(zip(sides.own, shown.shape, strict=True))
    sizes |= dict(zip(sides.other, other.shape, strict=True))
    size = _size_of(sizes)
    lengths = shown.inputs[0].shape[first:]
    jnp, lax = jax_here().numpy, jax_here().lax
    order = [front.index(one) for one in (*batch, *inner)]
    x = jnp.transpose(x, (*order, *range(first, first + count)))
    x = jnp.reshape(x, (size(batch), size(inner), *lengths))
    y = jnp.transpose(y, [sides.other.index(one) for one in (*made, *inner, *summed)])
    y = jnp.reshape(y, (size(made), size(inner), *(sizes[one] for one in summed)))
    found = lax.conv_general_dilated(x, y, strides, [(0, 0)] * count, rhs_dilation=dilations)
    found = found[(slice(None), slice(None), *(slice(sizes[one]) for one in left))]
    labels = [*batch, *made, *left]
    found = jnp.reshape(found, [sizes[one] for one in labels])
    return jnp.transpose(found, [labels.index(one) for one in sides.out])


def _are(labels: Sequence[int], among: Sequence[int], outside: Sequence[int]) -> bool:
    """Whether all are among some, and none among others."""
    return all(one in among and one not in outside for one in labels)


def _size_of(sizes: Mapping[int, int]) -> Callable[[Sequence[int]], int]:
    return lambda labels: prod(sizes[one] for one in labels)

"""Primitives that move elements to other places without arithmetic."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes import sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, Shape, array_type
from chainrule.primitives.affine import Domain, IndexMap, at_steps, combined, row_major, split
from chainrule.primitives.notation import ATOM, POWER, Form, Latex
from chainrule.primitives.primitive import (
    Assemble,
    Kernel,
    Linear,
    Move,
    Primitive,
    Region,
    Rule,
    Sample,
    no_flops,
)
from chainrule.primitives.python import Python, Writing, Written, shape_text, slices_text
from chainrule.primitives.python_functions import PADDED

ANY = (-2.0, 2.0)


def _movement(
    name: str,
    doc: str,
    result_type: Any,
    evaluate: Any,
    kernel: Kernel,
    transpose: Rule,
    batch: Any,
    latex: Latex,
    python: Python,
    samples: tuple[Sample, ...],
) -> Primitive:
    """A linear primitive of one input that only moves its elements."""
    return Primitive(
        name=name,
        doc=doc,
        inputs=("x",),
        result_type=result_type,
        evaluate=evaluate,
        derivative=Linear((transpose,)),
        batch=batch,
        kernel=kernel,
        flops=no_flops,
        latex=latex,
        samples=samples,
        python=python,
    )


def _sample(of: tuple[int, ...], /, **params: Any) -> Sample:
    return Sample((of,), (ANY,), tuple(sorted(params.items())))


def _reshape_type(x: ArrayType, *, shape: Shape) -> ArrayType:
    # Sizes that cannot be compared yet are a condition of the graph, checked when they are bound.
    if isinstance(difference := sizes.product(shape) - x.size, int) and difference:
        raise TypeError(f"cannot reshape {x} to {shape}")
    return x.with_shape(shape)


def _reshape_python(out: Node, writing: Writing, x: Written) -> Written:
    shape = ", ".join(map(writing.size, out.type.shape)) or "()"
    return Written(f"{x.within(ATOM)}.reshape({shape})")


def _reshape_reads(out: Node, where: IndexMap, domain: Domain) -> IndexMap | None:
    source = out.inputs[0]
    if out.shape == source.shape:
        return where
    flat = combined(where, row_major(out.shape), len(domain) + 1)
    return split(flat, source.shape, domain)


reshape = _movement(
    "reshape",
    "The same elements, in C order, in another shape.",
    _reshape_type,
    lambda xp, x, *, shape: xp.reshape(x, shape),
    Move(_reshape_reads),
    lambda g, out, x: reshape(g, shape=x.type.shape),
    lambda size, inputs, batched, out: reshape(inputs[0], shape=(size, *out.type.shape)),
    Latex(r"\operatorname{{reshape}}_{{{shape}}}({x})", ATOM, (0,), Form.RESHAPING),
    Python(_reshape_python, noun="reshaped"),
    (
        _sample((2, 3), shape=(3, 2)),
        _sample((), shape=(1, 1)),
        _sample((0, 2), shape=(2, 0)),
        _sample((1, 4), shape=(4,)),
    ),
)


def _transpose_type(x: ArrayType, *, permutation: tuple[int, ...]) -> ArrayType:
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(f"{permutation} is no permutation of the axes of {x}")
    return x.with_shape(tuple([x.shape[axis] for axis in permutation]))


def inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes this one."""
    result = [0] * len(permutation)
    for place, axis in enumerate(permutation):
        result[axis] = place
    return tuple(result)


def _transpose_python(out: Node, writing: Writing, x: Written) -> Written:
    permutation = out.param("permutation")
    if permutation == tuple(range(out.ndim)):
        return x
    if permutation == tuple(range(out.ndim))[::-1]:
        return Written(f"{x.within(ATOM)}.T")
    return Written(f"{x.within(ATOM)}.transpose({', '.join(map(str, permutation))})")


def _transpose_reads(out: Node, where: IndexMap, domain: Domain) -> IndexMap:
    return tuple([where[place] for place in inverse(out.param("permutation"))])


transpose = _movement(
    "transpose",
    "The axes in another order.",
    _transpose_type,
    lambda xp, x, *, permutation: xp.transpose(x, permutation),
    Move(_transpose_reads),
    lambda g, out, x: transpose(g, permutation=inverse(out.param("permutation"))),
    lambda size, inputs, batched, out: transpose(
        inputs[0], permutation=(0, *(axis + 1 for axis in out.param("permutation")))
    ),
    Latex(r"{{{x}}}^\top", POWER, (POWER + 1,), Form.TRANSPOSITION),
    Python(_transpose_python, noun="transposed"),
    (
        _sample((2, 3), permutation=(1, 0)),
        _sample((2, 1, 3), permutation=(2, 0, 1)),
        _sample((), permutation=()),
        _sample((0, 2), permutation=(1, 0)),
    ),
)


def _broadcast_type(x: ArrayType, *, shape: Shape) -> ArrayType:
    extra = len(shape) - x.ndim
    fits = extra >= 0 and all(
        old == new or (isinstance(old, int) and old == 1)
        for old, new in zip(x.shape, shape[extra:], strict=True)
    )
    if not fits:
        raise TypeError(f"cannot broadcast {x} to {shape}")
    return x.with_shape(shape)


def expanded_axes(old: Shape, new: Shape) -> tuple[int, ...]:
    """The axes of `new` along which broadcasting from `old` repeats elements."""
    extra = len(new) - len(old)
    return (
        *range(extra),
        *(extra + i for i, axis in enumerate(old) if axis != new[extra + i]),
    )


def _broadcast_transpose(g: Any, out: Any, x: Any) -> Any:
    from chainrule.primitives.reduce import sum_

    axes = expanded_axes(x.type.shape, out.type.shape)
    total = sum_(g, axes=axes) if axes else g
    return total if total.type.shape == x.type.shape else reshape(total, shape=x.type.shape)


def _broadcast_batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    x, shape = inputs[0], out.type.shape
    own = x.type.shape[1:]
    if len(own) < len(shape):
        x = reshape(x, shape=(size, *(1,) * (len(shape) - len(own)), *own))
    return broadcast_to(x, shape=(size, *shape))


def _broadcast_reads(out: Node, where: IndexMap, domain: Domain) -> IndexMap:
    source = out.inputs[0]
    first = (0,) * (len(domain) + 1)
    extra = out.ndim - source.ndim
    return tuple(
        first if size == 1 else where[extra + axis] for axis, size in enumerate(source.shape)
    )


broadcast_to = _movement(
    "broadcast_to",
    "x repeated along new leading axes and along axes of length 1.",
    _broadcast_type,
    lambda xp, x, *, shape: xp.broadcast_to(x, shape),
    Move(_broadcast_reads),
    _broadcast_transpose,
    _broadcast_batch,
    Latex("{x}", ATOM, (ATOM,), Form.REPETITION),
    Python(
        lambda out, writing, x: Written(
            f"np.broadcast_to({x.text}, {shape_text(writing, out.type.shape)})"
        ),
        noun="repeated",
    ),
    (
        _sample((3,), shape=(2, 3)),
        _sample((2, 1), shape=(2, 3)),
        _sample((), shape=(2, 0)),
        _sample((1,), shape=(1,)),
    ),
)


def add_batch_axis(x: Node, size: int | Size) -> Any:
    """x repeated along a new first axis."""
    return broadcast_to(x, shape=(size, *x.type.shape))


def _slice_type(x: ArrayType, *, start: tuple, step: tuple, shape: Shape) -> ArrayType:
    if not len(start) == len(step) == len(shape) == x.ndim:
        raise TypeError(f"a slice of {x} needs start, step and shape for each axis")
    return x.with_shape(shape)


def _slices(start: tuple, step: tuple, shape: tuple) -> tuple[slice, ...]:
    found = []
    for first, stride, count in zip(start, step, shape, strict=True):
        stop = first + stride * count
        found.append(slice(first, stop if stop >= 0 else None, stride) if count else slice(0, 0))
    return tuple(found)


def _slice_python(out: Node, writing: Writing, x: Written) -> Written:
    start, step = out.param("start"), out.param("step")
    places = slices_text(writing, start, step, out.type.shape, out.inputs[0].type.shape)
    return Written(f"{x.within(ATOM)}[{places}]") if places else x


slice_ = _movement(
    "slice",
    "The elements at start, start + step, ... along each axis, as many as the shape says.",
    _slice_type,
    lambda xp, x, *, start, step, shape: x[_slices(start, step, shape)],
    Move(lambda out, where, domain: at_steps(out.param("start"), out.param("step"), where)),
    lambda g, out, x: pad(g, start=out.param("start"), step=out.param("step"), shape=x.type.shape),
    lambda size, inputs, batched, out: slice_(
        inputs[0],
        start=(0, *out.param("start")),
        step=(1, *out.param("step")),
        shape=(size, *out.type.shape),
    ),
    Latex(r"{x}[\cdot]", ATOM, (ATOM,), Form.AT),
    Python(_slice_python, noun="part"),
    (
        _sample((5,), start=(1,), step=(2,), shape=(2,)),
        _sample((2, 4), start=(0, 3), step=(1, -1), shape=(2, 4)),
        _sample((3,), start=(1,), step=(1,), shape=(0,)),
    ),
)


def _pad_type(x: ArrayType, *, start: tuple, step: tuple, shape: Shape) -> ArrayType:
    if not len(start) == len(step) == len(shape) == x.ndim:
        raise TypeError(f"padding {x} needs start, step and shape for each axis")
    return x.with_shape(shape)


def _pad(xp: Any, x: Any, *, start: tuple, step: tuple, shape: tuple) -> Any:
    where = _slices(start, step, x.shape)
    zeros = xp.zeros(shape, dtype=x.dtype)
    if xp is np:
        zeros[where] = x
        return zeros
    return zeros.at[where].set(x)


def _pad_python(out: Node, writing: Writing, x: Written) -> Written:
    start, step, shape = out.param("start"), out.param("step"), out.type.shape
    places = slices_text(writing, start, step, out.inputs[0].type.shape, shape)
    where = f"np.s_[{places or '...'}]"
    shown = f"{x.text}, {where}, {shape_text(writing, shape)}"
    return Written(f"{writing.helper(PADDED)}({shown})")


def _pad_transpose(g: Any, out: Any, x: Any) -> Any:
    from chainrule.primitives.parts import part_of_product

    start, step, shape = out.param("start"), out.param("step"), x.type.shape
    product = part_of_product(g, start, step, shape)
    return slice_(g, start=start, step=step, shape=shape) if product is None else product


pad = _movement(
    "pad",
    "x placed at start, start + step, ... along each axis of zeros of the given shape.",
    _pad_type,
    _pad,
    Assemble(lambda out: [(out.param("start"), out.param("step"))], gaps=True),
    _pad_transpose,
    lambda size, inputs, batched, out: pad(
        inputs[0],
        start=(0, *out.param("start")),
        step=(1, *out.param("step")),
        shape=(size, *out.type.shape),
    ),
    Latex(r"\operatorname{{pad}}_{{{shape}}}({x})", ATOM, (0,), Form.PADDED),
    Python(_pad_python, noun="padded"),
    (
        _sample((2,), start=(1,), step=(2,), shape=(5,)),
        _sample((2, 3), start=(1, 2), step=(1, -1), shape=(4, 3)),
        _sample((0,), start=(0,), step=(1,), shape=(3,)),
    ),
)


def _concatenate_type(*types: ArrayType, axis: int) -> ArrayType:
    first = types[0]
    total: int | Size = 0
    for other in types:
        same = other.dtype == first.dtype and other.ndim == first.ndim
        if not same or any(
            a != b
            for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True))
            if i != axis
        ):
            raise TypeError(f"cannot concatenate {', '.join(map(str, types))} along axis {axis}")
        total = total + other.shape[axis]
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return array_type(first.dtype, shape)


@lru_cache(maxsize=1)
def _offsets(out: Node) -> list[int | Size]:
    """Where each input begins along the axis; remembered while one node's inputs are walked."""
    axis = out.param("axis")
    lengths = [parent.type.shape[axis] for parent in out.inputs]
    return list(accumulate(lengths, initial=0))


def _concatenate_part(index: int, g: Any, out: Any) -> Any:
    axis = out.param("axis")
    shape = out.inputs[index].type.shape
    start = tuple(_offsets(out)[index] if i == axis else 0 for i in range(len(shape)))
    return slice_(g, start=start, step=(1,) * len(shape), shape=shape)


def _concatenate_batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    parts = [
        node if has else add_batch_axis(node, size)
        for node, has in zip(inputs, batched, strict=True)
    ]
    return concatenate(*parts, axis=out.param("axis") + 1)


def _concatenate_python(out: Node, writing: Writing, *parts: Written) -> Written:
    axis = f", axis={out.param('axis')}" if out.param("axis") else ""
    return Written(f"np.concatenate([{', '.join(part.text for part in parts)}]{axis})")


def _concatenate_regions(out: Node) -> list[Region]:
    axis, step = out.param("axis"), (1,) * out.ndim
    begins = [int(offset) for offset in _offsets(out)[:-1]]
    return [
        (tuple(begin if place == axis else 0 for place in range(out.ndim)), step)
        for begin in begins
    ]


concatenate = Primitive(
    name="concatenate",
    doc="The inputs one after another along an axis.",
    inputs=("x", "y"),
    result_type=_concatenate_type,
    evaluate=lambda xp, *arrays, axis: xp.concatenate(arrays, axis=axis),
    derivative=Linear((_concatenate_part,), variadic=True),
    batch=_concatenate_batch,
    kernel=Assemble(_concatenate_regions, gaps=False),
    flops=no_flops,
    latex=Latex("[{x}, {y}]", ATOM, (0, 0), Form.JOINED),
    samples=(
        Sample(((2,), (3,)), (ANY, ANY), (("axis", 0),)),
        Sample(((2, 1), (2, 3)), (ANY, ANY), (("axis", 1),)),
        Sample(((0,), (2,)), (ANY, ANY), (("axis", 0),)),
    ),
    variadic=True,
    python=Python(_concatenate_python, noun="joined"),
)

MOVEMENT = (reshape, transpose, broadcast_to, slice_, pad, concatenate)

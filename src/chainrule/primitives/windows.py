"""Sliding windows over the last axes of an array, and their sum back into an array."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, Shape
from chainrule.primitives.affine import Domain, IndexMap
from chainrule.primitives.movement import pad, reshape, slice_, transpose
from chainrule.primitives.notation import ATOM, Form, Latex
from chainrule.primitives.primitive import Library, Linear, Move, Primitive, Sample, no_flops
from chainrule.primitives.products import contract
from chainrule.primitives.python import Python, Writing, Written, shape_text

ANY = (-2.0, 2.0)
Counts = tuple[int, ...]

SOURCE = '''
def fold_windows(windows, stride, dilation, shape):
    """Zeros of a shape, to which each window is added at its place."""
    result = np.zeros(shape, windows.dtype)
    count = len(stride)
    positions = windows.shape[windows.ndim - 2 * count : windows.ndim - count]
    for place in np.ndindex(*windows.shape[windows.ndim - count :]):
        where = tuple(
            slice(d * k, d * k + s * (n - 1) + 1, s)
            for k, s, d, n in zip(place, stride, dilation, positions)
        )
        result[(..., *where)] += windows[(..., *place)]
    return result
'''


def span(window: int, dilation: int) -> int:
    """How many elements there are from the first of a window to its last."""
    return dilation * (window - 1) + 1


def positions_of(
    lengths: Shape, window: Counts, stride: Counts, dilation: Counts
) -> tuple[int | Size, ...]:
    """How many windows fit each axis."""
    return tuple(
        (length - span(w, d)) // s + 1
        for length, w, s, d in zip(lengths, window, stride, dilation, strict=True)
    )


def _windows_type(x: ArrayType, *, window: Counts, stride: Counts, dilation: Counts) -> ArrayType:
    count = len(window)
    if not 0 < count <= x.ndim or not len(stride) == len(dilation) == count:
        raise TypeError(f"windows {window} with stride {stride}, dilation {dilation} of {x}")
    if min(*window, *stride, *dilation) < 1:
        raise TypeError(f"windows, strides and dilations are at least 1: {window}, {stride}")
    lengths = x.shape[x.ndim - count :]
    positions = positions_of(lengths, window, stride, dilation)
    if any(isinstance(one, int) and one < 1 for one in positions):
        raise TypeError(f"no window {window} of dilation {dilation} fits {x}")
    return x.with_shape((*x.shape[: x.ndim - count], *positions, *window))


def _windows(xp: Any, x: Any, *, window: Counts, stride: Counts, dilation: Counts) -> Any:
    first = x.ndim - len(window)
    counts: Any = positions_of(x.shape[first:], window, stride, dilation)
    if isinstance(x, np.ndarray):
        last = x.strides[first:]
        shape = (*x.shape[:first], *counts, *window)
        by_position = (s * k for s, k in zip(stride, last, strict=True))
        by_place = (d * k for d, k in zip(dilation, last, strict=True))
        strides = (*x.strides[:first], *by_position, *by_place)
        return as_strided(x, shape, strides, writeable=False)
    for axis, (w, s, d, count) in enumerate(zip(window, stride, dilation, counts, strict=True)):
        before = (slice(None),) * (first + axis)
        ends = [d * k + s * (count - 1) + 1 for k in range(w)]
        x = xp.stack([x[(*before, slice(d * k, end, s))] for k, end in enumerate(ends)], axis=-1)
    return x


def _windows_python(out: Node, writing: Writing, x: Written) -> Written:
    window, stride, dilation = (out.param(key) for key in ("window", "stride", "dilation"))
    spans = tuple(span(w, d) for w, d in zip(window, dilation, strict=True))
    axes = tuple(range(-len(window), 0))
    shown = f"{x.text}, {spans}, axis={axes}"
    text = f"np.lib.stride_tricks.sliding_window_view({shown})"
    steps = [f"::{step}" if step > 1 else ":" for step in (*stride, *dilation)]
    return Written(text if set(steps) == {":"} else f"{text}[..., {', '.join(steps)}]")


def _windows_transpose(g: Any, out: Any, x: Any) -> Any:
    window, stride, dilation = (out.param(key) for key in ("window", "stride", "dilation"))
    if max(stride) == 1:
        product = _folded_product(g, window, dilation, x.type.shape)
        if product is not None:
            return product
    if _are_blocks(g.type.shape, out, x.type.shape):
        return _joined(g, len(window), x.type.shape)
    return fold_windows(g, stride=stride, dilation=dilation, shape=x.type.shape)


def _are_blocks(seen: Shape, out: Node, shape: Shape) -> bool:
    """Whether each element is in one window, as far as that is known."""
    window, count = out.param("window"), len(out.param("window"))
    positions = seen[len(seen) - 2 * count : len(seen) - count]
    covered = tuple(n * w for n, w in zip(positions, window, strict=True))
    return (
        out.param("stride") == window
        and max(out.param("dilation")) == 1
        and covered == shape[len(shape) - count :]
    )


def _joined(g: Any, count: int, shape: Shape) -> Any:
    """Windows that lie beside each other as the array that they are of."""
    first = g.ndim - 2 * count
    pairs = (axis for one in range(first, first + count) for axis in (one, one + count))
    return reshape(transpose(g, permutation=(*range(first), *pairs)), shape=shape)


def _folded_product(g: Any, window: Counts, dilation: Counts, shape: Shape) -> Any:
    """`fold_windows` with stride 1 of a product, as a product of windows: sum over k of
    a[y - k] b[k] is that of the windows of a, on zeros, with b turned round.

    None where g is no product of positions with places in the window, or where far more positions
    than g has would be computed.
    """
    count = len(window)
    lengths, positions = shape[len(shape) - count :], g.type.shape[g.ndim - 2 * count :]
    if g.primitive is reshape and g.inputs[0].type.shape[-2 * count :] == positions:
        regrouped = (*g.inputs[0].type.shape[: -2 * count], *lengths)
        product = _folded_product(g.inputs[0], window, dilation, regrouped)
        return None if product is None else reshape(product, shape=shape)
    if g.primitive is not contract or not are_most(positions[:count], lengths):
        return None
    kept = g.param("out_axes")
    moving, places = kept[-2 * count : -count], kept[-count:]
    pairs = [*zip(g.inputs, (g.param("x_axes"), g.param("y_axes")), strict=True)]
    for (a, a_axes), (b, b_axes) in (pairs, pairs[::-1]):
        own, other = set(a_axes) - set(b_axes), set(b_axes) - set(a_axes)
        if own.issuperset(moving) and other.issuperset(places):
            order = (*(label for label in a_axes if label not in moving), *moving)
            a = transpose(a, permutation=tuple(a_axes.index(label) for label in order))
            seen = windows(_on_zeros(a, window, dilation), **_every(window, dilation))
            turned = _turned_round(b, tuple(b_axes.index(label) for label in places))
            wanted = kept[:-count]
            # What only b has lies side by side, as in the convolution itself.
            lies = tuple(sorted(wanted, key=lambda one: (one in own) + 2 * (one in other)))
            axes = {"x_axes": (*order, *places), "y_axes": b_axes, "out_axes": lies}
            return transpose(
                contract(seen, turned, **axes), permutation=tuple(map(lies.index, wanted))
            )
    return None


def are_most(positions: Shape, lengths: Shape) -> bool:
    """Whether windows begin at half of the places at least, as far as that is known."""
    known = [*positions, *lengths]
    if not all(isinstance(one, int) for one in known):
        return True
    return math.prod(lengths) <= 2 * math.prod(positions)  # type: ignore[arg-type]


def _every(window: Counts, dilation: Counts) -> dict[str, Counts]:
    """The parameters of windows that begin everywhere."""
    return {"window": window, "stride": (1,) * len(window), "dilation": dilation}


def _on_zeros(x: Any, window: Counts, dilation: Counts) -> Any:
    """x with so many zeros around its last axes that each element is in all windows' places."""
    first = x.ndim - len(window)
    around = [span(w, d) - 1 for w, d in zip(window, dilation, strict=True)]
    lengths = (n + 2 * k for n, k in zip(x.type.shape[first:], around, strict=True))
    shape = (*x.type.shape[:first], *lengths)
    return pad(x, start=(*(0,) * first, *around), step=(1,) * x.ndim, shape=shape)


def _turned_round(x: Any, axes: tuple[int, ...]) -> Any:
    """x with its elements along some axes in the opposite order."""
    shape = x.type.shape
    start = tuple(shape[axis] - 1 if axis in axes else 0 for axis in range(x.ndim))
    step = tuple(-1 if axis in axes else 1 for axis in range(x.ndim))
    return slice_(x, start=start, step=step, shape=shape)


def _sample(of: Counts, window: Counts, stride: Counts, dilation: Counts) -> Sample:
    params = (("dilation", dilation), ("stride", stride), ("window", window))
    return Sample((of,), (ANY,), params)


def _windows_reads(out: Node, where: IndexMap, domain: Domain) -> IndexMap:
    """Each windowed axis at its window's position times the stride, plus the place within."""
    count = len(out.param("window"))
    first = out.inputs[0].ndim - count
    windowed = zip(
        where[first : first + count],
        where[first + count :],
        out.param("stride"),
        out.param("dilation"),
        strict=True,
    )
    return (
        *where[:first],
        *(
            tuple(s * a + d * b for a, b in zip(position, place, strict=True))
            for position, place, s, d in windowed
        ),
    )


def _windows_part(out: Any, start: Counts, shape: Shape) -> Any:
    """The windows of a part of the input, and on fewer zeros where it has zeros around it; None
    where they do not begin everywhere, or are cut themselves."""
    window, dilation, x = out.param("window"), out.param("dilation"), out.inputs[0]
    first, count = out.ndim - 2 * len(window), len(window)
    if max(out.param("stride")) > 1 or shape[first + count :] != window:
        return None
    positions = zip(shape[first : first + count], window, dilation, strict=True)
    lengths = (*shape[:first], *(n + span(w, d) - 1 for n, w, d in positions))
    ones, begin = (1,) * x.ndim, start[: x.ndim]
    if x.primitive is pad and x.param("step") == ones:
        lies = tuple(a - b for a, b in zip(x.param("start"), begin, strict=True))
        places = zip(lies, x.inputs[0].type.shape, lengths, strict=True)
        if all(_fits(*one) for one in places):
            less = pad(x.inputs[0], start=lies, step=ones, shape=lengths)
            return windows(less, **dict(out.params))
    return windows(slice_(x, start=begin, step=ones, shape=lengths), **dict(out.params))


def _fits(start: Any, size: Any, room: Any) -> bool:
    """Whether so many places, from `start` on, are known to be within the room."""
    left = room - start - size
    return isinstance(start, int) and isinstance(left, int) and min(start, left) >= 0


windows = Primitive(
    name="windows",
    doc="The windows of the last axes: first their positions, as new last axes what is in each.",
    inputs=("x",),
    result_type=_windows_type,
    evaluate=_windows,
    derivative=Linear((_windows_transpose,)),
    batch=lambda size, inputs, batched, out: windows(inputs[0], **dict(out.params)),
    kernel=Move(_windows_reads, _windows_part),
    flops=no_flops,
    latex=Latex(r"\operatorname{{windows}}_{{{window}}}({x})", ATOM, (0,), Form.WINDOWED),
    samples=(
        _sample((5,), (3,), (1,), (1,)),
        _sample((7,), (2,), (3,), (2,)),
        _sample((2, 4, 5), (3, 2), (1, 2), (1, 1)),
        _sample((2, 3), (1, 3), (2, 1), (1, 1)),
        _sample((0, 4), (2,), (1,), (1,)),
    ),
    python=Python(_windows_python, noun="windows"),
)


def _fold_type(g: ArrayType, *, stride: Counts, dilation: Counts, shape: Shape) -> ArrayType:
    count = len(stride)
    first = len(shape) - count
    positions = g.shape[first : g.ndim - count]
    window: Any = g.shape[g.ndim - count :]
    whole = all(isinstance(one, int) for one in window)
    if g.ndim != len(shape) + count or not whole or g.shape[:first] != shape[:first]:
        raise TypeError(f"{g} are no windows of {shape}")
    if positions != positions_of(shape[first:], window, stride, dilation):
        raise TypeError(f"{g} are not the windows of {shape} with stride {stride}")
    return g.with_shape(shape)


def _fold(xp: Any, g: Any, *, stride: Counts, dilation: Counts, shape: Shape) -> Any:
    count = len(stride)
    window, positions = g.shape[g.ndim - count :], g.shape[g.ndim - 2 * count : g.ndim - count]
    if xp is not np:
        return _added(g, stride, dilation, shape)
    out = xp.zeros(shape, dtype=g.dtype)
    for place in np.ndindex(*window):
        where = tuple(
            slice(d * k, d * k + s * (n - 1) + 1, s)
            for k, s, d, n in zip(place, stride, dilation, positions, strict=True)
        )
        out[(..., *where)] += g[(..., *place)]
    return out


def _added(g: Any, stride: Counts, dilation: Counts, shape: Any) -> Any:
    """The sum of the parts of the windows, each on zeros."""
    from jax import lax  # only JAX shares this evaluation

    count = len(stride)
    front = [(0, 0, 0)] * (g.ndim - 2 * count)
    positions, window = g.shape[g.ndim - 2 * count : g.ndim - count], g.shape[g.ndim - count :]
    found = None
    for place in np.ndindex(*window):
        begins = [d * k for d, k in zip(dilation, place, strict=True)]
        ends = [b + s * (n - 1) + 1 for b, s, n in zip(begins, stride, positions, strict=True)]
        lengths = shape[len(front) :]
        around = [
            (b, length - end, s - 1)
            for b, end, s, length in zip(begins, ends, stride, lengths, strict=True)
        ]
        part = lax.pad(g[(..., *place)], np.zeros((), g.dtype), [*front, *around])
        found = part if found is None else found + part
    return found


def _fold_python(out: Node, writing: Writing, g: Written) -> Written:
    shown = f"{g.text}, {out.param('stride')}, {out.param('dilation')}"
    shape = shape_text(writing, out.type.shape)
    return Written(f"{writing.helper(SOURCE)}({shown}, {shape})")


def _fold_sample(of: Counts, stride: Counts, dilation: Counts, shape: Counts) -> Sample:
    return Sample((of,), (ANY,), (("dilation", dilation), ("shape", shape), ("stride", stride)))


fold_windows = Primitive(
    name="fold_windows",
    doc="Zeros of a shape, to which each window is added at its place: the transpose of windows.",
    inputs=("g",),
    result_type=_fold_type,
    evaluate=_fold,
    derivative=Linear(
        (
            lambda g, out, x: windows(
                g,
                window=x.type.shape[x.ndim - len(out.param("stride")) :],
                stride=out.param("stride"),
                dilation=out.param("dilation"),
            ),
        )
    ),
    batch=lambda size, inputs, batched, out: fold_windows(
        inputs[0],
        stride=out.param("stride"),
        dilation=out.param("dilation"),
        shape=(size, *out.type.shape),
    ),
    kernel=Library(),
    flops=lambda out: out.inputs[0].type.size,
    latex=Latex(r"\operatorname{{fold}}_{{{shape}}}({g})", ATOM, (0,), Form.WINDOWED),
    samples=(
        _fold_sample((3, 3), (1,), (1,), (5,)),
        _fold_sample((2, 2), (3,), (2,), (7,)),
        _fold_sample((2, 2, 2, 3, 2), (1, 2), (1, 1), (2, 4, 5)),
        _fold_sample((0, 3, 2), (1,), (1,), (0, 4)),
    ),
    python=Python(_fold_python, noun="folded"),
)

WINDOWS = (windows, fold_windows)

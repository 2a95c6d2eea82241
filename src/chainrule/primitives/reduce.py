"""Reductions over axes: sum, max, min, any, all, and the position of an extreme element."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, Shape, array_type
from chainrule.primitives import logic
from chainrule.primitives.families import BOOL
from chainrule.primitives.movement import broadcast_to, reshape
from chainrule.primitives.notation import ATOM, BIG, Form, Latex
from chainrule.primitives.primitive import (
    Derivative,
    Explicit,
    Flat,
    Fold,
    Linear,
    Primitive,
    Sample,
)
from chainrule.primitives.python import Python, Writing, Written, axes_text, dtype_text
from chainrule.primitives.sources import full_like


def without_axes(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """The shape that is left when `axes` are reduced."""
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _reduced_type(x: ArrayType, *, axes: tuple[int, ...]) -> ArrayType:
    if list(axes) != sorted(set(axes)) or any(not 0 <= axis < x.ndim for axis in axes):
        raise TypeError(f"axes {axes} are not increasing axes of {x}")
    return array_type(x.dtype, without_axes(x.shape, axes))


def spread(reduced: Any, shape: Shape, axes: tuple[int, ...]) -> Any:
    """A reduced value repeated over the axes that were reduced, back to `shape`."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    if any(axis not in axes for axis in range(len(axes))):  # not just leading axes
        reduced = reshape(reduced, shape=kept)
    return broadcast_to(reduced, shape=shape)


def _batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
    return out.primitive(inputs[0], axes=tuple(axis + 1 for axis in out.param("axes")))


def reduction(
    name: str,
    doc: str,
    evaluate: Any,
    derivative: Derivative,
    kernel: Fold,
    latex: Latex,
    python: Python,
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...],
    domain: Any = (-2.0, 2.0),
    kink: Any = None,
) -> Primitive:
    """A fold of one input over static `axes`, which disappear from the result."""
    return Primitive(
        name=name,
        doc=doc,
        inputs=("x",),
        result_type=_reduced_type,
        evaluate=evaluate,
        derivative=derivative,
        batch=_batch,
        kernel=kernel,
        flops=lambda out: out.inputs[0].type.size,
        latex=latex,
        samples=tuple(Sample((shape,), (domain,), (("axes", axes),)) for shape, axes in shapes),
        kink=kink,
        python=python,
    )


def reduced_by(function: str, noun: str) -> Python:
    """`x.sum(axis=1)`, or `np.sum(x * y, axis=1)`."""

    def write(out: Node, writing: Writing, x: Written) -> Written:
        axes, given = out.param("axes"), []
        if len(axes) != out.inputs[0].ndim or not axes:
            given.append(f"axis={axes_text(axes)}")
        if (
            function in ("sum", "prod")
            and out.type.dtype.kind in "iub"
            and out.type.dtype.itemsize < 8
        ):
            given.append(f"dtype={dtype_text(out.type.dtype)}")  # NumPy would widen it
        if x.text.isidentifier():
            return Written(f"{x.text}.{function}({', '.join(given)})")
        return Written(f"np.{function}({', '.join([x.text, *given])})")

    return Python(write, noun=noun)


NON_EMPTY = (((2, 3), (0,)), ((2, 3), (1,)), ((4,), (0,)), ((2, 1, 3), (0, 2)), ((), ()))

sum_ = reduction(
    "sum",
    "The sum over axes.",
    lambda xp, x, *, axes: xp.sum(x, axis=axes, dtype=x.dtype),
    Linear((lambda g, out, x: spread(g, x.type.shape, out.param("axes")),)),
    Fold("x + y", "0"),
    Latex(r"\sum_{{{axes}}} {x}", BIG, (BIG,), Form.SERIES),
    reduced_by("sum", "total"),
    (*NON_EMPTY, ((0, 3), (0,)), ((0,), (0,))),
)


def _winners(out: Any, x: Any) -> tuple[Any, Any]:
    # Where the element is the extreme one, and over the axes how many there are (at least 1,
    # so that NaN, which equals nothing, does not divide 0 by 0).
    axes = out.param("axes")
    hit = logic.equal(x, spread(out, x.type.shape, axes))
    ones = logic.where(hit, full_like(x, 1), full_like(x, 0))
    count = sum_(ones, axes=axes)
    count = logic.where(logic.equal(count, full_like(count, 0)), full_like(count, 1), count)
    return hit, count


def _extreme_cotangent(g: Any, out: Any, x: Any) -> Any:
    hit, count = _winners(out, x)
    share = spread(g / count, x.type.shape, out.param("axes"))
    return logic.where(hit, share, full_like(x, 0))


def _extreme_tangent(dx: Any, out: Any, x: Any) -> Any:
    hit, count = _winners(out, x)
    return sum_(logic.where(hit, dx, full_like(x, 0)), axes=out.param("axes")) / count


def _shared(x: Any, extreme: Any, axes: tuple[int, ...]) -> Any:
    """Which elements are the extreme one and not alone."""
    same = x == extreme
    return same & (np.sum(same, axes, keepdims=True) > 1)


EXTREME = Explicit((_extreme_tangent,), (_extreme_cotangent,))

max_ = reduction(
    "max",
    "The largest element over axes, NaN if any is; tied elements share the derivative equally.",
    lambda xp, x, *, axes: xp.max(x, axis=axes),
    EXTREME,
    Fold("fmax_nan(x, y)", "-inf"),
    Latex(r"\max_{{{axes}}}({x})", ATOM, (0,)),
    reduced_by("max", "largest"),
    NON_EMPTY,
    kink=lambda x, *, axes: _shared(x, x.max(axes, keepdims=True), axes),
)

min_ = reduction(
    "min",
    "The smallest element over axes, NaN if any is; tied elements share the derivative equally.",
    lambda xp, x, *, axes: xp.min(x, axis=axes),
    EXTREME,
    Fold("fmin_nan(x, y)", "inf"),
    Latex(r"\min_{{{axes}}}({x})", ATOM, (0,)),
    reduced_by("min", "smallest"),
    NON_EMPTY,
    kink=lambda x, *, axes: _shared(x, x.min(axes, keepdims=True), axes),
)


def _truth(x: ArrayType, *, axes: tuple[int, ...]) -> ArrayType:
    if x.dtype != BOOL:
        raise TypeError(f"any and all are of booleans, got {x}")
    return _reduced_type(x, axes=axes)


def _of_booleans(name: str, doc: str, evaluate: Any, kernel: Fold, symbol: str) -> Primitive:
    made = reduction(
        name,
        doc,
        evaluate,
        Flat(),
        kernel,
        Latex(rf"{symbol}_{{{{{{axes}}}}}} {{x}}", BIG, (BIG,)),
        reduced_by(name, name),
        (*NON_EMPTY, ((0, 3), (0,)), ((0,), (0,))),
        "bool",
    )
    return replace(made, result_type=_truth)


any_ = _of_booleans(
    "any",
    "Whether one element over axes is true, of booleans.",
    lambda xp, x, *, axes: xp.any(x, axis=axes),
    Fold("x | y", "0"),
    r"\bigvee",
)

all_ = _of_booleans(
    "all",
    "Whether all elements over axes are true, of booleans.",
    lambda xp, x, *, axes: xp.all(x, axis=axes),
    Fold("x & y", "1"),
    r"\bigwedge",
)

INDEX = np.dtype(np.int64)


def _place_scratch(out: Node, x: np.ndarray) -> int:
    # A copy in which the axis is the last, unless it lies in memory like that.
    flags = np.moveaxis(x, out.param("axis"), -1).flags
    return 0 if flags.c_contiguous and flags.writeable else x.nbytes


def _place(name: str, extreme: str, kernel: Fold, noun: str) -> Primitive:
    """Where along an axis the extreme element is."""

    def evaluate(xp: Any, x: Any, *, axis: int) -> Any:
        return xp.asarray(getattr(xp, name)(x, axis=axis), dtype=INDEX)

    def batch(size: int | Size, inputs: Any, batched: Any, out: Node) -> Any:
        return out.primitive(inputs[0], axis=out.param("axis") + 1)

    return Primitive(
        name=name,
        doc=f"The position of the first {extreme} element along an axis.",
        inputs=("x",),
        result_type=lambda x, *, axis: array_type(INDEX, without_axes(x.shape, (axis,))),
        evaluate=evaluate,
        derivative=Flat(),
        batch=batch,
        kernel=kernel,
        flops=lambda out: out.inputs[0].type.size,
        latex=Latex(rf"\operatorname{{{{{name}}}}}_{{{{{{axis}}}}}}({{x}})", ATOM, (0,)),
        samples=(
            Sample(((4,),), ((-2.0, 2.0),), (("axis", 0),)),
            Sample(((2, 3),), ((-2.0, 2.0),), (("axis", 1),)),
            Sample(((2, 1, 3),), ((-2.0, 2.0),), (("axis", 0),)),
        ),
        scratch=_place_scratch,
        kink=lambda x, *, axis: _shared(x, getattr(np, name[3:])(x, axis, keepdims=True), (axis,)),
        python=Python(
            lambda out, writing, x: Written(f"np.{name}({x.text}, axis={out.param('axis')})"),
            noun=noun,
        ),
    )


argmax = _place("argmax", "largest", Fold("argmax(x, y)", "-inf"), "winners")
argmin = _place("argmin", "smallest", Fold("argmin(x, y)", "inf"), "losers")

PLACES = (argmax, argmin)


def folded_axes(node: Node) -> tuple[int, ...]:
    """The axes of its operand over which a reduction goes."""
    return (node.param("axis"),) if node.primitive in PLACES else node.param("axes")


REDUCE = (sum_, max_, min_, any_, all_, *PLACES)

"""Constructors for families of primitives, which fill in what their members share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.notation import RELATION, Latex
from chainrule.primitives.primitive import (
    Derivative,
    Flat,
    Map,
    Partials,
    Primitive,
    Rule,
    Sample,
    elements,
    every_axis,
    no_bytes,
)
from chainrule.primitives.python import Python, operator_of

BOOL = np.dtype(np.bool_)
SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (0,), (2, 1, 3))


def tie(x: Any, y: Any) -> Any:
    """Where two operands are equal: on either side another one counts."""
    return x == y


def at_zero(x: Any, *others: Any) -> Any:
    """Where the first operand is 0."""
    return x == 0


def same_type(*types: ArrayType, **params: Any) -> ArrayType:
    """The one type that all inputs share; weak only if all are."""
    first = types[0]
    for other in types:
        if other is not first and other != first:
            if other.dtype != first.dtype or other.shape != first.shape:
                raise TypeError(f"types differ: {', '.join(map(str, types))}")
            first = array_type(first.dtype, first.shape, False)
    return first


def bool_type(*types: ArrayType, **params: Any) -> ArrayType:
    """Booleans of the shape that all inputs share."""
    return array_type(BOOL, same_type(*types).shape)


def batch_pointwise(
    size: int | Size, inputs: tuple[Node, ...], batched: tuple[bool, ...], out: Node
) -> Node:
    """Give every input the batch axis, then apply the primitive as it is."""
    from chainrule.primitives.movement import add_batch_axis

    full_inputs = [
        node if has else add_batch_axis(node, size)
        for node, has in zip(inputs, batched, strict=True)
    ]
    return out.primitive(*full_inputs, **dict(out.params))


def samples_on(
    domains: tuple[Any, ...], smooth: bool, params: dict[str, Any]
) -> tuple[Sample, ...]:
    """One sample for each of the shapes that every elementwise operation is tried on."""
    items = tuple(sorted(params.items()))
    return tuple(Sample((shape,) * len(domains), domains, items, smooth) for shape in SHAPES)


def elementwise(
    name: str,
    doc: str,
    evaluate: Callable[..., Any],
    derivative: Derivative | Rule,
    *,
    kernel: str,
    latex: Latex,
    domain: tuple[float, float] = (-2.0, 2.0),
    domains: tuple[Any, ...] = (),
    inputs: tuple[str, ...] = ("x",),
    result_type: Callable[..., ArrayType] = same_type,
    weight: int = 1,
    smooth: bool = True,
    more: tuple[Sample, ...] = (),
    scratch: Callable[..., int] = no_bytes,
    defined: tuple[float, float] | None = None,
    kink: Callable[..., Any] | None = None,
    python: Python | None = None,
    **params: Any,
) -> Primitive:
    """One operation on each element; all inputs have one type.

    A bare function as derivative is the partial `(out, x)` of a unary operation.  `weight` is the
    number of floating-point operations that one element counts for; `more` are further samples.
    A kernel that is one operator of Python is also how the call is written.
    """
    if not isinstance(derivative, Derivative):
        derivative = Partials((derivative,))
    return Primitive(
        name=name,
        doc=doc,
        inputs=inputs,
        result_type=result_type,
        evaluate=evaluate,
        derivative=derivative,
        batch=batch_pointwise,
        kernel=Map(kernel),
        flops=elements if weight == 1 else lambda out: weight * out.type.size,
        latex=latex,
        samples=(*samples_on(domains or (domain,) * len(inputs), smooth, params), *more),
        scratch=scratch,
        independent=every_axis,
        defined=defined,
        kink=kink,
        python=python or operator_of(kernel),
    )


def comparison(
    name: str, doc: str, evaluate: Callable[..., Any], symbol: str, kernel: str
) -> Primitive:
    """An elementwise test of two inputs of one type; the result is boolean, its derivative zero."""
    return elementwise(
        name,
        doc,
        evaluate,
        Flat(),
        kernel=kernel,
        latex=Latex(f"{{x}} {symbol} {{y}}", RELATION, (RELATION + 1,) * 2),
        inputs=("x", "y"),
        result_type=bool_type,
        kink=tie,
        more=(Sample(((9,), (9,)), ("int:2", "int:2")),),  # where elements are equal, too
    )

"""Primitives without array inputs: inputs, constants, uniform arrays, positions, sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.node import ArrayValue, Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import INT_SCALAR, ArrayType, array_type
from chainrule.primitives.notation import Form, Latex
from chainrule.primitives.primitive import (
    Flat,
    Generate,
    Given,
    Primitive,
    Sample,
    no_flops,
)
from chainrule.primitives.python import (
    Python,
    Writing,
    Written,
    dtype_text,
    number_text,
    shape_text,
)

# Inputs and constants stand in the source by their names.
GIVEN = Python(lambda out, writing: Written("_"))
MATRIX = array_type(np.dtype(np.float64), (2, 3))


def _source(
    name: str,
    doc: str,
    result_type: Any,
    evaluate: Any,
    latex: Latex,
    kernel: Any,
    python: Python,
    **params: Any,
) -> Primitive:
    """A primitive of static parameters only; `params` are those of its sample."""
    return Primitive(
        name=name,
        doc=doc,
        inputs=(),
        result_type=result_type,
        evaluate=evaluate,
        derivative=Flat(),
        batch=None,
        kernel=kernel,
        flops=no_flops,
        latex=latex,
        samples=(Sample((), (), tuple(sorted(params.items()))),),
        python=python,
    )


def _no_value(xp: Any, **params: Any) -> Any:
    raise AssertionError("an input has no value of its own; the executor provides it")


input_ = _source(
    "input",
    "A value given to the graph from outside.",
    lambda *, index, type: type,
    _no_value,
    Latex("{name}"),
    Given(),
    GIVEN,
    index=0,
    type=MATRIX,
)

constant = _source(
    "constant",
    "An array that the program closed over.",
    lambda *, value, type: type,
    lambda xp, *, value, type: xp.asarray(value.array),
    Latex("{name}", form=Form.ELEMENTS),
    Given(),
    GIVEN,
    value=ArrayValue(np.zeros((2, 3))),
    type=MATRIX,
)


def _full(xp: Any, *, value: Any, type: ArrayType) -> Any:
    if xp is not np:
        return xp.broadcast_to(xp.asarray(value, dtype=type.dtype), type.shape)
    # A NumPy scalar, which is no array and takes none of its bytes.
    element: Any = type.dtype.type(value)
    return np.ndarray(type.shape, type.dtype, element, strides=(0,) * type.ndim)


def _full_python(out: Node, writing: Writing) -> Written:
    # As `_full`: one element in memory, for what follows adds up by how its operands lie there.
    element = f"{dtype_text(out.type.dtype)}({number_text(out.param('value'), out.type.dtype)})"
    if not out.ndim:
        return Written(element)
    return Written(f"np.broadcast_to({element}, {shape_text(writing, out.type.shape)})")


full = _source(
    "full",
    "An array of one value, which is static; it has a type but no storage.",
    lambda *, value, type: type,
    _full,
    Latex("{value}", form=Form.UNIFORM),
    Generate(),
    Python(_full_python, noun="full"),
    value=2.5,
    type=MATRIX,
)


def _iota_python(out: Node, writing: Writing) -> Written:
    length = writing.size(out.type.shape[0])
    if out.type.dtype == INT_SCALAR.dtype:
        return Written(f"np.arange({length})")
    return Written(f"np.arange({length}, dtype={dtype_text(out.type.dtype)})")


iota = _source(
    "iota",
    "The positions 0, 1, ... along the one axis of the result.",
    lambda *, type: type,
    lambda xp, *, type: xp.arange(type.shape[0], dtype=type.dtype),
    Latex(r"\operatorname{{iota}}", form=Form.POSITIONS),
    Generate(),
    Python(_iota_python, noun="positions"),
    type=array_type(np.dtype(np.int64), (4,)),
)

size_value = _source(
    "size_value",
    "A size of the program as a 0-d number that never widens another dtype.",
    lambda *, size, type: type,
    lambda xp, *, size, type: xp.asarray(size, dtype=type.dtype),
    Latex("{size}"),
    Generate(),
    Python(
        lambda out, writing: Written(
            f"{dtype_text(out.type.dtype)}({writing.size(out.param('size'))})"
        )
    ),
    size=3,
    type=INT_SCALAR,
)


def full_like(reference: Node, value: float | bool) -> Any:
    """A uniform constant of the type of `reference`."""
    type_ = reference.type
    return full(value=_static(value, type_.dtype), type=type_)


def uniform(value: float | bool, dtype: np.dtype, shape: tuple = ()) -> Any:
    """A uniform constant of this dtype and shape."""
    return full(value=_static(value, np.dtype(dtype)), type=array_type(np.dtype(dtype), shape))


def _static(value: Any, dtype: np.dtype) -> Any:
    """The Python number that this value is in the dtype: so equal constants are equal."""
    if dtype_kind(dtype) == "f":
        return float(np.asarray(value, dtype=dtype))
    if dtype.kind == "b":
        return bool(value)
    return int(value)


def positions(length: int | Size, dtype: np.dtype) -> Any:
    """0, 1, ..., length - 1."""
    return iota(type=array_type(np.dtype(dtype), (length,)))


def size_of(size: int | Size, type_: ArrayType) -> Any:
    """A size as a 0-d value of this type: a constant where it is an integer."""
    if isinstance(size, Size):
        return size_value(size=size, type=type_)
    return full(value=_static(size, type_.dtype), type=type_)


def constant_of(value: ArrayValue, type_: ArrayType) -> Any:
    """A constant node for an array that the program closed over."""
    return constant(value=value, type=type_)


def is_uniform(node: Node) -> bool:
    """Whether the node is a uniform constant."""
    return node.primitive is full


SOURCES = (input_, constant, full, iota, size_value)

"""Primitives that ONNX has no operator for, written as programs of operations that it has.

A program is a function on traced values.  It is traced for the types of the node, and the nodes of
its graph are written instead: loops become ONNX's loops.  Floating-point numbers are float64 there,
as in the evaluation of these primitives, and the result is rounded to the dtype of the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.control.cond_node import cond
from chainrule.control.scan_node import scan
from chainrule.control.while_node import unwind, while_
from chainrule.exchange.to_onnx.expressions import Refused
from chainrule.exchange.to_onnx.of_elements import OF_ELEMENTS
from chainrule.exchange.to_onnx.of_float64 import OF_FLOAT64
from chainrule.exchange.to_onnx.of_matrices import OF_MATRICES
from chainrule.exchange.to_onnx.rotations import OF_ROTATIONS
from chainrule.exchange.to_onnx.rules import value_of
from chainrule.exchange.to_onnx.writer import Writer
from chainrule.graph.dtypes import dtype_kind, finfo
from chainrule.graph.node import Node, topological
from chainrule.graph.types import array_type
from chainrule.primitives.registry import PRIMITIVES
from chainrule.tracing import trace

WIDE = np.dtype(np.float64)

PROGRAMS: dict[str, Callable[..., Any]] = {**OF_ELEMENTS, **OF_MATRICES, **OF_ROTATIONS}


OURS = {one.name: one for one in (*PRIMITIVES, scan, cond, while_, unwind)}


def own_name(node: Node) -> str:
    """The name of a primitive of the library; none for another, which may be called alike."""
    name = node.primitive.name
    is_ours = OURS.get(name) is node.primitive or name == "custom_derivative"
    return name if is_ours else ""


def program_of(node: Node) -> Callable[..., Any] | None:
    """The program as which a node is written, or None."""
    name = own_name(node)
    return PROGRAMS.get(name) or (OF_FLOAT64.get(name) if node.dtype == WIDE else None)


def written_program(
    writer: Writer,
    node: Node,
    program: Callable[..., Any],
    write: Callable[[Writer, Sequence[Node]], None],
    *operands: str,
) -> str:
    """Writes the nodes of a program; the name of its result."""
    params = dict(node.params)
    if params.get("cutoff", 0) is None:  # of pinv: that of the dtype which the matrices have
        params["cutoff"] = _cutoff(node.inputs[0])
    pairs = zip(node.primitive.inputs, node.inputs, strict=True)
    graph = trace(
        lambda **given: program(**given, **params), **{name: _wide(one) for name, one in pairs}
    )
    for item, one, name in zip(graph.inputs, node.inputs, operands, strict=True):
        is_wide = item.node.dtype == one.dtype
        writer.value_of[item.node] = name if is_wide else writer.cast(name, item.node.dtype)
    ((_, result),) = graph.outputs
    write(writer, [one for one in topological([result]) if one not in writer.value_of])
    found = value_of(writer, result)
    return found if result.dtype == node.dtype else writer.cast(found, node.dtype)


def _wide(node: Node) -> Any:
    return array_type(WIDE if dtype_kind(node.dtype) == "f" else node.dtype, node.shape)


def _cutoff(x: Node) -> float:
    rows, columns = x.shape[-2:]
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise Refused(f"matrices of {rows} rows and {columns} columns, which must be numbers")
    return max(rows, columns) * float(finfo(x.dtype).eps)

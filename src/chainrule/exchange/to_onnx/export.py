"""`to_onnx`: a graph as an ONNX model, with its names and its named sizes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.errors import InputError, UnsupportedError
from chainrule.exchange.held import held_arrays
from chainrule.exchange.package import onnx_package
from chainrule.exchange.to_onnx.bodies import BODIES
from chainrule.exchange.to_onnx.expressions import (
    Refused,
    Scalars,
    Value,
    functions_that_lack,
    parsed,
)
from chainrule.exchange.to_onnx.programs import PROGRAMS, own_name, program_of, written_program
from chainrule.exchange.to_onnx.rules import READING, RULES, is_late, value_of
from chainrule.exchange.to_onnx.writer import Writer
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.graph.parts import Input
from chainrule.graph.sizes.size_terms import constant_of, terms_of
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.primitive import Map
from chainrule.primitives.sources import is_uniform
from chainrule.transforms.widen import widen
from chainrule.version import VERSION

OLDEST, DEFAULT, NEWEST = 18, 18, 28
OWN = "a function of your own"  # why ONNX has no operator for a primitive
LARGEST = 1 << 30  # bytes of arrays in one file; more go into another beside it


def to_onnx(
    graph: Graph,
    path: str | os.PathLike[str] | None = None,
    *,
    opset: int = DEFAULT,
    parameters: Mapping[str, Any] | None = None,
) -> bytes:
    """What `Graph.to_onnx` does."""
    onnx = onnx_package("graph.to_onnx")
    if isinstance(opset, bool) or not isinstance(opset, int) or not OLDEST <= opset <= NEWEST:
        raise InputError(
            f"opset={opset!r} is not written", hint=f"operator sets {OLDEST} to {NEWEST} are"
        )
    graph = widen(graph)
    held = held_arrays(graph, parameters or {})
    model = _model(onnx, graph, opset, held)
    if path is not None:
        apart = sum(len(one.raw_data) for one in model.graph.initializer) > LARGEST
        location = f"{Path(path).name}.data" if apart else None
        onnx.save_model(model, os.fspath(path), save_as_external_data=apart, location=location)
    return model.SerializeToString()


def _model(onnx: Any, graph: Graph, opset: int, held: Mapping[str, np.ndarray]) -> Any:
    needed = topological([node for _, node in graph.outputs])
    writer = Writer(onnx, opset)
    inputs = [item for item in graph.inputs if item.name not in held]
    for item in graph.inputs:
        writer.value_of[item.node] = item.name
    named = {**graph.name_of, **{node: name for name, node in reversed(graph.outputs)}}
    writer.names = {node: name for node, name in named.items() if node not in writer.value_of}
    writer.taken |= {*writer.names.values(), *writer.value_of.values()}
    writer.taken |= {name for name, _ in graph.outputs}
    for name, array in held.items():
        writer.tensors.append(onnx.numpy_helper.from_array(array, name))
    _write_sizes(writer, graph)
    write_nodes(writer, [node for node in needed if node not in writer.value_of])
    for name, node in graph.outputs:
        made = value_of(writer, node)
        if made != name:
            writer.emit_as(name, "Identity", made)
    declared = [_declared(onnx, writer, item.name, item.node) for item in inputs]
    results = [_declared(onnx, writer, name, node) for name, node in graph.outputs]
    for item in inputs:
        if isinstance(item.default, (int, float)):
            array = np.asarray(item.default, item.node.dtype)
            writer.tensors.append(onnx.numpy_helper.from_array(array, item.name))
    made = onnx.helper.make_graph(writer.nodes, graph.name, declared, results, writer.tensors)
    opsets = [onnx.helper.make_opsetid("", opset)]
    model = onnx.helper.make_model(
        made, opset_imports=opsets, producer_name="chainrule", producer_version=VERSION
    )
    model.ir_version = onnx.helper.find_min_ir_version_for(opsets)
    return model


def _declared(onnx: Any, writer: Writer, name: str, node: Node) -> Any:
    shape = [one if isinstance(one, int) else str(one) for one in node.shape]
    return onnx.helper.make_tensor_value_info(name, writer.kind(node.dtype), shape)


def _write_sizes(writer: Writer, graph: Graph) -> None:
    """Reads each named size off the shape of an input."""
    for item, axis, size in _axes(graph.inputs):
        match terms_of(size - constant_of(size)):
            case (((str() as name,), slope),) if name not in writer.sizes:
                found = writer.emit("Shape", item.name, start=axis, end=axis + 1)
                if constant_of(size):
                    found = writer.emit("Sub", found, writer.size(constant_of(size)))
                if slope != 1:
                    found = writer.emit("Div", found, writer.size(slope))
                writer.sizes[name] = found
    missing = [name for name in graph.sizes if name not in writer.sizes]
    if missing:
        raise UnsupportedError(
            f"the size {', '.join(missing)} can be read off no input of {graph.name}",
            hint=f"give it a number first: graph.bind({missing[0]}=256).to_onnx(path)",
        )


def _axes(inputs: Sequence[Input]) -> list[tuple[Input, int, Size]]:
    """The named axes of the inputs, the plainest first."""
    found = [
        (item, axis, size)
        for item in inputs
        for axis, size in enumerate(item.node.shape)
        if isinstance(size, Size)
    ]
    return sorted(found, key=lambda one: len(str(one[2])))


def write_nodes(writer: Writer, nodes: Sequence[Node]) -> None:
    """Writes nodes whose operands are written; all that have no operator are refused at once."""
    refused: Counter[str] = Counter()
    first: dict[str, Node] = {}
    for node in nodes:
        if node in writer.value_of or is_late(node):
            continue
        if refused and any(not _is_there(writer, one) for one in node.inputs):
            reason = _refusal(node)
        else:
            reason = _written(writer, node)
        if reason:
            refused[reason] += 1
            first.setdefault(reason, node)
    if refused:
        listed = [f"{name} ({count} node{'s' * (count > 1)})" for name, count in refused.items()]
        raise UnsupportedError(
            f"ONNX has no operator for {', '.join(listed)}",
            where=next(iter(first.values())).origin.describe(),
            hint="write it with operations that ONNX has, or export another part of the graph",
        )


def _is_there(writer: Writer, node: Node) -> bool:
    """Whether the value of a node is written, or can be."""
    return node in writer.value_of or (
        is_late(node) and all(_is_there(writer, one) for one in node.inputs)
    )


def _refusal(node: Node) -> str:
    """Why a node whose operands are refused would be, too; what is not known then is no reason."""
    name, kernel = node.primitive.name, node.primitive.kernel
    if own_name(node) in {*RULES, *BODIES, *PROGRAMS}:
        return ""
    if isinstance(kernel, Map):
        missing = functions_that_lack(kernel.expression)
        return _reason(name, missing[0]) if missing else ""
    return _reason(name, OWN)


def _reason(name: str, what: str) -> str:
    return name if what in ("", name) else f"{name}: {what}"


def _written(writer: Writer, node: Node) -> str:
    """Writes one node; gives what is refused, or nothing."""
    primitive, name = node.primitive, own_name(node)
    count = len(writer.nodes)
    try:
        program = program_of(node)
        is_mapped = isinstance(primitive.kernel, Map) and name not in RULES
        if program is None and (is_mapped or name in READING):
            operands = []
        else:
            operands = [value_of(writer, one) for one in node.inputs]
        if program is not None:
            made = written_program(writer, node, program, write_nodes, *operands)
        elif name in BODIES:
            made = BODIES[name](writer, node, write_nodes, *operands)
        elif name in RULES:
            made = RULES[name](writer, node, *operands)
        elif isinstance(primitive.kernel, Map):
            made = _mapped(writer, node, primitive.kernel.expression)
        else:
            return _reason(primitive.name, "" if name else OWN)
    except Refused as error:
        return _reason(primitive.name, str(error))
    own = writer.names.get(node)
    if own is not None and made != own:
        last = writer.nodes[-1] if len(writer.nodes) > count else None
        if last is not None and list(last.output) == [made]:  # it is called so from the beginning
            last.output[0] = last.name = own
        else:
            writer.emit_as(own, "Identity", made)
        made = own
    writer.value_of[node] = made
    return ""


def _mapped(writer: Writer, node: Node, expression: str) -> str:
    """An elementwise operation; uniform operands are numbers, which ONNX broadcasts."""
    whole = all(is_uniform(one) for one in node.inputs)
    values: dict[str, Any] = dict(node.params)
    for name, one in zip(node.primitive.inputs, node.inputs, strict=True):
        if is_uniform(one) and not whole:
            number = np.asarray(one.param("value"), one.dtype)
            values[name] = Value(writer.constant(number), one.dtype, number.item())
        else:
            values[name] = Value(value_of(writer, one), one.dtype)
    found = Scalars(writer, values).written(parsed(expression))
    return found.name if found.dtype == node.dtype else writer.cast(found.name, node.dtype)

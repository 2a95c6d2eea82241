"""Writes loops and choices: their bodies are graphs within the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.control.repeated import Repeated, repeated
from chainrule.exchange.to_onnx.rules import value_of
from chainrule.exchange.to_onnx.writer import INT64, Writer
from chainrule.graph.body import Body
from chainrule.graph.node import Node, topological

Nodes = Callable[[Writer, Sequence[Node]], None]  # writes the nodes of a graph


def _begun(writer: Writer) -> Writer:
    return Writer(writer.onnx, writer.opset, writer)


def _body(inner: Writer, body: Body, given: Sequence[str], write: Nodes) -> list[str]:
    """Writes a body on these values; the names of its outputs."""
    graph = body.graph
    for item, name in zip(graph.inputs, given, strict=True):
        inner.value_of[item.node] = name
    outputs = [node for _, node in graph.outputs]
    write(inner, [node for node in topological(outputs) if node not in inner.value_of])
    return [value_of(inner, node) for node in outputs]


def _input(writer: Writer, name: str, node: Node) -> Any:
    """The declaration of a body's input or output; sizes stay open."""
    shape = [one if isinstance(one, int) else None for one in node.shape]
    return writer.onnx.helper.make_tensor_value_info(name, writer.kind(node.dtype), shape)


def _outputs(inner: Writer, names: Sequence[str], nodes: Sequence[Node]) -> list[Any]:
    """Declares outputs; each is a name that only this graph has."""
    found = []
    for name, node in zip(names, nodes, strict=True):
        found.append(_input(inner, inner.emit("Identity", name, wish="_out"), node))
    return found


def _graph(inner: Writer, inputs: list[Any], outputs: list[Any]) -> Any:
    return inner.onnx.helper.make_graph(inner.nodes, inner.fresh("body"), inputs, outputs)


def cond(writer: Writer, out: Node, write: Nodes, *operands: str) -> str:
    branches = {}
    for key, name in (("if_true", "then_branch"), ("if_false", "else_branch")):
        inner = _begun(writer)
        body = out.param(key)
        results = _body(inner, body, operands[1:], write)
        flat = inner.flat(results)
        branches[name] = _graph(inner, [], _outputs(inner, [flat], [out]))
    return writer.emit("If", operands[0], **branches)


def scan(writer: Writer, out: Node, write: Nodes, *operands: str) -> str:
    """ONNX's Scan: constants are seen from inside, carries are its states."""
    body, carries, constants = (out.param(key) for key in ("body", "carries", "constants"))
    last = constants + carries
    items, results = body.graph.inputs, [node for _, node in body.graph.outputs]
    if out.param("length") == 0:  # which onnxruntime refuses
        types = [node.dtype for node in results[:carries]]
        begin = zip(operands[constants:last], types, strict=True)
        own = [name for name, dtype in begin if dtype == out.dtype]
        return writer.flat(own) if own else writer.zeros([0], out.dtype)
    inner = _begun(writer)
    names = [inner.fresh(f"_{item.name}") for item in items[constants:]]
    declared = [
        _input(inner, name, item.node) for name, item in zip(names, items[constants:], strict=True)
    ]
    rows = list(operands[last:])
    if not rows:  # Scan loops over at least one array
        rows = [writer.positions(0, 1, out.param("length"))]
        place = inner.fresh("_place")
        kind = inner.kind(np.dtype(np.int64))
        declared.append(inner.onnx.helper.make_tensor_value_info(place, kind, []))
    made = _body(inner, body, [*operands[:constants], *names], write)
    graph = _graph(inner, declared, _outputs(inner, made, results))
    stacks = len(results) - carries
    way = int(out.param("reverse"))
    outwards = {"scan_output_directions": [way] * stacks} if stacks else {}
    found = writer.several(
        "Scan",
        [*operands[constants:last], *rows],
        len(results),
        body=graph,
        num_scan_inputs=len(rows),
        scan_input_directions=[way] * len(rows),
        **outwards,
    )
    own = [
        name
        for name, node in zip(found, results[:carries], strict=False)
        if node.dtype == out.dtype
    ]
    return writer.flat([*own, *found[carries:]])


def while_(writer: Writer, out: Node, write: Nodes, *operands: str) -> str:
    """ONNX's Loop, without a limit: a run past `max_steps` raises no error there."""
    does = repeated(out)
    found = _repeated(writer, does, write, operands)
    results = [node for _, node in does.body.graph.outputs]
    return _packed(writer, out, found, results)


def _packed(writer: Writer, out: Node, found: Sequence[str], results: Sequence[Node]) -> str:
    """The values of the dtype of the node, one after another."""
    pairs = zip(found, results, strict=True)
    return writer.flat([name for name, node in pairs if node.dtype == out.dtype])


def _repeated(
    writer: Writer, does: Repeated, write: Nodes, operands: Sequence[str], kept: Sequence[int] = ()
) -> list[str]:
    """The values in the end; then the values `kept` before each iteration, and its number."""
    forth, condition, constants = does.forth, does.condition, does.constants
    fixed, states = operands[:constants], operands[constants:]
    items, results = forth.graph.inputs, [node for _, node in forth.graph.outputs]
    before = _begun(writer)
    (begins,) = _body(before, condition, operands, write)
    writer.nodes += before.nodes  # the condition is computed once before the loop
    inner = _begun(writer)
    helper, kind = inner.onnx.helper, inner.kind
    step, goes = inner.fresh("_step"), inner.fresh("_goes_on")
    names = [inner.fresh(f"_{item.name}") for item in items[constants:]]
    number = helper.make_tensor_value_info(step, kind(INT64), [])
    declared = [
        number,
        helper.make_tensor_value_info(goes, kind(np.dtype(np.bool_)), []),
        *[
            _input(inner, name, item.node)
            for name, item in zip(names, items[constants:], strict=True)
        ],
    ]
    made = _body(inner, forth, [*fixed, *names], write)
    after = Writer(inner.onnx, inner.opset, inner)
    (again,) = _body(after, condition, [*fixed, *made], write)
    inner.nodes += after.nodes
    holds = [node for _, node in condition.graph.outputs]
    rows = [names[place] for place in kept], [results[place] for place in kept]
    outputs = _outputs(inner, [again, *made, *rows[0]], [*holds, *results, *rows[1]])
    count = len(results)
    if does.step:
        count += len(kept) + 1
        last = inner.emit("Identity", step, wish="_out")
        outputs.append(helper.make_tensor_value_info(last, kind(INT64), []))
    return writer.several(
        "Loop", ["", begins, *states], count, body=_graph(inner, [*declared], outputs)
    )


def unwind(writer: Writer, out: Node, write: Nodes, *operands: str) -> str:
    """The loop again, which keeps its values; then another one, from its last iteration back."""
    does = repeated(out)
    items = does.body.graph.inputs
    results = [node for _, node in does.body.graph.outputs]
    read = does.read
    found = _repeated(writer, does, write, operands[: does.back], read)
    *kept, numbers = found[does.states :]
    scalar = writer.constant(np.array([], np.int64))
    count = writer.emit("Reshape", writer.emit("Shape", numbers), scalar, allowzero=1)
    inner = _begun(writer)
    helper, kind = inner.onnx.helper, inner.kind
    step, goes = inner.fresh("_step"), inner.fresh("_goes_on")
    names = [inner.fresh(f"_{item.name}") for item in items[does.back :]]
    declared = [
        helper.make_tensor_value_info(step, kind(INT64), []),
        helper.make_tensor_value_info(goes, kind(np.dtype(np.bool_)), []),
        *[_input(inner, name, node) for name, node in zip(names, results, strict=True)],
    ]
    place = inner.emit("Sub", inner.emit("Sub", count, inner.constant(np.int64(1))), step)
    before = list(operands[does.constants : does.back])  # those that nothing reads
    for state, rows in zip(read, kept, strict=True):
        before[state] = inner.emit("Gather", rows, place, axis=0)
    made = _body(inner, does.body, [*operands[: does.constants], *before, *names], write)
    forever = inner.emit("Identity", goes, wish="_out")
    outputs = [
        helper.make_tensor_value_info(forever, kind(np.dtype(np.bool_)), []),
        *_outputs(inner, made, results),
    ]
    body = _graph(inner, declared, outputs)
    found = writer.several("Loop", [count, "", *operands[does.back :]], len(results), body=body)
    return _packed(writer, out, found, results)


def running(writer: Writer, out: Node, write: Nodes, *operands: str) -> str:
    """`cumprod` and `recurrence`: rows along an axis, each made of the one before it."""
    axis, way = out.param("axis"), int(out.param("reverse"))
    if out.shape[axis] == 0:  # which onnxruntime refuses
        return writer.emit("Identity", operands[-1])
    order = [axis, *[one for one in range(out.ndim) if one != axis]]
    rest = [out.shape[one] for one in order[1:]]
    rows = [writer.transpose(one, order) for one in operands]
    adds = len(rows) == 2
    if adds:  # the first factor multiplies nothing
        nothing = writer.zeros([1, *rest], out.dtype)
        zero, one, end = (writer.constant(np.array([k], np.int64)) for k in (0, 1, -1))
        far = writer.constant(np.array([1 << 62], np.int64))
        kept = writer.emit("Slice", rows[0], zero if way else one, end if way else far)
        rows[0] = writer.emit("Concat", *((kept, nothing) if way else (nothing, kept)), axis=0)
    unit = writer.constant(np.asarray(0 if adds else 1, out.dtype))
    begin = writer.emit("Expand", unit, writer.shape(rest))
    inner = _begun(writer)
    names = [inner.fresh("_row") for _ in range(len(rows) + 1)]
    row = Node(out.primitive, (), (), out.type.with_shape(tuple(rest)))
    declared = [_input(inner, name, row) for name in names]
    found = inner.emit("Mul", names[0], names[1])
    found = inner.emit("Add", found, names[2]) if adds else found
    body = _graph(inner, declared, _outputs(inner, [found, found], [row, row]))
    options = {"scan_input_directions": [way] * len(rows), "scan_output_directions": [way]}
    _, stacked = writer.several(
        "Scan", [begin, *rows], 2, body=body, num_scan_inputs=len(rows), **options
    )
    return writer.transpose(stacked, np.argsort(order).tolist())


BODIES = {
    "cond": cond,
    "cumprod": running,
    "recurrence": running,
    "scan": scan,
    "unwind": unwind,
    "while_": while_,
}

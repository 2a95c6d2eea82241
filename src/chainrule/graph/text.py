"""Writes a graph as stable, readable text; docs/text-form.md has its grammar."""

from __future__ import annotations

from chainrule.graph.body import Body
from chainrule.graph.graph import Graph
from chainrule.graph.node import ArrayValue, Node
from chainrule.graph.types import ArrayType


def _value(value: object) -> str:
    if isinstance(value, ArrayValue):
        return f"sha256:{value.sha256[:16]}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_value, value)) + ("," if len(value) == 1 else "") + ")"
    return str(value)


def text(graph: Graph, *, origins: bool = False) -> str:
    """The graph as text, one line per node; the same graph gives the same text."""
    label: dict[Node, str] = {}
    named, unnamed = graph.name_of, 0
    for node in graph.nodes:
        if node in named:
            label[node] = named[node]
        else:
            label[node] = f"%{unnamed}"
            unnamed += 1
    inputs = {item.node for item in graph.inputs}
    arguments = []
    for item in graph.inputs:
        number = isinstance(item.default, (int, float))
        default = f" = {item.default!r}" if number else ""
        arguments.append(f"{item.name}: {item.node.type}{default}")
    lines = [f"graph {graph.name}({', '.join(arguments)})"]
    body = []
    for node in graph.nodes:
        if node in inputs:
            continue
        shown = [f"{k}={_value(v)}" for k, v in node.params if not isinstance(v, ArrayType)]
        params = ", ".join(shown)
        params = f"[{params}]" if params else ""
        operands = ", ".join(label[parent] for parent in node.inputs)
        body.append(
            (f"  {label[node]}: {node.type} = {node.primitive.name}{params}({operands})", node)
        )
    width = max((len(line) for line, _ in body), default=0)
    for line, node in body:
        place = node.origin.short() if origins else ""
        why = node.origin.transform if origins else ""
        note = " ".join(part for part in (place, why) if part)
        lines.append(f"{line:<{width}}  # {note}" if note else line)
        for key, value in node.params:
            if isinstance(value, Body):
                inner = text(value.graph, origins=origins).split("\n")
                inner[0] = f"{key} {inner[0].removeprefix('graph ')}"
                lines += [f"    {one}" for one in inner]
    aliases = [(n, v) for n, v in graph.names.items() if named[v] != n]
    lines += [f"  {name} = {label[node]}" for name, node in aliases]
    for condition in graph.conditions:
        lines.append(f"  require {condition.expression} {condition.relation} 0")
    for guard in graph.guards:
        lines.append(f"  require {guard.name} == {guard.value!r}")
    shown = [name if named.get(n) == name else f"{name} = {label[n]}" for name, n in graph.outputs]
    lines.append(f"  return {', '.join(shown)}")
    return "\n".join(lines)

"""A `Block` is a graph or a function of an ONNX file: calls in the order in which they can run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import DataFileError
from chainrule.exchange.from_onnx.call import Call
from chainrule.exchange.from_onnx.tensors import Tensors

LONGEST_NAME = 10_000
DEEPEST = 32  # graphs within graphs, functions within functions
_MODULES = re.compile(r"'([^']*)'")


@dataclass(frozen=True)
class Reference:
    """The attribute of a function's node that is an attribute of the function."""

    name: str


@dataclass(frozen=True)
class Block:
    """Names of inputs and outputs, known arrays by name, and the calls that the outputs need."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    known: dict[str, np.ndarray]
    calls: tuple[Call, ...]
    free: frozenset[str]  # names that it takes from around it

    def every_call(self) -> Iterator[Call]:
        """Its calls, and those of the graphs in their attributes."""
        pending = [self]
        while pending:
            for call in pending.pop().calls:
                yield call
                pending += [one for one in call.attributes.values() if isinstance(one, Block)]


class Reader:
    """Reads the graphs and functions of one file."""

    def __init__(self, onnx: Any, tensors: Tensors) -> None:
        self.onnx, self.tensors = onnx, tensors
        self.count = 0
        self.constants: set[str] = set()  # arrays that are Constant nodes
        self._inner: list[dict[str, np.ndarray]] = []  # the arrays of graphs within the graph

    def whole(self, graph: Any, versions: dict[str, int]) -> Block:
        """The graph of the file.  Arrays of the graphs in it are its own, if their names are."""
        block = self.graph(graph, versions)
        made = {name for call in block.calls for name in call.outputs}
        taken = Counter(name for known in self._inner for name in known)
        for known in self._inner:
            for name in [*known]:
                if taken[name] == 1 and name not in {*made, *block.inputs, *block.known}:
                    block.known[name] = known.pop(name)
        return block

    def graph(self, graph: Any, versions: dict[str, int], depth: int = 0) -> Block:
        """A graph, or one within another."""
        tensors = [*graph.initializer, *[one.values for one in graph.sparse_initializer]]
        for what, those in (("input", graph.input), ("output", graph.output), ("tensor", tensors)):
            _require_once(what, [one.name for one in those])
        known = {one.name: self.tensors.array(one) for one in graph.initializer}
        for one in graph.sparse_initializer:
            known[one.values.name] = self.tensors.dense(one)
        inputs = tuple(one.name for one in graph.input if one.name not in known)
        outputs = tuple(one.name for one in graph.output)
        require_text(graph.name, *known, *inputs, *outputs)
        if depth:
            self._inner.append(known)
        return self._block(graph.name, inputs, outputs, known, graph.node, versions, depth)

    def function(self, function: Any, versions: dict[str, int]) -> Block:
        """A function, whose body sees nothing but its inputs."""
        own = {_domain(one.domain): one.version for one in function.opset_import}
        given = tuple(function.input), tuple(function.output)
        return self._block(function.name, *given, {}, function.node, {**versions, **own}, 1)

    def _block(
        self,
        name: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        known: dict[str, np.ndarray],
        nodes: Any,
        versions: dict[str, int],
        depth: int,
    ) -> Block:
        if depth > DEEPEST:
            raise DataFileError(f"the graph {name!r} is nested more than {DEEPEST} times")
        calls = []
        for call in [self.call(node, versions, depth) for node in nodes]:
            value = _constant(call)
            if value is None or call.outputs[0] in known or call.outputs[0] in inputs:
                calls.append(call)
            else:
                known[call.outputs[0]] = value
                self.constants.add(call.outputs[0])
        makers: dict[str, Call] = {}
        for call in calls:
            for made in filter(None, call.outputs):
                if made in makers or made in known or made in inputs:
                    raise DataFileError(
                        f"the value {made!r} is made twice, by {call.shown} for the second time"
                    )
                makers[made] = call
        ordered, free = _in_order(name, outputs, makers, {*inputs, *known})
        return Block(name, inputs, outputs, known, tuple(ordered), frozenset(free))

    def asked_for(self, block: Block, outputs: tuple[str, ...]) -> Block:
        """The block with some of its outputs, and the calls that these need."""
        makers = {made: one for one in block.calls for made in one.outputs if made}
        calls, free = _in_order(block.name, outputs, makers, {*block.inputs, *block.known})
        return Block(block.name, block.inputs, outputs, block.known, tuple(calls), frozenset(free))

    def call(self, node: Any, versions: dict[str, int], depth: int) -> Call:
        """One node, with its attributes as Python values."""
        self.count += 1
        attributes = [one.name for one in node.attribute]
        require_text(node.op_type, node.domain, node.name, *node.input, *node.output, *attributes)
        domain = _domain(node.domain)
        found = Call(
            node.op_type,
            domain,
            node.name,
            {one.name: self._attribute(one, versions, depth) for one in node.attribute},
            tuple(node.input),
            tuple(node.output),
        )
        found.number, found.version = self.count, versions.get(domain, 0)
        found.scope, found.note = _scope_of(node), node.doc_string
        return found

    def _attribute(self, attribute: Any, versions: dict[str, int], depth: int) -> Any:
        kinds = self.onnx.AttributeProto
        if attribute.ref_attr_name:
            return Reference(attribute.ref_attr_name)
        kind = attribute.type
        if kind == kinds.GRAPH:
            return self.graph(attribute.g, versions, depth + 1)
        if kind == kinds.TENSOR:
            return self.tensors.array(attribute.t)
        if kind == kinds.SPARSE_TENSOR:
            return self.tensors.dense(attribute.sparse_tensor)
        if kind in (kinds.GRAPHS, kinds.TENSORS, kinds.SPARSE_TENSORS, kinds.TYPE_PROTOS):
            raise DataFileError(f"the attribute {attribute.name!r} is a list of no numbers")
        try:
            value = self.onnx.helper.get_attribute_value(attribute)
        except ValueError as error:
            raise DataFileError(f"the attribute {attribute.name!r}: {error}") from None
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        if isinstance(value, (list, tuple)) or hasattr(value, "append"):
            return tuple(
                one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in value
            )
        return value


def _constant(call: Call) -> np.ndarray | None:
    """The array of a Constant, which is one of the block's like its tensors."""
    if call.operator != "Constant" or call.domain or len(call.outputs) != 1:
        return None
    value = call.get("value")
    return value if isinstance(value, np.ndarray) else None


def _in_order(
    name: str, outputs: tuple[str, ...], makers: dict[str, Call], given: set[str]
) -> tuple[list[Call], set[str]]:
    """The calls that the outputs need, inputs before users; and the names that nothing makes."""
    ordered: list[Call] = []
    state: dict[Call, bool] = {}  # whether it is in `ordered`
    free: set[str] = set()

    def needed(names: Any) -> list[Call]:
        free.update(one for one in names if one not in makers and one not in given)
        return [makers[one] for one in names if one in makers]

    stack = [(call, False) for call in reversed(needed(outputs))]
    while stack:
        call, ready = stack.pop()
        if ready:
            state[call] = True
            ordered.append(call)
        elif call not in state:
            state[call] = False
            stack.append((call, True))
            for one in reversed(needed(_reads(call))):
                if state.get(one) is False:
                    raise DataFileError(
                        f"the graph {name!r} is cyclic: {one.shown} needs what {call.shown} makes, "
                        "which needs it"
                    )
                if one not in state:
                    stack.append((one, False))
    return ordered, free


def _reads(call: Call) -> list[str]:
    blocks = [one for one in call.attributes.values() if isinstance(one, Block)]
    return [*filter(None, call.inputs), *[name for one in blocks for name in sorted(one.free)]]


def require_text(*names: Any) -> None:
    """Names that are no UTF-8 come as bytes."""
    for name in names:
        if not isinstance(name, str):
            raise DataFileError(f"the name {name!r} is no text", hint="the file is damaged")
        if len(name) > LONGEST_NAME:
            raise DataFileError(f"the name {name[:40]!r}... has {len(name)} letters")


def _require_once(what: str, names: list[str]) -> None:
    """One name for two things is a mistake, whichever of them is meant."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataFileError(f"the {what} {twice[0]!r} is there twice")


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _scope_of(node: Any) -> str:
    """The module that a node belongs to: of PyTorch's exporters, from its name or its notes."""
    for one in node.metadata_props:
        if one.key == "pkg.torch.onnx.name_scopes":
            return _dotted(_MODULES.findall(one.value)[:-1][-1:])
    if not node.name.startswith("/"):
        return ""
    parts = [one for one in node.name.split("/")[:-1] if one]
    found: list[str] = []
    before = ""
    for one in parts:
        found.append(one.removeprefix(f"{before}."))
        before = one
    return _dotted(found)


def _dotted(parts: list[str]) -> str:
    names = [name for part in parts for name in part.split(".")]
    return ".".join(name for name in names if name.strip() and name.isprintable())

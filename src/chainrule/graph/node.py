"""A `Node` is one primitive applied to the values of other nodes; it stands for one array."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from chainrule.graph.frozen import Frozen
from chainrule.graph.origin import UNKNOWN, Origin
from chainrule.graph.types import ArrayType

if TYPE_CHECKING:
    from chainrule.primitives.primitive import Primitive

Parameters = tuple[tuple[str, Any], ...]
_set = object.__setattr__


class Node(Frozen):
    """One primitive, its input nodes, its static parameters (sorted, hashable) and its type.

    Frozen.  Equality and hash are identity; `structural_hash` compares what is computed.
    """

    __slots__ = (
        "__weakref__",
        "_structural_hash",
        "inputs",
        "origin",
        "params",
        "primitive",
        "type",
    )

    _called = "a node of a graph"
    primitive: Primitive
    inputs: tuple[Node, ...]
    params: Parameters
    type: ArrayType
    origin: Origin
    _structural_hash: bytes

    def __init__(
        self,
        primitive: Primitive,
        inputs: tuple[Node, ...],
        params: Parameters,
        type: ArrayType,
        origin: Origin = UNKNOWN,
    ) -> None:
        _set(self, "primitive", primitive)
        _set(self, "inputs", inputs)
        _set(self, "params", params)
        _set(self, "type", type)
        _set(self, "origin", origin)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a node is frozen; cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a node is frozen; cannot delete {name}")

    def param(self, name: str) -> Any:
        """The static parameter called `name`."""
        for key, value in self.params:
            if key == name:
                return value
        raise KeyError(name)

    def with_inputs(self, inputs: tuple[Node, ...]) -> Self:
        """The same operation on other inputs of the same types, from the same line."""
        return type(self)(self.primitive, inputs, self.params, self.type, self.origin)

    @property
    def shape(self) -> tuple:
        """The shape of the value."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the value."""
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of axes of the value."""
        return len(self.type.shape)

    @property
    def expression(self) -> str:
        """The primitive and its parameters, without the inputs: `sum[axes=(0,)]`."""
        shown = ", ".join(f"{key}={value}" for key, value in self.params)
        return self.primitive.name + (f"[{shown}]" if shown else "")

    def __repr__(self) -> str:
        return f"<{self.expression}: {self.type}>"


def stamp(nodes: Iterable[Node], origin: Origin) -> None:
    """Give an origin to nodes that were built without one and, through them, to their new inputs.

    Only builders call this, at once after building: a node's origin never changes later.
    """
    stack = [node for node in nodes if node.origin is UNKNOWN]
    while stack:
        node = stack.pop()
        if node.origin is UNKNOWN:
            _set(node, "origin", origin)
            stack.extend(parent for parent in node.inputs if parent.origin is UNKNOWN)


class ArrayValue(Frozen):
    """A NumPy array (or scalar) held by a constant node: compared by identity."""

    __slots__ = ("_sha256", "array", "name")
    _called = "a constant of a graph"

    def __init__(self, array: np.ndarray, name: str = "") -> None:
        self.array = np.array(array, copy=True)
        self.array.setflags(write=False)
        self.name = name
        self._sha256 = ""

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes in C order, as 64 hexadecimal digits."""
        if not self._sha256:
            self._sha256 = hashlib.sha256(np.ascontiguousarray(self.array).tobytes()).hexdigest()
        return self._sha256

    def __repr__(self) -> str:
        return f"sha256:{self.sha256[:16]}"


def structural_hash(nodes: Iterable[Node]) -> str:
    """A SHA-256 of what the nodes compute, given in topological order with their inputs.

    Primitives, static parameters, types and wiring count; names, origins and the values of
    constants do not (they are arguments of compiled code).
    """
    digests: dict[Node, bytes] = {}
    total = hashlib.sha256()
    for node in nodes:
        digest = getattr(node, "_structural_hash", None)
        if digest is None:
            params = [(k, "" if isinstance(v, ArrayValue) else v) for k, v in node.params]
            head = f"{node.primitive.name}|{params}|{node.type}|".encode()
            body = b"".join(digests[parent] for parent in node.inputs)
            digest = hashlib.sha256(head + body).digest()
            _set(node, "_structural_hash", digest)
        digests[node] = digest
        total.update(digest)
    return total.hexdigest()


def digest_of(node: Node) -> str:
    """The SHA-256 of one node and all that it is computed from, as `structural_hash` counts them.

    Of a node that `structural_hash` has seen; 64 hexadecimal digits.
    """
    return node._structural_hash.hex()


def topological(outputs: Iterable[Node]) -> list[Node]:
    """All nodes that the outputs need, inputs before users, in a deterministic order."""
    order: list[Node] = []
    done: set[Node] = set()
    for output in outputs:
        stack: list[tuple[Node, int]] = [(output, 0)]
        while stack:
            node, position = stack.pop()
            if position == 0 and node in done:
                continue
            inputs = node.inputs
            while position < len(inputs) and inputs[position] in done:
                position += 1
            if position < len(inputs):
                stack.append((node, position + 1))
                stack.append((inputs[position], 0))
            elif node not in done:
                done.add(node)
                order.append(node)
    return order

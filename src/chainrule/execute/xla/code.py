"""The compiled code of a graph: one jitted function, shared by all graphs that compute the same."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from chainrule.execute.xla.foreign import Foreign
from chainrule.execute.xla.jax_here import OPTIONS, jax_here, tracing
from chainrule.execute.xla.tracing import Space
from chainrule.graph.body import inner_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.primitives.primitive import Given

REMEMBERED = 64  # codes; those that programs hold stay beside them


class Code:
    """What computes `results` of a graph: a function of the arrays of `given`, in this order.

    `given` are the inputs and constants that the results need.
    """

    def __init__(self, given: Sequence[Node], results: Sequence[Node]) -> None:
        self.foreign = Foreign()
        order = topological(results)

        def computed(*arrays: Any) -> Any:
            space = Space(self.foreign)
            values = dict(zip(given, arrays, strict=True))
            with tracing():
                space.evaluate(order, values)
            found = [values[node] for node in results]
            return found, (() if space.failed is False else (space.failed,))

        self.function = computed
        self.jitted = jax_here().jit(computed, compiler_options=OPTIONS)


def given_of(results: Sequence[Node]) -> list[Node]:
    """The inputs and constants that the results need."""
    return [one for one in topological(results) if isinstance(one.primitive.kernel, Given)]


_codes: OrderedDict[str, Code] = OrderedDict()
_lock = threading.Lock()


def code_of(graph: Graph, given: Sequence[Node], results: Sequence[Node]) -> Code:
    """The code for these results of a concrete graph, made when it is first asked for."""
    key = _key(graph, results)
    with _lock:
        found = _codes.get(key)
        if found is None:
            found = _codes[key] = Code(given, results)
        _codes.move_to_end(key)
        while len(_codes) > REMEMBERED:
            _codes.popitem(last=False)
    return found


def _key(graph: Graph, results: Sequence[Node]) -> str:
    """What determines the code.  Names and the values of constants do not; primitives count by
    identity, since a user may declare two of one name."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    wiring = [[places[parent] for parent in node.inputs] for node in graph.nodes]
    made = [id(node.primitive) for node in (*graph.nodes, *inner_nodes(graph))]
    text = f"{graph.structural_hash}|{wiring}|{made}|{[places[node] for node in results]}"
    return hashlib.sha256(text.encode()).hexdigest()

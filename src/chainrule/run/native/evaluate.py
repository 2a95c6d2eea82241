"""The native executor: the values of nodes by compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

import numpy as np

from chainrule.errors import EvaluationError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.sources import constant
from chainrule.run import reference
from chainrule.run.free_memory import refuse_beyond_free
from chainrule.run.native.launch import Launcher


def evaluate(
    graph: Graph,
    inputs: Mapping[Node, np.ndarray],
    keep: Iterable[Node],
    traced: Graph | None = None,
    *,
    strict: bool = False,
) -> dict[Node, np.ndarray]:
    """The values of the nodes in `keep`, as `reference.evaluate` gives them.

    With `strict`, UnsupportedError for a node that has no native kernel.
    """
    kept = list(dict.fromkeys(keep))
    launcher = Launcher(graph, kept, strict=strict)
    computed = set(launcher.results)
    copies = sum(int(node.type.nbytes) for node in kept if node not in computed)
    if not computed:
        refuse_beyond_free(copies)
    made = launcher(inputs, copies) if computed else {}
    if made is None:
        raise_failure(graph, inputs, kept, traced)
    return {node: made[node] if node in made else given_value(node, inputs) for node in kept}


def given_value(node: Node, inputs: Mapping[Node, np.ndarray]) -> np.ndarray:
    """The value of an input or of a constant, in memory of its own."""
    value = node.param("value").array if node.primitive is constant else inputs[node]
    return np.array(value, node.dtype, order="C")


def raise_failure(
    graph: Graph,
    inputs: Mapping[Node, np.ndarray],
    keep: Iterable[Node],
    traced: Graph | None = None,
) -> NoReturn:
    """An index was out of range: the reference executor says which, where, and in what call."""
    reference.evaluate(graph, inputs, keep, traced)
    raise EvaluationError("an index was out of range, but not for the reference executor")

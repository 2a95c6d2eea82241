"""Warns where NumPy's own numbers widen float32 to float64; Python's numbers do not.

`x @ W / np.sqrt(64)` is float64 for float32 arrays (NEP 50), and so is all that follows, at half
the speed and twice the memory.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import numpy as np

from chainrule.errors import ChainruleError, PrecisionWarning
from chainrule.graph.dtypes import in_python
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to
from chainrule.primitives.sources import constant, full
from chainrule.tracebacks import warn_user
from chainrule.transforms.vjp import depends_on


def warn_of_widening(graph: Graph, of: str, parameters: Iterable[str]) -> None:
    """A PrecisionWarning where `of` is of a wider dtype than all parameters are, because a value
    that depends on them met a wider constant; none where a cast or an input says so."""
    target = graph[of]
    wrt = [graph.input(name).node for name in parameters]
    narrow = max((node.dtype for node in wrt), key=lambda dtype: dtype.itemsize)
    if target.dtype.itemsize <= narrow.itemsize:
        return
    nodes = topological([target])
    active = depends_on(nodes, wrt)
    for node in nodes:
        if node.dtype != target.dtype or node not in active or not node.shape:
            continue  # of a single number it costs nothing
        for parent in node.inputs:
            met = _widened_by(parent, node, active)
            if met is not None:
                warn_user(_text(graph, of, node, met, narrow), PrecisionWarning)
                return


def _widened_by(parent: Node, node: Node, active: Container[Node]) -> Node | None:
    """The constant for which an operand of `node` was cast by the same operation of the program."""
    made = parent.origin
    by_itself = (made.code, made.lasti) != (node.origin.code, node.origin.lasti)
    if parent.primitive is not cast or parent not in active or by_itself:
        return None
    for other in node.inputs:
        while other.primitive is broadcast_to:
            (other,) = other.inputs
        if other.primitive in (constant, full) and not other.type.weak:
            return other
    return None


def _text(graph: Graph, of: str, node: Node, met: Node, narrow: np.dtype) -> str:
    shown = graph.name_of.get(node)
    given = f"an array {met.type}" if met.shape else f"a number of {met.dtype}"
    return str(
        ChainruleError(  # not raised: its text has the form of every message
            f"{of} is computed in {node.dtype}, though its parameters are {narrow}: "
            f"{f'in {shown}' if shown else 'here'} a value of {narrow} meets {given} of NumPy's",
            where=node.origin.describe(),
            hint=f"a number of Python's keeps {narrow}: float(...), math.sqrt(...); "
            f"or cast: {in_python(narrow)}(...), x.astype({in_python(narrow)})",
        )
    )

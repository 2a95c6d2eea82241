"""The inputs of a graph whose values go into an exported file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.errors import InputError
from chainrule.execute.leaves import leaves_of
from chainrule.graph.graph import Graph


def held_arrays(graph: Graph, parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays by the names of inputs; InputError for what does not fit."""
    held = {}
    for name, value in leaves_of(graph, parameters).items():
        node, array = graph[name], np.asarray(value)
        if array.dtype != node.dtype or array.ndim != node.ndim:
            raise InputError(
                f"the parameter {name} is {array.dtype} of shape {array.shape}, not {node.type}",
                hint="give the arrays that the graph takes, such as state.parameters",
            )
        held[name] = array
    return held

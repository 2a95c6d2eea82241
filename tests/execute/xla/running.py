"""Graphs run by the executor `xla`; importing it skips a test where JAX is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from chainrule.execute.xla.xla_executor import XLA
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

pytest.importorskip("jax")


def by_xla(graph: Graph, inputs: Mapping[Node, Any], keep: list[Node]) -> dict[Node, np.ndarray]:
    """The values of `keep`."""
    arrays = {node: np.asarray(value, node.dtype) for node, value in inputs.items()}
    return XLA.prepare(graph, keep, {})(arrays)

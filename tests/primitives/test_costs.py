"""What operations count as: numbers that both orientations of a matrix share, and types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.primitives.linalg.parts import reaches
from chainrule.primitives.logic import logical_and, logical_not, logical_or
from chainrule.primitives.movement import pad
from chainrule.primitives.sources import uniform


def flops(function: Any, x: np.ndarray) -> Any:
    graph = cr.trace(function, x)
    return sum(node.primitive.flops(node) for node in graph.nodes)


@pytest.mark.parametrize("function", [np.linalg.pinv, np.linalg.svdvals])
def test_a_matrix_and_its_transpose_cost_the_same(function: Any) -> None:
    x = np.ones((3, 20))
    assert flops(lambda x: function(x), x) == flops(lambda x: function(x), x.T)


@pytest.mark.parametrize("primitive", [logical_and, logical_or, logical_not], ids=lambda p: p.name)
def test_logic_is_of_booleans(primitive: Any) -> None:
    ones = [uniform(1, np.dtype(np.int64), (2,)) for _ in primitive.inputs]
    with pytest.raises(TypeError, match="logic is of booleans, got int64"):
        primitive(*ones)


def test_what_two_sums_share_is_looked_at_once() -> None:
    rows = uniform(1.0, np.dtype(np.float64), (1, 2))
    g = pad(rows, start=(0, 0), step=(1, 1), shape=(4, 2))
    for _ in range(60):
        g = g + g  # 2 ** 60 paths
    assert not reaches(g, 1, 3)
    assert reaches(g, 0, 1)

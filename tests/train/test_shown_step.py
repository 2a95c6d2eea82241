"""A training step is one graph: it is drawn, written and counted as that."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import chainrule as cr


def objective(x: cr.float64["n 3"], W: cr.float64["3"]):
    z = x @ W
    J = np.mean(z**2)
    return J


STEP = cr.training_step(objective, wrt="W", optimizer=cr.sgd(0.1))


def test_it_shows_its_whole_graph() -> None:
    assert STEP.draw(phase="forward").svg() == STEP.graph.draw(phase="forward").svg()
    assert str(STEP.equations()) == str(STEP.graph.equations())
    assert "W_next" in str(STEP.equations("W_next", shapes=False))
    assert STEP.python(name="step") == STEP.graph.python(name="step")
    assert STEP.cost(n=5).flops == STEP.graph.cost(n=5).flops
    assert STEP.cost({"n": 5}).phases["update"].flops > 0


@pytest.mark.parametrize("name", ["nonfinite", "bind", "compile", "nodes", "names"])
def test_what_only_the_graph_has_is_told(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(STEP, name)
    assert str(caught.value) == (
        f"'TrainingStep' object has no attribute {name!r}, its graph has: write step.graph.{name}"
    )
    assert hasattr(STEP.graph, name)


@pytest.mark.parametrize("name", ["drow", "_hidden", "__len__"])
def test_other_names_are_only_missing(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(STEP, name)
    assert str(caught.value) == f"'TrainingStep' object has no attribute {name!r}"


def test_a_copy_is_a_step() -> None:
    assert copy.copy(STEP).graph is STEP.graph

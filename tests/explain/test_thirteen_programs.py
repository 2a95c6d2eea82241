"""Thirteen programs: their equations, computed from the text alone, give the values of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from recurrences import solved, solved_as_printed
from thirteen_programs import PROGRAMS

import chainrule as cr

READ = [name for name in PROGRAMS if "12" not in name]
SLOW = ("LeNet", "GRU", "LSTM", "transformer of 2 layers", "residual net", "batch-norm MLP")
SIZES = {"n": 3, "d": 4, "h": 5, "q": 6}


def arguments(graph: cr.Graph) -> dict[str, Any]:
    """Of each input an array of small numbers, and labels."""
    random = np.random.default_rng(0)
    found: dict[str, Any] = {}
    for one in graph.inputs:
        shape, dtype = one.type.shape, one.type.dtype
        if dtype.kind == "i":
            found[one.name] = random.integers(0, 5, shape)
        elif one.default is None:
            fan = int(np.prod(shape[-3:] if len(shape) > 3 else shape[:1]))
            found[one.name] = random.uniform(-1, 1.5, shape) / np.sqrt(2 * fan)
        else:
            found[one.name] = one.default
        if one.name.endswith("_v"):  # a mean of squares
            found[one.name] = np.abs(found[one.name])
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in READ]
)
def test_the_equations_alone_give_the_values_of_the_run(name: str) -> None:
    made = PROGRAMS[name]()
    graph = made.graph if isinstance(made, cr.TrainingStep) else made
    sizes = {key: value for key, value in SIZES.items() if key in graph.sizes}
    concrete = graph.bind(**sizes)
    given = arguments(concrete)
    run = graph.run(given)
    found = solved(concrete, concrete.equations(shapes=False), given)
    assert set(found) == {one.name for one in graph.equations() if one.number}
    for key, value in found.items():
        expected = np.asarray(run[key])
        scale = np.max(np.abs(expected), initial=1e-3)  # slopes are differences
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5 * scale, err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer of 2 layers", "residual net", "GRU"])
def test_equal_blocks_written_once_give_the_values_of_the_run(name: str) -> None:
    made = PROGRAMS[name]()
    graph = made.graph if isinstance(made, cr.TrainingStep) else made
    sizes = {key: value for key, value in SIZES.items() if key in graph.sizes}
    concrete = graph.bind(**sizes)
    given = arguments(concrete)
    run = graph.run(given)
    printed = str(concrete.equations())
    found = solved_as_printed(concrete, printed, given)
    assert set(found) >= {one.name for one in graph.equations() if one.number}
    for key in set(run).intersection(found):
        expected = np.asarray(run[key])
        scale = np.max(np.abs(expected), initial=1e-3)
        np.testing.assert_allclose(found[key], expected, rtol=1e-5, atol=1e-5 * scale, err_msg=key)
    assert (", l = " in printed) == (name != "GRU")

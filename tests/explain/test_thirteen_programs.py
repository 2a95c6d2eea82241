"""Thirteen programs: their equations, computed from the text alone, give the values of a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from equation_values import Values, chains
from recurrences import solved, solved_as_printed
from thirteen_programs import PROGRAMS

import chainrule as cr
from chainrule import float64

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


def ran(name: str) -> tuple[cr.Graph, cr.Graph, dict[str, Any], cr.Run]:
    """The graph of a program, the same with numbers for its sizes, what it is given, its run."""
    made = PROGRAMS[name]()
    graph = made.graph if isinstance(made, cr.TrainingStep) else made
    concrete = graph.bind(**{key: value for key, value in SIZES.items() if key in graph.sizes})
    given = arguments(concrete)
    return graph, concrete, given, graph.run(given)


def assert_near(found: Any, expected: Any, name: str) -> None:
    expected = np.asarray(expected)
    scale = np.max(np.abs(expected), initial=1e-3)  # slopes are differences
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * scale, err_msg=name)


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=pytest.mark.slow) if one in SLOW else one for one in READ]
)
def test_the_equations_alone_give_the_values_of_the_run(name: str) -> None:
    graph, concrete, given, run = ran(name)
    equations = concrete.equations(shapes=False)
    found = solved(concrete, equations, given)
    assert set(found) == {one.name for one in graph.equations() if one.number}
    for key, value in found.items():
        if key in run:
            assert_near(value, run[key], key)
        else:  # ∂s/∂W
            assert_near(value, Values(concrete, equations, run).local(chains(equations)[key]), key)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("transformer of 2 layers", marks=pytest.mark.exhaustive),
        "residual net",
        "GRU",
    ],
)
def test_equal_blocks_written_once_give_the_values_of_the_run(name: str) -> None:
    graph, concrete, given, run = ran(name)
    printed = str(concrete.equations())
    found = solved_as_printed(concrete, printed, given)
    assert set(found) >= {one.name for one in graph.equations() if one.number}
    for key in set(run).intersection(found):
        assert_near(found[key], run[key], key)
    assert (", l = " in printed) == (name != "GRU")


def normalised(x: float64[4, 2, 6, 6], K: float64[4, 2, 3, 3], w: float64[4], c: float64[4]):
    a = cr.group_norm(cr.conv2d(x, K, stride=2, padding=1), 2, w, c)
    b, _, _ = cr.batch_norm(np.tanh(a), None, None, w, c, training=True)
    J = np.sum(cr.avg_pool2d(b[:, :, :2], (2, 3)) ** 2)
    return J


def test_norms_pooling_and_strides_are_written_as_what_they_are() -> None:
    graph = cr.backward(cr.trace(normalised), wrt="all")
    given = arguments(graph)
    run = graph.run(given)
    found = solved(graph, graph.equations(shapes=False), given)
    for key, value in found.items():
        np.testing.assert_allclose(value, run[key], rtol=1e-5, atol=1e-6, err_msg=key)
    written = str(graph.equations())
    assert "scatter" not in written and "fold" not in written
    assert "windows_{(3, 3), stride = (2, 2)}" in written and "mean poolᵀ" in written

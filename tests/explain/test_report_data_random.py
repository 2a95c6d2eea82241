"""The data of reports on random programs are complete, consistent, and those of the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs_to_explain import GRAPHS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from namespaces import traced
from programs import Program, programs
from report_data_checks import assert_agrees, by_name, checked
from reports import EITHER

import chainrule as cr
from chainrule.explain.report.data import report_data

SEEDS = st.integers(0, 2**32 - 1)


def tier(count: int) -> Any:
    calm = [HealthCheck.filter_too_much, HealthCheck.too_slow]
    return settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=calm)


def check(program: Program, seed: int, executor: str, *, second: bool) -> None:
    arguments = dict(zip(program.parameters, program.arguments(seed, {}), strict=True))
    graph = cr.backward(cr.trace(program.function(traced), **arguments), wrt="all")
    if second:
        of = next(name for name, _ in graph.outputs if name.startswith("dJ/d"))
        graph = cr.backward(graph, of=of, wrt=program.parameters, seed="direction")
        random = np.random.default_rng(seed)
        arguments["direction"] = np.asarray(random.normal(size=graph[of].shape))
    data = checked(report_data(graph, arguments, executor=executor))
    assert_agrees(data, graph.memory(executor=executor))
    run = graph.run(arguments)
    values = by_name(data)
    assert set(values) == set(graph.names)
    for name, array in run.items():
        norm = np.linalg.norm(array.astype(np.float64).ravel())
        if np.isfinite(array).all():
            assert values[name]["stats"]["norm"] == pytest.approx(norm, rel=1e-8) or not array.size


@EITHER
@tier(6)
@given(programs(), SEEDS)
def test_reports_of_random_programs(executor: str, program: Program, seed: int) -> None:
    check(program, seed, executor, second=False)


@pytest.mark.slow
@EITHER
@tier(3)
@given(programs(empty=False), SEEDS)
def test_reports_of_second_derivatives(executor: str, program: Program, seed: int) -> None:
    check(program, seed, executor, second=True)


@pytest.mark.exhaustive
@EITHER
@tier(25)
@given(programs(), SEEDS, st.booleans())
def test_reports_of_many_random_programs(
    executor: str, program: Program, seed: int, second: bool
) -> None:
    if second and any(0 in shape for shape in program.shapes):
        second = False
    check(program, seed, executor, second=second)


@pytest.mark.sweep(4)
@EITHER
@pytest.mark.parametrize("name", GRAPHS)
def test_reports_of_networks_and_derivatives(executor: str, name: str) -> None:
    graph = GRAPHS[name]()
    assert checked(report_data(graph))["memory"] is None or not graph.sizes
    sizes = dict.fromkeys(graph.sizes, 5)
    data = checked(report_data(graph, sizes=sizes, executor=executor))
    assert_agrees(data, graph.memory(sizes, executor=executor))

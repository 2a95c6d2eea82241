"""Drawings, equations, source and reports of graphs with loops: a loop is one operation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_graphs import EXAMPLES

import chainrule as cr

EVERY_EXAMPLE = pytest.mark.parametrize("name", EXAMPLES)


@EVERY_EXAMPLE
def test_the_source_gives_the_same_bits(name: str) -> None:
    graph, given = EXAMPLES[name]
    scope: dict[str, Any] = {}
    exec(graph.python(), scope)
    found = scope[graph.name](**given)
    found = found if isinstance(found, tuple) else (found,)
    run = graph.run(given)
    for (key, node), value in zip(graph.outputs, found, strict=True):
        assert np.asarray(value).dtype == node.dtype
        assert np.asarray(value).tobytes() == run[key].tobytes()


def test_the_source_of_a_graph_with_named_sizes_takes_every_length() -> None:
    def program(x: cr.float64["n 2"]) -> Any:
        def step(c: Any, row: Any) -> Any:
            return c + np.sum(row) / x.shape[0], row * c

        return cr.scan(step, 0.0, x)

    graph = cr.trace(program)
    scope: dict[str, Any] = {}
    exec(graph.python(), scope)
    for n in (1, 4):
        x = np.random.default_rng(n).normal(size=(n, 2))
        found, run = scope["program"](x), graph.run(x=x).outputs
        for one, other in zip(found, run, strict=True):
            assert np.asarray(one).tobytes() == other.tobytes()


@EVERY_EXAMPLE
def test_everything_that_explains_a_graph_takes_loops(name: str) -> None:
    graph, given = EXAMPLES[name]
    assert {node.primitive.name for node in graph.nodes} & {"scan", "cond", "while_"}
    assert "_{t−1}" in str(graph.equations())
    assert "_{t-1}" in graph.equations().latex()
    assert graph.draw().svg()
    assert graph.draw(detail="primitives").svg()
    assert graph.nonfinite(given) is None
    assert cr.report(graph, given) is not None
    assert str(graph.memory())


def test_a_loop_is_one_circle_between_what_it_reads_and_what_it_gives() -> None:
    graph, _ = EXAMPLES["objective"]
    lines = graph.draw().mermaid().splitlines()
    (circle,) = [line.split("((")[0].strip() for line in lines if '(("scan step"))' in line]
    assert sum(line.strip().endswith(f"--> {circle}") for line in lines) == 5  # x, W, U, b, h


def test_what_becomes_nan_in_a_loop_is_found_at_the_loop() -> None:
    def program(x: Any) -> Any:
        _, ys = cr.scan(lambda c, row: (np.log(c), c), 2.0, x)
        return np.sum(ys)

    diagnosis = cr.trace(program, np.ones(6)).nonfinite(x=np.ones(6))
    assert diagnosis is not None
    assert "cr.scan" in str(diagnosis)

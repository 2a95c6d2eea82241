"""Values that a plan computes twice: the same bits, whichever life is read."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from executing import native
from namespaces import traced
from programs import Program, random_programs

import chainrule as cr
from chainrule.execute.arguments import bound_to
from chainrule.execute.run import kept_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan import planner
from chainrule.plan.planner import plan
from chainrule.plan.storage import Outside, Storage
from chainrule.plan.work import Work
from chainrule.testing import simulate

ROWS, WIDTH, LAYERS = 64, 16, 3


class Twice(Storage):
    """Works that come again before later readers, and their buffers, whatever that takes."""

    seed = 0
    lives = 0

    def __init__(self, works: Sequence[Work], outside: Outside, seconds: float = 0.0) -> None:
        random, doubled = Random(self.seed), list(works)
        for work in works:
            readers = [n for n, one in enumerate(doubled) if {*one.reads} & {*work.writes}]
            if readers and not {*work.writes} & {*outside.results} and random.random() < 0.5:
                doubled.insert(random.choice(readers), work)
        super().__init__(doubled, outside, seconds)
        Twice.lives += len(doubled) - len(works)


@random_programs(5)
def compare_with_works_that_come_again(program: Program, seed: int) -> None:
    arguments = dict(zip(program.parameters, program.arguments(seed, {}), strict=True))
    graph = cr.trace(program.function(traced), **arguments)
    for one in (graph, cr.backward(graph, wrt=program.parameters)):
        concrete, inputs = bound_to(one, arguments)
        kept = kept_nodes(concrete, "outputs")
        once = native(concrete, inputs, kept)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(planner, "Storage", Twice)
            patch.setattr(Twice, "seed", seed)
            again = native(concrete, inputs, kept)  # the simulator finds no fault
        assert (once is None) == (again is None)
        if once is None or again is None:
            continue
        for node in once:
            np.testing.assert_array_equal(again[node], once[node], strict=True)


@pytest.mark.slow
def test_a_plan_in_which_works_come_again_gives_the_same_bits() -> None:
    Twice.lives = 0
    compare_with_works_that_come_again()
    assert Twice.lives > 15


def rectified(params: Any, x: Any) -> Any:
    h = x
    for layer in params:
        z = h @ layer["W"] + layer["b"]
        h = np.maximum(z, 0)
    J = np.mean(h * h)
    return J


def gated(params: Any, x: Any) -> Any:
    h = x
    for layer in params:
        z = h @ layer["W"] + layer["b"]
        h = z / (1 + np.exp(-z))
    J = np.mean(h * h)
    return J


def gradients(objective: Any, rows: int = ROWS) -> tuple[Graph, dict[Node, Any]]:
    random = np.random.default_rng(0)
    params = [
        {
            "W": random.normal(size=(WIDTH, WIDTH)).astype(np.float32),
            "b": random.normal(size=WIDTH).astype(np.float32),
        }
        for _ in range(LAYERS)
    ]
    x = random.normal(size=(rows, WIDTH)).astype(np.float32)
    graph = cr.backward(cr.trace(objective, params=params, x=x), wrt="params")
    flat = {"x": x} | {f"params[{k}].{n}": one[n] for k, one in enumerate(params) for n in one}
    return graph, {item.node: flat[item.name] for item in graph.inputs}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("objective", [rectified, gated])
@pytest.mark.parametrize("rows", [1, 33, ROWS])
def test_a_network_on_matrices_keeps_one_activation_for_each_layer(
    objective: Any, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, inputs = gradients(objective, rows)
    kept = kept_nodes(graph, "outputs")
    made, found = plan(graph, kept), native(graph, inputs, kept)
    lives = simulate(made.schedule).lifetimes
    twice = {one.node for one in lives if one.life.number}
    assert twice == {*graph.all("h")[:-1]} if rows > 1 else twice <= {*graph.all("h")}
    monkeypatch.setattr(planner, "rematerialisable", lambda *_: [])
    plain, right = plan(graph, kept), native(graph, inputs, kept)
    saved = plain.schedule.scratch_nbytes - made.schedule.scratch_nbytes
    assert saved >= (LAYERS - 2) * rows * WIDTH * 4 if rows > 1 else saved >= 0
    assert found is not None and right is not None
    for node in kept:
        np.testing.assert_array_equal(found[node], right[node], strict=True)


def picked(x: Any, W: Any, k: Any) -> Any:
    z = x @ W
    h = z / (1 + np.exp(-z))
    o = h @ W
    q = np.sin(z) * h[k] + o
    return h.T @ q


def compared(x: Any, W: Any, k: Any) -> Any:
    z = x @ W
    h = z / (1 + np.exp(-z))
    o = h @ W
    q = np.where(h == z * 0.5, np.sin(z), np.cos(z)) + o + k[:, None]
    return h.T @ q


def shifted(x: Any, W: Any, k: Any) -> Any:
    z = x @ W
    h = z / (1 + np.exp(-z))
    o = h @ W
    q = np.sin(z) * h[::-1] + o + k[:, None]
    return h.T @ q


@pytest.mark.parametrize("program", [picked, compared, shifted])
def test_a_nest_that_reads_the_value_at_other_places_reads_it_from_memory(program: Any) -> None:
    random = np.random.default_rng(0)
    given = {
        "x": random.normal(size=(ROWS, WIDTH)),
        "W": random.normal(size=(WIDTH, WIDTH)),
        "k": random.integers(0, ROWS, ROWS),
    }
    graph = cr.trace(program, **given)
    inputs = {item.node: given[item.name] for item in graph.inputs}
    kept = kept_nodes(graph, "outputs")
    made, found = plan(graph, kept), native(graph, inputs, kept)
    simulate(made.schedule)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "rematerialisable", lambda *_: [])
        right = native(graph, inputs, kept)
    assert found is not None and right is not None
    for node in kept:
        np.testing.assert_array_equal(found[node], right[node])

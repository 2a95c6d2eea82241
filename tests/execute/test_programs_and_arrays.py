"""The reference's plan, and what programs of an executor do with arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from executors import EITHER

import chainrule as cr
from chainrule import float64
from chainrule.execute import executors
from chainrule.execute.executor import InPlace, Traits
from chainrule.schedule.records import Compute
from chainrule.testing import simulate

RANDOM = np.random.default_rng(3)


def network(x: float64["n 4"], W1: float64[4, 5], W2: float64[5, 3]) -> Any:
    h = np.tanh(x @ W1)
    J = np.mean((h @ W2) ** 2)
    return J


def test_the_references_plan_is_its_schedule() -> None:
    graph = cr.trace(network)
    plan = graph.compile(executor="reference").plan(n=4)
    simulate(plan.schedule)
    computed = [one for one in plan.schedule.instructions if isinstance(one, Compute)]
    lines = str(plan).splitlines()
    assert lines[0] == "plan of network"
    assert len(lines) == len(computed) + 2
    assert lines[2].split() == "2 tanh 160 bytes h: float64[4, 5] then frees %0".split()
    assert lines[-1].startswith(f"{len(computed)} instructions, each value an array of its own: ")
    assert lines[-1].endswith("8 bytes of results")
    made = cr.trace(lambda x: x, np.ones(2)).compile(executor="reference").plan()
    assert str(made).endswith("0 bytes of results") and "0 instructions" in str(made)


@EITHER
def test_what_is_given_to_a_program_never_changes(executor: str) -> None:
    graph = cr.trace(lambda w, x: (np.sum(w * x), w - x, w), w=float64["40"], x=float64["40"])
    made, moved, same_node = (node for _, node in graph.outputs)
    w, x = (graph.input(name).node for name in ("w", "x"))
    program = executors.prepare(executor, graph, [made, moved, same_node, moved], {w: moved})
    assert list(program.results) == [made, moved, same_node]
    for writeable in (True, False):
        given = {w: RANDOM.normal(size=40), x: RANDOM.normal(size=40)}
        for array in given.values():
            array.flags.writeable = writeable
        before = {node: array.copy() for node, array in given.items()}
        found = program(given)
        np.testing.assert_allclose(found[moved], before[w] - before[x])
        for node, array in given.items():
            np.testing.assert_array_equal(array, before[node])
            assert not any(np.shares_memory(array, one) for one in found.values())


def test_own_executors_keep_the_protocol() -> None:
    for name in executors.executor_names():
        executor = executors.executor_of(name)
        assert executor.name == name and isinstance(executor.traits, Traits)
        assert executor.refusal() is None or isinstance(executor.refusal(), str)
        graph = cr.trace(network).bind(n=3)
        program = executor.prepare(graph, [graph["J"]], {}, traced=None)
        assert (program.graph, list(program.results)) == (graph, [graph["J"]])
        assert program.schedule({}).results == (graph["J"],)
        assert str(program.plan).startswith("plan of network")
        assert all(type(nbytes) is int for nbytes in program.overhead(3).values())
        assert isinstance(program, InPlace) == (name != "reference")


@EITHER
def test_a_parameter_that_stays_as_it_is_is_not_copied(executor: str) -> None:
    def peak(wrt: Any) -> int:
        def objective(w: float64["500"], v: float64["9000"]):
            return np.sum(w * w)

        return cr.training_step(objective, wrt, cr.sgd(0.1), executor=executor).memory().training

    alone, both = peak("w").peak_nbytes, peak(("w", "v")).peak_nbytes
    assert both == alone

"""Plans within a budget: the same works, some of them again, in so many bytes and no more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from deep_programs import PROGRAMS, N, deep
from namespaces import traced
from programs import Program, random_programs

import chainrule as cr
from chainrule.execute import reference
from chainrule.execute.arguments import bound_to
from chainrule.execute.run import kept_nodes
from chainrule.plan.budget import shorter_ways, with_works, within
from chainrule.plan.duration import work_nanoseconds
from chainrule.plan.least_load import LeastLoad
from chainrule.plan.planner import Plan, plan
from chainrule.plan.storage import Outside, Storage
from chainrule.plan.work import NestWork, Work
from chainrule.schedule.turns import obeying
from chainrule.testing import simulate
from chainrule.train.step.bound import results_of

COUNT = 10  # budgets


def of_step(step: cr.TrainingStep, n: int) -> Plan:
    graph = step.graph.bind(n=n)
    return plan(graph, *results_of(step, graph))


def nanoseconds(made: Plan) -> float:
    return sum(work_nanoseconds(work, made.speeds) for work in made.works)


def budgets(made: Plan) -> list[int]:
    """From the least bytes that are found to all that the plan needs."""
    least, most = within(made, 0).schedule.scratch_nbytes, made.schedule.scratch_nbytes
    return [least + (most - least) * number // (COUNT - 1) for number in range(COUNT)]


def whole(work: Work) -> Any:
    """The nest that the work is a fragment of; else the work itself."""
    nest = work.layouts[0] if isinstance(work, NestWork) else None
    return work if nest is None else nest.whole or nest


def sources(made: Plan) -> set[Any]:
    """Which work reads which value of which other work, fragments as the nests that they are of."""
    writer: dict[Any, Any] = {}
    found = set()
    for work in made.works:
        read = [node for node in work.reads if writer.get(node) is not whole(work)]
        found.update((whole(work), node, writer.get(node)) for node in read)
        writer |= dict.fromkeys(work.writes, whole(work))
    return found


def check_budgets(made: Plan) -> list[Plan]:
    """Every budget holds, nothing else is run, and more bytes never cost more time."""
    plans = []
    for nbytes in budgets(made):
        found = within(made, nbytes)
        assert simulate(found.schedule).peak_nbytes <= found.schedule.scratch_nbytes <= nbytes
        assert set(map(whole, found.works)) == set(map(whole, made.works))
        assert found.schedule.results == made.schedule.results
        assert sources(found) <= sources(made)
        given = Outside(list(made.schedule.given), made.schedule.results, made.overwrites)
        storage = Storage(found.works, given)
        least = LeastLoad(given).of(found.works)
        assert least <= storage.load_nbytes <= found.schedule.scratch_nbytes
        plans.append(found)
    times = [nanoseconds(one) for one in plans]
    assert times == sorted(times, reverse=True)
    assert within(made, made.schedule.scratch_nbytes) is made
    return plans


@pytest.mark.slow
@pytest.mark.sweep(4)
@pytest.mark.parametrize("name", PROGRAMS)
def test_training_steps_within_budgets(name: str) -> None:
    made = of_step(PROGRAMS[name].step(), N)
    plans = check_budgets(made)
    assert plans[0].schedule.scratch_nbytes < 0.75 * made.schedule.scratch_nbytes
    assert len(plans[0].works) > len(made.works)


@random_programs(8)
def test_random_programs_within_budgets_have_the_same_bits(program: Program, seed: int) -> None:
    arguments = dict(zip(program.parameters, program.arguments(seed, {}), strict=True))
    forward = cr.trace(program.function(traced), **arguments)
    graph, inputs = bound_to(cr.backward(forward, wrt=program.parameters), arguments)
    for keep in ("outputs", "named"):
        results = kept_nodes(graph, keep)
        made = plan(graph, results)
        want = reference.evaluate(graph, inputs, results)
        for found in check_budgets(made):
            got = reference.evaluate(graph, inputs, results, turns=obeying(found.schedule))
            for node, value in want.items():
                np.testing.assert_array_equal(got[node], value)


@pytest.mark.slow
def test_a_deep_network_needs_the_root_of_its_layers() -> None:
    layers = 50
    made = of_step(deep(layers, 64).step(cr.sgd(0.1)), 512)
    nbytes = 64 * 512 * 4
    saved = (layers - 1) * nbytes  # of all activations the last is never stored
    others = made.schedule.scratch_nbytes - saved
    found = within(made, int(2.2 * layers**0.5 / layers * saved) + others)
    assert len(found.works) > len(made.works)
    assert nanoseconds(found) <= 1.35 * nanoseconds(made)


def test_a_plan_says_what_is_computed_again_from_what_and_at_which_price() -> None:
    made = of_step(deep(6, 64).step(cr.sgd(0.1)), 256)
    assert "again" not in str(made)
    text = " ".join(str(within(made, made.schedule.scratch_nbytes * 2 // 3)).split())
    assert "of them again: about" in text and "% more)" in text
    assert "is computed again from x and Ws[0], in about" in text
    assert ": its 65,536 bytes are free from" in text


def test_a_function_of_the_users_runs_once() -> None:
    squashed = cr.primitive(np.tanh, partials=lambda out, x: 1 - out * out, name="squashed")

    def objective(x: Any, Ws: Any) -> Any:
        for W in Ws:
            x = squashed(np.tanh(x @ W))
        return np.mean(x)

    Ws = deep(6, 32).parameters
    step = cr.training_step(objective, "Ws", cr.sgd(0.1), Ws=Ws, x=cr.float32["n", 32])
    made = of_step(step, 256)
    least = within(made, 0)
    assert least.schedule.scratch_nbytes < made.schedule.scratch_nbytes
    assert len(least.works) > len(made.works)
    assert least.foreign == made.foreign


def test_shorter_ways_do_more_in_fewer_bytes_and_are_schedules() -> None:
    made = of_step(deep(9, 32).step(), N)
    first, *others = shorter_ways(made)
    assert first.works == made.works and others
    assert min(one.nbytes for one in others) < first.nbytes / 2
    for one in (first, *others[::4]):
        again = with_works(made, one.works)
        assert again.works == one.works
        simulate(again.schedule)

"""What the reference executor has freed goes back before pages would be more than the budget."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import Any

import numpy as np
import pytest
from deep_programs import deep, network

import chainrule as cr
from chainrule.errors import IndexOutOfRangeError, MemoryLimitError
from chainrule.execute import given_back, reference
from chainrule.schedule.plain import plain_schedule
from chainrule.schedule.records import View
from chainrule.schedule.turns import obeying

N = 2048


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one whenever memory is given back, of which there are more pages at every look."""
    found: list[int] = []
    monkeypatch.setattr(given_back, "give_back", lambda: found.append(len(found)))
    monkeypatch.setattr(given_back, "resident_nbytes", count(step=1 << 40).__next__)
    return found


def gradients() -> tuple[cr.Graph, dict[str, Any]]:
    program = deep(5, 64)
    graph = cr.trace(network, x=cr.float32["n", 64], Ws=program.parameters)
    return cr.backward(graph, wrt="Ws"), {"x": program.batch(N), "Ws": program.parameters}


def needed(graph: cr.Graph) -> int:
    return graph.memory(n=N, executor="reference").needed_nbytes


def least(graph: cr.Graph) -> int:
    with pytest.raises(MemoryLimitError) as error:
        graph.memory(n=N, executor="reference", memory=0)
    return error.value.needed_nbytes


def test_where_there_is_no_budget_nothing_is_given_back(times: list[int]) -> None:
    graph, given = gradients()
    graph.compile(executor="reference").run(given)
    assert not times


def test_what_others_have_freed_is_given_back_before_the_first_run(times: list[int]) -> None:
    graph, given = gradients()
    run = graph.compile(executor="reference", memory="1 GiB")
    run.run(given)
    assert len(times) == 1
    for _ in range(5):
        run.run(given)
    assert len(times) == 1


@pytest.mark.slow
def test_the_less_is_left_the_more_often_it_is_given_back(times: list[int]) -> None:
    graph, given = gradients()
    full, few = needed(graph), least(graph)
    counts = []
    for nbytes in (few, (few + full) // 2, 2 * full):
        run = graph.compile(executor="reference", memory=nbytes)
        run.run(given)
        times.clear()
        for _ in range(4):
            run.run(given)
        counts.append(len(times))
    assert counts[0] > counts[1] > counts[2]
    assert counts[0] >= 4


@pytest.mark.sweep(7)
@pytest.mark.parametrize("used_again", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0, 1.5])
def test_arrays_and_what_was_freed_are_within_the_budget(
    monkeypatch: pytest.MonkeyPatch, share: float, used_again: float
) -> None:
    """Where of what was freed before, so much serves for new arrays."""
    graph, _ = gradients()
    few = least(graph)
    nbytes = int(few + (needed(graph) - few) * share)
    report = graph.memory(n=N, executor="reference", memory=nbytes)
    limit = nbytes - report.overhead_nbytes
    usage = report.main.usage
    kept, alive, seen, given = 10 * limit, usage.live_nbytes[0], [], []
    held = given_back.TurnsWithin(usage, limit)

    def give_back() -> None:
        nonlocal kept
        given.append(kept)
        kept = 0

    monkeypatch.setattr(given_back, "give_back", give_back)
    monkeypatch.setattr(given_back, "resident_nbytes", lambda: 12345678 + alive + int(kept))
    for _ in range(3):
        number, computed = 0, [one.nodes[0] for one in report.main.computes]
        for turn in held:
            if number < len(computed) and turn.into.node is computed[number]:
                number += 1
                here = usage.alive_at(number)
                kept -= min(used_again * kept, usage.live_nbytes[number] - alive)
                seen.append(kept + usage.live_nbytes[number])
                freed = [one.nbytes for one in here if one.first and one.last == number]
                last = number == len(computed)  # then results are freed, too
                alive = usage.live_nbytes[number] - usage.workspaces[number] - sum(freed)
                alive = usage.live_nbytes[0] if last else alive
                kept += usage.live_nbytes[number] - alive
        assert number == len(computed)
    assert max(seen) <= limit and min(given) >= 0
    assert share or len(given) > 3


def test_after_a_run_that_fails_all_is_given_back(times: list[int]) -> None:
    def looked_up(x: cr.float32["n 64"], places: cr.int64["m"]) -> Any:
        return np.sum(np.tanh(x * 2)[places])

    graph = cr.trace(looked_up)
    run = graph.compile(executor="reference", memory="1 GiB")
    x = np.ones((N, 64), np.float32)
    run(x=x, places=np.zeros(3, np.int64))
    run(x=x, places=np.zeros(3, np.int64))
    assert len(times) == 1
    with pytest.raises(IndexOutOfRangeError):
        run(x=x, places=np.full(3, N))
    run(x=x, places=np.zeros(3, np.int64))
    assert len(times) == 2


def test_within_a_budget_a_view_is_made_once() -> None:
    def shown_twice(x: cr.float32["n 8"], W: cr.float32["8 8"], b: cr.float32["8"]) -> Any:
        h = np.tanh(x @ W.T + b)
        return np.sum(h @ W.T + b)

    graph = cr.backward(cr.trace(shown_twice), wrt=("W", "b")).bind(n=4)
    results = [node for _, node in graph.outputs]
    schedule = plain_schedule(graph, results)
    made = Counter(turn.into.node for turn in obeying(schedule))
    views = {one.node for one in schedule.instructions if isinstance(one, View)}
    assert views and all(made[node] == 1 for node in views)
    given = {name: np.ones([int(n) for n in graph[name].shape], np.float32) for name in "xWb"}
    inputs = {graph[name]: array for name, array in given.items()}
    want = reference.evaluate(graph, inputs, results)
    got = reference.evaluate(graph, inputs, results, turns=obeying(schedule))
    for node in results:
        assert got[node].tobytes() == want[node].tobytes()

"""A value may be computed, freed and computed again: each time it has another life."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from namespaces import traced
from programs import Program, random_programs

import chainrule as cr
from chainrule.errors import ScheduleError
from chainrule.execute.arguments import bound_to
from chainrule.execute.reference import evaluate
from chainrule.execute.run import kept_nodes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.planner import plan
from chainrule.schedule.lives import BEFORE, Life, lives_of
from chainrule.schedule.plain import plain_schedule
from chainrule.schedule.records import Compute, Free
from chainrule.schedule.turns import Turn, obeying, order_of, turns_of
from chainrule.testing import simulate

X = np.linspace(-1, 1, 12).reshape(3, 4)


def chain(x: Any) -> Any:
    a = np.tanh(x)
    b = np.exp(a)
    c = np.sin(b)
    s = np.sum(c)
    t = np.sum(a)
    J = s * t
    return J


GRAPH = cr.trace(chain, X)
x, a, b, c, s, t, J = (GRAPH[name] for name in ("x", "a", "b", "c", "s", "t", "J"))


def twice(graph: Graph, node: Node, before: Node, results: list[Node]) -> list[Node]:
    """The order of the graph, in which a node is computed again right before another."""
    order = order_of(graph, results)
    order.insert(order.index(before), node)
    return order


def test_a_read_means_the_last_life_that_was_written() -> None:
    found = lives_of([((x,), (a,)), ((a,), (b,)), ((x,), (a,)), ((a, b), (c,))], given=(x,))
    assert found.reads == [
        (Life(x),),
        (Life(a, 0),),
        (Life(x),),
        (Life(a, 1), Life(b)),
    ]
    assert found.first == {Life(x): BEFORE, Life(a): 0, Life(b): 1, Life(a, 1): 2, Life(c): 3}
    assert found.last == {Life(x): 2, Life(a): 1, Life(b): 3, Life(a, 1): 3, Life(c): 3}
    assert found.ended() == [[], [Life(a)], [Life(x)], [Life(b), Life(a, 1), Life(c)]]


def test_what_a_step_writes_and_reads_is_one_life() -> None:
    """The second nest of a scatter adds to what the first has written."""
    found = lives_of([((x, a), (a,)), ((a,), (b,))], given=(x,))
    assert found.reads == [(Life(x),), (Life(a),)]
    assert found.last[Life(a)] == 1


def test_a_life_ends_with_the_last_evaluation_that_reads_it() -> None:
    turns = turns_of(twice(GRAPH, a, t, [J]))
    assert turns[2] == Turn(Life(b), (Life(a),), (Life(a),))
    assert turns[5] == Turn(Life(a, 1), (Life(x),), (Life(x),))
    assert turns[6] == Turn(Life(t), (Life(a, 1),), (Life(a, 1),))


def test_the_schedule_of_the_reference_computes_a_value_again() -> None:
    order = twice(GRAPH, a, t, [J])
    schedule = plain_schedule(GRAPH, [J], order=order)
    found = simulate(schedule)
    assert [one.life for one in found.lifetimes if one.node is a] == [Life(a, 0), Life(a, 1)]
    assert not found.late
    once = simulate(plain_schedule(GRAPH, [J]))
    assert once.peak_nbytes - found.peak_nbytes == X.nbytes


def test_the_reference_obeys_a_schedule() -> None:
    seen: list[Node] = []
    schedule = plain_schedule(GRAPH, [J], order=twice(GRAPH, a, t, [J]))
    found = evaluate(GRAPH, {x: X}, [J], watch=lambda n, _: seen.append(n), turns=obeying(schedule))
    assert found[J] == evaluate(GRAPH, {x: X}, [J])[J]
    assert seen == [x, a, b, c, s, a, t, J]


def test_a_value_that_was_freed_too_early_is_missed() -> None:
    schedule = plain_schedule(GRAPH, [J])
    instructions = list(schedule.instructions)
    freed = next(k for k, one in enumerate(instructions) if isinstance(one, Free) and one.node is a)
    instructions.insert(2, instructions.pop(freed))
    broken = type(schedule)(
        GRAPH, tuple(instructions), schedule.given, schedule.results, {}, 1 << 20
    )
    with pytest.raises(ScheduleError, match="freed"):
        simulate(broken)


def test_what_a_kernel_computes_on_the_way_ends_with_it() -> None:
    """One kernel computes b on the way to c, and the next one b again."""

    def program(x: Any) -> Any:
        b = np.exp(x)
        c = np.sin(b)
        return c, np.cos(b)

    graph = cr.trace(program, X)
    b, (c, d) = graph["b"], [node for _, node in graph.outputs]
    plain = plain_schedule(graph, [c, d])
    make = [one for one in plain.instructions if isinstance(one, Compute)]
    given = tuple(plain.given)
    kernels = [
        type(one)(one.nodes, one.into, reads=given, inner=(b,))
        for one in make
        if b not in one.nodes
    ]
    schedule = type(plain)(graph, tuple(kernels), plain.given, plain.results, {}, 1 << 20)
    simulate(schedule)
    assert [(one.into, one.ended) for one in obeying(schedule)] == [
        (Life(given[0]), ()),
        (Life(b, 0), ()),
        (Life(c), (Life(b, 0),)),
        (Life(b, 1), ()),
        (Life(d), (Life(b, 1),)),
    ]


@pytest.mark.slow
@random_programs(10)
def test_the_reference_computes_the_same_bits_by_the_plan_of_the_native_executor(
    program: Program, seed: int
) -> None:
    arguments = dict(zip(program.parameters, program.arguments(seed, {}), strict=True))
    graph = cr.trace(program.function(traced), **arguments)
    for one in (graph, cr.backward(graph, wrt=program.parameters)):
        concrete, inputs = bound_to(one, arguments)
        for keep in ("outputs", "named"):
            kept = [*dict.fromkeys(kept_nodes(concrete, keep))]
            schedule = plan(concrete, kept).schedule
            simulate(schedule)
            right = evaluate(concrete, inputs, kept)
            found = evaluate(concrete, inputs, schedule.results, turns=obeying(schedule))
            for node, value in found.items():
                np.testing.assert_array_equal(value, right[node], strict=True)

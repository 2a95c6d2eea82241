"""Schedules of stages are valid, need about their budget, and cost what a table of chains says."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from test_ladder import random_program

from chainrule.plan.recomputation.chains import ChainSchedules
from chainrule.plan.recomputation.early import early
from chainrule.plan.recomputation.keepings import Inside, keepings
from chainrule.plan.recomputation.problem import Problem, problem
from chainrule.plan.recomputation.sequence import fault, measured
from chainrule.plan.recomputation.stage_table import StageTable
from chainrule.plan.recomputation.staged import StagedSchedules
from chainrule.plan.recomputation.stages import stages_of


def layers(count: int, late: bool = False) -> Problem:
    """Layers of two nodes, of which the second is saved; each has a gradient that is an output,
    `late` behind all of the way back."""
    reads, order = [], []
    size = 4 * count
    products, values = range(0, 2 * count, 2), range(1, 2 * count, 2)
    backs, outputs = range(2 * count, 3 * count), range(3 * count, size)
    for at in range(count):
        reads += [(products[at], values[at])]
        reads += [(values[at - 1], products[at])] if at else []
    for at, (back, output) in enumerate(zip(backs, outputs, strict=True)):
        layer = count - 1 - at
        reads += [(values[layer], back), (back, output)]
        reads += [(backs[at - 1], back)] if at else []
        reads += [(values[layer - 1], output)] if layer else []
    together = [one for pair in zip(backs, outputs, strict=True) for one in pair]
    order = [*range(2 * count), *([*backs, *outputs] if late else together)]
    nbytes = [100] * 3 * count + [1] * count
    cost = [10, 2] * count + [12] * count + [10] * count
    return problem(nbytes, cost, reads, order, 0, once=outputs)


def residual_blocks(count: int) -> Problem:
    """Blocks x + f(g(h(x))): all of them saved, h cheap to compute again."""
    reads: list[tuple[int, int]] = []
    for block in range(count):
        h, g, f, x = range(4 * block, 4 * block + 4)
        reads += [(h, g), (g, f), (f, x)]
        reads += [(h - 1, h), (h - 1, x)] if block else []
        for one in (h, g, f):
            reads += [(one, 5 * count - 1 - block)]
    reads += [(one, one + 1) for one in range(4 * count - 1, 5 * count - 1)]
    nbytes = [400, 400, 400, 100] * count + [100] * count
    cost = [1, 40, 40, 1] * count + [160] * count
    return problem(nbytes, cost, sorted({*reads}), range(5 * count), 0)


@pytest.mark.parametrize("program", [layers(40), residual_blocks(20)])
def test_schedules_are_valid_and_need_about_their_budget(program: Problem) -> None:
    most = measured(program, program.order).peak_nbytes
    staged, costs = StagedSchedules(program), []
    for percent in range(95, 30, -5):
        one = staged.best(most * percent // 100)
        assert one is not None and fault(program, one.sequence) is None
        assert one.peak_nbytes <= 1.01 * most * percent / 100
        costs.append(one.cost)
    assert costs == sorted(costs) and costs[-1] < 1.5 * program.plain_cost


def test_only_what_is_needed_is_computed_again() -> None:
    """Each layer of which 100 bytes are not there costs its product and its activation once."""
    program = layers(40)
    most = measured(program, program.order).peak_nbytes
    one = StagedSchedules(program).best(most - 1000)
    assert one is not None and one.peak_nbytes <= most - 1000
    assert one.cost - program.plain_cost <= 12 * 12


def test_what_costs_least_is_computed_again() -> None:
    program = residual_blocks(20)
    most = measured(program, program.order).peak_nbytes
    one = StagedSchedules(program).best(most * 80 // 100)
    assert one is not None
    again = {node % 4 for node, times in Counter(one.sequence).items() if times > 1}
    assert again == {0}  # of each block, h


def test_stages_that_are_alike_are_solved_once() -> None:
    program = layers(60)
    stages = stages_of(replace(program, nbytes=(100,) * 180 + (0,) * 60))
    assert len(stages) > 50
    assert len({one.inside for one in stages}) <= 3
    assert StageTable(stages, 3000).run.max() < 6 * len(stages)


def test_layers_need_the_root_of_their_number() -> None:
    program = layers(64)
    one = StagedSchedules(program).best(2500)
    assert one is not None and one.peak_nbytes <= 2500
    assert one.cost < 1.4 * program.plain_cost


@pytest.mark.parametrize("percent", [80, 40])
def test_a_chain_costs_what_its_own_table_says(percent: int) -> None:
    """Layers without outputs are a chain, of which each stage is two nodes."""
    count = 30
    forward = [(v - 1, v) for v in range(1, 3 * count)]
    reads = forward + [(2 * v + 1, 3 * count - 1 - v) for v in range(count)]
    staged = problem([100] * 3 * count, [5, 5, 0] * count, sorted({*reads}), range(3 * count), 0)
    # The same with one node for both: what the first has goes with the second.
    alike = [(v - 1, v) for v in range(1, 2 * count)]
    alike += [(v, 2 * count - 1 - v) for v in range(count)]
    cost = [10] * count + [0] * count
    nodes = problem([100] * 2 * count, cost, sorted({*alike}), range(2 * count), 0)
    budget = measured(nodes, nodes.order).peak_nbytes * percent // 100
    ours = StagedSchedules(replace(staged, cost=(5,) * 2 * count + (0,) * count)).best(budget + 100)
    best = ChainSchedules().best(replace(nodes, budget_nbytes=budget))
    assert ours is not None and best is not None
    assert ours.peak_nbytes <= budget + 100
    assert ours.cost <= 1.05 * measured(nodes, best).cost


@pytest.mark.sweep(5)
@pytest.mark.parametrize("seed", range(20))
def test_schedules_of_random_programs_are_valid(seed: int) -> None:
    program = random_program(seed)
    ordered = replace(program, order=early(program))
    assert fault(program, ordered.order) is None
    most = measured(program, program.order).peak_nbytes
    for one in map(StagedSchedules(ordered).best, (most * 9 // 10, most * 7 // 10, most // 2)):
        if one is not None:
            assert fault(program, one.sequence) is None
            assert one.peak_nbytes == measured(program, one.sequence).peak_nbytes


def test_outputs_that_free_bytes_are_computed_early() -> None:
    late, soon = layers(20, late=True), layers(20)
    order = early(late)
    assert fault(late, order) is None and sorted(order) == list(range(late.size))
    assert measured(late, order).peak_nbytes <= measured(soon, soon.order).peak_nbytes
    assert measured(late, late.order).peak_nbytes > 1.8 * measured(late, order).peak_nbytes
    assert early(replace(late, fixed=frozenset(range(late.size)))) == late.order


def test_keepings_go_from_all_to_nothing() -> None:
    """0 is computed from what is handed on, 1 from 0, and 2, which is handed on, from 1."""
    inside = Inside(
        (8, 8, 1), (1, 9, 1), (0, 0, 0), ((), (0,), (1,)), frozenset({2}), frozenset({0, 1})
    )
    found = keepings(inside)
    assert [one.values for one in found] == [{0, 1, 2}, {1, 2}, {2}]
    assert [one.extra for one in found] == [0, 1, 10]
    assert [one.nbytes for one in found] == [17, 9, 1]
    assert [one.cost for one in found] == [11, 11, 11]

"""Predicted times follow where bytes lie: which a core touched, and what others brought since."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import chainrule as cr
from chainrule.plan.duration import FARTHER, plan_nanoseconds, work_nanoseconds
from chainrule.plan.nest_duration import (
    ALONE,
    FIRST,
    HUGE,
    LINE,
    OVERLAP,
    PAGE,
    TRANSLATED,
    WAITED,
    _moved_nbytes,
    moving,
)
from chainrule.plan.planner import plan
from chainrule.plan.reuse import Lying, lying_in
from chainrule.plan.speeds import SPEEDS, Level
from chainrule.schedule.records import Buffer


def planned(function, *shapes):
    types = [cr.float32[" ".join(map(str, shape))] for shape in shapes]
    graph = cr.trace(function, **dict(zip(("x", "y", "z"), types, strict=False)))
    return plan(graph, [node for _, node in graph.outputs])


def test_what_others_bring_into_the_last_cache_takes_room_there_alone():
    levels = Level(1000, 20.0), Level(9000, 10.0), Level(2.0**62, 2.0, 50.0)
    speeds = replace(SPEEDS[32], memory=levels)
    assert speeds.moving(800, others=1e9) == 40.0  # it lies in a cache of this core
    assert speeds.moving(800, 5000, 2000) == 80.0
    assert speeds.moving(800, 5000, 8500) == 0.5 * 80.0 + 0.5 * 400.0
    assert [speeds.starting(5000, one) for one in (0, 8500, 1e9)] == [0.0, 25.0, 50.0]


def test_the_longer_a_step_takes_the_less_of_it_stays_in_a_shared_cache():
    """Vectors of 16 KB that lie in the last cache, before and after a long product."""
    shapes = (4096,), (256, 1024), (1024, 1024)
    made = planned(lambda x, y, z: np.sum(y @ z) + np.sum(np.exp(x)), *shapes)
    levels = Level(2.0**15, 50.0), Level(2.0**24, 25.0), Level(2.0**62, 5.0)
    alone = replace(made.speeds, memory=levels)
    plain = plan_nanoseconds(made, alone)
    crowded = plan_nanoseconds(made, replace(alone, others=100.0))
    more = [b - a for a, b in zip(plain, crowded, strict=True)]
    vector = made.graph.inputs[0].node
    (brief,) = (at for at, work in enumerate(made.works) if vector in work.reads)
    assert all(one >= 0 for one in more) and more[brief] > 0.5 * 4 * 4096 * (1 / 5 - 1 / 25)


def test_bytes_of_others_are_those_brought_since_an_array_was_touched():
    x, y = (cr.trace(lambda x: x, x=cr.float32[1]).inputs[0].node for _ in range(2))
    a, b = Buffer("scratch", 0, 2**16), Buffer("scratch", 2**16, 2**16)
    first, second = lying_in([{x: a}, {x: a, y: b}], [[x], [y]], [1, 2], others=[10.0, 100.0])
    assert first.others == {x: 55.0} and first.code_others == 110.0
    assert second.others == {x: 55.0, y: 110.0}
    assert second.writes == [y] and second.code_others == 110.0


def test_an_instruction_waits_for_what_it_reads_and_not_for_what_it_writes():
    """Arrays that it reads begin to come together, so that most of one hides behind the other."""
    levels = Level(1.0, 1e9), Level(2.0**62, 1e9, 1000.0)

    def taken(function, *shapes):
        made = planned(function, *shapes)
        far = replace(made.speeds, memory=levels)
        near = replace(made.speeds, memory=(Level(2.0**62, 1e9),))
        return sum(plan_nanoseconds(made, far)) - sum(plan_nanoseconds(made, near))

    one, two = (taken(lambda x: x + 1, (8,))), (taken(lambda x, y: x + y, (8,), (8,)))
    code = 1000 * (FIRST + WAITED * 3)
    assert 1000 < one < 1000 + 1.5 * code
    assert 250 < two - one < 450
    assert taken(lambda x: x + 1, (2048,)) - one == pytest.approx(1000, rel=0.15)  # two pages


def test_bytes_of_an_array_count_that_a_nest_touches():
    """Parts that lie beside each other are added up; of elements apart, their lines come."""

    def moved(function, shape):
        made = planned(function, shape)
        nests = [layout.nest for work in made.works for layout in work.layouts]
        (x,) = (item.node for item in made.graph.inputs)
        return [_moved_nbytes(one).get(x, 0) for one in nests]

    assert moved(lambda x: x[:64] + x[64:128] * x[128:], (192, 64)) == [192 * 64 * 4]
    assert moved(lambda x: np.exp(x[:64]), (192, 64)) == [64 * 64 * 4]
    assert moved(lambda x: np.exp(x[:, ::4]), (64, 64)) == [64 * 64 * 4]
    assert moved(lambda x: np.exp(x[:, 0]), (64, 64)) == [64 * 64]


def test_elements_that_an_index_finds_come_from_where_the_array_lies():
    graph = cr.trace(lambda x, i: np.exp(x[i]), x=cr.float32["9000"], i=cr.int64["4096"])
    made = plan(graph, [node for _, node in graph.outputs])
    (work,) = made.works
    (x, _) = (item.node for item in graph.inputs)
    near, far = (
        work_nanoseconds(work, made.speeds, Lying({x: since})) for since in (2.0**17, 2.0**40)
    )
    assert far - near > 4096 * LINE * (1 / 12 - 1 / 60)


def test_tiles_are_written_while_others_are_computed():
    """Columns of C that are 8 KiB apart push each other out of the nearest cache."""

    def taken(conflict):
        (work,) = planned(lambda x, y: x @ y, (512, 10), (10, 2048)).works
        return work_nanoseconds(work, replace(SPEEDS[64], conflict=conflict, product=0.0))

    hidden, small, large = (taken(one) for one in (0.0, 1.0, 10.0))
    assert small - hidden < 0.4 * (taken(101.0) - taken(100.0)) < 0.1 * (large - hidden)


def test_memory_is_as_quick_for_all_threads_as_for_one():
    """What lies in a cache comes twice as quick for two."""
    graph = cr.trace(lambda x, y: x + y, x=cr.float32["2000 2000"], y=cr.float32["2000 2000"])
    results = [node for _, node in graph.outputs]
    (one,), (two,) = (plan(graph, results, threads=threads).works for threads in (1, 2))

    def taken(work, farthest):
        levels = Level(2.0**15, 1e9), Level(2.0**16, 50.0), Level(2.0**62, farthest)
        speeds = replace(SPEEDS[64], memory=levels, sharing=0.0, operation=0.0, access=0.0)
        return work_nanoseconds(work, speeds)

    assert taken(two, 50.0) == pytest.approx(taken(one, 50.0) / 2, rel=0.05)
    near, far = (taken(one, farthest) for farthest in (50.0, 5.0))
    assert taken(two, 5.0) == pytest.approx(near / 2 + far - near, rel=0.05)


def test_the_place_of_each_small_page_from_outside_is_looked_up():
    """From so many bytes on NumPy asks for large pages, and so scratch memory has them."""
    levels = Level(1.0, 1e9), Level(2.0**62, 1e9, 1000.0)
    speeds = replace(SPEEDS[32], memory=levels)
    x = cr.trace(lambda x: x, x=cr.float32[1]).inputs[0].node

    def waited(pages, *, outside):
        lying = Lying({x: 1e9}, outside={x} if outside else ())
        return moving({x: PAGE * pages}, speeds, lying) - 2000.0

    assert waited(1, outside=True) == pytest.approx(0.0, abs=1.0)
    assert waited(101, outside=False) == pytest.approx(0.0, abs=1.0)
    assert waited(101, outside=True) == pytest.approx(1000.0 * 100 * TRANSLATED, rel=1e-4)
    assert waited(HUGE // PAGE, outside=True) == pytest.approx(0.0, abs=10.0)


def test_computing_hides_less_of_what_comes_from_memory():
    """As much more is on top as comes later than from the last cache."""
    (work,) = planned(lambda x: np.exp(x), (1 << 20,)).works
    cache, memory = Level(2.0**23, 100.0), Level(2.0**62, 10.0)
    near = replace(SPEEDS[32], memory=(Level(1.0, 100.0), replace(cache, nbytes=2.0**62)))
    far = replace(SPEEDS[32], memory=(Level(1.0, 100.0), replace(cache, nbytes=2.0), memory))
    computing = work_nanoseconds(work, replace(near, memory=(Level(2.0**62, 1e9),)))
    taken = work_nanoseconds(work, far)
    brought = 2 * 4 * 2**20 / 10.0
    late = min(computing, brought - 2 * 4 * 2**20 / 100.0)
    assert taken == pytest.approx(brought + OVERLAP * (computing + late), rel=0.05)


def test_a_tile_of_one_line_writes_lines_that_nobody_fetches_ahead():
    """Tiles of AVX2 have two vectors of a column: a line, whose next one another tile writes."""
    shapes = (256, 10), (10, 512)
    graph = cr.trace(lambda x, y: x @ y, x=cr.float32[shapes[0]], y=cr.float32[shapes[1]])
    results = [node for _, node in graph.outputs]
    narrow = plan(graph, results, vector_nbytes=32)
    wide = plan(graph, results, vector_nbytes=64)
    levels = Level(2.0**20, 1e6), Level(2.0**62, 10.0)

    def written(made):
        """What it takes longer where the matrix of the results comes from memory."""
        (work,), speeds = made.works, replace(made.speeds, memory=levels)
        far = Lying({results[0]: 1e9}, writes=results)
        near = Lying({results[0]: 1.0}, writes=results)
        taken = [work_nanoseconds(work, speeds, lying) for lying in (far, near)]
        return taken[0] - taken[1]

    once = FARTHER * 4 * 256 * 512 / 10.0
    assert written(wide) == pytest.approx(once, rel=0.1)
    assert written(narrow) == pytest.approx(ALONE * once, rel=0.1)

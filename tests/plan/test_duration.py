"""Predicted times follow what is done, and where its bytes lie."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.execute.executors import prepare
from chainrule.plan.duration import FARTHER, plan_nanoseconds, work_nanoseconds
from chainrule.plan.flow_work import FlowWork
from chainrule.plan.loops.loop_work import Kind
from chainrule.plan.nest_duration import _of_vector
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.plan.planner import plan
from chainrule.plan.reuse import Lying, lying_in
from chainrule.plan.sharing import Sharing, busiest
from chainrule.plan.speeds import SPEEDS, Level, speeds_of
from chainrule.plan.weights import weight
from chainrule.plan.work import ProductWork
from chainrule.schedule.records import Buffer

WIDTHS = sorted(SPEEDS)


def planned(function, *shapes, dtype="float32", **settings):
    types = [getattr(cr, dtype)[" ".join(map(str, shape))] for shape in shapes]
    names = dict(zip(("x", "y", "z"), types, strict=False))
    graph = cr.trace(function, **names)
    results = [node for _, node in graph.outputs]
    return plan(graph, results, **settings)


def nanoseconds(function, *shapes, **options):
    made = planned(function, *shapes, **options)
    return sum(work_nanoseconds(work, made.speeds) for work in made.works)


def multiplied(x, y):
    return x @ y


@pytest.mark.parametrize("vector_nbytes", WIDTHS)
def test_more_takes_longer(vector_nbytes):
    elementwise = [
        nanoseconds(lambda x: np.tanh(x) + 1, (n, 300), vector_nbytes=vector_nbytes)
        for n in (1, 8, 64, 500, 4000, 30_000)
    ]
    products = [
        nanoseconds(multiplied, (n, 200), (200, n), vector_nbytes=vector_nbytes)
        for n in (1, 2, 3, 8, 30, 100, 300, 1000)
    ]
    for found in (elementwise, products):
        assert found == sorted(set(found)), found


@pytest.mark.parametrize("vector_nbytes", WIDTHS)
def test_a_function_takes_what_its_instructions_take(vector_nbytes):
    def taken(function, dtype="float32"):
        return nanoseconds(function, (64, 64), dtype=dtype, vector_nbytes=vector_nbytes)

    add, exp, log = (taken(f) for f in (lambda x: x + x, np.exp, np.log))
    assert 1.5 * add < exp < log
    assert taken(np.exp, "float64") > 2 * exp  # half as many in a vector, and a longer polynomial


def test_vectors_of_half_the_width_take_longer():
    for function in (lambda x: np.exp(x) * x, lambda x: x @ x):
        narrow, wide = (nanoseconds(function, (256, 256), vector_nbytes=n) for n in (32, 64))
        assert 1.3 * wide < narrow < 3 * wide


def test_bytes_in_a_cache_are_moved_sooner_than_bytes_beyond_it():
    small, large = (nanoseconds(lambda x, y: x + y, (n,), (n,)) / n for n in (10_000, 10_000_000))
    assert 2 * small < large
    for speeds in SPEEDS.values():
        rates = [level.nbytes_each_nanosecond for level in speeds.memory]
        assert rates == sorted(rates, reverse=True)


def test_small_products_are_slower_for_each_operation():
    sizes = (8, 32, 1024)
    rates = [nanoseconds(multiplied, (n, n), (n, n)) / n**3 for n in sizes]
    assert rates == sorted(rates, reverse=True)


def test_elements_apart_cost_more_than_elements_side_by_side():
    beside = nanoseconds(lambda x: x + 1, (512, 512))
    apart = nanoseconds(lambda x, y: x.T + y, (512, 512), (512, 512))
    assert apart > 2 * beside


def test_a_slower_machine_takes_longer_for_the_same_plan():
    made = planned(lambda x, y: np.tanh(x @ y), (256, 256), (256, 256))

    def taken(speeds):
        return sum(work_nanoseconds(work, speeds) for work in made.works)

    known = made.speeds
    slow = replace(known, memory=tuple(Level(a.nbytes, 1.0) for a in known.memory))
    assert taken(replace(known, multiply_add=2 * known.multiply_add)) > 1.5 * taken(known)
    assert taken(slow) > 1.2 * taken(known)
    assert speeds_of(16) == speeds_of(32)


def test_threads_share_the_time_but_for_their_meeting():
    alone, shared = (nanoseconds(multiplied, (512, 512), (512, 512), threads=n) for n in (1, 2))
    assert 0.5 * alone < shared < 0.6 * alone
    assert Sharing(1, 10.0).parts == 1


@pytest.mark.parametrize("executor", ["native", "reference"])
def test_a_loop_takes_its_iterations(executor):
    def looped(x, length):
        final, _ = cr.scan(lambda h, _: (np.tanh(h @ h), None), x, None, length=length)
        return final

    def taken(length):
        graph = cr.trace(lambda x: looped(x, length), x=cr.float32["40 40"])
        results = [node for _, node in graph.outputs]
        program: Any = prepare(executor, graph, results, {})
        return sum(program.durations())

    few, many = taken(1000), taken(100_000)
    assert 50 * few < many < 150 * few


def test_numpy_takes_longer_for_what_it_has_no_loop_for():
    numpy = SPEEDS[64].numpy

    def taken(function, *shapes):
        names = dict(zip("xy", (cr.float32[one] for one in shapes), strict=False))
        graph = cr.trace(function, **names)
        return sum(node_nanoseconds(node, numpy) for node in graph.nodes)

    assert taken(lambda x: x + x, "1000 100") < taken(np.tanh, "1000 100")
    assert 10 * taken(np.tanh, "1000 100") < taken(cr.erf, "1000 100")
    assert taken(multiplied, "300 300", "300 300") > 5 * taken(multiplied, "100 100", "100 100")
    assert taken(lambda x: x.T, "1000 1000") == taken(lambda x: x.T, "10 10")  # a view


def test_crowding_slows_what_threads_share_and_nothing_else():
    known = speeds_of(32)
    crowded = replace(known, crowding=1.5)
    for function, shapes in ((multiplied, [(300, 300)] * 2), (np.tanh, [(2000, 300)])):
        for threads in (1, 2):
            works = planned(function, *shapes, vector_nbytes=32, threads=threads).works
            before, after = (
                sum(work_nanoseconds(work, speeds) for work in works) for speeds in (known, crowded)
            )
            assert after / before == pytest.approx(1.5 if threads == 2 else 1.0, rel=0.01)


def test_the_busiest_thread_is_waited_for():
    assert busiest(8, 8, 2) == busiest(8, 4, 2) == 0.5
    assert busiest(8, 6, 2) == 0.625  # of 1, 1, 2, 1, 1 and 2 one does five eighths
    assert busiest(3, 3, 2) == 2 / 3 and busiest(1, 1, 4) == 1.0
    (work,) = planned(multiplied, (512, 512), (512, 10), threads=2, vector_nbytes=32).works
    assert isinstance(work, ProductWork)
    (call,) = work.calls
    assert call.tiles is not None
    assert busiest(call.tiles.cells(call.gemm), call.parts, 2) == 0.5  # so many parts are made


def test_bytes_come_from_the_level_that_holds_what_was_touched_since():
    speeds = replace(SPEEDS[32], memory=(Level(1000, 10.0), Level(2.0**62, 2.0, 50.0)))
    assert speeds.moving(800) == speeds.moving(800, 900) == 80.0
    assert speeds.moving(800, 9000) == 400.0
    assert speeds.moving(5000) == 2500.0
    assert speeds.moving(1500) == 0.5 * 150.0 + 0.5 * 750.0  # a half of what is half too large
    assert [speeds.starting(n) for n in (900, 1500, 9000)] == [0.0, 25.0, 50.0]


def test_bytes_since_are_those_between_the_turns_of_an_element():
    """Each has its turn halfway through an instruction, on average."""
    w, x, y, z = (cr.trace(lambda x: x, x=cr.float32[1]).inputs[0].node for _ in range(4))
    a, b = Buffer("scratch", 0, 2**16), Buffer("scratch", 2**16, 2**17)
    given = Buffer("w", 0, 2**14)
    places = [{w: given, x: a}, {x: a, y: b}, {y: b, z: b}]
    found = lying_in(places, [[x], [y], [z]], ["one", "two", "two"])
    everything, first, second, third = 2**14 + 2**16 + 2**17, 2**14 + 2**16, 2**16 + 2**17, 2**17
    assert found[0].since == dict.fromkeys([w, x], everything)  # it would be more than there are
    assert found[1].since == {x: (first + second) / 2, y: everything}
    assert found[2].since == dict.fromkeys([y, z], (second + third) / 2)
    assert [one.overwriting for one in found] == [set(), set(), {z}]  # z takes the bytes of y
    assert [one.outside for one in found] == [{w}, set(), set()]
    assert [one.code for one in found] == [everything, everything, (second + third) / 2]


def test_a_plan_takes_longer_where_a_cache_does_not_keep_its_arrays():
    """Matrices of 256 KiB in all are twice what a cache of 128 holds: when its turn comes again,
    each is gone.  Half of that is behind the product."""
    made = planned(lambda x, y, z: (x @ y) @ z, (8, 256), (256, 128), (128, 256))
    near = replace(made.speeds, memory=(Level(2.0**21, 50.0), Level(2.0**62, 10.0)))
    far = replace(near, memory=(Level(2.0**17, 50.0), Level(2.0**62, 10.0)))
    plain, longer = (plan_nanoseconds(made, one) for one in (near, far))
    more = [b - a for a, b in zip(plain, longer, strict=True)]
    whole = [4 * (8 * 256 + 256 * 128 + 8 * 128)] * 2
    assert more == pytest.approx([FARTHER * one * (1 / 10 - 1 / 50) for one in whole], rel=0.1)


def test_lines_are_fetched_before_they_are_written_but_once():
    slow = Level(1.0, 1e9), Level(2.0**62, 1.0)  # so slow that nothing else counts
    speeds = replace(SPEEDS[32], memory=slow)

    def taken(overwrites):
        graph = cr.trace(lambda x: x * 2, x=cr.float32["1000"])
        (node,) = (one for _, one in graph.outputs)
        given = {graph.inputs[0].node: node} if overwrites else {}
        return sum(plan_nanoseconds(plan(graph, [node], given, vector_nbytes=32), speeds))

    assert taken(False) - taken(True) == pytest.approx(4000, rel=0.01)


def test_rows_that_an_index_finds_are_read_as_they_lie():
    def gathered(x, i):
        return np.tanh(x[i])

    def taken(shape):
        types = {"x": cr.float32[" ".join(map(str, shape))], "i": cr.int64["4096"]}
        graph = cr.trace(gathered, **types)
        made = plan(graph, [node for _, node in graph.outputs])
        (work,) = made.works
        speeds = replace(made.speeds, operation=0.0)
        return _of_vector(work.layouts[0].sweeps[0], 16, speeds, 64)

    rows, elements = taken((50, 64)), taken((50,))
    assert elements - rows == pytest.approx(16 * SPEEDS[64].lane)  # and the index is read


def test_many_operations_on_one_vector_take_twice_as_long_beyond_the_window():
    made = planned(lambda x, y: np.exp(np.exp(x) * y), (64, 4096), (64, 4096))
    (work,) = made.works
    (sweep,) = [one for one in work.layouts[0].sweeps if not one.is_empty]
    lanes, speeds = work.layouts[0].width, replace(made.speeds, window=math.inf)
    computed = [one for one in sweep.computes if one.kind is not Kind.LOAD]
    count = sum(weight(one, 64).operations for one in computed)
    whole = _of_vector(sweep, lanes, speeds, 4096)
    for window in (0, 5, count - 3, count, count + 7):
        later = _of_vector(sweep, lanes, replace(speeds, window=window), 4096)
        assert later - whole == pytest.approx(speeds.operation * max(count - window, 0))


def test_threads_that_multiply_together_exchange_matrices():
    speeds = replace(SPEEDS[64], exchanging=0.1)

    def more(threads, *shapes):
        (work,) = planned(multiplied, *shapes, threads=threads).works
        return work_nanoseconds(work, speeds) - work_nanoseconds(work, SPEEDS[64])

    assert more(1, (512, 512), (512, 512)) == 0
    assert abs(more(2, (512, 512), (512, 512)) - 0.1 * 512 * 512 * 4) <= 1  # nobody wrote x and y
    assert more(2, (64, 64, 64), (64, 64, 64)) == 0  # each has matrices of its own


def test_blas_takes_its_own_time():
    (work,) = planned(multiplied, (512, 512), (512, 512), vector_nbytes=32, blas_from=1e8).works
    once, twice = (work_nanoseconds(work, replace(SPEEDS[32], blas=k)) for k in (1.0, 2.0))
    (tiled,) = planned(multiplied, (128, 128), (128, 128), vector_nbytes=32).works
    assert 1.8 * once < twice < 2 * once
    assert len({work_nanoseconds(tiled, replace(SPEEDS[32], blas=k)) for k in (1.0, 2.0)}) == 1


def test_rows_wait_for_sums_that_they_need_again():
    def taken(function, **changes):
        made = planned(function, (16, 128))
        speeds = replace(made.speeds, **changes)
        return sum(work_nanoseconds(work, speeds) for work in made.works)

    def total(x):
        return np.sum(x, axis=1)

    def divided(x):
        return x / np.sum(x, axis=1, keepdims=True)

    assert taken(total, reduction=1.0) == taken(total, reduction=9.0)  # the next row begins
    assert taken(divided, reduction=9.0) - taken(divided, reduction=1.0) == 16 * 8


def test_the_slowest_part_of_a_processor_counts():
    """Dividing hides behind loading where that takes longer, and the other way round."""

    def taken(function, **changes):
        made = planned(function, (4096,), (4096,))
        speeds = replace(made.speeds, **changes)
        return sum(work_nanoseconds(work, speeds) for work in made.works)

    added, divided = (lambda x, y: x + y), (lambda x, y: x / y)
    assert taken(added) < taken(divided) < 3 * taken(added)
    assert taken(divided, access=20.0) < 1.1 * taken(added, access=20.0)


@pytest.mark.parametrize("vector_nbytes", WIDTHS)
def test_lines_in_one_set_of_a_cache_push_each_other_out(vector_nbytes):
    """Columns that are a page apart share a set of 8 lines; with a line more they do not."""

    def taken(columns, apart):
        made = planned(lambda x: x.T + 1, (columns, apart // 4), vector_nbytes=vector_nbytes)
        return sum(work_nanoseconds(work, made.speeds) for work in made.works) / apart

    assert taken(64, 4096) > 3 * taken(64, 4096 + 64)
    assert taken(8, 4096) == pytest.approx(taken(8, 4096 + 64), rel=0.1)  # there is room for 8


def test_small_products_wait_for_the_sums_of_the_step_before():
    speeds = SPEEDS[64]
    (work,) = planned(multiplied, (3, 4000), (4000, 16)).works
    assert work_nanoseconds(work, speeds) >= 4000 * speeds.latency


def test_code_comes_from_where_it_lies():
    made = planned(lambda x: cr.softmax(x), (32, 10))
    near = replace(made.speeds, memory=(Level(2.0**20, 50.0), Level(2.0**62, 50.0, 100.0)))
    (work,) = made.works
    here, gone = (work_nanoseconds(work, near, Lying({}, code=one)) for one in (0, 2.0**30))
    assert gone - here > 200  # more than a line


def test_a_loop_takes_what_it_copies():
    def copied(x, h, order, keeps):
        def cell(h, xt):
            h = np.tanh(h @ h + xt)
            return h, (h if keeps else None)

        return cr.scan(cell, h, np.moveaxis(x, 0, order) if order else x)[0]

    def works(order, keeps, side=128):
        shape = (side, 40, side) if order else (40, side, side)
        graph = cr.trace(
            lambda x, h: copied(x, h, order, keeps),
            x=cr.float32[shape],
            h=cr.float32[side, side],
        )
        made = plan(graph, [node for _, node in graph.outputs], vector_nbytes=32)
        return next(one for one in made.works if isinstance(one, FlowWork)), made.speeds

    nbytes = 128 * 128 * 4
    (plain, speeds), (moved, _), (kept, _) = works(0, False), works(1, False), works(0, True)
    assert plain.copied_nbytes == 0  # the state lies over the one before, rows where they are read
    assert moved.copied_nbytes == nbytes  # of rows that are not one after another
    small, _ = works(0, False, 32)
    assert small.copied_nbytes == 32 * 32 * 4  # too small a state for a place of its own
    more = work_nanoseconds(moved, speeds) - work_nanoseconds(plain, speeds)
    assert abs(more - 40 * speeds.moving(2 * nbytes)) <= 40
    assert kept.copied_nbytes == nbytes  # into the row of the result

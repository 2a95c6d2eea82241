"""Predicted times follow what is done, and where its bytes lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.execute.executors import prepare
from chainrule.plan.duration import work_nanoseconds
from chainrule.plan.numpy_duration import node_nanoseconds
from chainrule.plan.planner import plan
from chainrule.plan.sharing import Sharing
from chainrule.plan.speeds import SPEEDS, Level, speeds_of

WIDTHS = sorted(SPEEDS)


def planned(function, *shapes, dtype="float32", vector_nbytes=64, threads=1):
    types = [getattr(cr, dtype)[" ".join(map(str, shape))] for shape in shapes]
    names = dict(zip(("x", "y", "z"), types, strict=False))
    graph = cr.trace(function, **names)
    results = [node for _, node in graph.outputs]
    return plan(graph, results, vector_nbytes=vector_nbytes, threads=threads)


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

    few, many = taken(10), taken(1000)
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


def test_blas_does_large_products_where_registers_are_few():
    def call(shapes: Any, vector_nbytes: int) -> Any:
        (work,) = planned(lambda x, y: x @ y, *shapes, vector_nbytes=vector_nbytes).works
        return work.calls[0]

    large, small = ((512, 784), (784, 2048)), ((64, 64), (64, 64))
    assert call(large, 32).tiles is None
    assert call(large, 64).tiles is not None and call(small, 32).tiles is not None


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

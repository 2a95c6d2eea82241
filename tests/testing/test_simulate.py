"""A valid schedule is replayed, and its bytes are counted; an invalid one is refused with why."""

import inspect
from dataclasses import replace

import faulty_overwrites
import faulty_reads
import faulty_views
import faulty_writes
import numpy as np
import pytest
from schedules import (
    FREE_G,
    FREE_Z,
    GIVEN,
    HALF,
    MAKE_G,
    MAKE_H,
    MAKE_Z,
    PLAIN,
    ROWS,
    UPDATE,
    VIEW,
    W_NEXT,
    XT,
    G,
    H,
    W,
    X,
    Z,
    array,
    in_place_of_b,
    picked,
    plain,
    schedule,
    scratch,
)

import chainrule as cr
from chainrule import float32
from chainrule.errors import ScheduleError
from chainrule.schedule.lives import BEFORE
from chainrule.schedule.records import Buffer, Compute, Free, Schedule, View
from chainrule.testing import simulate


def lives(simulation):
    """For each value the numbers when it is born, last needed and ended."""
    return {life.node: (life.born, life.last_needed, life.ended) for life in simulation.lifetimes}


FAULTS = [
    function
    for module in (faulty_reads, faulty_views, faulty_writes, faulty_overwrites)
    for function in vars(module).values()
    if inspect.isfunction(function) and function.__module__ == module.__name__
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_refused_and_explained(fault):
    with pytest.raises(ScheduleError) as caught:
        simulate(fault())
    assert caught.value.what == inspect.getdoc(fault)
    assert caught.value.hint == "this is an error in a planner; please report it with the program"


def test_a_fault_quotes_the_line_that_made_the_value():
    with pytest.raises(ScheduleError) as caught:
        simulate(plain({2: (FREE_Z, FREE_Z)}))
    assert caught.value.where.endswith("in step\nz = x @ W\n    ^^^^^")


def test_a_valid_schedule_tells_when_every_value_was_there():
    assert lives(simulate(plain())) == {
        X: (BEFORE, 3, None),
        W: (BEFORE, 4, 4),
        Z: (0, 1, 2),
        H: (1, 6, None),
        G: (3, 4, 5),
        W_NEXT: (4, 6, None),
    }


def test_the_peak_counts_what_a_kernel_reads_and_writes():
    found = simulate(plain())
    assert found.live_nbytes == (64, 128, 64, 128, 128, 64)
    assert (found.peak_nbytes, found.peak_instruction) == (128, 1)
    assert [life.node for life in found.alive_at_peak] == [Z, H]
    assert found.wasted_nbytes == 0


def test_workspace_counts_while_its_kernel_runs():
    work = replace(MAKE_H, workspace=scratch(192, 32))
    found = simulate(plain({1: work}, scratch_nbytes=256))
    assert found.live_nbytes == (64, 160, 64, 128, 128, 64)
    assert found.live_aligned_nbytes == (64, 192, 64, 128, 128, 64)
    assert (found.peak_nbytes, max(found.live_aligned_nbytes), found.wasted_nbytes) == (
        160,
        192,
        96,
    )


def test_a_value_in_place_of_another_counts_once():
    put = replace(MAKE_H, into=(scratch(0),), in_place=((H, Z),))
    make_g = replace(MAKE_G, into=(scratch(64),))
    found = simulate(schedule(MAKE_Z, put, make_g, UPDATE, FREE_G))
    assert found.live_nbytes == (64, 64, 128, 128, 64)
    assert lives(found)[Z] == (0, 1, 1)
    assert [life.node for life in found.lifetimes if life.is_alive_at(1)] == [X, W, H]
    assert found.late == ()


def test_in_place_is_an_offer_that_need_not_be_taken():
    found = simulate(plain({1: replace(MAKE_H, in_place=((H, Z),))}))
    assert lives(found)[Z] == (0, 1, 2)


@pytest.mark.parametrize("result", ["p", "above", "alike"])
def test_a_row_that_is_reduced_or_looked_into_may_be_overwritten(result):
    assert simulate(in_place_of_b(result)).peak_nbytes == 256


def test_a_stride_along_one_element_means_nothing():
    show = View(ROWS["first"], ROWS["b"], 0, (7777, 4))
    assert simulate(in_place_of_b("p", before=(show,))).peak_nbytes == 256


def test_a_view_is_read_as_its_base():
    found = simulate(plain({3: (VIEW, replace(MAKE_G, reads=(XT, H)))}))
    assert XT not in lives(found)
    assert lives(found)[X] == (BEFORE, 4, None)


def test_a_value_that_is_only_seen_through_needs_its_base():
    assert lives(simulate(plain({3: replace(MAKE_G, reads=(XT, H))})))[X] == (BEFORE, 3, None)


def test_a_copy_of_what_could_be_a_view_is_read_itself():
    copy = Compute((XT,), (scratch(0),), reads=(X,))
    make_g = replace(MAKE_G, into=(scratch(128),), reads=(XT, H))
    found = simulate(plain({3: (copy, make_g, Free(XT))}, scratch_nbytes=192))
    assert lives(found)[XT] == (3, 4, 5)
    with pytest.raises(ScheduleError, match=r"reads xT: .*, but instruction 4 \(free xT\)"):
        simulate(plain({3: (copy, Free(XT), make_g)}, scratch_nbytes=192))


def test_a_value_may_be_computed_again_after_it_was_freed():
    again = (MAKE_H, Free(H), replace(MAKE_H, into=(scratch(64),)))
    found = simulate(plain({1: again}))
    assert [life.born for life in found.lifetimes if life.node is H] == [1, 3]


def test_what_is_computed_on_the_way_need_not_be_read():
    both = Compute((H,), (scratch(64),), reads=(X, W), inner=(Z,))
    assert simulate(schedule(both, MAKE_G, UPDATE, FREE_G)).peak_nbytes == 128


def test_values_that_keep_their_bytes_too_long_are_listed():
    assert simulate(plain()).late == ()
    longer = {2: (), 3: (replace(MAKE_G, into=(scratch(128),)), FREE_Z), 5: ()}
    assert [life.node for life in simulate(plain(longer, scratch_nbytes=192)).late] == [Z]
    never_freed = {2: (), 3: replace(MAKE_G, into=(scratch(128),)), 5: ()}
    assert [life.node for life in simulate(plain(never_freed, scratch_nbytes=192)).late] == [Z]


def test_results_lie_in_arrays_of_their_own_or_in_scratch():
    own = plain({1: replace(MAKE_H, into=(array("h"),))}, scratch_nbytes=64)
    assert simulate(own).peak_nbytes == 64


def test_a_given_value_may_lie_in_scratch():
    given = {**GIVEN, X: scratch(128)}
    found = simulate(plain({3: (MAKE_G, Free(X))}, given=given, scratch_nbytes=192))
    assert found.peak_nbytes == 192
    assert lives(found)[X] == (BEFORE, 3, 4)


def test_a_given_array_may_be_overwritten_once_it_was_read():
    make = Compute((HALF,), (scratch(128),), reads=(G,))
    copy = Compute((W_NEXT,), (scratch(192),), reads=(W, HALF))
    assert simulate(plain({4: (make, copy)}, overwrites={}, scratch_nbytes=256)).peak_nbytes == 256
    with pytest.raises(ScheduleError, match="finds W_next in bytes 192 to 255 of the scratch"):
        simulate(plain({4: (make, copy)}, scratch_nbytes=256))


def test_what_can_fail_does_so_before_the_first_update():
    assert simulate(plain({3: replace(MAKE_G, fails=True)}))


def test_what_was_checked_cannot_fail_after_an_update():
    assert simulate(picked("last"))


def test_a_result_may_be_a_given_value_or_a_view():
    graph = cr.trace(lambda x: (x, x[1:, ::-1]), x=float32[4, 4])
    x, view = (node for _, node in graph.outputs)
    show = View(view, x, 28, (16, -4))
    found = simulate(Schedule(graph, (show,), {x: array("x")}, (x, view)))
    assert found.peak_nbytes == 0
    with pytest.raises(ScheduleError, match=r"at byte 16 of x .* it lies at byte 28"):
        wrong = Schedule(graph, (replace(show, offset=16, strides=(16, 4)),), {x: array("x")}, ())
        simulate(wrong)


def test_arrays_of_no_elements_take_no_place():
    graph = cr.trace(lambda x: x * x, x=float32[0, 3])
    (x,), (_, y) = (item.node for item in graph.inputs), graph.outputs[0]
    make = Compute((y,), (Buffer("scratch", 0, 0),), reads=(x,))
    assert simulate(Schedule(graph, (make,), {x: array("x", 0)}, (y,))).peak_nbytes == 0


def test_views_on_views_are_as_long_there_as_the_bytes():
    def program(x: float32[4, 4]):
        y = np.tanh(x)
        column = y[:, 1]
        last = column[::-2]
        return np.tanh(last)

    graph = cr.trace(program)
    x, y, column, last = (graph[name] for name in ("x", "y", "column", "last"))
    result = graph.outputs[0][1]
    instructions = (
        Compute((y,), (scratch(0),), reads=(x,)),
        View(column, y, 4, (16,)),
        View(last, column, 48, (-32,)),
        Compute((result,), (scratch(64, 8),), reads=(last,)),
        Free(y),
    )
    valid = Schedule(graph, instructions, {x: array("x")}, (result,), {}, 128)
    assert lives(simulate(valid))[y] == (0, 3, 4)
    early = (*instructions[:3], Free(y), instructions[3])
    with pytest.raises(ScheduleError, match=r"reads last: .*, a view on y, but instruction 3"):
        simulate(replace(valid, instructions=early))


def test_the_plain_schedule_uses_every_instruction():
    for number in range(len(PLAIN) - 1):
        with pytest.raises(ScheduleError):
            simulate(plain({number: ()}))


def test_a_marked_value_is_the_value_itself():
    assert simulate(in_place_of_b("alike", inner=())).peak_nbytes == 256

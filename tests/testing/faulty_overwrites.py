"""Schedules that write over what is still needed, or given; the docstring is what the simulator says of it."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

from dataclasses import replace

from schedules import (
    FREE_G,
    GIVEN,
    HALF,
    MAKE_G,
    MAKE_H,
    MAKE_Z,
    ROWS,
    UPDATE,
    W_NEXT,
    XT,
    G,
    H,
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
from chainrule.schedule.records import Free, View

# In place.


def in_place_of_a_value_that_is_read_later():
    """
    instruction 2 (look) reads z: float32[4, 4], but instruction 1 (tanh) has put h in its place; bytes 0 to 63 of the scratch arena hold h now
    """
    put = replace(MAKE_H, into=(scratch(0),), in_place=((H, Z),))
    again = replace(MAKE_G, nodes=(), into=(), reads=(Z,), label="look")
    return schedule(MAKE_Z, put, again, replace(MAKE_G, into=(scratch(64),)), UPDATE)


def in_place_of_some_of_the_bytes():
    """
    instruction 1 (rows) puts p into bytes 128 to 383 of the scratch arena, but b is in bytes 0 to 255 of the scratch arena
    """
    return in_place_of_b("p", into=scratch(128, 256))


def in_place_of_what_is_not_read():
    """
    instruction 2 (matmul) puts g into bytes 0 to 63 of the scratch arena, but z is in bytes 0 to 63 of the scratch arena
    """
    put = replace(MAKE_G, into=(scratch(0),), in_place=((G, Z),))
    return plain({2: (), 3: put})


def in_place_of_what_is_freed_afterwards():
    """
    instruction 2 (free z) frees z: float32[4, 4], but instruction 1 (tanh) has put h in its place; bytes 0 to 63 of the scratch arena hold h now
    """
    return plain({1: replace(MAKE_H, into=(scratch(0),), in_place=((H, Z),))})


def in_place_of_a_factor_of_a_product():
    """
    instruction 3 (matmul) puts g in place of h, which it reads through g = matmul: elements would be overwritten before they are read
    """
    put = replace(MAKE_G, into=(scratch(64),), in_place=((G, H),))
    return plain({3: put})


def in_place_of_what_is_seen_through_transposed():
    """
    instruction 1 (rows) puts s in place of b, which it reads through bT = transpose[permutation=(1, 0)]: elements would be overwritten before they are read
    """
    return in_place_of_b("s")


def in_place_of_what_is_also_read_as_a_view():
    """
    instruction 2 (rows) puts s in place of b, which it reads as bT: elements would be overwritten before they are read
    """
    b, view = ROWS["b"], ROWS["bT"]
    return in_place_of_b("s", before=(View(view, b, 0, (4, 32)),), reads=(b, view, ROWS["k"]))


def in_place_of_what_the_whole_row_needs():
    """
    instruction 1 (rows) puts c in place of b, which it reads through %2 = slice[shape=(8, 1), start=(0, 0), step=(1, 1)]: elements would be overwritten before they are read
    """
    return in_place_of_b("c")


def in_place_of_what_later_rows_need():
    """
    instruction 1 (rows) puts f in place of b, which it reads through %4 = slice[shape=(1, 8), start=(0, 0), step=(1, 1)]: elements would be overwritten before they are read
    """
    return in_place_of_b("f")


def in_place_of_what_is_gathered_from_any_row():
    """
    instruction 1 (rows) puts shuffled in place of b, which it reads through %28 = gather[wrap=True]: elements would be overwritten before they are read
    """
    return in_place_of_b("shuffled")


def in_place_of_smaller_elements():
    """
    instruction 1 (rows) puts q in place of b, whose elements have 4 bytes, not 8
    """
    return in_place_of_b("q")


def two_values_in_place_of_one():
    """
    instruction 1 (rows) puts e into bytes 0 to 255 of the scratch arena, but p is in bytes 0 to 255 of the scratch arena
    """
    e, p, b, place = ROWS["e"], ROWS["p"], ROWS["b"], scratch(0, 256)
    one = in_place_of_b("p")
    both = replace(one.instructions[1], nodes=(p, e), into=(place, place))
    both = replace(both, in_place=((p, b), (e, b)))
    return replace(one, instructions=(one.instructions[0], both))


# Arrays given from outside.


def a_parameter_overwritten_before_its_last_read():
    """
    instruction 5 (matmul again) reads W: float32[4, 4], but instruction 4 (sgd) has put W_next in its place; bytes 0 to 63 of the array W hold W_next now
    """
    return plain({5: replace(MAKE_Z, label="matmul again")})


def a_parameter_that_is_read_and_not_updated_in_place():
    """
    instruction 4 (sgd) puts W_next into bytes 0 to 63 of the array W, which it reads, and not in place
    """
    return plain({4: replace(UPDATE, in_place=())})


def a_parameter_overwritten_by_another_value():
    """
    instruction 3 (matmul) puts g into bytes 0 to 63 of the array W, which only W_next may overwrite
    """
    return plain({3: replace(MAKE_G, into=(array("W"),))})


def an_input_that_is_overwritten():
    """
    instruction 4 (sgd) puts W_next into bytes 0 to 63 of the array x, which nothing may overwrite
    """
    return plain({4: replace(UPDATE, into=(array("x"),), in_place=())})


def an_update_in_the_wrong_place():
    """
    the end of the schedule finds W_next in bytes 0 to 63 of the array W_next, but its place is bytes 0 to 63 of the array W
    """
    return plain({4: replace(UPDATE, into=(array("W_next"),), in_place=())})


def a_failing_instruction_after_an_update():
    """
    instruction 5 (check) can fail, but instruction 4 (sgd) has already overwritten a given array
    """
    again = replace(MAKE_H, nodes=(), into=(), reads=(H,), fails=True, label="check")
    return plain({5: (again, FREE_G)})


def an_index_that_may_be_out_of_range_unsaid():
    """
    instruction 1 (rows) computes %24, whose indices may be out of range, and does not say that it can fail
    """
    return in_place_of_b("shuffled", fails=False)


def an_index_that_can_fail_in_a_smaller_array():
    """
    instruction 2 (again) computes fewer, whose indices may be out of range, and does not say that it can fail
    """
    return picked("fewer")


def an_index_of_floats_that_is_computed_again():
    """
    instruction 2 (again) computes late, whose indices may be out of range, and does not say that it can fail
    """
    return picked("late")


def an_index_that_fails_after_an_update():
    """
    instruction 2 (again) can fail, but instruction 1 (sgd) has already overwritten a given array
    """
    return picked("fewer", fails=True)


def an_update_that_can_fail():
    """
    instruction 4 (sgd) can fail, and overwrites a given array itself
    """
    return plain({4: replace(UPDATE, fails=True)})


# At the end.


def a_missing_result():
    """
    the end of the schedule needs %1: float32[4, 4], which is neither given nor computed
    """
    return plain(results=(H, W_NEXT, HALF))


def a_result_that_is_freed():
    """
    the end of the schedule needs h: float32[4, 4], but instruction 5 (free h) has freed it; bytes 64 to 127 of the scratch arena are free now
    """
    return plain({5: Free(H)})


def an_update_that_is_a_view_of_the_old_value():
    """
    the end of the schedule finds xT in bytes 0 to 63 of the array x as a view, not in C order
    """
    show = View(XT, X, 0, (4, 16))
    return schedule(show, given={X: GIVEN[X]}, results=(XT,), overwrites={X: XT})


def a_graph_with_named_sizes():
    """
    the beginning of the schedule has a graph with named sizes: n
    """
    return schedule(graph=cr.trace(lambda x: x, x=float32["n"]))

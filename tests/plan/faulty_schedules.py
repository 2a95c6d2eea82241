"""Schedules with one fault each; the docstring is what the simulator says of it."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

from dataclasses import replace

from schedules import (
    FREE_G,
    FREE_Z,
    GIVEN,
    GRAPH,
    HALF,
    MAKE_G,
    MAKE_H,
    MAKE_Z,
    NBYTES,
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
    plain,
    schedule,
    scratch,
)

import chainrule as cr
from chainrule import float32
from chainrule.plan.schedule import Buffer, Compute, Free, View

FAULTS = []


def refused(fault):
    """The simulator refuses the schedule that this function makes, for the reason it gives."""
    FAULTS.append(fault)
    return fault


# Reading what is not there.


@refused
def a_kernel_that_runs_too_early():
    """
    instruction 0 (tanh) reads z: float32[4, 4], which is not there before instruction 1 (matmul)
    """
    return schedule(MAKE_H, MAKE_Z, FREE_Z, MAKE_G, UPDATE, FREE_G)


@refused
def a_value_that_nobody_computes():
    """
    instruction 0 (tanh) reads z: float32[4, 4], which is neither given nor computed
    """
    return plain({0: ()})


@refused
def an_input_that_is_not_given():
    """
    instruction 0 (matmul) reads W: float32[4, 4], which is neither given nor computed
    """
    return plain(given={X: GIVEN[X]}, overwrites={})


@refused
def a_value_freed_too_early():
    """
    instruction 2 (tanh) reads z: float32[4, 4], but instruction 1 (free z) has freed it; bytes 0 to 63 of the scratch arena are free now
    """
    return schedule(MAKE_Z, FREE_Z, MAKE_H, MAKE_G, UPDATE, FREE_G)


@refused
def a_value_freed_and_overwritten_before_it_is_read():
    """
    instruction 6 (sgd) reads g: float32[4, 4], but instruction 4 (free g) has freed it; bytes 0 to 63 of the scratch arena hold z now
    """
    return plain({4: (FREE_G, replace(MAKE_Z, label="matmul again"), UPDATE), 5: ()})


@refused
def a_value_freed_twice():
    """
    instruction 6 (free g) frees g: float32[4, 4], but instruction 5 (free g) has freed it; bytes 0 to 63 of the scratch arena are free now
    """
    return plain({5: (FREE_G, FREE_G)})


@refused
def a_value_freed_that_was_never_there():
    """
    instruction 0 (free z) frees z: float32[4, 4], which is neither given nor computed
    """
    return plain({0: FREE_Z})


@refused
def a_missing_dependency():
    """
    instruction 3 (matmul) computes g, but neither reads nor computes h
    """
    return plain({3: replace(MAKE_G, reads=(X,))})


@refused
def an_inner_value_that_is_not_declared():
    """
    instruction 4 (sgd) computes W_next, but neither reads nor computes %1
    """
    return plain({4: replace(UPDATE, inner=())})


@refused
def an_inner_value_without_what_it_is_made_of():
    """
    instruction 4 (sgd) computes %1, but neither reads nor computes g
    """
    return plain({4: replace(UPDATE, reads=(W,))})


# Views.


@refused
def a_view_outside_its_base():
    """
    instruction 3 (view xT) shows xT as bytes 4 to 67 of the 64 of x
    """
    return plain({3: (replace(VIEW, offset=4), replace(MAKE_G, reads=(XT, H)))})


@refused
def a_view_before_its_base():
    """
    instruction 3 (view xT) shows xT as bytes -4 to 59 of the 64 of x
    """
    return plain({3: (replace(VIEW, offset=-4), replace(MAKE_G, reads=(XT, H)))})


@refused
def a_view_at_another_offset():
    """
    instruction 1 (view lower) shows lower at byte 64 of b with strides (32, 4); it lies at byte 128 with strides (32, 4)
    """
    b = ROWS["b"]
    return in_place_of_b("p", before=(View(ROWS["lower"], b, 64, (32, 4)),))


@refused
def a_view_that_needs_a_copy():
    """
    instruction 2 (view flat) shows flat as a view on bT, which it is not
    """
    views = View(ROWS["bT"], ROWS["b"], 0, (4, 32)), View(ROWS["flat"], ROWS["bT"], 0, (4,))
    return in_place_of_b("p", before=views)


@refused
def a_view_with_the_strides_of_another():
    """
    instruction 3 (view xT) shows xT at byte 0 of x with strides (16, 4); it lies at byte 0 with strides (4, 16)
    """
    return plain({3: (replace(VIEW, strides=(16, 4)), replace(MAKE_G, reads=(XT, H)))})


@refused
def a_view_without_a_stride_for_each_axis():
    """
    instruction 3 (view xT) has 1 strides for xT: float32[4, 4]
    """
    return plain({3: (replace(VIEW, strides=(4,)), MAKE_G)})


@refused
def a_view_on_what_it_does_not_show():
    """
    instruction 3 (view xT) shows xT as a view on W, which it is not
    """
    return plain({3: (View(XT, W, 0, (4, 16)), MAKE_G)})


@refused
def a_view_made_twice():
    """
    instruction 4 (view xT) makes xT, which is there since instruction 3 (view xT), in bytes 0 to 63 of the array x
    """
    return plain({3: (VIEW, VIEW, MAKE_G)})


@refused
def a_view_that_is_freed():
    """
    instruction 5 (free xT) frees xT, which is a view on x
    """
    return plain({3: (VIEW, replace(MAKE_G, reads=(XT, H)), Free(XT))})


@refused
def a_base_that_is_freed_before_its_view_is_read():
    """
    instruction 5 (matmul) reads xT: float32[4, 4], a view on x, but instruction 4 (free x) has freed it; bytes 0 to 63 of the array x are free now
    """
    return plain({3: (VIEW, Free(X), replace(MAKE_G, reads=(XT, H)))})


@refused
def a_base_that_is_freed_before_it_is_seen_through():
    """
    instruction 4 (matmul) reads x: float32[4, 4], but instruction 3 (free x) has freed it; bytes 0 to 63 of the array x are free now
    """
    return plain({3: (Free(X), replace(MAKE_G, reads=(XT, H)))})


# Writing where something is.


@refused
def an_offset_off_by_one():
    """
    instruction 1 (tanh) puts h into bytes 65 to 128 of the scratch arena, which do not begin at a multiple of 64
    """
    return plain({1: replace(MAKE_H, into=(scratch(65),))})


@refused
def an_offset_off_by_a_place():
    """
    instruction 1 (tanh) puts h into bytes 0 to 63 of the scratch arena, but z is in bytes 0 to 63 of the scratch arena
    """
    return plain({1: replace(MAKE_H, into=(scratch(0),))})


@refused
def an_offset_beyond_the_arena():
    """
    instruction 1 (tanh) puts h into bytes 128 to 191 of the scratch arena, which has 128 bytes
    """
    return plain({1: replace(MAKE_H, into=(scratch(128),))})


@refused
def an_offset_before_the_arena():
    """
    instruction 1 (tanh) puts h into bytes -64 to -1 of the scratch arena, which has 128 bytes
    """
    return plain({1: replace(MAKE_H, into=(scratch(-64),))})


@refused
def a_wrong_size():
    """
    instruction 1 (tanh) puts h: float32[4, 4], 64 bytes, into a buffer of 32 bytes
    """
    return plain({1: replace(MAKE_H, into=(scratch(64, 32),))})


@refused
def a_given_array_of_a_wrong_size():
    """
    the beginning of the schedule puts x: float32[4, 4], 64 bytes, into a buffer of 128 bytes
    """
    return plain(given={**GIVEN, X: array("x", 128)})


@refused
def two_given_arrays_in_one_place():
    """
    the beginning of the schedule puts W into bytes 0 to 63 of the array W, but x is in bytes 0 to 63 of the array W
    """
    return plain(given={**GIVEN, X: array("W")})


@refused
def an_array_that_nobody_gave():
    """
    instruction 0 (matmul) puts z into bytes 0 to 63 of the array elsewhere, which is neither given nor that of a result
    """
    return plain({0: replace(MAKE_Z, into=(array("elsewhere"),))})


@refused
def a_result_that_does_not_begin_with_its_array():
    """
    instruction 1 (tanh) puts h into bytes 64 to 127 of the array h, which has 64 bytes
    """
    return plain({1: replace(MAKE_H, into=(Buffer("h", 64, NBYTES),))})


@refused
def a_value_computed_twice():
    """
    instruction 2 (tanh) makes h, which is there since instruction 1 (tanh), in bytes 64 to 127 of the scratch arena
    """
    return plain({1: (MAKE_H, replace(MAKE_H, into=(scratch(128),)))}, scratch_nbytes=192)


@refused
def a_value_without_a_buffer():
    """
    instruction 1 (tanh) computes 1 values into 0 buffers
    """
    return plain({1: replace(MAKE_H, into=())})


@refused
def a_given_value_that_is_computed():
    """
    instruction 0 (x) computes x, which can only be given
    """
    return plain({0: Compute((X,), (scratch(0),)), 1: (), 2: ()}, given={W: GIVEN[W]})


@refused
def a_value_of_another_graph():
    """
    instruction 0 (matmul) computes <matmul: float32[4, 4]> of another graph
    """
    other = GRAPH.bind().replace(name="other")
    stranger = type(Z)(Z.primitive, Z.inputs, Z.params, Z.type)
    return plain({0: replace(MAKE_Z, nodes=(stranger,))}, graph=other)


@refused
def a_workspace_over_a_value():
    """
    instruction 3 (matmul) works in bytes 64 to 127 of the scratch arena, but h is in bytes 64 to 127 of the scratch arena
    """
    return plain({3: replace(MAKE_G, workspace=scratch(64))})


@refused
def a_workspace_over_what_the_kernel_writes():
    """
    instruction 0 (matmul) works in bytes 0 to 63 of the scratch arena, but z is in bytes 0 to 63 of the scratch arena
    """
    return plain({0: replace(MAKE_Z, workspace=scratch(0))})


@refused
def a_workspace_outside_scratch():
    """
    instruction 0 (matmul) works in bytes 0 to 63 of the array h, which is not scratch
    """
    into = (array("h"),)
    return plain({0: replace(MAKE_Z, workspace=array("h")), 1: replace(MAKE_H, into=into)})


# In place.


@refused
def in_place_of_a_value_that_is_read_later():
    """
    instruction 2 (look) reads z: float32[4, 4], but instruction 1 (tanh) has put h in its place; bytes 0 to 63 of the scratch arena hold h now
    """
    put = replace(MAKE_H, into=(scratch(0),), in_place=((H, Z),))
    again = replace(MAKE_G, nodes=(), into=(), reads=(Z,), label="look")
    return schedule(MAKE_Z, put, again, replace(MAKE_G, into=(scratch(64),)), UPDATE)


@refused
def in_place_of_some_of_the_bytes():
    """
    instruction 1 (rows) puts p into bytes 128 to 383 of the scratch arena, but b is in bytes 0 to 255 of the scratch arena
    """
    return in_place_of_b("p", into=scratch(128, 256))


@refused
def in_place_of_what_is_not_read():
    """
    instruction 2 (matmul) puts g into bytes 0 to 63 of the scratch arena, but z is in bytes 0 to 63 of the scratch arena
    """
    put = replace(MAKE_G, into=(scratch(0),), in_place=((G, Z),))
    return plain({2: (), 3: put})


@refused
def in_place_of_what_is_freed_afterwards():
    """
    instruction 2 (free z) frees z: float32[4, 4], but instruction 1 (tanh) has put h in its place; bytes 0 to 63 of the scratch arena hold h now
    """
    return plain({1: replace(MAKE_H, into=(scratch(0),), in_place=((H, Z),))})


@refused
def in_place_of_a_factor_of_a_product():
    """
    instruction 3 (matmul) puts g in place of h, which it reads through g = matmul: elements would be overwritten before they are read
    """
    put = replace(MAKE_G, into=(scratch(64),), in_place=((G, H),))
    return plain({3: put})


@refused
def in_place_of_what_is_seen_through_transposed():
    """
    instruction 1 (rows) puts s in place of b, which it reads through bT = transpose[permutation=(1, 0)]: elements would be overwritten before they are read
    """
    return in_place_of_b("s")


@refused
def in_place_of_what_is_also_read_as_a_view():
    """
    instruction 2 (rows) puts s in place of b, which it reads as bT: elements would be overwritten before they are read
    """
    b, view = ROWS["b"], ROWS["bT"]
    return in_place_of_b("s", before=(View(view, b, 0, (4, 32)),), reads=(b, view, ROWS["k"]))


@refused
def in_place_of_what_the_whole_row_needs():
    """
    instruction 1 (rows) puts c in place of b, which it reads through %2 = slice[shape=(8, 1), start=(0, 0), step=(1, 1)]: elements would be overwritten before they are read
    """
    return in_place_of_b("c")


@refused
def in_place_of_what_later_rows_need():
    """
    instruction 1 (rows) puts f in place of b, which it reads through %4 = slice[shape=(1, 8), start=(0, 0), step=(1, 1)]: elements would be overwritten before they are read
    """
    return in_place_of_b("f")


@refused
def in_place_of_what_is_gathered_from_any_row():
    """
    instruction 1 (rows) puts shuffled in place of b, which it reads through %28 = gather[wrap=True]: elements would be overwritten before they are read
    """
    return in_place_of_b("shuffled")


@refused
def in_place_of_smaller_elements():
    """
    instruction 1 (rows) puts q in place of b, whose elements have 4 bytes, not 8
    """
    return in_place_of_b("q")


@refused
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


@refused
def a_parameter_overwritten_before_its_last_read():
    """
    instruction 5 (matmul again) reads W: float32[4, 4], but instruction 4 (sgd) has put W_next in its place; bytes 0 to 63 of the array W hold W_next now
    """
    return plain({5: replace(MAKE_Z, label="matmul again")})


@refused
def a_parameter_that_is_read_and_not_updated_in_place():
    """
    instruction 4 (sgd) puts W_next into bytes 0 to 63 of the array W, which it reads, and not in place
    """
    return plain({4: replace(UPDATE, in_place=())})


@refused
def a_parameter_overwritten_by_another_value():
    """
    instruction 3 (matmul) puts g into bytes 0 to 63 of the array W, which only W_next may overwrite
    """
    return plain({3: replace(MAKE_G, into=(array("W"),))})


@refused
def an_input_that_is_overwritten():
    """
    instruction 4 (sgd) puts W_next into bytes 0 to 63 of the array x, which nothing may overwrite
    """
    return plain({4: replace(UPDATE, into=(array("x"),), in_place=())})


@refused
def an_update_in_the_wrong_place():
    """
    the end of the schedule finds W_next in bytes 0 to 63 of the array W_next, but its place is bytes 0 to 63 of the array W
    """
    return plain({4: replace(UPDATE, into=(array("W_next"),), in_place=())})


@refused
def a_failing_instruction_after_an_update():
    """
    instruction 5 (check) can fail, but instruction 4 (sgd) has already overwritten a given array
    """
    again = replace(MAKE_H, nodes=(), into=(), reads=(H,), fails=True, label="check")
    return plain({5: (again, FREE_G)})


@refused
def an_update_that_can_fail():
    """
    instruction 4 (sgd) can fail, and overwrites a given array itself
    """
    return plain({4: replace(UPDATE, fails=True)})


# At the end.


@refused
def a_missing_result():
    """
    the end of the schedule needs %1: float32[4, 4], which is neither given nor computed
    """
    return plain(results=(H, W_NEXT, HALF))


@refused
def a_result_that_is_freed():
    """
    the end of the schedule needs h: float32[4, 4], but instruction 5 (free h) has freed it; bytes 64 to 127 of the scratch arena are free now
    """
    return plain({5: Free(H)})


@refused
def an_update_that_is_a_view_of_the_old_value():
    """
    the end of the schedule finds xT in bytes 0 to 63 of the array x as a view, not in C order
    """
    show = View(XT, X, 0, (4, 16))
    return schedule(show, given={X: GIVEN[X]}, results=(XT,), overwrites={X: XT})


@refused
def a_graph_with_named_sizes():
    """
    the beginning of the schedule has a graph with named sizes: n
    """
    return schedule(graph=cr.trace(lambda x: x, x=float32["n"]))

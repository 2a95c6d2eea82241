"""Schedules that write where something is; the docstring is what the simulator says of it."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

from dataclasses import replace

from schedules import GIVEN, GRAPH, MAKE_G, MAKE_H, MAKE_Z, NBYTES, W, X, Z, array, plain, scratch

from chainrule.schedule.records import Buffer, Compute


def an_offset_off_by_one():
    """
    instruction 1 (tanh) puts h into bytes 65 to 128 of the scratch arena, which do not begin at a multiple of 64
    """
    return plain({1: replace(MAKE_H, into=(scratch(65),))})


def an_offset_off_by_a_place():
    """
    instruction 1 (tanh) puts h into bytes 0 to 63 of the scratch arena, but z is in bytes 0 to 63 of the scratch arena
    """
    return plain({1: replace(MAKE_H, into=(scratch(0),))})


def an_offset_beyond_the_arena():
    """
    instruction 1 (tanh) puts h into bytes 128 to 191 of the scratch arena, which has 128 bytes
    """
    return plain({1: replace(MAKE_H, into=(scratch(128),))})


def an_offset_before_the_arena():
    """
    instruction 1 (tanh) puts h into bytes -64 to -1 of the scratch arena, which has 128 bytes
    """
    return plain({1: replace(MAKE_H, into=(scratch(-64),))})


def a_wrong_size():
    """
    instruction 1 (tanh) puts h: float32[4, 4], 64 bytes, into a buffer of 32 bytes
    """
    return plain({1: replace(MAKE_H, into=(scratch(64, 32),))})


def a_given_array_of_a_wrong_size():
    """
    the beginning of the schedule puts x: float32[4, 4], 64 bytes, into a buffer of 128 bytes
    """
    return plain(given={**GIVEN, X: array("x", 128)})


def two_given_arrays_in_one_place():
    """
    the beginning of the schedule puts W into bytes 0 to 63 of the array W, but x is in bytes 0 to 63 of the array W
    """
    return plain(given={**GIVEN, X: array("W")})


def an_array_that_nobody_gave():
    """
    instruction 0 (matmul) puts z into bytes 0 to 63 of the array elsewhere, which is neither given nor that of a result
    """
    return plain({0: replace(MAKE_Z, into=(array("elsewhere"),))})


def a_result_that_does_not_begin_with_its_array():
    """
    instruction 1 (tanh) puts h into bytes 64 to 127 of the array h, which has 64 bytes
    """
    return plain({1: replace(MAKE_H, into=(Buffer("h", 64, NBYTES),))})


def a_value_computed_twice():
    """
    instruction 2 (tanh) makes h, which is there since instruction 1 (tanh), in bytes 64 to 127 of the scratch arena
    """
    return plain({1: (MAKE_H, replace(MAKE_H, into=(scratch(128),)))}, scratch_nbytes=192)


def a_value_without_a_buffer():
    """
    instruction 1 (tanh) computes 1 values into 0 buffers
    """
    return plain({1: replace(MAKE_H, into=())})


def a_given_value_that_is_computed():
    """
    instruction 0 (x) computes x, which can only be given
    """
    return plain({0: Compute((X,), (scratch(0),)), 1: (), 2: ()}, given={W: GIVEN[W]})


def a_value_of_another_graph():
    """
    instruction 0 (matmul) computes <matmul: float32[4, 4]> of another graph
    """
    other = GRAPH.bind().replace(name="other")
    stranger = type(Z)(Z.primitive, Z.inputs, Z.params, Z.type)
    return plain({0: replace(MAKE_Z, nodes=(stranger,))}, graph=other)


def a_workspace_over_a_value():
    """
    instruction 3 (matmul) works in bytes 64 to 127 of the scratch arena, but h is in bytes 64 to 127 of the scratch arena
    """
    return plain({3: replace(MAKE_G, workspace=scratch(64))})


def a_workspace_over_what_the_kernel_writes():
    """
    instruction 0 (matmul) works in bytes 0 to 63 of the scratch arena, but z is in bytes 0 to 63 of the scratch arena
    """
    return plain({0: replace(MAKE_Z, workspace=scratch(0))})


def a_workspace_outside_scratch():
    """
    instruction 0 (matmul) works in bytes 0 to 63 of the array h, which is not scratch
    """
    into = (array("h"),)
    return plain({0: replace(MAKE_Z, workspace=array("h")), 1: replace(MAKE_H, into=into)})

"""Schedules that read or free what is not there; the docstring is what the simulator says of it."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

from dataclasses import replace

from schedules import FREE_G, FREE_Z, GIVEN, MAKE_G, MAKE_H, MAKE_Z, UPDATE, W, X, plain, schedule


def a_kernel_that_runs_too_early():
    """
    instruction 0 (tanh) reads z: float32[4, 4], which is not there before instruction 1 (matmul)
    """
    return schedule(MAKE_H, MAKE_Z, FREE_Z, MAKE_G, UPDATE, FREE_G)


def a_value_that_nobody_computes():
    """
    instruction 0 (tanh) reads z: float32[4, 4], which is neither given nor computed
    """
    return plain({0: ()})


def an_input_that_is_not_given():
    """
    instruction 0 (matmul) reads W: float32[4, 4], which is neither given nor computed
    """
    return plain(given={X: GIVEN[X]}, overwrites={})


def a_value_freed_too_early():
    """
    instruction 2 (tanh) reads z: float32[4, 4], but instruction 1 (free z) has freed it; bytes 0 to 63 of the scratch arena are free now
    """
    return schedule(MAKE_Z, FREE_Z, MAKE_H, MAKE_G, UPDATE, FREE_G)


def a_value_freed_and_overwritten_before_it_is_read():
    """
    instruction 6 (sgd) reads g: float32[4, 4], but instruction 4 (free g) has freed it; bytes 0 to 63 of the scratch arena hold z now
    """
    return plain({4: (FREE_G, replace(MAKE_Z, label="matmul again"), UPDATE), 5: ()})


def a_value_freed_twice():
    """
    instruction 6 (free g) frees g: float32[4, 4], but instruction 5 (free g) has freed it; bytes 0 to 63 of the scratch arena are free now
    """
    return plain({5: (FREE_G, FREE_G)})


def a_value_freed_that_was_never_there():
    """
    instruction 0 (free z) frees z: float32[4, 4], which is neither given nor computed
    """
    return plain({0: FREE_Z})


def a_missing_dependency():
    """
    instruction 3 (matmul) computes g, but neither reads nor computes h
    """
    return plain({3: replace(MAKE_G, reads=(X,))})


def an_inner_value_that_is_not_declared():
    """
    instruction 4 (sgd) computes W_next, but neither reads nor computes %1
    """
    return plain({4: replace(UPDATE, inner=())})


def an_inner_value_without_what_it_is_made_of():
    """
    instruction 4 (sgd) computes %1, but neither reads nor computes g
    """
    return plain({4: replace(UPDATE, reads=(W,))})

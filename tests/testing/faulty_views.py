"""Schedules with a view that shows something else; the docstring is what the simulator says of it."""

# ruff: noqa: E501  (messages stand in one line, so that they can be searched for)

from dataclasses import replace

from schedules import MAKE_G, ROWS, VIEW, XT, H, W, X, in_place_of_b, plain

from chainrule.schedule.records import Free, View


def a_view_outside_its_base():
    """
    instruction 3 (view xT) shows xT as bytes 4 to 67 of the 64 of x
    """
    return plain({3: (replace(VIEW, offset=4), replace(MAKE_G, reads=(XT, H)))})


def a_view_before_its_base():
    """
    instruction 3 (view xT) shows xT as bytes -4 to 59 of the 64 of x
    """
    return plain({3: (replace(VIEW, offset=-4), replace(MAKE_G, reads=(XT, H)))})


def a_view_at_another_offset():
    """
    instruction 1 (view lower) shows lower at byte 64 of b with strides (32, 4); it lies at byte 128 with strides (32, 4)
    """
    b = ROWS["b"]
    return in_place_of_b("p", before=(View(ROWS["lower"], b, 64, (32, 4)),))


def a_view_that_needs_a_copy():
    """
    instruction 2 (view flat) shows flat as a view on bT, which it is not
    """
    views = View(ROWS["bT"], ROWS["b"], 0, (4, 32)), View(ROWS["flat"], ROWS["bT"], 0, (4,))
    return in_place_of_b("p", before=views)


def a_view_with_the_strides_of_another():
    """
    instruction 3 (view xT) shows xT at byte 0 of x with strides (16, 4); it lies at byte 0 with strides (4, 16)
    """
    return plain({3: (replace(VIEW, strides=(16, 4)), replace(MAKE_G, reads=(XT, H)))})


def a_view_without_a_stride_for_each_axis():
    """
    instruction 3 (view xT) has 1 strides for xT: float32[4, 4]
    """
    return plain({3: (replace(VIEW, strides=(4,)), MAKE_G)})


def a_view_on_what_it_does_not_show():
    """
    instruction 3 (view xT) shows xT as a view on W, which it is not
    """
    return plain({3: (View(XT, W, 0, (4, 16)), MAKE_G)})


def a_view_made_twice():
    """
    instruction 4 (view xT) makes xT, which is there since instruction 3 (view xT), in bytes 0 to 63 of the array x
    """
    return plain({3: (VIEW, VIEW, MAKE_G)})


def a_view_that_is_freed():
    """
    instruction 5 (free xT) frees xT, which is a view on x
    """
    return plain({3: (VIEW, replace(MAKE_G, reads=(XT, H)), Free(XT))})


def a_base_that_is_freed_before_its_view_is_read():
    """
    instruction 5 (matmul) reads xT: float32[4, 4], a view on x, but instruction 4 (free x) has freed it; bytes 0 to 63 of the array x are free now
    """
    return plain({3: (VIEW, Free(X), replace(MAKE_G, reads=(XT, H)))})


def a_base_that_is_freed_before_it_is_seen_through():
    """
    instruction 4 (matmul) reads x: float32[4, 4], but instruction 3 (free x) has freed it; bytes 0 to 63 of the array x are free now
    """
    return plain({3: (Free(X), replace(MAKE_G, reads=(XT, H)))})

"""Functions of a small part of Python do the same as machine code; others are refused."""

from __future__ import annotations

import numpy as np
import pytest
from executors import needs_native
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.machine_code.kernel import Kernel
from chainrule.machine_code.translate import Floats, Ints, translate

LIMIT = 7


class Numbers:
    values: Ints
    weights: Floats
    total: int
    mean: float


def collatz(start: int) -> int:
    steps = 0
    while start != 1 and steps < 1000:
        steps += 1
        if start % 2 == 0:
            start = start // 2
            continue
        start = 3 * start + 1
    return steps


def first_above(s: Numbers, bound: int) -> int:
    """The first place with a larger value; every operand of `and` and `or` may be out of range."""
    at = 0
    while at < len_of(s) and not (s.values[at] > bound or s.values[at] == -bound):
        at += 1
    return at


def len_of(s: Numbers) -> int:
    return LIMIT


def clear(s: Numbers, at: int) -> None:
    if at < 0:
        return
    s.values[at] = 0


def everything(s: Numbers) -> int:
    total = 0
    for at in range(LIMIT):
        value = s.values[at]
        if value < 0:
            total -= min(-value, 5)
        elif value > 50:
            total += (value >> 2) ^ (value & 12 | 3) << 1
            break
        else:
            total += max(value, 2) * collatz(value + 1)
        s.values[at] += at
    for at in range(2, first_above(s, 20)):
        s.weights[at] = s.weights[at] / 4 + float(total) * 0.5
    clear(s, first_above(s, 90) - 1)
    s.total = total
    s.mean = -s.weights[3] * s.mean
    if s.mean >= 1.5:
        s.mean -= 1
    return total + 1


KERNEL = Kernel(everything, (collatz, len_of, first_above, clear), Numbers)


@needs_native
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-100, 100), min_size=LIMIT, max_size=LIMIT),
    st.floats(-1e3, 1e3),
)
def test_machine_code_does_what_python_does(values, mean):
    answers = []
    for way in (KERNEL.native, KERNEL.in_python):
        one = Numbers()
        one.values, one.weights = np.array(values), np.linspace(0, 3, LIMIT)
        one.total, one.mean = 5, mean
        answers.append((way(one), one.values.tolist(), one.weights.tolist(), one.total, one.mean))
    assert answers[0] == answers[1]


def with_a_list(s: Numbers) -> int:
    some = [1, 2]
    return some[0]


def with_another_type(s: Numbers) -> int:
    at = 1
    at = 2.5
    return at


def with_a_string(s: Numbers) -> int:
    return "1"


def with_a_float_as_result(s: Numbers) -> int:
    return 1.5


def with_an_else(s: Numbers) -> int:
    for _ in range(3):
        pass
    else:
        return 2
    return 1


@pytest.mark.parametrize(
    "function",
    [with_a_list, with_another_type, with_a_string, with_a_float_as_result, with_an_else],
)
def test_what_is_not_translated_is_refused(function):
    with pytest.raises(AssertionError):
        translate([function], [Numbers])

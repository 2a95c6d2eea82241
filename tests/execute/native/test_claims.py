"""Threads claim parts of their own first, then the last that others have not come to."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

import pytest

from chainrule.execute.native.plan_to_ir.barriers import CLAIM, COUNTS, MOST_OWN, TURN_BITS
from chainrule.machine_code.target import Library, compile_object, host_target, load_objects

NUMBERS = [ctypes.c_int64] * 4


@lru_cache
def library() -> Library:
    text = "\n".join([*COUNTS, CLAIM.replace("define internal", "define", 1)])
    return load_objects([compile_object(text, host_target())], {})


def claims(parts: int, threads: int, counter: ctypes.c_int64) -> Callable[..., int]:
    """Claims for the thread of a number: a part, or None where there is none left."""
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, *NUMBERS)(
        library().address("claim_of_own")
    )

    def claim(index: int, turn: int = 0) -> int | None:
        part = function(ctypes.addressof(counter), turn, parts, index, threads)
        return None if part == parts else part

    return claim


def test_each_thread_has_its_own_part_of_them() -> None:
    claim = claims(8, 2, ctypes.c_int64(0))
    assert [claim(index) for index in (1, 0, 1, 0, 0, 1, 1, 0)] == [4, 0, 5, 1, 2, 6, 7, 3]
    assert claim(0) is claim(1) is None


def test_what_others_have_not_come_to_is_taken_from_the_end() -> None:
    claim = claims(8, 2, ctypes.c_int64(0))
    assert [claim(0) for _ in range(7)] == [0, 1, 2, 3, 7, 6, 5]
    assert [claim(1), claim(1), claim(0)] == [4, None, None]


@pytest.mark.parametrize(
    ("parts", "threads"), [(2, 2), (3, 2), (7, 3), (2, 5), (20, 6), (MOST_OWN, 16), (5, 1)]
)
def test_every_part_is_claimed_once(parts: int, threads: int) -> None:
    for order in (range(threads), range(threads - 1, -1, -1)):
        claim = claims(parts, threads, ctypes.c_int64(0))
        found = [claim(index) for _ in range(parts) for index in order]
        assert sorted(one for one in found if one is not None) == list(range(parts))


def test_in_a_later_turn_all_are_there_again_and_late_threads_find_none() -> None:
    claim = claims(TURN_BITS, 2, ctypes.c_int64(0))
    assert [claim(0, 1) for _ in range(3)] == [0, 1, 2]
    assert [claim(1, 2), claim(0, 1), claim(0, 2)] == [10, None, 0]
    every = [claim(0, 2) for _ in range(TURN_BITS)]
    assert sorted(one for one in every if one is not None) == [*range(1, 10), *range(11, TURN_BITS)]
    assert claim(1, 2) is None
    assert claim(1, 3) == 10

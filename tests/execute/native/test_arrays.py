"""Arguments that are plain arrays of the expected types are taken as they are, others are not."""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.execute.native.runtime.arrays import binder, usual
from chainrule.execute.native.runtime.entry import builtin, reads_arrays

FLOAT, INT = usual(np.dtype(np.float32)), usual(np.dtype(np.int64))
ENTER = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
EMPTY = 10**6  # what is in the slots before


class Named(np.ndarray):
    pass


def floats(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def misaligned(*shape: int) -> np.ndarray:
    memory = np.zeros(4 * int(np.prod(shape)) + 1, np.uint8)
    return memory[1:].view(np.float32).reshape(shape)


def read_only(*shape: int) -> np.ndarray:
    array = floats(*shape)
    array.flags.writeable = False
    return array


def bound_by_python(expected: Any, arguments: tuple[Any, ...]) -> list[int] | None:
    slots = [EMPTY] * 6
    return slots if binder(expected)(arguments, slots) else None


@ENTER
def succeed(_: int) -> int:
    return 0


@ENTER
def fail(_: int) -> int:
    return 7


def entered(
    expected: Any, arguments: tuple[Any, ...], kept: tuple[int, int] = (0, 0), run: Any = succeed
) -> list[int] | None:
    slots = (ctypes.c_int64 * 6)(*[EMPTY] * 6)
    address = ctypes.cast(run, ctypes.c_void_p).value
    assert address is not None
    done = builtin(address, ctypes.addressof(slots), expected, kept)(*arguments)
    assert type(done) is bool
    return list(slots) if done else None


def bound(expected: Any, arguments: tuple[Any, ...]) -> list[int] | None:
    """What the slots hold afterwards; None if the arguments do not fit."""
    found = bound_by_python(expected, arguments)
    assert entered(expected, arguments) == found
    return found


FITS: dict[str, Any] = {
    "a matrix": ((2, 3), floats(2, 3)),
    "a scalar": ((), floats()),
    "no elements": ((0, 3), floats(0, 3)),
    "many axes": ((1, 2, 1, 2, 1, 2, 1, 2), floats(1, 2, 1, 2, 1, 2, 1, 2)),
    "read-only": ((2, 3), read_only(2, 3)),
    "a row of a matrix": ((3,), floats(2, 3)[1]),
    "one column, whose stride is any": ((3, 1), floats(3, 1)),
    "made anew from bytes": ((2,), np.frombuffer(bytes(8), np.float32)),
}
MISFITS: dict[str, Any] = {
    "another size": floats(2, 4),
    "more axes": floats(1, 2, 3),
    "fewer axes": floats(6),
    "axes turned": floats(3, 2),
    "float64": np.zeros((2, 3)),
    "int32": np.zeros((2, 3), np.int32),
    "the other byte order": np.zeros((2, 3), np.dtype(np.float32).newbyteorder()),
    "columns first": np.asfortranarray(floats(2, 3)),
    "every other column": floats(2, 6)[:, ::2],
    "backwards": floats(2, 3)[:, ::-1],
    "broadcast": np.broadcast_to(np.float32(1), (2, 3)),
    "misaligned": misaligned(2, 3),
    "a subclass": floats(2, 3).view(Named),
    "a matrix of NumPy's": np.ma.masked_array(floats(2, 3)),
    "a list": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
    "a number": 1.0,
    "a NumPy number": np.float32(1),
    "None": None,
    "the type itself": np.ndarray,
}


@pytest.mark.parametrize("name", FITS)
def test_plain_arrays_fit(name: str) -> None:
    shape, array = FITS[name]
    others = floats(5), np.arange(4)
    expected = [(3, FLOAT, (5,)), (1, FLOAT, shape), None, (4, INT, (4,))]
    found = bound(expected, (others[0], array, "not read", others[1]))
    assert found is not None
    first, middle, last = (x.__array_interface__["data"][0] for x in (others[0], array, others[1]))
    assert found == [EMPTY, middle, EMPTY, first, last, EMPTY]


@pytest.mark.parametrize("name", MISFITS)
def test_all_else_does_not(name: str) -> None:
    expected = [(0, FLOAT, (2, 3)), (1, FLOAT, (2, 3))]
    good = floats(2, 3)
    assert bound(expected, (good, good)) is not None
    assert bound(expected, (MISFITS[name], good)) is None
    assert bound(expected, (good, MISFITS[name])) is None


def test_as_many_arguments_as_expected() -> None:
    one = floats(2, 3)
    expected = [(0, FLOAT, (2, 3)), (1, FLOAT, (2, 3))]
    for count in (0, 1, 3):
        assert bound(expected, (one,) * count) is None
    assert bound([], ()) is not None
    assert bound([], (one,)) is None
    assert bound([None, None], (one, 3)) is not None


def test_machine_code_sees_what_python_sees() -> None:
    assert reads_arrays()


def test_what_would_be_overwritten_does_not_fit() -> None:
    one, between, other = np.split(floats(106), (6, 102))  # 384 bytes apart in one array
    assert between.nbytes == 384
    one = one.reshape(2, 3)
    expected = [(0, FLOAT, (2, 3)), (1, FLOAT, (4,))]
    begin = other.__array_interface__["data"][0]
    assert entered(expected, (one, other), (begin + 1, begin + 99)) is not None
    assert entered(expected, (one, other), (begin - 99, begin)) is not None
    assert entered(expected, (one, other), (begin, begin + 1)) is None
    assert entered(expected, (one, other), (begin - 99, begin + 99)) is None


def test_a_run_that_fails_says_so() -> None:
    assert entered([(0, FLOAT, (2, 3))], (floats(2, 3),), run=fail) is None


def test_calls_keep_and_lose_no_reference() -> None:
    array, slots = floats(2, 3), (ctypes.c_int64 * 1)()
    address = ctypes.cast(succeed, ctypes.c_void_p).value
    assert address is not None
    run = builtin(address, ctypes.addressof(slots), [(0, FLOAT, (2, 3))], (0, 0))
    gc.collect()  # the table is the function's own
    counts = [sys.getrefcount(one) for one in (array, True, None)]
    for _ in range(1000):
        assert run(array) and not run(None)
    after = [sys.getrefcount(one) for one in (array, True, None)]
    assert after[0] == counts[0]
    assert max(abs(x - y) for x, y in zip(after[1:], counts[1:], strict=True)) < 100


def test_a_compiled_function_is_the_same_for_arrays_that_do_not_fit() -> None:
    x, y = floats(4, 5), floats(5)
    f = cr.compile(lambda x, y: (x * y, x - y), executor="native")
    for _ in range(3):
        for given in (x, np.asfortranarray(x), x.astype(np.float64), x[:2]):
            for one, other in zip(f(given, y), (given * y, given - y), strict=True):
                np.testing.assert_array_equal(one, other)
                assert one.dtype == other.dtype

"""Integers divided and shifted: every pair of extremes as NumPy has it, and no value that stops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from executing import native
from primitive_calls import expected, graph_of_calls

import chainrule as cr
from chainrule.errors import DTypeError, UnsupportedError
from chainrule.frontend.functions.elementwise import UFUNCS
from chainrule.primitives.rounding import ceil, floor, floor_divide, fmod, remainder, trunc
from chainrule.primitives.shifts import left_shift, right_shift

pytestmark = pytest.mark.usefixtures("every_width")

DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def pairs(dtype: str) -> list[np.ndarray]:
    """All pairs of numbers around 0, around both ends, and around the number of bits."""
    limits = np.iinfo(dtype)
    ends = [limits.max, limits.max - 1, limits.min, limits.min + 1]
    numbers = [*ends, *range(-9, 10), limits.bits - 1, limits.bits, -limits.bits]
    fitting = [n for n in numbers if limits.min <= n <= limits.max]
    rows = np.array(list(itertools.product(fitting, repeat=2)), dtype)
    return [np.ascontiguousarray(column) for column in rows.T]


def check(calls: list[tuple[Any, list[np.ndarray], dict[str, Any]]]) -> None:
    graph, inputs = graph_of_calls(calls)
    keep = [node for _, node in graph.outputs]
    wanted, got = expected(graph, inputs, keep), native(graph, inputs, keep)
    assert got is not None
    for node in keep:
        assert got[node].dtype == wanted[node].dtype
        np.testing.assert_array_equal(got[node], wanted[node], repr(node))


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", DTYPES)
def test_pairs_of_integers(dtype: str) -> None:
    arrays = pairs(dtype)
    functions = (floor_divide, remainder, fmod, left_shift, right_shift)
    check([(function, arrays, {}) for function in functions])


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_integers_are_whole(dtype: str) -> None:
    x = np.arange(-3, 4).astype(dtype)
    check([(function, [x], {}) for function in (floor, ceil, trunc)])


@pytest.mark.slow
@pytest.mark.sweep(2)
def test_elementwise_functions_have_native_kernels() -> None:
    """Of all that NumPy computes elementwise, here is what is not native."""
    refused = set()
    for ufunc in UFUNCS:
        for dtype in (np.float32, np.int32):
            arrays = [np.ones(3, dtype)] * ufunc.nin
            call = cr.compile(
                lambda *arrays, ufunc=ufunc: ufunc(*arrays) * 1, executor="native", strict=True
            )
            try:
                call(*arrays)
            except UnsupportedError:
                refused.add((ufunc.__name__, np.dtype(dtype).name))
            except DTypeError:
                assert ufunc in (np.left_shift, np.right_shift)
    assert refused == {("power", "int32")}

"""Ranks notice that they were given different batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from chainrule.devices.agreement import ROW, checksum

SHAPES = [(24, 3), (64,), (700, 3), (4096,), (2 * ROW, 2), (64, 1024), (9, 5, 333), (ROW * 8 + 3,)]


def batch(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    return (100 * np.random.default_rng(0).normal(size=shape)).astype(dtype)


def reordered(array: np.ndarray) -> Iterator[np.ndarray]:
    """The rows of an array in other orders, and elements of rows."""
    random, rows = np.random.default_rng(1), np.arange(len(array))
    yield np.roll(array, 1, 0)
    yield array[::-1]
    for _ in range(10):
        yield random.permutation(array)
    for first, second in random.integers(len(array), size=(10, 2)):
        order = rows.copy()
        order[[first, second]] = order[[second, first]]
        yield array[order]
    for axis in range(1, array.ndim):
        yield np.flip(array, axis)
        yield np.roll(array, 2, axis)  # words keep their places in pairs
        yield random.permuted(array, axis=axis)
    one_column = array.copy()
    one_column[..., :1] = random.permuted(array[..., :1], axis=0)
    yield one_column


def changed(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array of which one bit is another one, or of which many are."""
    random = np.random.default_rng(2)
    for place in (0, *random.integers(array.nbytes, size=20)):
        other = array.copy()
        other.reshape(-1).view(np.uint8)[place] ^= 1 << random.integers(8)
        yield other
    yield -array
    yield np.abs(array)
    two_columns = array.copy()
    two_columns[..., :2] = -array[..., :2]
    yield two_columns
    if array.dtype.kind == "f":
        yield np.where(array > 0, array, 0)
        yield np.where(array > 0, array, -np.zeros((), array.dtype))
        yield np.where(array > 0, array, np.nan).astype(array.dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "uint8"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_other_values_and_other_orders_have_another_checksum(
    shape: tuple[int, ...], dtype: str
) -> None:
    array = batch(*shape, dtype=dtype)
    every = {one.tobytes(): one for one in (array, *reordered(array), *changed(array))}
    assert len({checksum([one]) for one in every.values()}) == len(every) > 30
    assert checksum([array]) == checksum([np.asfortranarray(array)])


@pytest.mark.parametrize("rows", [1, 2, 3, 8])
def test_the_sign_of_all_elements_counts(rows: int) -> None:
    for array in (np.zeros((rows, ROW)), batch(rows, ROW), np.ones((rows, 2 * ROW + 8))):
        assert checksum([array]) != checksum([-array])


def test_arrays_count_in_their_order() -> None:
    first, second = batch(2 * ROW), -batch(2 * ROW)
    assert checksum([first, second]) != checksum([second, first])
    assert checksum([]) == checksum([np.empty((0, 3))])

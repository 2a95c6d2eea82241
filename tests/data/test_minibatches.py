"""Every row once, in an order that is a function of key and epoch, from any batch on."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chainrule as cr
from chainrule.data import minibatches
from chainrule.data.rows import Rows
from chainrule.errors import DTypeError, IndexOutOfRangeError, InputError, ShapeError

KEY = cr.random.key(3)


@dataclass(frozen=True)
class Pair:
    x: np.ndarray
    y: np.ndarray


def arrays(count: int) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(count)
    return np.stack([y * 10, y * 10 + 1], axis=1), y


@given(st.integers(0, 60), st.integers(1, 70), st.booleans(), st.integers(0, 3), st.booleans())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_every_row_comes_once_and_the_short_batch_last(
    count: int, size: int, drop: bool, prefetch: int, shuffle: bool
) -> None:
    batches = minibatches(
        arrays(count), size, KEY, drop_last=drop, prefetch=prefetch, shuffle=shuffle
    )
    found = list(batches)
    lengths = [len(y) for _, y in found]
    whole, rest = divmod(count, size)
    assert lengths == [size] * whole + ([rest] if rest and not drop else [])
    assert len(batches) == len(lengths)
    rows = np.concatenate([np.zeros(0, int), *(y for _, y in found)])
    assert len(set(rows.tolist())) == len(rows)
    if not shuffle:
        assert rows.tolist() == list(range(len(rows)))
    for x, y in found:
        np.testing.assert_array_equal(x, np.stack([y * 10, y * 10 + 1], axis=1))


def test_the_order_is_the_permutation_of_key_and_epoch() -> None:
    for epoch in (0, 1, 7):
        order = cr.random.permutation(cr.random.fold_in(KEY, epoch), 50)
        batches = minibatches(arrays(50), 8, KEY, epoch=epoch)
        np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), order)
        np.testing.assert_array_equal(batches.rows(3), order[24:32])
    assert minibatches(arrays(50), 8, shuffle=False).rows(6).tolist() == [48, 49]
    # Written down once: the order must not change with the version of anything.
    assert minibatches(np.arange(10), 10, KEY, epoch=1)[0].tolist() == ORDER


ORDER = [6, 2, 4, 0, 7, 1, 8, 3, 9, 5]


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_any_batch_is_the_same_alone_and_after_the_others(prefetch: int) -> None:
    batches = minibatches(arrays(53), 8, KEY, epoch=2, prefetch=prefetch)
    all_rows = [y.tolist() for _, y in batches]
    assert [y.tolist() for _, y in batches] == all_rows  # again
    assert [batches[k][1].tolist() for k in reversed(range(7))] == all_rows[::-1]
    assert batches[-1][1].tolist() == all_rows[-1]
    for begin in range(8):
        rest = batches[begin:]
        assert [y.tolist() for _, y in rest] == all_rows[begin:]
        assert len(rest) == 7 - begin
    assert [y.tolist() for _, y in batches[2:6][1:3]] == all_rows[3:5]


def test_only_the_rows_of_a_batch_are_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    touched: list[Any] = []
    take = Rows.take

    def noting(self: Rows, rows: Any) -> Any:
        touched.append(rows)
        return take(self, rows)

    monkeypatch.setattr(Rows, "take", noting)
    batches = minibatches(np.arange(40), 4, KEY, prefetch=0)
    found = list(batches[8:])
    assert [rows.tolist() for rows in touched] == [rows.tolist() for rows in found]
    assert len(touched) == 2


CONTAINERS = [
    lambda x, y: x,
    lambda x, y: (x, y),
    lambda x, y: [x, y],
    lambda x, y: {"x": x, "y": y},
    lambda x, y: Pair(x, y),
    lambda x, y: {"inputs": (x, x), "labels": Pair(y, y)},
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_batch_is_the_container_of_its_rows(container: Any) -> None:
    x, y = arrays(10)
    batch = minibatches(container(x, y), 4, shuffle=False)[1]
    expected = container(x[4:8], y[4:8])
    assert type(batch) is type(expected)
    assert repr(batch) == repr(expected)


@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_are_copies(shuffle: bool) -> None:
    x = np.arange(12)
    for batch in minibatches(x, 4, KEY, shuffle=shuffle):
        batch[:] = -1
    np.testing.assert_array_equal(x, np.arange(12))


REFUSED = [
    (lambda: minibatches(np.arange(3), 0, KEY), InputError, "batch_size=0"),
    (lambda: minibatches(np.arange(3), 2.5, KEY), InputError, "batch_size=2.5"),
    (lambda: minibatches(np.arange(3), 2, KEY, epoch=-1), InputError, "epoch=-1"),
    (lambda: minibatches(np.arange(3), 2, KEY, prefetch=-1), InputError, "prefetch=-1"),
    (lambda: minibatches(np.arange(3), 2), InputError, "random order need a key"),
    (lambda: minibatches(np.arange(3), 2, 0), DTypeError, "the number 0 is no key"),
    (lambda: minibatches((), 2, KEY), InputError, "there are no arrays in ()"),
    (lambda: minibatches([1, 2], 2, KEY), InputError, "arrays[0] is no array but 1, a int"),
    (lambda: minibatches(np.float64(3), 2, KEY), ShapeError, "arrays has no rows"),
    (
        lambda: minibatches({"x": np.zeros(3), "y": np.zeros(4)}, 2, KEY),
        ShapeError,
        "different numbers of rows: arrays.x 3, arrays.y 4",
    ),
    (
        lambda: minibatches(np.arange(3), 2, KEY)[2],
        IndexOutOfRangeError,
        "there is no batch 2: there are 2 batches",
    ),
]


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_makes_no_batches_is_refused(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_data_whose_first_axis_is_time_are_told_where_the_examples_are() -> None:
    with pytest.raises(ShapeError) as caught:
        minibatches({"x": np.zeros((9, 40, 3)), "y": np.zeros(40)}, 8, KEY)
    assert str(caught.value) == (
        "the arrays have different numbers of rows: arrays.x 9, arrays.y 40\n"
        "  try: axis 1 of x has 40: if that one counts the examples, np.moveaxis(x, 1, 0) makes it "
        "the first;\n"
        "       cr.Trainer also takes a function that gives the batches, cut along any axis"
    )


STREAM = """
import re, sys
import numpy as np
import chainrule as cr
from chainrule.data import minibatches, read_npy

def resident():
    with open("/proc/self/status") as file:
        return 1024 * int(re.search(r"VmRSS:\\s+(\\d+)", file.read())[1])

x = read_npy(sys.argv[1], memory_map=True)
sums = x[:8].sum(), list(minibatches(x[:64], 32, cr.random.key(0)))  # what is loaded once
before = most = resident()
total = 0.0
for batch in minibatches(x, 32, cr.random.key(0), prefetch=int(sys.argv[2])):
    total += float(batch[:, 0].sum())
    most = max(most, resident())
print(most - before, total)
"""


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="asks Linux")
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_mapped_file_is_streamed_and_not_loaded(tmp_path: Path, prefetch: int) -> None:
    rows, width = 8000, 8192  # 250 MiB
    file = np.lib.format.open_memmap(
        tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(rows, width)
    )
    file[:, 0] = np.arange(rows)
    file.flush()
    del file
    command = [sys.executable, "-c", STREAM, str(tmp_path / "x.npy"), str(prefetch)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    growth, total = done.stdout.split()
    assert float(total) == rows * (rows - 1) / 2
    assert int(growth) < 100 << 20  # batches of 1 MiB, and up to 2 MiB around each of their rows

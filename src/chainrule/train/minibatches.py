"""`minibatches`: every row once, shuffled and cut into batches, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

BATCHES, WEIGHTS = 1, 2  # which of the independent streams of one seed


def minibatches(count: int, batch: int, seed: int, epoch: int) -> Iterator[NDArray[np.int64]]:
    """The row numbers 0..count-1 in a new order for each `epoch`, `batch` at a time.

    The last one is shorter where `batch` does not divide `count`.  The order is made from raw
    PCG64 output, which NumPy promises not to change (NEP 19).
    """
    order = np.argsort(random_bits(count, seed, BATCHES, epoch), kind="stable")
    for begin in range(0, count, batch):
        yield order[begin : begin + batch]


def random_bits(count: int, *key: int) -> NDArray[np.uint64]:
    """`count` random numbers of 64 bits; another `key` gives independent ones."""
    return np.random.PCG64(np.random.SeedSequence(key)).random_raw(count)

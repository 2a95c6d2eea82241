"""Adds arrays of the processes of a job up: in memory that they share, else by messages of MPI."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from chainrule.devices.mpi import World, bytes_of, places_of
from chainrule.devices.watch import What

BUCKET_NBYTES = 4 * 2**20  # of what is added at once


def added(
    world: World, arrays: Sequence[np.ndarray], ranks: tuple[int, ...], what: What
) -> list[np.ndarray]:
    """The sums of arrays of some ranks, added in their order, with the same bits on each."""
    found = [np.array(one, order="C", copy=True) for one in arrays]
    add_in_place(world, found, ranks, what)
    return found


def add_in_place(
    world: World,
    arrays: Sequence[np.ndarray],
    ranks: tuple[int, ...],
    what: What,
    by_helper: bool = False,
) -> float:
    """Adds arrays in C order of some ranks, in the order of ranks; gives the time at which all
    had begun.

    Each rank adds its slice of all arrays, and all gather the slices.
    """
    others = [one for one in ranks if one != world.rank]
    comm, times = world.group(ranks, by_helper), list[float]()

    def meet() -> None:
        world.wait(comm.Ibarrier(), what, others)
        times.append(time.perf_counter())

    near = world.nearby(ranks, by_helper)
    if near is not None:
        near.add(arrays, meet)
        return times[0] if times else time.perf_counter()
    meet()
    for bucket in _buckets(arrays):
        if len(bucket) == 1:  # often as large as a bucket: it is not copied
            _add_into(world, comm, bucket[0], bucket[0], ranks, what)
            continue
        whole = np.concatenate(bucket)
        _add_into(world, comm, whole, whole, ranks, what)
        ends = np.cumsum([part.size for part in bucket])[:-1]
        for part, sums in zip(bucket, np.split(whole, ends), strict=True):
            part[...] = sums
    return times[0]


def _add_into(
    world: World,
    comm: Any,
    found: np.ndarray,
    whole: np.ndarray,
    ranks: tuple[int, ...],
    what: What,
) -> None:
    count, byte = len(ranks), world.mpi.BYTE
    place = ranks.index(world.rank)
    others = [one for one in ranks if one != world.rank]
    bounds = [whole.size * one // count for one in range(count + 1)]
    sizes = [(end - start) * whole.itemsize for start, end in pairwise(bounds)]
    parts = np.empty((count, bounds[place + 1] - bounds[place]), whole.dtype)
    own = [sizes[place]] * count
    sent = [bytes_of(whole), (sizes, places_of(sizes)), byte]
    gathered = [bytes_of(parts), (own, places_of(own)), byte]
    world.together(comm, others, what, comm.Alltoallv, sent, gathered)
    total = parts[0]
    for part in parts[1:]:
        total += part
    every = [bytes_of(found), (sizes, places_of(sizes)), byte]
    world.together(comm, others, what, comm.Allgatherv, [bytes_of(total), byte], every)


def _buckets(arrays: Sequence[np.ndarray]) -> Iterator[list[np.ndarray]]:
    """The arrays, flat, in their order: those of one dtype together, as many as a bucket holds;
    larger ones in parts."""
    open_: dict[np.dtype, list[np.ndarray]] = {}
    for array in arrays:
        flat, each = array.reshape(-1), BUCKET_NBYTES // array.itemsize
        if flat.size >= each:
            yield from ([flat[at : at + each]] for at in range(0, flat.size, each))
            continue
        bucket = open_.setdefault(array.dtype, [])
        bucket.append(flat)
        if sum(one.nbytes for one in bucket) >= BUCKET_NBYTES:
            yield open_.pop(array.dtype)
    yield from open_.values()

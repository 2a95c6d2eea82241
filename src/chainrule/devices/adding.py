"""Adds arrays of the processes of a job up: in memory that they share, else by messages of MPI."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from chainrule.devices.mpi import World, bytes_of, places_of
from chainrule.devices.watch import What
from chainrule.execute.native.runtime.recycled import kind_of

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
) -> None:
    """Adds arrays in C order of some ranks, in the order of ranks.

    Each rank adds its slice of all arrays, and all gather the slices.
    """
    others = [one for one in ranks if one != world.rank]
    comm, near = world.group(ranks, by_helper), world.nearby(ranks, by_helper)
    if near is not None:
        near.add(arrays, lambda: world.wait(comm.Ibarrier(), what, others))
        return
    for bucket in _buckets(arrays):
        if len(bucket) == 1:  # often as large as a bucket: it is not copied
            _add_into(world, comm, bucket[0], ranks, what)
            continue
        whole = np.concatenate(bucket)
        _add_into(world, comm, whole, ranks, what)
        ends = np.cumsum([part.size for part in bucket])[:-1]
        for part, sums in zip(bucket, np.split(whole, ends), strict=True):
            part[...] = sums


def _add_into(
    world: World, comm: Any, array: np.ndarray, ranks: tuple[int, ...], what: What
) -> None:
    """Adds a flat array in place: each rank gets what the others have of its slice, and the sums
    of their slices."""
    count, byte = len(ranks), world.mpi.BYTE
    place = ranks.index(world.rank)
    others = [one for one in ranks if one != world.rank]
    bounds = [array.size * one // count for one in range(count + 1)]
    sizes = [(end - start) * array.itemsize for start, end in pairwise(bounds)]
    own = array[bounds[place] : bounds[place + 1]]
    parts, _ = kind_of((count - 1, own.size), array.dtype).empty()
    out, into = [*sizes], [own.nbytes] * count
    out[place] = into[place] = 0
    sent = [bytes_of(array), (out, places_of(sizes)), byte]
    got = [bytes_of(parts), (into, places_of(into)), byte]
    world.wait(comm.Ialltoallv(sent, got), what, others)
    total, *rest = [*parts[:place], own, *parts[place:]]
    for one in rest[:-1]:
        total = np.add(total, one, out=parts[0])
    np.add(total, rest[-1], out=own)
    every = [bytes_of(array), (sizes, places_of(sizes)), byte]
    world.wait(comm.Iallgatherv(world.mpi.IN_PLACE, every), what, others)


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

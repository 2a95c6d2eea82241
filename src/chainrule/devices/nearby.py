"""Memory that ranks of one machine share, and adding arrays up in it: without messages."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.devices.system import file_of, file_without_name, mapped

PART_NBYTES = 1 << 22  # of what is added at once: ranks meet twice for it

Tell = Callable[[Sequence[int]], np.ndarray]  # numbers of each rank, a row for each
Meet = Callable[[], None]  # waits until all ranks have come here; what they wrote, all can read


def shared(place: int, nbytes: int, tell: Tell) -> np.ndarray | None:
    """So many bytes that some ranks share, this one at a place among them; all of them call it.

    None for all of them where one cannot have it: ranks of other machines, or in containers of
    their own, do not find the file that the first rank makes, or not its secret in it.
    """
    file = -1 if place else file_without_name(nbytes)
    memory = None if place else mapped(file, nbytes)
    secret = np.array([secrets.randbits(62), secrets.randbits(62)])
    if memory is not None:
        np.frombuffer(memory, np.int64, 2)[:] = secret
    pid, descriptor, *secret = tell([os.getpid(), file, *secret.tolist()])[0].tolist()
    if place:
        file = file_of(pid, descriptor)
        memory = mapped(file, nbytes)
    has_it = memory is not None and np.frombuffer(memory, np.int64, 2).tolist() == secret
    all_have_it = tell([has_it]).all()  # and have opened the file
    if file >= 0:
        os.close(file)
    return np.frombuffer(memory, np.uint8) if memory is not None and all_have_it else None


def nearby(place: int, count: int, tell: Tell) -> Nearby | None:
    """What so many ranks add up in, this one at a place among them; as `shared`."""
    memory = shared(place, (count + 1) * PART_NBYTES, tell)
    return None if memory is None else Nearby(memory, place, count)


@dataclass(frozen=True)
class _Part:
    """As much of some arrays of one dtype, flat, as is added at once."""

    arrays: tuple[np.ndarray, ...]
    dtype: np.dtype
    size: int


class Nearby:
    """The memory that some ranks of one machine share; this one is at a place among them."""

    def __init__(self, memory: np.ndarray, place: int, count: int) -> None:
        self.place, self.count = place, count
        self.rows = memory.reshape(count + 1, PART_NBYTES)  # of each rank, and of their sums

    def add(self, arrays: Sequence[np.ndarray], meet: Meet) -> None:
        """Adds arrays in C order in place, in the order of ranks: each rank shows its own to the
        others, adds its slice of what all show, and takes the whole sum.
        """
        for part in _parts(arrays):
            own, total = (self._row(one, part) for one in (self.place, self.count))
            np.concatenate(part.arrays, out=own)  # whose slices all have added before they met
            meet()
            bounds = (part.size * (self.place + one) // self.count for one in range(2))
            here = slice(*bounds)
            first, second, *rest = (self._row(one, part)[here] for one in range(self.count))
            np.add(first, second, out=total[here])
            for one in rest:
                total[here] += one
            meet()
            start = 0
            for one in part.arrays:
                one[...] = total[start : start + one.size]
                start += one.size

    def _row(self, number: int, part: _Part) -> np.ndarray:
        return self.rows[number, : part.size * part.dtype.itemsize].view(part.dtype)


def _parts(arrays: Sequence[np.ndarray]) -> Iterator[_Part]:
    """The arrays in parts: those of one dtype together, in their order."""
    for dtype in dict.fromkeys(one.dtype for one in arrays):
        most = PART_NBYTES // dtype.itemsize
        open_: list[np.ndarray] = []
        room = most
        for array in arrays:
            flat = array.reshape(-1)
            while array.dtype == dtype and flat.size:
                open_.append(flat[:room])
                flat, room = flat[room:], room - open_[-1].size
                if not room:
                    yield _Part(tuple(open_), dtype, most)
                    open_, room = [], most
        if open_:
            yield _Part(tuple(open_), dtype, most - room)

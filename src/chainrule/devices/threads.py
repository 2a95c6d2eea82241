"""Messages between the threads of one process, one thread a rank."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.devices.cores import blas_held_to
from chainrule.devices.helper import Helper
from chainrule.devices.instructions import AllGather, AllReduce, Key, Program, ReduceScatter
from chainrule.devices.rank import run_program
from chainrule.devices.replicas import codes
from chainrule.devices.tensor.arrays import joined, part_along
from chainrule.devices.workers import in_thread
from chainrule.errors import ChainruleError, StateError

if TYPE_CHECKING:
    from chainrule.devices.reports.measuring import Clock
    from chainrule.devices.splitting import Split

BLOCK_NBYTES = 1 << 18  # of what is added at once: it stays in a cache
DEADLINE = 60.0  # seconds that a rank waits for another one


class Stopped(Exception):
    """Another rank has failed: this one ends without a message of its own."""


class Mailboxes:
    """What ranks have sent each other, and not yet received."""

    def __init__(self, count: int, deadline: float = DEADLINE) -> None:
        self.count, self.deadline = count, deadline
        self.changed = threading.Condition()
        self.messages: dict[tuple[int, int, Key], np.ndarray] = {}
        # Of each collective: by its group, and how many of that group came before it.
        self.shares: dict[tuple[tuple[int, ...], int], dict[int, Any]] = {}
        self.readers: dict[tuple[tuple[int, ...], Any], int] = {}
        self.meetings: dict[tuple[Any, ...], dict[int, Any]] = {}
        self.shown: dict[tuple[int, int], np.ndarray] = {}  # by replica and number
        self.stopped = self.committed = False

    def stop(self, *, failed: bool = False) -> None:
        """Wakes all ranks that wait: they end; once all are committed, only if one has failed."""
        with self.changed:
            if self.committed and not failed:
                return
            self.stopped = True
            self.changed.notify_all()

    def meet(self, label: tuple[Any, ...], rank: int, given: Any, group: tuple[int, ...]) -> Any:
        """What each rank of a group gives, by rank, once all have come to this place: either all
        go on from here, or none."""
        with self.changed:
            if self.stopped:  # others may have left
                raise Stopped
            share = self.meetings.setdefault((group, *label), {})
            share[rank] = given
            self.changed.notify_all()
            what = f"rank {rank} has waited in vain for the ranks {group}"
            found = self._wait_for(lambda: share if len(share) >= len(group) else None, what)
            self.committed = self.committed or label == ("commit",)
            self.readers[group, label] = self.readers.get((group, label), 0) + 1
            if self.readers[group, label] == len(group):
                del self.meetings[group, *label], self.readers[group, label]
            return found

    def commit(self, rank: int) -> None:
        """Waits until all ranks have come to where nothing can fail any more."""
        self.meet(("commit",), rank, None, tuple(range(self.count)))

    def taken(self, group: tuple[int, ...], number: int) -> None:
        """Notes that a rank has the arrays of its group; the last one lets them go."""
        count = self.readers.get((group, number), 0) + 1
        self.readers[group, number] = count
        if count == len(group):
            del self.shares[group, number], self.readers[group, number]

    def _wait_for(self, there: Callable[[], Any], what: str) -> Any:
        """What `there` gives, once it is not None; StateError at the deadline."""
        end = monotonic() + self.deadline
        while True:
            found = there()
            if found is not None:
                return found
            if self.stopped:
                raise Stopped
            left = end - monotonic()
            if left <= 0:
                raise StateError(f"{what} within {self.deadline:g} s")
            self.changed.wait(left)


class ThreadTransport:
    """The transport of one rank among threads; the values of the sums `shown` are not added up, but
    shown to the others."""

    def __init__(
        self, rank: int, boxes: Mailboxes, shown: Collection[AllReduce] = frozenset()
    ) -> None:
        self.rank, self.boxes, self.shown = rank, boxes, shown
        self.done: Counter[tuple[int, ...]] = Counter()  # collectives of each group
        self.helper = Helper(self.add, f"helper of rank {rank}")

    def begin(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        """Begins a sum, and goes on."""
        if one in self.shown:
            self.add(one, arrays)
        else:
            self.helper.begin(one, arrays)

    def wait(self, one: AllReduce) -> None:
        """Waits for a sum that was begun."""
        if one not in self.shown:
            self.helper.wait(one)

    def send(self, key: Key, array: np.ndarray, to: int) -> None:
        """Leaves an array, which nobody changes any more, for another rank."""
        with self.boxes.changed:  # in C order, as between processes: the same bits follow
            self.boxes.messages[self.rank, to, key] = np.asarray(array, order="C")
            self.boxes.changed.notify_all()

    def receive(self, key: Key, sender: int) -> np.ndarray:
        """The array that a rank sends, once it is there."""
        boxes = self.boxes
        what = f"rank {self.rank} has got nothing from rank {sender}"
        with boxes.changed:
            return boxes._wait_for(lambda: boxes.messages.pop((sender, self.rank, key), None), what)

    def all_reduce(
        self, keys: tuple[Key, ...], arrays: Sequence[np.ndarray], group: tuple[int, ...]
    ) -> list[np.ndarray]:
        """The sums of the arrays of all ranks of a group, added in the order of ranks."""
        parts = self._of_all(arrays, group)
        return [_added([part[number] for part in parts]) for number in range(len(arrays))]

    def all_gather(self, one: AllGather, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the ranks of a group have, joined along axes."""
        parts = self._of_all(arrays, one.group)
        return [
            joined([part[number] for part in parts], axis) for number, axis in enumerate(one.axes)
        ]

    def reduce_scatter(self, one: ReduceScatter, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """This rank's parts of the sums of the arrays of all ranks of a group."""
        group = one.group
        parts = self._of_all(arrays, group)
        at = group.index(self.rank)
        return [
            _added([part_along(part[number], axis, at, len(group)) for part in parts])
            for number, axis in enumerate(one.axes)
        ]

    def _of_all(self, arrays: Sequence[np.ndarray], group: tuple[int, ...]) -> list[Any]:
        """The arrays of each rank of a group, in the order of ranks."""
        boxes, number = self.boxes, self.done[group]
        self.done[group] += 1
        what = f"rank {self.rank} has waited in vain for the ranks {group}"
        with boxes.changed:
            share = boxes.shares.setdefault((group, number), {})
            share[self.rank] = arrays
            boxes.changed.notify_all()
            all_there = boxes._wait_for(lambda: share if len(share) == len(group) else None, what)
            parts = [all_there[one] for one in group]
            boxes.taken(group, number)
        return parts

    def add(self, one: AllReduce, arrays: Sequence[np.ndarray]) -> None:
        """Adds arrays of all ranks of a group in place, in the order of ranks.

        Each rank adds a slice of them, and copies the others' slices.
        """
        if one in self.shown:
            replica = one.group.index(self.rank)
            for key, array in zip(one.keys, arrays, strict=True):
                self.boxes.shown[replica, key.value] = array
            return
        parts = self.boxes.meet((one.keys, "begun"), self.rank, arrays, one.group)
        flat = [[array.reshape(-1) for array in parts[rank]] for rank in one.group]
        place, count = one.group.index(self.rank), len(one.group)
        for number, own in enumerate(flat[place]):
            _add_slice(own, [found[number] for found in flat], _slice(own, place, count))
        self.boxes.meet((one.keys, "added"), self.rank, None, one.group)
        for number, own in enumerate(flat[place]):
            for other, found in enumerate(flat):
                if other != place:
                    here = _slice(own, other, count)
                    own[here] = found[number][here]


def _slice(array: np.ndarray, place: int, count: int) -> slice:
    """The part of a flat array that the rank at this place of a group adds."""
    return slice(array.size * place // count, array.size * (place + 1) // count)


def _add_slice(own: np.ndarray, parts: Sequence[np.ndarray], here: slice) -> None:
    """Writes the sum of the slices of all ranks into one of them, block by block."""
    each = max(BLOCK_NBYTES // own.itemsize, 1)
    space = np.empty(each if len(parts) > 2 else 0, own.dtype)
    for start in range(here.start, here.stop, each):
        block = slice(start, min(start + each, here.stop))
        total = parts[0][block]
        for part in parts[1:-1]:  # what is written to may be one of those that follow
            total = np.add(total, part[block], out=space[: total.size])
        np.add(total, parts[-1][block], out=own[block])


def _added(parts: Sequence[np.ndarray]) -> np.ndarray:
    total = np.array(parts[0], order="C", copy=True)
    for part in parts[1:]:
        total += part
    return total


def run_in_threads(
    split: Split,
    first: Callable[[Program], dict[Key, np.ndarray]],
    then: Callable[[int, Mapping[Key, np.ndarray]], None],
    clocks: Sequence[Clock] | None = None,
) -> list[dict[Key, np.ndarray]]:
    """Runs the program of each rank in a thread; gives their results.

    `first` gives what a rank has at first, `clocks` measure it.  `then` is called in each thread
    with its rank and results once nothing can fail on any, and in none if one has failed.  Raises
    what the first rank that failed has raised, once all threads have ended.
    """
    programs = split.programs
    boxes = Mailboxes(len(programs))
    found: list[dict[Key, np.ndarray]] = [{} for _ in programs]
    errors: list[tuple[int, BaseException]] = []
    every = tuple(range(len(programs)))
    code = codes(split.code, split.replicas_read, boxes.shown)

    def committed(rank: int) -> bool:
        """Replicas share the state's arrays: where these are updated in place, the first does."""
        begun = perf_counter()
        split.make_ready(rank)
        boxes.commit(rank)
        if clocks is not None:
            clocks[rank].commit = begun, perf_counter()
        return rank < split.lying.grid.stages or not split.commits.taken

    def work(rank: int) -> None:
        transport = ThreadTransport(rank, boxes, split.shown)
        try:
            watch = None if clocks is None else clocks[rank].watch
            there = first(programs[rank])
            commit = split.commits.at[rank], lambda: committed(rank)
            found[rank] = run_program(
                programs[rank],
                split.pieces,
                code,
                there,
                transport,
                watch,
                commit,
                split.note,
            )
            boxes.meet(("end",), rank, None, every)  # what is written now others have read
            then(rank, found[rank])
            if clocks is not None:
                clocks[rank].sums = transport.helper.log
        except Stopped:
            pass
        except BaseException as error:
            errors.append((rank, error))
            boxes.stop(failed=True)
        finally:
            transport.helper.close()

    with blas_held_to(split.threads):
        working: list[threading.Event] = []
        try:
            for rank in every:
                working.append(in_thread(partial(work, rank), f"rank {rank}"))
            for one in working:
                one.wait()
        except BaseException:
            boxes.stop()
            for one in working:
                one.wait()
            raise
        finally:
            boxes.shown.clear()  # for the next step, which is to have their memory
    if errors:
        rank, error = errors[0]
        if isinstance(error, ChainruleError):
            error.add_note(f"on rank {rank} of {len(programs)}")
        raise error
    return found

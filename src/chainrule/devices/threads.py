"""Messages between the threads of one process, one thread a rank."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.devices.cores import blas_held_to
from chainrule.devices.instructions import Key, Program
from chainrule.devices.rank import run_program
from chainrule.errors import ChainruleError, StateError

if TYPE_CHECKING:
    from chainrule.devices.reports.measuring import Clock
    from chainrule.devices.splitting import Split

DEADLINE = 60.0  # seconds that a rank waits for another one


class Stopped(Exception):
    """Another rank has failed: this one ends without a message of its own."""


class Mailboxes:
    """What ranks have sent each other, and not yet received."""

    def __init__(self, count: int, deadline: float = DEADLINE) -> None:
        self.count, self.deadline = count, deadline
        self.changed = threading.Condition()
        self.messages: dict[tuple[int, int, Key], np.ndarray] = {}
        self.shares: dict[tuple[tuple[int, ...], tuple[Key, ...]], dict[int, Any]] = {}
        self.readers: dict[tuple[tuple[int, ...], tuple[Key, ...]], int] = {}
        self.stopped = False

    def stop(self) -> None:
        """Wakes all ranks that wait: they end."""
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def taken(self, group: tuple[int, ...], keys: tuple[Key, ...]) -> None:
        """Notes that a rank has the arrays of its group; the last one lets them go."""
        count = self.readers.get((group, keys), 0) + 1
        self.readers[group, keys] = count
        if count == len(group):
            del self.shares[group, keys], self.readers[group, keys]

    def _wait_for(self, there: Callable[[], Any], what: str) -> Any:
        """What `there` gives, once it is not None; StateError at the deadline."""
        end = monotonic() + self.deadline
        while True:
            if self.stopped:
                raise Stopped
            found = there()
            if found is not None:
                return found
            left = end - monotonic()
            if left <= 0:
                raise StateError(f"{what} within {self.deadline:g} s")
            self.changed.wait(left)


class ThreadTransport:
    """The transport of one rank among threads."""

    def __init__(self, rank: int, boxes: Mailboxes) -> None:
        self.rank, self.boxes = rank, boxes

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
        boxes = self.boxes
        what = f"rank {self.rank} has waited in vain for the ranks {group}"
        with boxes.changed:
            share = boxes.shares.setdefault((group, keys), {})
            share[self.rank] = arrays
            boxes.changed.notify_all()
            all_there = boxes._wait_for(lambda: share if len(share) == len(group) else None, what)
            parts = [all_there[one] for one in group]
            boxes.taken(group, keys)
        return [_added([part[number] for part in parts]) for number in range(len(arrays))]


def _added(parts: Sequence[np.ndarray]) -> np.ndarray:
    total = np.array(parts[0], copy=True)
    for part in parts[1:]:
        total += part
    return total


def run_in_threads(
    split: Split,
    first: Callable[[Program], dict[Key, np.ndarray]],
    clocks: Sequence[Clock] | None = None,
) -> list[dict[Key, np.ndarray]]:
    """Runs the program of each rank in a thread; gives their results.

    `first` gives what a rank has at first, `clocks` measure it.  Raises what the first rank that
    failed has raised, once all threads have ended.
    """
    programs = split.programs
    boxes = Mailboxes(len(programs))
    found: list[dict[Key, np.ndarray]] = [{} for _ in programs]
    errors: list[tuple[int, BaseException]] = []

    def work(rank: int) -> None:
        transport = ThreadTransport(rank, boxes)
        try:
            watch = None if clocks is None else clocks[rank].watch
            there = first(programs[rank])
            found[rank] = run_program(
                programs[rank], split.pieces, split.code, there, transport, watch
            )
        except Stopped:
            pass
        except BaseException as error:
            errors.append((rank, error))
            boxes.stop()

    threads = [
        threading.Thread(target=work, args=(rank,), name=f"rank {rank}", daemon=True)
        for rank in range(len(programs))
    ]
    with blas_held_to(split.threads):
        for one in threads:
            one.start()
        try:
            for one in threads:
                one.join()
        except BaseException:
            boxes.stop()
            for one in threads:
                one.join()
            raise
    if errors:
        rank, error = errors[0]
        if isinstance(error, ChainruleError):
            error.add_note(f"on rank {rank} of {len(programs)}")
        raise error
    return found

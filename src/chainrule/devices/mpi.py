"""Messages between the processes of an MPI job: the only file that imports mpi4py."""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Collection, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from chainrule.devices import ending
from chainrule.devices.job import (
    STARTING,
    TRANSPORT,
    Rank,
    deadline_seconds,
    folder,
    launched,
    this_rank,
)
from chainrule.devices.nearby import Nearby, Tell, nearby, shared
from chainrule.devices.system import shared_memory_of, unlink
from chainrule.devices.watch import Watch, What
from chainrule.errors import InputError, StateError

SPINS = 50  # tests before a rank that waits begins to sleep
LONGEST_PAUSE = 200e-6  # seconds
LITTLE = 4096  # bytes, which MPI sends at once
GRACE = 1.0  # seconds for messages of a rank that has ended meanwhile
WORDS = 5  # of 8 bytes, which ranks tell each other at once
LEAST_SHARED = 4096  # bytes, of the memory by which ranks find out whether they can share it


Lane = tuple[tuple[int, ...], bool]  # some ranks, or their helpers


class World:
    """All ranks of the job, and what they agree on; `join` makes it."""

    def __init__(self) -> None:
        rank, count = launched() or (0, 1)
        self.watch = Watch(deadline_seconds(), this_rank(rank))
        self.watch.begin(lambda: f"waits for all {count} ranks to start")
        where = folder()
        if where is not None:
            where.note(STARTING)
        try:
            self.mpi: Any = import_module("mpi4py.MPI")  # which starts MPI
            self.comm = self.mpi.COMM_WORLD.Dup()
        finally:
            self.watch.end()
        self.notes = self.mpi.COMM_WORLD.Dup()
        self.rank, self.count = self.comm.Get_rank(), self.comm.Get_size()
        self.ended: dict[int, float] = {}
        self.groups: dict[Lane, Any] = {}
        self.near: dict[Lane, Nearby | None] = {}  # None: these share no memory
        self.blocks: dict[tuple[str, tuple[int, ...]], np.ndarray] = {}  # that some ranks share
        self.polling = threading.Lock()
        self.process = os.getpid()
        self.broken: Any = None  # what must stay of a step that has not succeeded
        self.abandoned: list[Any] = []  # operations that did not end: their arrays must stay
        self.has_left = False
        ending.install(self.mpi.COMM_WORLD.Abort)
        self.ranks = [this_rank(one) for one in range(self.count)]
        own = this_rank(self.rank)
        told = self.exchange("joins", {"host": own.host, "pid": own.pid})
        self.ranks = [Rank(one, found["host"], found["pid"]) for one, found in enumerate(told)]
        everyone = tuple(range(self.count))
        self.shares_memory = self.shared(everyone, LEAST_SHARED) is not None
        # All ranks have mapped MPICH's shared memory: without names, nothing stays of a killed job.
        unlink(shared_memory_of(self.process))
        if where is not None:
            where.note("has joined the others")
        atexit.register(self.close)

    # Waiting -------------------------------------------------------------------------------------

    def wait(self, request: Any, what: What, others: Collection[int], seconds: float = 0.0) -> None:
        """Until an operation with other ranks is complete.

        StateError where one of these has ended; the watch ends the job at the deadline, or so many
        seconds later.
        """
        if request.Test():
            return
        self.watch.begin(what, seconds)
        where = folder()
        if where is not None:
            where.note(what())
        try:
            tests, pause, noticed = 0, 10e-6, 0.0
            while not request.Test():
                tests += 1
                if tests < SPINS:
                    continue
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
                self.poll()
                gone = [one for one in others if one in self.ended]
                if gone and not noticed:
                    noticed = time.monotonic()
                if gone and time.monotonic() > noticed + GRACE:
                    raise StateError(
                        f"{self.ranks[self.rank]} {what()}, but {self.ranks[gone[0]]} has ended",
                        hint="all ranks take the same number of steps",
                    )
        except BaseException:
            self.abandoned.append(request)
            raise
        finally:
            self.watch.end()

    def poll(self) -> None:
        """Lets messages progress, and hears which ranks have ended."""
        with self.polling:  # or a helper would take the note that this thread has seen
            while self.notes.Iprobe(source=self.mpi.ANY_SOURCE, tag=0):
                status = self.mpi.Status()
                self.notes.Recv(np.empty(1, np.uint8), self.mpi.ANY_SOURCE, 0, status)
                self.ended[status.Get_source()] = time.monotonic()

    # What all ranks do together ------------------------------------------------------------------

    def exchange(self, what: str, told: Any, seconds: float = 0.0) -> list[Any]:
        """What each rank tells (as JSON), in the order of ranks; otherwise as `gather`."""
        text = np.frombuffer(json.dumps(told).encode(), np.uint8)
        lengths = self.gather(what, np.array([text.size], np.int64), seconds)[:, 0].tolist()
        return self._texts(text, lengths)

    def gather(self, what: str, numbers: np.ndarray, seconds: float = 0.0) -> np.ndarray:
        """The numbers of each rank, a row for each: at most `WORDS`, each of 8 bytes.

        `what` says what the rank does with them: StateError on all ranks where that differs.  They
        wait for each other until the deadline, and so many seconds longer.
        """
        return self.begin_gather(what, numbers)(seconds)

    def begin_gather(self, what: str, numbers: np.ndarray) -> Callable[[float], np.ndarray]:
        """Tells the others numbers, and goes on; what it gives waits for theirs, and is kept until
        it has been called.  Otherwise as `gather`."""
        if self.has_left:
            raise StateError(
                f"the file of {self.ranks[self.rank]} has ended, and it {what}",
                hint="do that before the end of the file: leave a loop over epochs by break",
            )
        row = np.zeros(1 + WORDS, np.uint64)
        row[0] = zlib.crc32(what.encode())
        row[1 : 1 + numbers.size] = numbers.view(np.uint64)
        found = np.empty((self.count, row.size), np.uint64)
        byte = self.mpi.BYTE
        request = self.comm.Iallgather([bytes_of(row), byte], [bytes_of(found), byte])

        def told(seconds: float) -> np.ndarray:
            self._wait_for_all(request, seconds)
            if (found[:, 0] != row[0]).any():
                self._refuse_other(what, found[:, 0])
            return found[:, 1 : 1 + numbers.size].view(numbers.dtype)

        return told

    def meet(self) -> None:
        """Waits until all ranks have come here."""
        self._wait_for_all(self.comm.Ibarrier())

    def _refuse_other(self, what: str, found: np.ndarray) -> NoReturn:
        """StateError on all ranks, where they meet for different purposes."""
        other = int(np.flatnonzero(found != found[0])[0])
        text = np.frombuffer(json.dumps(what).encode(), np.uint8)
        lengths = np.empty(self.count, np.int64)
        byte = self.mpi.BYTE
        own = [bytes_of(np.array([text.size], np.int64)), byte]
        self._all(self.comm.Allgather, own, [bytes_of(lengths), byte])
        texts = self._texts(text, lengths.tolist())
        raise StateError(
            f"{self.ranks[other]} {texts[other]}, and {self.ranks[0]} {texts[0]}: ranks wait for "
            "each other to do the same",
            hint="every rank runs the same file to its end: what one of them collects, saves or "
            "evaluates, and when it leaves a loop, all do",
        )

    def _texts(self, own: np.ndarray, counts: list[int]) -> list[Any]:
        """What each rank tells, as so many bytes of JSON."""
        found = np.empty(sum(counts), np.uint8)
        every = [found, (counts, places_of(counts)), self.mpi.BYTE]
        self._all(self.comm.Allgatherv, [own, self.mpi.BYTE], every)
        parts = np.split(found, places_of(counts)[1:])
        return [json.loads(part.tobytes()) for part in parts]

    def move(self, array: np.ndarray, owner: int, to: int) -> None:
        """Writes the array of one rank, in C order, into that of another; both of them call it."""
        message, byte = bytes_of(array), self.mpi.BYTE
        if self.rank == owner:
            request, other = self.comm.Isend([message, byte], to, 0), to
        else:
            request, other = self.comm.Irecv([message, byte], owner, 0), owner
        self.wait(request, lambda: f"moves an array from rank {owner} to rank {to}", (other,))

    def broadcast(self, array: np.ndarray, root: int) -> None:
        """Writes the array of one rank, in C order, into that of each other one."""
        message = [bytes_of(array), self.mpi.BYTE]
        if array.nbytes <= LITTLE:
            self._wait_for_all(self.comm.Ibcast(message, root))
        else:
            self._all(self.comm.Bcast, message, root)

    def _wait_for_all(self, request: Any, seconds: float = 0.0) -> None:
        """Until a collective of all ranks on little is complete: one that others are already in
        needs no rank to wake up."""
        self.wait(request, _waits_for_all, self._others, seconds)

    def _all(self, call: Callable[..., None], *arguments: Any) -> None:
        self.together(self.comm, self._others, _waits_for_all, call, *arguments)

    @property
    def _others(self) -> list[int]:
        return [one for one in range(self.count) if one != self.rank]

    def together(
        self,
        comm: Any,
        others: Collection[int],
        what: What,
        call: Callable[..., None],
        *arguments: Any,
    ) -> None:
        """Waits for the other ranks as for a message, then calls what all of them call.

        The call itself progresses faster than tests of a request with pauses between them.
        """
        self.wait(comm.Ibarrier(), what, others)
        self.watch.begin(what)
        call(*arguments)
        self.watch.end()

    def asks_for_time(self, asks: bool) -> None:
        """After a signal: whether this rank still has to finish a step and save."""
        where = folder()
        if where is not None:
            where.ask_for_time(self.rank, asks)

    def group(self, ranks: tuple[int, ...], by_helper: bool = False) -> Any:
        """The communicator of some ranks; all of them ask for it when the first of them does.

        Their helpers have one of their own: what two threads do together with other ranks comes
        there in any order.
        """
        lane = ranks, by_helper
        if lane not in self.groups:
            self.watch.begin(lambda: f"waits for the ranks {ranks}")
            chosen = self.comm.Get_group().Incl(list(ranks))
            self.groups[lane] = self.comm.Create_group(chosen)
            self.watch.end()
        return self.groups[lane]

    def nearby(self, ranks: tuple[int, ...], by_helper: bool) -> Nearby | None:
        """What these ranks add up in, where they share memory; all of them ask when the first of
        them does."""
        lane = ranks, by_helper
        if lane not in self.near:
            self.near[lane] = self._sharing(partial(nearby, ranks.index(self.rank)), *lane)
        return self.near[lane]

    def shared(self, ranks: tuple[int, ...], nbytes: int) -> np.ndarray | None:
        """So many bytes that these ranks share; all of them call it, and None for all of them where
        one cannot have it."""
        return self._sharing(lambda _, tell: shared(ranks.index(self.rank), nbytes, tell), ranks)

    def block(self, use: str, ranks: tuple[int, ...], nbytes: int) -> np.ndarray | None:
        """At least so many bytes that these ranks share for a use, the same ones in each step until
        more are asked for; as `shared`."""
        known = self.blocks.get((use, ranks))
        if known is not None and known.nbytes >= nbytes:
            return known
        more = 0 if known is None else 3 * known.nbytes // 2  # sizes that grow make few blocks
        found = self.shared(ranks, max(nbytes, more))
        if found is not None:
            self.blocks[use, ranks] = found
        return found

    def _sharing(
        self,
        make: Callable[[int, Tell], Any],
        ranks: tuple[int, ...],
        by_helper: bool = False,
    ) -> Any:
        alone = len({self.ranks[one].host for one in ranks}) == 1
        if not alone or os.environ.get(TRANSPORT, "") == "mpi":
            return None
        comm, others = self.group(ranks, by_helper), [one for one in ranks if one != self.rank]
        tell = partial(self._tell, comm, len(ranks))
        self.wait(comm.Ibarrier(), lambda: f"waits for the ranks {ranks}", others)
        self.watch.begin(lambda: f"waits for the ranks {ranks}")
        found = make(len(ranks), tell)
        self.watch.end()
        return found

    def _tell(self, comm: Any, count: int, numbers: Sequence[int]) -> np.ndarray:
        """What each rank of a group tells."""
        found = np.empty((count, len(numbers)), np.int64)
        byte = self.mpi.BYTE
        comm.Allgather([bytes_of(np.array(numbers, np.int64)), byte], [bytes_of(found), byte])
        return found

    def exchange_bytes(
        self,
        name: str,
        sent: np.ndarray,
        received: np.ndarray,
        ranks: tuple[int, ...],
        what: What,
    ) -> None:
        """A collective of MPI, of this name, among some ranks, on arrays in C order."""
        others = [one for one in ranks if one != self.rank]
        pair = ([bytes_of(one), self.mpi.BYTE] for one in (sent, received))
        comm = self.group(ranks)
        self.together(comm, others, what, getattr(comm, name), *pair)

    # The end -------------------------------------------------------------------------------------

    def close(self) -> None:
        """Tells the others that this rank ends, and waits until all do."""
        if os.getpid() != self.process:
            return
        self.has_left = True
        note = np.zeros(1, np.uint8)
        others = self._others
        sent = [self.notes.Isend([note, self.mpi.BYTE], one, 0) for one in others]
        # No deadline: another rank may write files for long.  One that waits for us hears the note.
        reached = self.notes.Ibarrier()
        while not reached.Test() or len(self.ended) < len(others):
            self.poll()
            time.sleep(LONGEST_PAUSE)
        self.mpi.Request.Waitall(sent)


def share_memory() -> bool:
    """Whether the ranks of the job share memory; taken for granted until they have joined."""
    return os.environ.get(TRANSPORT, "") != "mpi" if _world is None else _world.shares_memory


_world: World | None = None
_joining = threading.Lock()


def join() -> World:
    """All ranks of the job that this process was started in; all of them join.

    InputError where mpi4py is not installed.
    """
    global _world
    with _joining:
        if _world is None:
            try:
                _world = World()
            except (ImportError, RuntimeError) as error:  # no mpi4py, or no MPI
                raise InputError(
                    f"this process is one of the {(launched() or (0, 1))[1]} ranks of a job, and "
                    f"{error}",
                    hint="pip install 'chainrule[mpi]', or set CHAINRULE_TRANSPORT=threads: then "
                    "each process runs all ranks as threads",
                ) from error
    if _world.process != os.getpid():
        raise StateError(
            "a process that was forked by a rank of a job took a step on several ranks",
            hint="take steps in the process that mpiexec started",
        )
    return _world


def _waits_for_all() -> str:
    return "waits for all other ranks"


def bytes_of(array: np.ndarray) -> np.ndarray:
    """The memory of an array in C order."""
    return array.reshape(-1).view(np.uint8)


def places_of(sizes: Sequence[int]) -> list[int]:
    return [0, *np.cumsum(sizes[:-1]).tolist()]

"""Starts a file as several ranks on this machine, and says which rank failed, if one did.

The ranks are started by `mpiexec`.  A job has succeeded only where each rank wrote that it came to
its end: MPICH's own exit code is 0 also where a rank left by `os._exit(0)`.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chainrule.devices.ending import FAILED
from chainrule.devices.job import DEADLINE, FOLDER, STARTING, Folder, Rank
from chainrule.devices.system import end_with_parent, shared_memory_of, unlink
from chainrule.errors import InputError
from chainrule.execute.native.runtime.pool import VARIABLE as OWN_THREADS
from chainrule.execute.native.runtime.pool import thread_count

THREADS = (
    OWN_THREADS,
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
LEAVING_OTHERS = "-disable-auto-cleanup"  # of MPICH
PERIOD = 0.02  # seconds between looks
LINGER = 0.2  # seconds in which mpiexec passes on what was printed before a failure
STOPPING = 5.0  # seconds that ranks have after Ctrl-C, or after they have saved


def launch(count: int, file: Path, arguments: Sequence[str], deadline: float | None = None) -> int:
    """Runs the file in `count` processes; gives the exit code.

    That is 0 where all ranks came to their ends, 70 where one failed, 128 and the signal's number
    where this process was told to end.  InputError where there is no mpiexec.
    """
    starter = mpiexec()
    ranks = ["-n", str(count), sys.executable, "-m", "chainrule.devices.started"]
    command = [starter, *_leaving_others(starter), *ranks]
    path = Path(tempfile.mkdtemp(prefix="chainrule-job-"))
    try:
        environment = _environment(count, path, deadline)
        with _Job(count, Folder(path)) as job:
            return job.run([*command, str(file), *arguments], environment)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def mpiexec() -> str:
    """The program that starts ranks: beside this Python, else on the PATH; InputError for none."""
    beside = Path(sys.executable).parent
    found = shutil.which("mpiexec", path=str(beside)) or shutil.which("mpiexec")
    if found is None:
        raise InputError(
            f"there is no mpiexec in {beside}, nor on the PATH",
            hint="pip install 'chainrule[mpi]'",
        )
    return found


def _leaving_others(starter: str) -> list[str]:
    """The option by which mpiexec does not end the others where one rank dies, if it has it.

    Those that it kills may be gone before the one that died is: nobody would know which one it was.
    """
    if not hasattr(os, "pidfd_open"):
        return []
    found = subprocess.run([starter, "-help"], capture_output=True, text=True, check=False)
    return [LEAVING_OTHERS] if LEAVING_OTHERS in found.stdout + found.stderr else []


def _environment(count: int, path: Path, deadline: float | None) -> dict[str, str]:
    found = dict(os.environ)
    each = str(max(1, thread_count() // count))
    for name in THREADS:
        found.setdefault(name, each)
    found[FOLDER] = str(path)
    if deadline is not None:
        found[DEADLINE] = f"{deadline:g}"
    # On this machine alone, also within an allocation of a cluster.
    found.setdefault("HYDRA_LAUNCHER", "fork")
    found.setdefault("HYDRA_RMK", "user")
    return found


class _Job:
    """The processes of a job, from their start to their end."""

    def __init__(self, count: int, folder: Folder) -> None:
        self.count, self.folder = count, folder
        self.handles: dict[int, Rank] = {}  # by file descriptor
        self.known: dict[int, Rank] = {}
        self.gone: list[int] = []  # the ranks that have ended, the first one first
        self.shared: set[str] = set()  # files in memory of ranks that have not joined
        self.signal: int | None = None
        self.until = float("inf")
        # It tells of processes in the order in which they ended, as poll would not.
        self.poller = select.epoll() if hasattr(os, "pidfd_open") else None
        self.before: dict[int, Any] = {}

    def __enter__(self) -> _Job:
        for number in (signal.SIGINT, signal.SIGTERM):
            self.before[number] = signal.signal(number, self._told_to_end)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
        for handle in self.handles:
            os.close(handle)
        if self.poller is not None:
            self.poller.close()

    def run(self, command: Sequence[str], environment: dict[str, str]) -> int:
        """Starts the ranks, waits for all of them, and gives the exit code."""
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C comes to the launcher alone, which tells the ranks
            preexec_fn=end_with_parent,
        )
        while process.poll() is None:
            self._look()
            if self.folder.failure() is not None or self._first_failed() is not None:
                self.until = min(self.until, time.monotonic() + LINGER)
            if self._is_given_time():
                self.until = time.monotonic() + STOPPING
            if time.monotonic() > self.until:
                break
        self._look()
        self._kill(process)
        return self._verdict(process.returncode)

    def _is_given_time(self) -> bool:
        """Whether a rank that was told to end, once, still saves."""
        if self.signal is None or self.until == 0.0 or self.folder.failure() is not None:
            return False
        return any(self.folder.asks_for_time(rank) for rank in self.known)

    def _look(self) -> None:
        """Sees which ranks have started, and which have ended, in their order."""
        for rank in range(self.count):
            one = self.folder.started(rank) if rank not in self.known else None
            if one is not None:
                self.known[rank] = one
                if self.poller is not None:
                    try:
                        handle = os.pidfd_open(one.pid)
                    except ProcessLookupError:
                        self.gone.append(rank)
                        continue
                    self.handles[handle] = one
                    self.poller.register(handle, select.EPOLLIN)
        if self.poller is None:
            time.sleep(PERIOD)
        else:
            for handle, _ in self.poller.poll(PERIOD):
                self.poller.unregister(handle)
                self.gone.append(self.handles[handle].rank)
        for rank, one in self.known.items():
            if rank not in self.gone and self.folder.noted(rank) == STARTING:
                self.shared |= shared_memory_of(one.pid)

    def _first_failed(self) -> int | None:
        """The rank that ended first without a record of its end."""
        found = [rank for rank in self.gone if not self.folder.has_completed(rank)]
        return found[0] if found else None

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        """Ends what is left: in vain where all have ended."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        for handle, one in self.handles.items():
            if one.rank not in self.gone:
                try:
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        process.wait()
        unlink(self.shared)

    def _verdict(self, code: int) -> int:
        """The exit code; prints why it is not 0."""
        missing = [rank for rank in range(self.count) if not self.folder.has_completed(rank)]
        told, failed = self.folder.failure() or (None, FAILED)
        if missing and told is None and self.signal is None and not self.folder.is_failed():
            first = self._first_failed()
            rank = missing[0] if first is None else first
            doing = self.folder.noted(rank)
            told = (
                f"{self.known.get(rank, f'rank {rank}')} of {self.count} was killed, or left by "
                "os._exit, before its file had ended; the job is over"
                + (f"\n  when last seen, it {doing}" if doing else "")
            )
        if told is not None:
            print(told.rstrip("\n"), file=sys.stderr, flush=True)
        if self.signal is not None:
            return 128 + self.signal
        return failed if missing or told is not None else abs(code)

    def _told_to_end(self, number: int, _: object) -> None:
        """Tells all ranks; they have some seconds, once."""
        if self.signal is not None:
            self.until = 0.0
            return
        self.signal, self.until = number, time.monotonic() + STOPPING
        for handle in list(self.handles):
            try:
                signal.pidfd_send_signal(handle, number)
            except ProcessLookupError:
                pass

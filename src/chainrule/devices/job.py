"""The job that this process is a rank of: how many ranks it has, what each leaves in its folder.

`mpiexec`, `srun` and their like tell a process its rank in the environment; nothing else is asked,
so that a process of its own never loads MPI.  `chainrule run` makes the folder, on one machine.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.errors import InputError

FOLDER = "CHAINRULE_JOB"
FAILED_FILE = "failed"  # a file without content: the first rank that made it says why the job ends
TRANSPORT = "CHAINRULE_TRANSPORT"
DEADLINE = "CHAINRULE_DEADLINE"
DEFAULT_DEADLINE = 60.0  # seconds that a rank waits for another one
NOTE_NBYTES = 256
STARTING = "starts MPI"  # what a rank notes meanwhile
# The variables in which the rank and the number of ranks are, by who starts them.
STARTERS = (
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI, srun --mpi=pmi2
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),  # srun --mpi=pmix
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)


def launched() -> tuple[int, int] | None:
    """The rank of this process and the number of ranks; None for a process of its own.

    CHAINRULE_TRANSPORT=threads makes each process of a job one of its own; for `mpi`, see
    `one_program.py`.
    """
    if os.environ.get(TRANSPORT, "") == "threads":
        return None
    return started_as()


def started_as() -> tuple[int, int] | None:
    """What the program that started this process says, whatever CHAINRULE_TRANSPORT is."""
    for rank, count in STARTERS:
        found = os.environ.get(rank, ""), os.environ.get(count, "")
        if all(one.isascii() and one.isdigit() for one in found) and int(found[1]) > 1:
            return int(found[0]), int(found[1])
    return None


@contextmanager
def process_of_its_own() -> Iterator[None]:
    """Within it, this process is no rank of a job, as with CHAINRULE_TRANSPORT=threads."""
    before = os.environ.get(TRANSPORT)
    os.environ[TRANSPORT] = "threads"
    try:
        yield
    finally:
        if before is None:
            del os.environ[TRANSPORT]
        else:
            os.environ[TRANSPORT] = before


def deadline_seconds() -> float:
    """How long a rank waits for another one; InputError where the variable is no time."""
    asked = os.environ.get(DEADLINE, "")
    try:
        seconds = float(asked) if asked else DEFAULT_DEADLINE
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InputError(
            f"the environment variable {DEADLINE} is {asked!r}, which is no number of seconds",
            hint=f"{DEADLINE}=60",
        )
    return seconds


@dataclass(frozen=True)
class Rank:
    """A process of a job, and where it is."""

    rank: int
    host: str
    pid: int

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.host}, PID {self.pid})"


def this_rank(rank: int) -> Rank:
    """This process."""
    return Rank(rank, socket.gethostname(), os.getpid())


class Folder:
    """What the ranks of a job leave for the launcher, each in files of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._note: mmap.mmap | None = None

    def write_started(self, one: Rank) -> None:
        """Says which process a rank is."""
        self._write(f"started-{one.rank}", {"host": one.host, "pid": one.pid})
        with open(self.path / f"doing-{one.rank}", "w+b") as file:
            file.write(bytes(NOTE_NBYTES))
            file.flush()
            self._note = mmap.mmap(file.fileno(), NOTE_NBYTES)
        self.note("is before its first step")

    def started(self, rank: int) -> Rank | None:
        """The process that a rank is, if it has started."""
        found = self._read(f"started-{rank}")
        return None if found is None else Rank(rank, found["host"], found["pid"])

    def note(self, text: str) -> None:
        """Says what this rank is doing; the note outlives the process."""
        if self._note is not None:
            self._note[:] = text.encode()[:NOTE_NBYTES].ljust(NOTE_NBYTES, b"\0")

    def noted(self, rank: int) -> str:
        """What a rank noted last."""
        try:
            found = (self.path / f"doing-{rank}").read_bytes()
        except OSError:
            return ""
        return found.rstrip(b"\0").decode(errors="replace")

    def write_completed(self, rank: int) -> None:
        """The record without which a job has not succeeded."""
        self._write(f"completed-{rank}", {})

    def has_completed(self, rank: int) -> bool:
        """Whether a rank came to its end."""
        return self._read(f"completed-{rank}") is not None

    def ask_for_time(self, rank: int, asks: bool) -> None:
        """Whether a rank that was told to end still has to finish something."""
        if asks:
            self._write(f"asks-{rank}", {})
        else:
            (self.path / f"asks-{rank}").unlink(missing_ok=True)

    def asks_for_time(self, rank: int) -> bool:
        """Whether it does."""
        return (self.path / f"asks-{rank}").exists()

    def tells_failure(self, text: str, code: int) -> bool:
        """Leaves the reason why the job ends, with its exit code, unless another rank has: the
        launcher prints it, and ends all ranks.  False where the folder is gone, and so the
        launcher."""
        try:
            os.close(os.open(self.path / FAILED_FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            self._write("failure", {"text": text, "code": code})
        except FileExistsError:
            return True
        except OSError:
            return False
        return True

    def is_failed(self) -> bool:
        """Whether a rank ends the job: it prints the reason itself where the disk is full."""
        return (self.path / FAILED_FILE).exists()

    def failure(self) -> tuple[str, int] | None:
        """Why the job ends, and with which exit code, if a rank has said so."""
        found = self._read("failure")
        return None if found is None else (found["text"], found["code"])

    def _write(self, name: str, content: dict[str, Any]) -> None:
        new = self.path / f"{name}.{os.getpid()}"
        new.write_text(json.dumps(content), encoding="utf-8")
        os.replace(new, self.path / name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None


_folder: Folder | None = None


def folder() -> Folder | None:
    """The folder of this process's job, if the launcher made one that is here."""
    global _folder
    path = os.environ.get(FOLDER, "")
    if _folder is None and path and os.path.isdir(path):
        _folder = Folder(Path(path))
    return _folder

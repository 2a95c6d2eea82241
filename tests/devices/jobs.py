"""Runs files as the ranks of a job, by `chainrule run`, and looks what is left of them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

HAS_MPI = importlib.util.find_spec("mpi4py") and (
    shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
)
needs_mpi = pytest.mark.skipif(
    not HAS_MPI or os.name != "posix", reason="mpi4py or mpiexec is absent: pip install '.[mpi]'"
)
SHARED = Path("/dev/shm")
HOST_AND_PID = r"\(\S+, PID \d+\)"


def shared() -> set[str]:
    """The names of the memory that processes of jobs share now."""
    return {one.name for one in SHARED.glob("mpich_shm_*")} if SHARED.is_dir() else set()


def command(count: int, program: str, *arguments: str, deadline: float = 20) -> list[str]:
    """The command that runs a program in so many processes."""
    own = [sys.executable, "-m", "chainrule", "run", "-n", str(count), f"--deadline={deadline}"]
    return [*own, program, *arguments]


def run(
    count: int, program: str, *arguments: str, deadline: float = 20
) -> tuple[int, str, str, float]:
    """Exit code, what was printed, and the seconds from the last "pid" that it printed to the end.

    No process stays whose "pid" was printed.
    """
    process = subprocess.Popen(
        command(count, program, *arguments, deadline=deadline),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines, last = [], time.monotonic()
    for line in process.stdout:
        if line.startswith("pid"):
            last = time.monotonic()
        lines.append(line)
    _, errors = process.communicate(timeout=60)
    seconds = time.monotonic() - last
    printed = "".join(lines)
    for pid in re.findall(r"pid (\d+)", printed):
        assert not is_running(int(pid)), printed
    return process.returncode, printed, errors, seconds


def is_running(pid: int) -> bool:
    """Whether a process is there, and not only waited for by its parent."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX" and "python" in text


def written(file: Path, count: int) -> list[Any]:
    """What each rank has written, in JSON."""
    return [json.loads(Path(f"{file}-{rank}").read_text()) for rank in range(count)]

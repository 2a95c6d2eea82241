"""The largest size that is said to fit runs in a process that may have no more memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from executors import WITHIN

SCRIPT = Path(__file__).with_name("limited_memory.py")
MIB = 16
# Nested loops and choices in steps take long at sizes that fill so much.
QUICK = {"native": ["recurrent,1,C"], "reference": ["transposed,4,F"]}
SLOW = {
    "native": ["transposed,4,F", "several,4,C", "factored,1,C"],
    "reference": ["recurrent,1,C", "chosen,1,C", "averaged,1,F"],
}


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@WITHIN
def test_the_largest_size_runs(executor: str) -> None:
    check(executor, QUICK[executor])


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@WITHIN
def test_the_largest_size_of_others_runs(executor: str) -> None:
    check(executor, SLOW[executor])


def check(executor: str, cases: list[str]) -> None:
    command = [sys.executable, SCRIPT, str(MIB), executor, *cases]
    # memory that is freed goes back to the system, and is in no figure of the process
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    # with threads, OpenBLAS ends the process itself where malloc fails, and nothing is raised
    environment |= {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-2000:]
    told = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len(told) == len(cases), done.stderr[-2000:]  # each ran at its largest size
    for case, (size, needed, limit) in zip(cases, told, strict=True):
        assert size > 1000 and 0.99 * limit < needed <= limit == MIB << 20, case

"""The largest size that is said to fit runs in a process that may have no more memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from executors import EITHER

SCRIPT = Path(__file__).with_name("limited_memory.py")
MIB = 48
# Nested loops and choices in steps take long at sizes that fill so much.
QUICK = [("recurrent", 1, "C"), ("transposed", 4, "F"), ("factored", 1, "C")]
SLOW = [
    (name, parts, order)
    for name in ("plain", "recurrent", "transposed", "several", "chosen", "averaged")
    for parts in (1, 4)
    for order in ("C", "F")
    if (name, parts, order) not in QUICK
]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@EITHER
@pytest.mark.parametrize(
    ("name", "parts", "order"),
    [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)],
)
def test_the_largest_size_runs(name: str, parts: int, order: str, executor: str) -> None:
    command = [sys.executable, SCRIPT, name, executor, str(parts), order, str(MIB)]
    # memory that is freed goes back to the system, and is in no figure of the process
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    # with threads, OpenBLAS ends the process itself where malloc fails, and nothing is raised
    environment |= {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.stdout, done.stderr[-2000:]  # it ran at the largest size, and said so
    assert done.returncode == 0, done.stderr[-2000:]
    size, needed, limit = map(int, done.stdout.split())
    assert size > 1000 and 0.99 * limit < needed <= limit == MIB << 20

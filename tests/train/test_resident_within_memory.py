"""The budget of a step is one of its process: what is resident, as the system counts it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from executors import needs_native
from resident import CASES, RANDOM

# Python's objects for the graph and its plan, and code of libraries that runs for the first time
OBJECTS = 4 << 20
COMPILER = 2 << 20  # what it keeps in a process that has compiled: 1 to 4 MiB, by how threads work
CHOSEN = [("native", "gradients of a compiled graph", 0.4)]  # of the least work


def cases() -> list[Any]:
    """Every program within the least bytes, and within bytes between."""
    found = []
    for name in CASES:
        for executor in ("native", "reference"):
            for share in (0.0, 0.4, 0.8):
                marks = [needs_native] if executor == "native" else []
                chosen = (executor, name, share) in CHOSEN
                marks.append(pytest.mark.slow if chosen else pytest.mark.exhaustive)
                found.append(pytest.param(executor, name, share, marks=marks))
    marks = [needs_native, pytest.mark.exhaustive]
    found.append(pytest.param("native", f"{RANDOM}1", 0.4, marks=marks))
    found.append(pytest.param("reference", f"{RANDOM}3", 0.4, marks=marks[1:]))
    return found  # ten random programs are in benchmarks/results.md


def measured(executor: str, name: str, share: float, *known: int) -> dict[str, Any]:
    script = Path(__file__).parent / "resident.py"
    command = [sys.executable, str(script), executor, name, *map(str, (share, *known))]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs /proc of Linux")
@pytest.mark.parametrize(("executor", "name", "share"), cases())
def test_a_process_stays_within_the_budget(executor: str, name: str, share: float) -> None:
    compiling = measured(executor, name, share)  # the compiler does not count
    found = compiling
    if executor == "native":
        found = measured(executor, name, share, compiling["least"], compiling["full"])
    assert found["needed"] <= found["memory"] < found["full"]
    for taken in (*found["taken"], *[one - COMPILER for one in compiling["taken"][1:]]):
        assert 0.5 * found["needed"] <= taken <= found["needed"] + OBJECTS

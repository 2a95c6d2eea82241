"""`import chainrule` is quick, and loads nothing that only some of its users need."""

from __future__ import annotations

import subprocess
import sys

HEAVY = "rich click safetensors sympy scipy torch jax matplotlib pandas".split()
LOADED = f"import sys, chainrule; print(*[name for name in {HEAVY} if name in sys.modules])"
SECONDS = """
import time, numpy
begin = time.perf_counter()
import chainrule
print(time.perf_counter() - begin)
"""


def printed_by(program: str) -> str:
    """What a fresh interpreter prints for a program."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_import_loads_no_heavy_library() -> None:
    assert printed_by(LOADED).split() == []


def test_import_costs_little_more_than_numpy() -> None:
    # The best of seven: a busy machine makes some runs slow, not all.
    assert min(float(printed_by(SECONDS)) for _ in range(7)) <= 0.15

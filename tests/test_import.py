"""`import chainrule` is quick, and loads nothing that only some of its users need."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.peers

HEAVY = "rich click safetensors sympy scipy torch jax matplotlib pandas".split()
LOADED = f"import sys, chainrule; print(*[name for name in {HEAVY} if name in sys.modules])"
OWN = """
import numpy, sys, chainrule
print(sum(name.partition(".")[0] == "chainrule" for name in sys.modules))
"""


def printed_by(program: str) -> str:
    """What a fresh interpreter prints for a program."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_import_loads_no_heavy_library() -> None:
    assert printed_by(LOADED).split() == []


def test_import_loads_no_part_that_only_some_users_need() -> None:
    # 104 when this was written; benchmarks/import_cost.py measures the seconds.
    assert int(printed_by(OWN)) <= 110

"""Mutated ONNX files end in a model or a clear error, quickly and in little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.peers
pytest.importorskip("onnx")

MEGABYTES = 1024


def check(first: int, count: int) -> None:
    program = Path(__file__).with_name("mutated.py")
    command = [sys.executable, str(program), str(first), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    *wrong, read, memory = done.stdout.splitlines() or ["", "", ""]
    assert done.returncode == 0 and not wrong, "\n".join([*wrong, done.stderr[-2000:]])
    assert int(memory) < MEGABYTES
    assert int(read.removeprefix("read ")) >= count // 30  # others are refused


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no alarm")
def test_thirty_mutated_files() -> None:
    check(0, 30)


@pytest.mark.exhaustive
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no alarm")
def test_five_hundred_mutated_files() -> None:
    check(30, 500)

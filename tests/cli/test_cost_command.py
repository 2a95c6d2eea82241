"""`chainrule cost file.py:function`: what it prints and refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chainrule.cli import main

MODEL = """
import numpy as np
from chainrule import float32

def objective(x: float32["n d"], W: float32["d 3"]):
    h = np.tanh(x @ W)
    J = np.sum(h**2)
    return J
"""


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "costed.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "costed", raising=False)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["cost", "costed.py:objective", *arguments])


def test_sizes_stay_letters_unless_they_are_given() -> None:
    result = call()
    assert (result.exit_code, result.stderr) == (0, "")
    assert "6*n*d + 36*n" in result.stdout and "backward" not in result.stdout
    assert "1536*d + 9216" in call("--dim", "n=256").stdout
    numbers = call("--dim", "n=256,d=10", "--wrt", "W").stdout
    assert "24,576" in numbers and "backward" in numbers and "per byte" in numbers


def test_a_training_step_has_its_update() -> None:
    assert "update" in call("--wrt", "W", "--optimizer", "adam").stdout


def test_json() -> None:
    found = json.loads(call("--dim", "n=2", "--json").stdout)
    assert found["schema"] == "chainrule.cost/1" and found["open"] == ["d"]
    assert found["total"]["flops"] == "12*d + 72"


def test_what_is_no_size_is_refused() -> None:
    result = call("--dim", "m")
    assert result.exit_code == 2 and "m is not a size" in result.stderr
    result = call("--dim", "k=3")
    assert result.exit_code == 1 and "'k'" in result.stderr


def test_the_whole_table() -> None:
    assert "left out" not in call("--all").stdout

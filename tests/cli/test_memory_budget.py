"""`--budget` and `--memory`: a run needs at most so many bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chainrule.cli import main

SOURCE = """\
import numpy as np
from chainrule import float32

def objective(x: float32["n 32"], A: float32["32 32"], B: float32["32 32"], C: float32["32 32"]):
    h = np.tanh(x @ A)
    k = np.tanh(h @ B)
    o = np.tanh(k @ C)
    J = np.mean(o * o)
    return J
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("deep.py").write_text(SOURCE)


def shown(*options: str) -> Result:
    of = ("memory", "deep.py:objective", "--dim", "n=1024", "--optimizer", "sgd")
    return run(*of, "--executor", "reference", *options)


def test_the_report_is_that_of_a_run_within_the_budget() -> None:
    plain = shown()
    assert plain.exit_code == 0, plain.output
    found = re.search(r"memory=(\d+) is enough", shown("--budget", "100KiB").output)
    assert found is not None
    least = int(found[1])  # what is beside arrays depends on BLAS
    within = shown("--budget", least)
    assert within.exit_code == 0, within.output
    assert f"reference (within {least:,} bytes)" in within.output
    assert within.output.splitlines()[5:] != plain.output.splitlines()[5:]


def test_a_budget_that_is_too_small_is_refused() -> None:
    found = shown("--budget", "100KiB")
    assert found.exit_code == 1
    assert "needs at least" in found.output and "is enough" in found.output
    wrong = shown("--budget", "much")
    assert wrong.exit_code == 2
    assert "'much' is no amount of memory: write 500MiB, 2GB or an integer." in wrong.output


@pytest.mark.slow
def test_training_within_a_budget_has_the_same_weights(tmp_path: Path) -> None:
    weights = []
    for name, options in {"plain": (), "within": ("--memory", "20MB")}.items():
        folder = tmp_path / name
        common = ("train", "--epochs", 1, "--hidden", 16, "--quiet", "--no-report")
        found = run(*common, "--executor", "reference", "--output-folder", folder, *options)
        assert found.exit_code == 0, found.output
        weights.append((folder / "weights.safetensors").read_bytes()[-1000:])
    assert weights[0] == weights[1]
    refused = run("train", "--memory", "1MB", "--executor", "reference", "--quiet")
    assert refused.exit_code == 1
    assert "needs at least" in refused.output

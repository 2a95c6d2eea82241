"""What `benchmarks/plan_ranking.py` says of measured times; no time decides here."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
plan_ranking, parallel_ranks = map(importlib.import_module, ("plan_ranking", "parallel_ranks"))


@pytest.mark.parametrize(
    ("measured", "wanted"),
    [
        ([1.0, 1.1, 1.2, 1.3], True),
        ([1.2, 1.0, 1.1, 1.3], True),  # the first three in another order
        ([1.2, 1.1, 1.15, 1.0], False),  # one of them is the fourth
        ([1.02, 1.01, 1.03, 1.0], True),  # all are the same
        ([1.0], True),
    ],
)
def test_the_first_three_are_right_if_none_is_clearly_slower(
    measured: list[float], wanted: bool
) -> None:
    assert plan_ranking.is_right(measured) is wanted


def test_the_lines_have_each_plan_with_its_place() -> None:
    one = {"plans": ["a", "b"], "predicted": [1e-3, 2e-3], "measured": [4e-3, 2e-3]}
    other = {**one, "plans": ["b", "a"]}
    lines, right = plan_ranking.told("mlp", [one, one, other])
    assert lines[0] == "mlp, 2 of 3 rounds found the same plans" and right
    assert lines[1].endswith("4.0 measured, place 2") and lines[2].endswith("2.0 measured, place 1")
    assert "takes 2.00 times as long as the quickest" in lines[3]


@pytest.mark.slow
def test_plans_are_searched_for_and_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def mlp(x: cr.float64["n 4"], y: cr.float64["n 4"], W1: Any, W2: Any, W3: Any, W4: Any):
        h = np.tanh(np.tanh(np.tanh(x @ W1) @ W2) @ W3)
        return np.mean((np.tanh(h @ W4) - y) ** 2)

    arrays: Any = {f"W{number}": np.eye(4) for number in range(1, 5)}
    typed = {name: cr.float64[4, 4] for name in arrays}
    monkeypatch.setattr(
        cr, "training_step", lambda *given, step=cr.training_step: step(*given, **typed)
    )
    batch = {"x": np.ones((8, 4)), "y": np.ones((8, 4))}
    monkeypatch.setattr(parallel_ranks, "mlp", mlp)
    monkeypatch.setattr(parallel_ranks, "mlp_arrays", lambda: (arrays, batch))
    monkeypatch.setattr(parallel_ranks, "ROWS", 8)
    found = plan_ranking.measure("mlp", 0.01)
    assert len(found["plans"]) == len(found["predicted"]) == len(found["measured"]) > 1
    assert found["predicted"] == sorted(found["predicted"]) and min(found["measured"]) > 0

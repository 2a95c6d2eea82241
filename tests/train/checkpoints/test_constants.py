"""Arrays that a program closed over are of its model: other numbers are another model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import DataFileError, InputError
from chainrule.train.checkpoints import Checkpoints, file
from chainrule.train.checkpoints.signature import Signature

A, B, C = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]), np.array([7.0, 8.0, 9.0])


def closing(
    center: np.ndarray, scale: np.ndarray, last: np.ndarray | None = None
) -> Callable[..., Any]:
    shift = center if last is None else last

    def objective(x: float64["n 3"], w: float64[3]) -> Any:
        z = (x - center) * scale + shift
        J = np.mean((z @ w) ** 2)
        return J

    return objective


def step_of(objective: Callable[..., Any]) -> cr.TrainingStep:
    return cr.training_step(objective, wrt="w", optimizer=cr.sgd(0.1))


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (closing(C, B), "center has other numbers"),
        (closing(A, B, B), "is computed differently"),
    ],
)
def test_other_constants_are_another_model(
    tmp_path: Path, other: Callable[..., Any], told: str
) -> None:
    step = step_of(closing(A, B))
    with Checkpoints(tmp_path, step) as checkpoints:
        checkpoints.save(step.init(w=np.ones(3)))
    with Checkpoints(tmp_path, step_of(other)) as checkpoints:
        with pytest.raises(InputError, match="is of another model") as caught:
            checkpoints.load()
    assert told in caught.value.what
    again = step_of(closing(A.copy(), B.copy()))
    with Checkpoints(tmp_path, again) as checkpoints:
        assert checkpoints.load() is not None


def test_a_file_that_says_nothing_of_constants_is_of_every_such_model(tmp_path: Path) -> None:
    step = step_of(closing(A, B))
    state = step.init(w=np.ones(3))
    signature = replace(Signature.of(step, state.arrays), constants=None)
    assert "constants" not in signature.json()
    path = tmp_path / "step-000000000.safetensors"
    file.write(path, state.arrays, 0, {}, None, signature, "0")
    with Checkpoints(tmp_path, step_of(closing(C, B))) as checkpoints:
        assert checkpoints.load() is not None


def test_constants_that_are_no_texts_are_damage(tmp_path: Path) -> None:
    step = step_of(closing(A, B))
    state = step.init(w=np.ones(3))
    wrong: Any = {"center": 3}
    signature = replace(Signature.of(step, state.arrays), constants=wrong)
    path = tmp_path / "one.safetensors"
    file.write(path, state.arrays, 0, {}, None, signature, "0")
    with pytest.raises(DataFileError, match="the constants of the model are no table of texts"):
        file.read(path)

"""Calls of every NumPy function that is traced, trainings, evaluations and the command line take
what is planned for them, from the first epoch to the third, by both executors."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from executors import WITHIN
from watched_runs import Measured, watched

import chainrule as cr
from chainrule import float32, uint32
from chainrule.cli import main
from chainrule.errors import ChainruleError

ROOT = Path(__file__).resolve().parents[2]
for folder in ("frontend", "train"):
    sys.path.insert(0, str(ROOT / "tests" / folder))
numpy_functions = importlib.import_module("test_numpy_functions")
trainings = importlib.import_module("trainings")

pytestmark = pytest.mark.usefixtures("only_what_numpy_sees")


def errors_of(
    work: Callable[[], Any], executor: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Measured], int]:
    """The runs that took something else, and how many there were."""
    monkeypatch.setenv("CHAINRULE_EXECUTOR", executor)
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", "2")
    with watched(monkeypatch) as found:
        work()
    return [one for one in found if not one.is_right], len(found)


@pytest.mark.sweep(23)
@WITHIN
@pytest.mark.parametrize("function", numpy_functions.CALLS, ids=lambda one: one.__name__)
def test_a_numpy_function_takes_what_is_planned(
    function: Any, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        for args, kwargs in numpy_functions.CALLS[function]:
            try:
                numpy_functions.numbers_of(function, args, kwargs)
            except ChainruleError:
                continue

    wrong, _ = errors_of(work, executor, monkeypatch)
    assert not wrong


# Trainings ---------------------------------------------------------------------------------------


def normalised(
    x: float32["n 6"], y: float32["n"], W: float32["6 5"], v: float32["5"], key: uint32[2]
):
    h = np.sort(x, axis=1) @ W
    normal, _, _ = cr.batch_norm(h, running_mean=h[0] * 0, running_var=h[0] * 0 + 1, training=True)
    J = np.mean((cr.dropout(np.tanh(normal), 0.2, key=key) @ v - y) ** 2)
    return J


def recurrent(x: float32["n 6"], y: float32["n"], W: float32["6 6"], v: float32["6"]):
    def step(h: Any, _: Any) -> Any:
        h = np.tanh(h @ W + x)
        return h, np.sum(h)

    h, sums = cr.scan(step, x * 0, length=5)
    J = np.mean((h @ v - y) ** 2) + np.sum(sums) / 100
    return J


def data(rows: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 6)).astype(np.float32)
    return {"x": x, "y": np.sum(x, axis=1)}


def weights(columns: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = {"W": (6, columns), "v": (columns,)}
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def trained(objective: Any, parameters: dict[str, np.ndarray], executor: str, parts: int) -> None:
    """Three epochs, the last batch of each short, evaluated after each; then once more."""
    trainer = cr.Trainer(
        objective,
        parameters,
        cr.adam(0.01),
        data=data(44),
        validation=data(20),
        batch_size=8,
        progress=False,
        executor=executor,
        micro_batches=parts,
    )
    trainer.fit(3)
    trainer.evaluate(data(30))


@pytest.mark.filterwarnings("ignore:.*mean and variance of each batch")
@pytest.mark.sweep(5)
@WITHIN
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    ("objective", "columns"), [(normalised, 5), (recurrent, 6)], ids=["normalised", "recurrent"]
)
def test_a_training_takes_what_is_planned(
    objective: Any, columns: int, parts: int, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, count = errors_of(
        lambda: trained(objective, weights(columns), executor, parts), executor, monkeypatch
    )
    assert not wrong
    assert count >= 3 * (6 * parts + 3)


@WITHIN
def test_evaluation_and_prediction_take_what_is_planned(
    executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, parameters, given = trainings.plain, trainings.weights(), trainings.data()

    def work() -> None:
        graph = cr.trace(objective)
        for size in (7, 100):
            cr.evaluate(graph, parameters, given, accuracy=("o", "y"), batch_size=size)
            cr.predict(graph, parameters, {"x": given["x"]}, "o", batch_size=size)

    wrong, count = errors_of(work, executor, monkeypatch)
    assert not wrong
    assert count >= 30


@pytest.mark.slow
@WITHIN
def test_the_command_line_trains_with_what_is_planned(
    executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        options = ["train", "--epochs", "1", "--output-folder", str(tmp_path / "run")]
        result = CliRunner().invoke(main, options)
        assert result.exit_code == 0, result.output

    wrong, count = errors_of(work, executor, monkeypatch)
    assert not wrong
    assert count > 5


def test_a_run_that_takes_more_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from chainrule.primitives import arithmetic

    evaluate = arithmetic.exp.evaluate

    def greedy(xp: Any, x: Any) -> Any:
        return evaluate(xp, x + np.empty(x.shape)) if xp is np else evaluate(xp, x)

    object.__setattr__(arithmetic.exp, "evaluate", greedy)
    try:
        wrong, count = errors_of(
            lambda: cr.trace(np.exp, np.ones(9)).run(x=np.ones(9)), "reference", monkeypatch
        )
    finally:
        object.__setattr__(arithmetic.exp, "evaluate", evaluate)
    assert len(wrong) == count == 1 and wrong[0].taken_nbytes > wrong[0].planned_nbytes

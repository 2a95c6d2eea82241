"""When the objective is NaN or infinite: the state of before, and the reason with its line."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainings import EXECUTORS, arrays, data, plain, trainer, weights

import chainrule as cr
from chainrule import float64
from chainrule.errors import DivergenceError
from chainrule.train.loop.divergence import NonFiniteError

n = cr.size("n")
EITHER = pytest.mark.parametrize("executor", EXECUTORS)


def squares(x: float64[n, 2], y: float64[n], w: float64[2]):
    r = x @ w - y
    J = np.mean(r**2)
    return J


def root(x: float64[n, 2], y: float64[n], w: float64[2]):
    r = np.sqrt(np.sum((x * w) ** 2, axis=1))  # whose derivative at 0 is infinite
    J = np.mean(r * y)
    return J


def points(rows: int = 40) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {"x": random.normal(size=(rows, 2)), "y": random.normal(size=rows)}


def made(objective: Any = squares, rate: float = 0.1, **options: Any) -> cr.Trainer:
    chosen = {"data": points(), "batch_size": 4, "progress": False, "executor": "reference"}
    return cr.Trainer(objective, {"w": np.ones(2)}, cr.sgd(rate), **{**chosen, **options})


def stepped(objective: Any, rate: float, batches: list[Any], executor: str) -> cr.State:
    step = cr.training_step(objective, "w", cr.sgd(rate), executor=executor)
    state = step.init(w=np.ones(2))
    for batch in batches:
        step(state, batch)
    return state


@EITHER
def test_a_rate_that_is_too_large_is_told_with_the_state_of_before(executor: str):
    """More than 100 steps: the state comes from a snapshot in between, and steps since."""
    batch = points(4)
    trained = made(rate=4.0, data=lambda epoch: [batch] * 400, executor=executor)
    with pytest.raises(NonFiniteError) as caught:
        trained.fit(3)
    error = caught.value
    assert isinstance(error, DivergenceError)
    steps = trained.state.steps
    assert steps > 120 and trained.epoch == 0
    assert arrays(trained.state) == arrays(stepped(squares, 4.0, [batch] * steps, executor))
    assert np.isfinite(trained.state["w"]).all()
    first, second, *_ = error.what.split("\n")
    assert first == (
        f"training diverged: the objective is inf in step {steps + 1} (epoch 1, batch {steps + 1})"
    )
    assert (
        "r ** 2, a part of J, became inf in the forward pass, test_trainer_nonfinite.py" in second
    )
    assert f"the state is as it was after step {steps}" in error.hint
    assert error.diagnosis is not None and error.diagnosis.inputs[0].value == "r"
    assert "a smaller learning rate" in str(error)


@EITHER
def test_the_step_that_spoiled_the_parameters_is_told_and_not_the_one_that_showed_it(executor: str):
    """The objective is finite where the gradient becomes infinite; it shows in the next step."""
    bad = {"x": np.zeros((4, 2)), "y": np.ones(4)}
    batches = [points(4)] * 5 + [bad] + [points(4)] * 5
    trained = made(root, data=lambda epoch: batches, executor=executor)
    with pytest.raises(NonFiniteError) as caught:
        trained.fit(1)
    assert trained.state.steps == 5
    assert arrays(trained.state) == arrays(stepped(root, 0.1, batches[:5], executor))
    error = caught.value
    assert error.what.startswith(
        "training diverged: the objective is nan in step 7, after step 6 left a state that is not "
        "finite (epoch 1, batch 6)"
    )
    assert error.diagnosis is not None
    assert error.diagnosis.phase == "the backward pass" and error.diagnosis.forward_was_finite


@EITHER
@pytest.mark.parametrize("epoch", [1, 3])
def test_a_row_that_is_bad_is_told_by_its_number_in_the_data(executor: str, epoch: int):
    bad = points()
    bad["x"][23, 1] = np.nan
    good = {name: array[:20] for name, array in bad.items()}
    if epoch == 1:
        trained = made(data=bad, executor=executor)
        order = cr.random.fold_in(cr.random.key(0), 0)
        batches = list(cr.data.minibatches({"i": np.arange(40)}, 4, order, epoch=1))
        number = next(k for k, one in enumerate(batches) if 23 in one["i"])
        row = int(np.flatnonzero(batches[number]["i"] == 23)[0])
    else:
        rows = {1: good, 2: good, 3: bad}
        trained = made(
            data=lambda number: cr.data.minibatches(rows[number], 4, shuffle=False),
            executor=executor,
        )
        number, row = 5, 3
    with pytest.raises(NonFiniteError) as caught:
        trained.fit(3)
    assert f"(epoch {epoch}, batch {number + 1})" in caught.value.what
    assert f"x[{row}, 1] is NaN before the step began" in caught.value.what
    assert caught.value.what.endswith(f"row {row} of the batch is row 23 of the data")
    assert trained.state.steps == number + (10 if epoch == 3 else 0)


def test_the_state_before_is_saved_with_the_history_up_to_it(tmp_path: Path):
    batch, bad = points(4), {"x": np.full((4, 2), np.inf), "y": np.ones(4)}
    batches = [batch] * 7 + [bad]

    def fails(**more: Any) -> cr.Trainer:
        return made(data=lambda epoch: batches, folder=tmp_path, log_every=3, **more)

    with pytest.raises(NonFiniteError):
        fails().fit(1)
    assert (tmp_path / "step-000000007.safetensors").exists()
    again = fails()
    assert again.state.steps == 7
    assert [line["step"] for line in again.history] == [3, 6]
    with pytest.raises(NonFiniteError, match="in step 8"):
        again.fit(1)
    batches[7] = batch
    fixed = fails()
    fixed.fit(1)
    whole = made(data=lambda epoch: [batch] * 8, log_every=3)
    whole.fit(1)
    assert arrays(fixed.state) == arrays(whole.state)
    objectives = [[line["objective"] for line in one.history] for one in (fixed, whole)]
    assert objectives[0] == objectives[1]


def test_training_can_go_on_in_the_same_process(tmp_path: Path):
    batch, bad = points(4), {"x": np.full((4, 2), np.inf), "y": np.ones(4)}
    batches = [batch] * 7 + [bad]
    trained = made(data=lambda epoch: batches, log_every=5)
    with pytest.raises(NonFiniteError):
        trained.fit(1)
    batches[7] = batch
    trained.fit(1)
    whole = made(data=lambda epoch: [batch] * 8, log_every=5)
    whole.fit(1)
    assert arrays(trained.state) == arrays(whole.state)
    assert trained.history[-1]["objective"] == whole.history[-1]["objective"]


def test_every_step_finds_what_the_objective_does_not_show():
    bad = {"x": np.zeros((4, 2)), "y": np.ones(4)}
    batches = [points(4)] * 5 + [bad] + [points(4)] * 5
    trained = made(root, data=lambda epoch: batches, nonfinite="every step")
    with pytest.raises(
        NonFiniteError, match=r"^step 6 is not finite \(epoch 1, batch 6\)"
    ) as caught:
        trained.fit(1)
    assert trained.state.steps == 5
    assert "became inf in the backward pass" in caught.value.what


@pytest.mark.parametrize("count", [0, 120])
def test_a_state_that_is_spoiled_in_the_last_step_is_not_taken_for_good(count: int, tmp_path: Path):
    """No objective shows it: with further batches the next would, or the snapshot after them."""
    bad = {"x": np.zeros((4, 2)), "y": np.ones(4)}
    blind = {"x": np.full((4, 2), 1.0), "y": np.zeros(4)}
    batches = [points(4)] * 5 + [bad] + [blind] * count

    def objective(x: float64[n, 2], y: float64[n], w: float64[2]):
        r = np.where(y == 0, 0, np.sqrt(np.sum((x * w) ** 2, axis=1)))  # does not see w then
        J = np.mean(r)
        return J

    trained = made(objective, data=lambda epoch: batches, folder=tmp_path)
    with pytest.raises(NonFiniteError) as caught:
        trained.fit(1)
    assert caught.value.what.startswith(
        "training diverged: step 6 left a state that is not finite (epoch 1, batch 6)"
    )
    assert trained.state.steps == 5 and np.isfinite(trained.state["w"]).all()
    assert caught.value.diagnosis is not None
    newest = max(tmp_path.glob("*.safetensors"))
    assert np.isfinite(cr.load_weights(newest)["w"]).all()


def test_off_goes_on_and_writes_null(tmp_path: Path):
    bad = {"x": np.full((4, 2), np.nan), "y": np.ones(4)}
    trained = made(data=lambda epoch: [bad] * 3, nonfinite="off", folder=tmp_path, save_every=2)
    (epoch,) = trained.epochs(1)
    assert np.isnan(epoch.objective) and trained.state.steps == 3
    assert trained.history[0]["objective"] is None
    (line,) = (tmp_path / "history.jsonl").read_text().splitlines()
    assert json.loads(line)["objective"] is None


def test_a_bad_part_of_a_batch_is_found_where_it_is_taken_in_parts():
    bad = points(8)
    bad["x"][6, 0] = np.inf
    trained = made(data=lambda epoch: [points(8), bad], batch_size=8, micro_batches=4)
    with pytest.raises(NonFiniteError) as caught:
        trained.fit(1)
    assert trained.state.steps == 1
    assert "x[0, 0] is inf before the step began" in caught.value.what


def test_data_that_are_not_the_same_again_are_suspected():
    calls = 0

    def batches(epoch: int) -> Any:
        nonlocal calls
        calls += 1
        value = np.inf if calls == 1 else 1.0
        for _ in range(3):
            yield points(4)
        yield {"x": np.full((4, 2), value), "y": np.full(4, 1 / value)}

    trained = made(data=batches)
    with pytest.raises(NonFiniteError) as caught:
        trained.fit(1)
    assert trained.state.steps == 3
    assert "x[0, 0] is inf before the step began" in caught.value.what


def test_a_fault_that_the_replay_does_not_show_is_said_to_be_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("chainrule.train.loop.divergence.nonfinite_step", lambda *_: None)
    trained = made(data=lambda epoch: [{"x": np.full((4, 2), np.nan), "y": np.ones(4)}])
    with pytest.raises(NonFiniteError, match="computes that step without NaN and inf") as caught:
        trained.fit(1)
    assert caught.value.diagnosis is None


def test_a_state_that_is_infinite_all_along_does_not_hide_the_step():
    """-inf in a parameter that masks: the bad step is the first that makes something else NaN."""

    def masked(x: float64[n, 2], y: float64[n], w: float64[2], mask: float64[2]):
        p = cr.softmax(mask)
        J = np.mean((x @ (w * p) - y) ** 2)
        return J

    bad = {"x": np.full((4, 2), np.nan), "y": np.ones(4)}
    batches = [points(4)] * 4 + [bad]
    trained = cr.Trainer(
        masked,
        {"w": np.ones(2), "mask": np.array([0.0, -np.inf])},
        cr.sgd(0.1),
        lambda epoch: batches,
        progress=False,
        executor="reference",
    )
    with pytest.raises(NonFiniteError, match=r"is nan in step 5 \(epoch 1, batch 5\)"):
        trained.fit(1)
    assert trained.state.steps == 4


@EITHER
def test_finite_training_is_the_same_whether_it_is_watched_or_not(executor: str):
    states = []
    for nonfinite in ("auto", "every step", "off"):
        one = trainer(plain, cr.adam(0.01), nonfinite=nonfinite, executor=executor)
        one.fit(2)
        states.append(arrays(one.state))
    assert states[0] == states[1] == states[2]
    assert sorted(weights()) == ["W1", "W2"] and len(data()["x"]) == 100


def blind(x: float64[n, 2], y: float64[n], w: float64[2]):
    r = np.where(y == 0, 0, np.sqrt(np.sum((x * w) ** 2, axis=1)))  # does not see w where y is 0
    J = np.mean(r)
    return J


@pytest.mark.parametrize("ends", ["signal", "error"])
def test_a_spoiled_state_is_not_saved_where_training_is_stopped(ends: str, tmp_path: Path):
    bad = {"x": np.zeros((4, 2)), "y": np.ones(4)}
    unseen = {"x": np.ones((4, 2)), "y": np.zeros(4)}
    first = True

    def batches(epoch: int) -> Any:
        nonlocal first
        stops, first = first, False
        yield from [points(4)] * 5 + [bad]
        if stops and ends == "error":
            raise OSError("the data are gone")
        if stops:
            signal.raise_signal(signal.SIGINT)
        yield from [unseen] * 3

    trained = made(blind, data=batches, folder=tmp_path)
    stopped = (NonFiniteError, KeyboardInterrupt)
    with pytest.raises(stopped, match="step 6 left a state that is not finite"):
        trained.fit(1)
    assert trained.state.steps == 5
    newest = max(tmp_path.glob("*.safetensors"))
    assert newest.name == "step-000000005.safetensors"
    assert np.isfinite(cr.load_weights(newest)["w"]).all()


def test_going_on_from_a_state_that_is_not_finite_is_warned_of(tmp_path: Path):
    bad = {"x": np.full((4, 2), np.nan), "y": np.ones(4)}
    options: dict[str, Any] = {"data": lambda epoch: [bad], "folder": tmp_path}
    made(nonfinite="off", **options).fit(1)
    with pytest.warns(RuntimeWarning, match="step-000000001.safetensors has numbers that are not"):
        made(**options)
    made(nonfinite="off", **options)

"""A trainer does what a loop written by hand does, to the bit; and says what does not fit."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from trainings import BATCH, EXECUTORS, arrays, data, dropping, plain, trainer, untimed, weights

import chainrule as cr
from chainrule import float64, int64
from chainrule.errors import (
    IndexOutOfRangeError,
    InputError,
    StateError,
)
from chainrule.train.loop.epoch import Epoch

n = cr.size("n")
KEY = cr.random.key(7)


def by_hand(objective: Any, epochs: int, executor: str) -> tuple[cr.State, list[float]]:
    """The state, and the mean objective of each epoch, of a loop that uses no trainer."""
    step = cr.training_step(objective, ("W1", "W2"), cr.adam(0.01), executor=executor)
    state = step.init(weights())
    order, masks = cr.random.fold_in(KEY, 0), cr.random.fold_in(KEY, 1)
    means = []
    for epoch in range(1, epochs + 1):
        total = 0.0
        for batch in cr.data.minibatches(data(), BATCH, order, epoch=epoch):
            if objective is dropping:
                batch["key"] = cr.random.fold_in(masks, state.steps)
            total += float(step(state, batch)) * len(batch["x"])
        means.append(total / 100)
    return state, means


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("objective", [dropping, pytest.param(plain, marks=pytest.mark.exhaustive)])
def test_it_is_the_loop_that_one_would_write(objective: Any, executor: str):
    state, means = by_hand(objective, 3, executor)
    made = trainer(objective, cr.adam(0.01), key=KEY, executor=executor)
    epochs = list(made.epochs(3))
    assert arrays(made.state) == arrays(state)
    assert [epoch.objective for epoch in epochs] == means
    assert [line["objective"] for line in made.history] == means
    assert [(one.number, one.steps) for one in epochs] == [(1, 13), (2, 26), (3, 39)]
    assert all(one.seconds > 0 and one.samples_per_second > 0 for one in epochs)


def test_a_training_step_can_be_given_in_place_of_an_objective():
    step = cr.training_step(plain, ("W1", "W2"), cr.adam(0.01), executor="reference")
    made = cr.Trainer(step, weights(), data=data(), batch_size=BATCH, key=KEY, progress=False)
    assert made.step is step
    made.fit(2)
    assert arrays(made.state) == arrays(by_hand(plain, 2, "reference")[0])


def test_a_function_of_the_epoch_gives_its_batches():
    asked = []

    def batches(epoch: int) -> Any:
        asked.append(epoch)
        return cr.data.minibatches(data(), BATCH, cr.random.fold_in(KEY, 0), epoch=epoch)

    made = trainer(plain, cr.adam(0.01), data=batches)
    made.fit(2)
    assert asked == [1, 2]
    assert arrays(made.state) == arrays(by_hand(plain, 2, "reference")[0])


def test_rows_are_counted_by_the_arrays_that_have_them():
    """Not by weights of classes, which come first and have a size that parameters have, too."""

    def objective(weight: float64["c"], x: float64[n, 5], W: float64["5 c"]):
        J = np.mean(((x @ W) * weight) ** 2)
        return J

    sizes, x = (4, 9, 2), data()["x"]

    def batches(epoch: int) -> Any:
        for count in sizes:
            yield {"weight": np.ones(3), "x": x[:count]}

    made = cr.Trainer(
        objective, {"W": np.ones((5, 3))}, cr.sgd(0.1), batches, progress=False, log_every=1
    )
    (epoch,) = made.epochs(1)
    means = [line["objective"] for line in made.history]
    assert epoch.objective == pytest.approx(np.average(means, weights=sizes), rel=1e-14)


def test_batches_from_a_generator_are_taken_too():
    def batches(epoch: int) -> Any:
        yield from cr.data.minibatches(data(), BATCH, cr.random.fold_in(KEY, 0), epoch=epoch)

    made = trainer(plain, cr.adam(0.01), data=batches)
    made.fit(2)
    assert arrays(made.state) == arrays(by_hand(plain, 2, "reference")[0])


def test_epochs_are_counted_in_all_and_the_loop_may_be_left():
    made, whole = trainer(key=KEY), trainer(key=KEY)
    whole.fit(4)
    for epoch in made.epochs(4):
        assert isinstance(epoch, Epoch) and epoch.number == made.epoch
        if epoch.number == 2:
            break
    assert made.epoch == 2
    assert list(made.epochs(2)) == []
    assert made.fit(4) == made.history
    assert arrays(made.state) == arrays(whole.state)
    assert untimed(made.history) == untimed(whole.history)


def test_two_loops_at_a_time_are_refused():
    made = trainer()
    first = made.epochs(3)
    next(first)
    with pytest.raises(StateError, match="another loop over the epochs of this trainer") as caught:
        made.fit(3)
    assert "epochs.close()" in caught.value.hint
    first.close()
    made.fit(2)
    assert made.epoch == 2


def test_an_error_before_the_first_step_leaves_the_trainer_usable(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    asked = []

    def batches(epoch: int) -> Any:
        asked.append(epoch)
        if len(asked) == 1:
            raise OSError("not mounted")
        return [data()]

    monkeypatch.setattr(
        "chainrule.train.loop.progress.is_watched", lambda: True
    )  # a bar asks first
    made = trainer(data=batches, folder=tmp_path, progress=True)
    with pytest.raises(OSError, match="not mounted"):
        made.fit(1)
    made.fit(1)
    assert made.epoch == 1


def test_steps_that_somebody_else_takes_are_noticed():
    made = trainer()
    made.fit(1)
    made.step(made.state, data())
    with pytest.raises(StateError, match="is at step 14 and was left at step 13"):
        made.fit(2)


def test_the_objective_and_accuracy_of_the_history_are_those_of_the_steps():
    made = trainer(accuracy=("o", "y"), log_every=5, key=KEY)
    seen: list[tuple[float, int, int]] = []
    whole = made.step
    state = whole.init(weights())
    for batch in cr.data.minibatches(data(), BATCH, cr.random.fold_in(KEY, 0), epoch=1):
        o = whole.run(state, batch, keep=["o"])["o"]
        right = int(np.sum(o.argmax(axis=1) == batch["y"]))
        seen.append((float(whole(state, batch)), right, len(batch["y"])))
    (epoch,) = made.epochs(1)
    assert [line["step"] for line in made.history] == [5, 10, 13]
    for line, (begin, end) in zip(made.history, ((0, 5), (5, 10), (10, 13)), strict=True):
        part = seen[begin:end]
        rows = sum(count for *_, count in part)
        assert line["objective"] == pytest.approx(sum(v * c for v, _, c in part) / rows, rel=1e-15)
        assert line["accuracy"] == sum(right for _, right, _ in part) / rows
        assert line["epoch"] == 1
    assert epoch.objective == pytest.approx(sum(v * c for v, _, c in seen) / 100, rel=1e-15)
    assert epoch.accuracy == sum(right for _, right, _ in seen) / 100


@pytest.mark.slow
def test_counting_what_is_right_changes_no_bit_of_the_weights():
    for executor in EXECUTORS:
        with_count, without = (
            trainer(optimizer=cr.adam(0.01), accuracy=accuracy, executor=executor)
            for accuracy in (("o", "y"), None)
        )
        with_count.fit(3)
        without.fit(3)
        for name in without.state:
            assert with_count.state[name].tobytes() == without.state[name].tobytes()


def test_a_log_line_at_the_end_of_an_epoch_is_the_line_of_the_epoch():
    made = trainer(log_every=13, validation=data(20, seed=2))
    made.fit(2)
    assert [line["step"] for line in made.history] == [13, 26]
    assert all("validation_objective" in line for line in made.history)


def test_the_learning_rate_is_that_of_the_last_step():
    rate = cr.schedules.cosine(0.1, steps=39, warmup=5)
    made = trainer(optimizer=cr.sgd(rate), log_every=1)
    step = cr.training_step(plain, ("W1", "W2"), cr.sgd(rate), executor="reference")
    state, expected = step.init(weights()), []
    for _ in range(13):
        run = step.run(state, data(), keep=["learning_rate"])
        expected.append(float(run["learning_rate"]))
        step(state, data())
    made.fit(1)
    assert [line["learning_rate"] for line in made.history] == expected
    fixed = trainer(optimizer=cr.adam(0.25))
    assert fixed.fit(1)[0]["learning_rate"] == 0.25


def test_the_learning_rate_is_found_where_the_objective_has_a_value_of_that_name():
    def objective(x: float64[n, 5], y: int64[n], W1: float64[5, 3], learning_rate: float = 3.0):
        o = learning_rate * (x @ W1)
        J = cr.cross_entropy(o, y)
        return J

    made = cr.Trainer(
        objective,
        {"W1": np.zeros((5, 3))},
        cr.sgd(cr.schedules.step(0.5, every=13)),
        data(),
        batch_size=BATCH,
        progress=False,
    )
    made.fit(2)
    rates = [line["learning_rate"] for line in made.history]
    np.testing.assert_allclose(rates, [0.5, 0.05], rtol=1e-12)


def test_validation_is_measured_after_every_epoch_with_the_weights_of_then():
    validation = data(21, seed=2)
    made = trainer(validation=validation, accuracy=("o", "y"))
    for epoch in made.epochs(3):
        assert epoch.validation is not None
        expected = cr.evaluate(
            plain, made.state.parameters, validation, accuracy=("o", "y"), executor="reference"
        )
        assert epoch.validation.objective == pytest.approx(expected.objective, rel=1e-12)
        assert epoch.validation.accuracy == expected.accuracy
        line = made.history[-1]
        assert line["validation_objective"] == epoch.validation.objective
        assert line["validation_accuracy"] == epoch.validation.accuracy
    assert len({line["validation_objective"] for line in made.history}) == 3


def test_parameters_that_are_not_trained_stay_and_are_saved_with_the_others(tmp_path: Any):
    made = trainer(wrt="W2")
    made.fit(1)
    assert list(made.state) == ["W2"]
    found = cr.load_weights(made.save_weights(tmp_path / "weights.safetensors"))
    assert sorted(found) == ["W1", "W2"]
    np.testing.assert_array_equal(found["W1"], weights()["W1"])
    assert not np.array_equal(found["W2"], weights()["W2"])
    assert made.predict(x=data()["x"], output="o").shape == (100, 3)


def test_containers_of_parameters_and_of_data():
    def objective(batch: Any, layers: Any):
        h = np.tanh(batch["x"] @ layers[0])
        o = h @ layers[1]
        J = cr.cross_entropy(o, batch["y"])
        return J

    given, types = weights(), {"x": float64[n, 5], "y": int64[n]}
    graph = cr.trace(objective, batch=types, layers=[float64[5, 7], float64[7, 3]])
    layers = [given["W1"], given["W2"]]
    made = cr.Trainer(
        graph,
        {"layers": layers},
        cr.adam(0.01),
        {"batch": data()},
        batch_size=BATCH,
        key=KEY,
        accuracy=("o", "batch.y"),
        progress=False,
        executor="reference",
    )
    made.fit(2)
    state, _ = by_hand(plain, 2, "reference")
    first, second = made.state["layers"]
    np.testing.assert_array_equal(first, state["W1"])
    np.testing.assert_array_equal(second, state["W2"])
    measured = made.evaluate(batch=data())
    expected = cr.evaluate(plain, state.parameters, data(), accuracy=("o", "y"))
    assert measured.accuracy == expected.accuracy
    scores = made.predict({"batch": {"x": data()["x"], "y": data()["y"]}})
    assert scores.shape == (100, 3)


def test_micro_batches_train_the_same_up_to_rounding_and_report_validation_only():
    whole = trainer(optimizer=cr.sgd(0.1, momentum=0.9), key=KEY, validation=data(20, seed=2))
    parts = trainer(
        optimizer=cr.sgd(0.1, momentum=0.9),
        key=KEY,
        micro_batches=4,
        accuracy=("o", "y"),
        validation=data(20, seed=2),
    )
    for one in (whole, parts):
        one.fit(2)
    for name in whole.state:
        np.testing.assert_allclose(parts.state[name], whole.state[name], 1e-12, 1e-14)
    assert "accuracy" not in parts.history[0] and "validation_accuracy" in parts.history[0]


def test_arrays_that_are_mapped_into_memory_are_read_batch_by_batch(tmp_path: Any):
    np.save(tmp_path / "x.npy", data()["x"])
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    made = trainer(data={"x": mapped, "y": data()["y"]}, key=KEY)
    whole = trainer(key=KEY)
    made.fit(1)
    whole.fit(1)
    assert arrays(made.state) == arrays(whole.state)


@pytest.mark.slow
def test_a_loop_that_is_left_leaves_no_thread():
    rows = {"x": np.zeros((64, 5)), "y": np.zeros(64, np.int64)}
    before = threading.active_count()

    def batches(epoch: int) -> Any:
        return cr.data.minibatches(rows, 2, shuffle=False, prefetch=3)

    def fails(epoch: int) -> Any:
        return cr.data.minibatches({**rows, "y": rows["y"] + 5}, 2, shuffle=False, prefetch=3)

    for data_of in (batches, fails):
        made = trainer(data=data_of)
        try:
            for _ in made.epochs(5):
                break
        except IndexOutOfRangeError:
            pass
        gc.collect()
    assert threading.active_count() == before


def test_what_is_held_is_a_copy():
    own, other, key = weights(), weights(), cr.random.key(3)
    made = cr.Trainer(plain, own, cr.sgd(0.1), data(), wrt="W2", key=key, progress=False)
    own["W1"][:] = 0
    key[:] = 0
    whole = cr.Trainer(
        plain, other, cr.sgd(0.1), data(), wrt="W2", key=cr.random.key(3), progress=False
    )
    made.fit(2)
    whole.fit(2)
    assert arrays(made.state) == arrays(whole.state)
    assert untimed(made.history) == untimed(whole.history)


def test_a_later_batch_is_checked_as_the_first_is():
    batch = {name: array[:BATCH] for name, array in data().items()}
    for further, told in (({"W1": weights()["W1"]}, "W1"), ({"W2": weights()["W2"]}, "W2")):
        made = trainer(wrt="W1", data=lambda epoch, more=further: [batch, {**batch, **more}])
        with pytest.raises(InputError, match=f"{told} is in the data and in the parameters"):
            made.fit(1)
    made = trainer(dropping, data=lambda epoch: [batch, {**batch, "key": KEY}])
    with pytest.raises(InputError, match="to no input, and in the first batch to key"):
        made.fit(1)


def test_a_folder_stays_where_it_was_when_the_program_goes_elsewhere(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    made = trainer(folder="run")
    monkeypatch.chdir(tmp_path / "other")
    made.fit(1)
    assert list((tmp_path / "other").iterdir()) == []
    assert (tmp_path / "run" / "history.jsonl").is_file()

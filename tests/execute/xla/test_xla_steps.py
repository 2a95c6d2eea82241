"""Training steps of the executor `xla`: the state stays on the device, and is right when read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executors import needs_native

import chainrule as cr
from chainrule import float64, int64
from chainrule.errors import IndexOutOfRangeError
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("jax")]
RANDOM = np.random.default_rng(8)


@pytest.fixture(scope="module")
def jax() -> Any:
    return pytest.importorskip("jax")


def objective(x: float64["n 6"], y: int64["n"], W1: float64["6 5"], W2: float64["5 4"], decay=1e-3):
    o = np.tanh(x @ W1) @ W2
    J = cr.cross_entropy(o, y) + decay * (np.sum(W1**2) + np.sum(W2**2))
    return J


WEIGHTS = {"W1": RANDOM.normal(size=(6, 5)), "W2": RANDOM.normal(size=(5, 4))}


def step_by(executor: str) -> TrainingStep:
    return cr.training_step(objective, ("W1", "W2"), cr.adam(0.05), executor=executor)


def batch(rows: int) -> dict[str, Any]:
    return {"x": RANDOM.normal(size=(rows, 6)), "y": RANDOM.integers(0, 4, rows)}


def same(state: State, wanted: State) -> None:
    assert state.steps == wanted.steps
    for name in wanted:
        np.testing.assert_allclose(state[name], wanted[name], rtol=1e-11, atol=1e-13)


@pytest.fixture(scope="module")
def steps() -> tuple[TrainingStep, TrainingStep]:
    return step_by("xla"), step_by("reference")


def test_steps_of_several_sizes_share_a_state_that_stays_on_the_device(steps: Any) -> None:
    xla, reference = steps
    state, wanted = (one.init(**WEIGHTS) for one in steps)
    for rows in (7, 5, 7, 7, 5):
        given = batch(rows)
        J = xla(state, given)
        assert type(J) is np.float64
        np.testing.assert_allclose(J, reference(wanted, given), rtol=1e-12)
        assert not state.home.others  # which would keep what was given away
        assert set(state.home.newer) == set(state)
    before = state.home.away["W1"]
    same(state, wanted)
    assert not state.home.newer and state.home.away["W1"] is before  # read, and still there
    xla(state, given)
    assert before.is_deleted()  # donated
    reference(wanted, given)
    copied, restored = state.copy(), xla.restore({**state}, steps=state.steps)
    for one in (state, copied, restored):
        same(one, wanted)


def test_what_is_read_is_a_copy_that_steps_leave_alone(steps: Any) -> None:
    state = steps[0].init(**WEIGHTS)
    steps[0](state, batch(5))
    read = state["W1"]
    kept = read.copy()
    views = state.arrays
    steps[0](state, batch(5))
    np.testing.assert_array_equal(read, kept)
    read += 1
    np.testing.assert_array_equal(state["W1"], views["W1"])
    assert not np.allclose(state["W1"], kept)


def test_hyperparameters_are_arguments(steps: Any) -> None:
    state, wanted = (one.init(**WEIGHTS) for one in steps)
    given = batch(7)
    for rate in ({}, {"learning_rate": 0.5}, {}, {"decay": 0.0}, {"learning_rate": np.float64(2)}):
        for step, one in zip(steps, (state, wanted), strict=True):
            step(one, given, **rate)
    same(state, wanted)


def test_a_step_that_fails_leaves_the_state(steps: Any) -> None:
    xla, reference = steps
    state, wanted = (one.init(**WEIGHTS) for one in steps)
    wrong = batch(7)
    wrong["y"][2] = 4
    for _ in range(2):  # before anything was compiled, and after
        with pytest.raises(IndexOutOfRangeError) as caught:
            xla(state, wrong)
        assert "index 4 (at position 2 of the indices)" in str(caught.value)
        assert __file__ in str(caught.value)
        same(state, wanted)
        given = batch(7)
        xla(state, given), reference(wanted, given)
    same(state, wanted)


def test_a_step_that_computes_a_wrong_index_leaves_the_state() -> None:
    """Compiled code finds it, when the device has the new state already."""

    def table(y: int64["n"], E: float64["4 3"]):
        J = np.mean(np.take(E, 2 * y, axis=0) ** 2)
        return J

    xla, reference = (
        cr.training_step(table, "E", cr.sgd(0.1, momentum=0.9), executor=one)
        for one in ("xla", "reference")
    )
    E = RANDOM.normal(size=(4, 3))
    state, wanted = (one.init(E=E) for one in (xla, reference))
    for _ in range(2):
        with pytest.raises(IndexOutOfRangeError, match="index 6 "):
            xla(state, y=np.array([0, 3]))
        same(state, wanted)
        for step, one in ((xla, state), (reference, wanted)):
            step(one, y=np.array([1, 0]))
    same(state, wanted)


def test_a_step_may_leave_all_arrays_as_they_are() -> None:
    """The objective does not depend on what is trained."""

    def unreached(x: float64["n"], w: float64["n"]):
        J = np.sum(x**2)
        return J

    step = cr.training_step(unreached, "w", cr.sgd(0.1), executor="xla")
    state = step.init(w=np.ones(3))
    for taken in (1, 2):
        assert step(state, x=np.full(3, 2.0)) == 12 and state.steps == taken
    np.testing.assert_array_equal(state["w"], np.ones(3))


def test_executors_may_take_turns_on_a_state(steps: Any) -> None:
    state, wanted = (one.init(**WEIGHTS) for one in steps)
    parts = [step.micro_batched(2) for step in steps]
    for step in (steps[0], steps[1], steps[0], parts[0], steps[0], parts[1], steps[0]):
        given = batch(8)
        step(state, given)
        steps[1](wanted, given)
    same(state, wanted)


@needs_native
def test_native_steps_may_come_in_between(steps: Any) -> None:
    """On memory that they update in place, the short way, too."""
    state, wanted = (one.init(**WEIGHTS) for one in steps)
    native, given = step_by("native"), batch(8)
    for step in (native, native, steps[0], native, native, steps[0], steps[0], native):
        np.testing.assert_allclose(step(state, given), steps[1](wanted, given), rtol=1e-11)
    same(state, wanted)


def test_ranks_may_take_a_step_in_between(steps: Any) -> None:
    """On memory that they update in place."""
    state, wanted = (one.init(**WEIGHTS) for one in steps)
    ranks = cr.parallel(steps[0], micro_batches=2, stages=2)
    for step in (steps[0], ranks, steps[0], ranks, ranks, steps[0]):
        given = batch(8)
        np.testing.assert_allclose(step(state, given), steps[1](wanted, given), rtol=1e-11)
    same(state, wanted)


def test_a_training_moves_between_executors(tmp_path: Path) -> None:
    """Through its checkpoint, bit for bit; with micro-batches, evaluation and prediction."""
    given = batch(24)

    def trained(executor: str, folder: str, epochs: int) -> cr.Trainer:
        trainer = cr.Trainer(
            objective,
            WEIGHTS,
            cr.adam(0.05),
            given,
            batch_size=8,
            micro_batches=2,
            executor=executor,
            folder=tmp_path / folder,
            progress=False,
        )
        trainer.fit(epochs)
        return trainer

    first = trained("xla", "a", 1)
    arrays = {name: first.state[name] for name in first.state}
    found = trained("reference", "a", 1)  # has nothing left to do
    for name, array in arrays.items():
        np.testing.assert_array_equal(found.state[name], array, strict=True)
    moved, wanted = trained("reference", "a", 2), trained("reference", "b", 2)
    same(moved.state, wanted.state)
    again = trained("reference", "c", 1)
    for ask in (
        lambda t: t.evaluate(given).objective,
        lambda t: t.predict(x=given["x"], output="o"),
    ):
        np.testing.assert_allclose(ask(first), ask(again), rtol=1e-11)


def test_what_the_objective_carries_may_be_given(steps: Any) -> None:
    """The new value of `last` is the batch itself, that of `mean` is computed."""

    def averaged(x: float64["4"], w: float64["4"], mean: float64["4"], last: float64["4"]):
        return np.sum((w * x - last) ** 2), {"mean": 0.5 * mean + 0.5 * x, "last": x}

    found = []
    for executor in ("xla", "reference"):
        step = cr.training_step(
            averaged, "w", cr.sgd(0.1), state=("mean", "last"), executor=executor
        )
        state = step.init(w=np.ones(4), mean=np.zeros(4), last=np.zeros(4))
        x = np.arange(4.0)
        for _ in range(3):
            step(state, x=x)
            x = x + 1
        np.testing.assert_array_equal(x, np.arange(3.0, 7))
        found.append({name: state[name] for name in state})
    for name, value in found[0].items():
        np.testing.assert_allclose(value, found[1][name], rtol=1e-12)


def test_a_number_that_only_changes_its_sign_is_sent_again() -> None:
    """0.0 == -0.0, but what is computed of them differs."""

    def signed(w: float64["3"], rate=0.0):
        J = np.sum(w * np.copysign(1.0, rate))
        return J

    xla, reference = (
        cr.training_step(signed, "w", cr.sgd(0.1), executor=one) for one in ("xla", "reference")
    )
    state, wanted = (one.init(w=np.ones(3)) for one in (xla, reference))
    for rate in (0.0, 0.0, -0.0, 0.0, -1.0):
        assert xla(state, rate=rate) == reference(wanted, rate=rate)
    same(state, wanted)


def test_an_index_in_any_order_and_of_any_integers_is_looked_at() -> None:
    def table(y: Any, E: float64["4 3"]):
        J = np.mean(np.take(E, y, axis=0) ** 2)
        return J

    E = RANDOM.normal(size=(4, 3))
    for dtype in (np.int8, np.uint8, np.int64, np.uint64):
        y = np.array([[0, 3, 1, 2], [3, 3, 0, 2]], dtype)
        step, reference = (
            cr.training_step(table, "E", cr.sgd(0.1), executor=one, y=y)
            for one in ("xla", "reference")
        )
        state, wanted = (one.init(E=E) for one in (step, reference))
        for given in (y, y.copy(order="F"), y[:, ::-1]):
            np.testing.assert_allclose(step(state, y=given), reference(wanted, y=given), 1e-12)
        for wrong in (4, 100, *((-5, -100) if np.dtype(dtype).kind == "i" else (255,))):
            bad = y.copy(order="F")
            bad[1, 2] = wrong
            with pytest.raises(IndexOutOfRangeError, match=f"index {wrong} "):
                step(state, y=bad)
        same(state, wanted)

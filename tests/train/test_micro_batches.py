"""A step in micro-batches is the step on the whole batch, with the memory of a part."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from micro_batched import OPTIMIZERS, assert_same, batch, weights, whole

import chainrule as cr
from chainrule import float16, float32, float64, uint32
from chainrule.errors import ChainruleError, IndexOutOfRangeError, InputError, StateError
from chainrule.train.step import micro_batches
from chainrule.train.step.step import TrainingStep


@pytest.fixture(autouse=True, params=["reference", "native"])
def executor(request, monkeypatch):
    """Every test is true of both executors."""
    monkeypatch.setenv("CHAINRULE_EXECUTOR", request.param)
    return request.param


@pytest.mark.sweep(11)
@pytest.mark.parametrize("count", [1, 3, 4, 12])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_in_parts_are_those_on_the_whole_batch(name, count):
    step = whole(OPTIMIZERS[name])
    parts = step.micro_batched(count)
    state, expected = parts.init(weights()), step.init(weights())
    for index in range(10):
        data = batch(12, index)
        assert parts(state, data) == pytest.approx(step(expected, data), rel=1e-12)
    assert_same(state, expected)


def test_a_step_in_parts_equals_a_formula():
    def linear(x: float64["n 2"], t: float64["n"], w: float64[2], decay=0.5):
        J = np.mean((x @ w - t) ** 2) + decay * np.sum(w**2)
        return J

    x, t = batch(12)["x"][:, :2], np.linspace(-1, 1, 12)
    parts = whole(cr.sgd(0.1), linear, "w").micro_batched(3)
    w = np.array([1.0, -2.0])
    state = parts.init(w=w)
    for _ in range(5):
        error = x @ w - t
        expected = np.mean(error**2) + 0.25 * np.sum(w**2)
        assert parts(state, x=x, t=t, decay=0.25) == pytest.approx(expected, rel=1e-12)
        w = w - 0.1 * (2 * x.T @ error / 12 + 2 * 0.25 * w)
    np.testing.assert_allclose(state["w"], w, rtol=1e-12)


def test_numbers_of_the_objective_and_of_the_optimizer_are_given_as_to_the_whole_step():
    def scheduled(x: float64["n 2"], w: float64[2], learning_rate=2.0, J_sum=1.0):
        J = np.mean(x @ w) * learning_rate * J_sum
        return J

    step = whole(cr.sgd(0.1, 0.9), scheduled, "w")
    parts = step.micro_batched(2)
    numbers = {"learning_rate": 3.0, "J_sum": 2.0, "learning_rate_1": 0.01, "momentum": 0.5}
    state, expected = parts.init(w=np.ones(2)), step.init(w=np.ones(2))
    for given in (numbers, {}, numbers):
        parts(state, x=batch(4)["x"][:, :2], **given)
        step(expected, x=batch(4)["x"][:, :2], **given)
    assert_same(state, expected)


def test_containers_and_other_axes_are_split():
    def nested(data, params):
        h = np.tanh(params["W"] @ data["x"])
        J = np.mean((h - data["t"]) ** 2)
        return J

    n = cr.size("n")
    params = {"W": np.full((3, 2), 0.5)}
    step = cr.training_step(
        nested,
        wrt="params",
        optimizer=cr.adam(0.1),
        data={"x": float64[2, n], "t": float64[3, n]},
        params=params,
    )
    parts = step.micro_batched(4)
    assert parts.split == {"data.x": 1, "data.t": 1} and parts.size == "n"
    state, expected = parts.init(params=params), step.init(params=params)
    random = np.random.default_rng(0)
    for _ in range(3):
        data = {"x": random.normal(size=(2, 8)), "t": random.normal(size=(3, 8))}
        parts(state, data=data)
        step(expected, data=data)
    assert_same(state, expected)


def test_what_the_objective_does_not_reach_stays():
    def f(x: float64["n 2"], w: float64[2], unused: float64[3]):
        J = np.mean(x @ w)
        return J

    parts = whole(cr.adamw(0.1), f, ("w", "unused")).micro_batched(2)
    state = parts.init(w=np.zeros(2), unused=np.ones(3))
    parts(state, x=np.ones((4, 2)))
    np.testing.assert_array_equal(state["unused"], np.ones(3))
    np.testing.assert_allclose(state["w"], -0.1, rtol=1e-6)
    assert [one.name for one in parts.accumulating.persistent] == ["J_sum", "w_grad_sum"]


def test_the_two_graphs_are_shown_with_what_they_do():
    parts = whole(cr.sgd(0.1)).micro_batched(4)
    accumulating = str(parts.accumulating.graph.equations(shapes=False))
    assert accumulating.partition("Update\n")[2].splitlines() == [
        " (8)  J_sum_next = J_sum + J",
        " (9)  W_grad_sum_next = W_grad_sum + ∂J/∂W",
        "(10)  V_grad_sum_next = V_grad_sum + ∂J/∂V",
    ]
    updating = parts.updating.graph
    assert str(updating.equations(shapes=False)).splitlines() == [
        "Update",
        "(1)  ∂J/∂W = W_grad_sum/4",
        "(2)  ∂J/∂V = V_grad_sum/4",
        "(3)  J = J_sum/4",
        "(4)  W_next = W − learning_rate ∂J/∂W",
        "(5)  V_next = V − learning_rate ∂J/∂V",
    ]
    assert updating.draw().scene.notes == ("update →",)
    assert updating.draw(phase="forward").scene.notes == ()


def test_sums_have_names_that_nothing_else_has():
    def named(x: float64["n 2"], w: float64[2], J_sum=1.0):
        J_sum_1_next = np.mean(x @ w)
        w_grad_sum = J_sum_1_next * J_sum
        J = w_grad_sum * 2
        return J

    step = whole(cr.sgd(0.1), named, "w")
    parts = step.micro_batched(2)
    assert [(one.name, one.next_name) for one in parts.accumulating.persistent] == [
        ("J_sum_1", "J_sum_1_next_1"),
        ("w_grad_sum_1", "w_grad_sum_1_next"),
    ]
    state, expected = (one.init(w=np.ones(2)) for one in (parts, step))
    parts(state, x=batch(4)["x"][:, :2])
    step(expected, x=batch(4)["x"][:, :2])
    assert_same(state, expected)


def test_parameters_whose_gradients_are_one_value_are_moved_each():
    def f(x: float64["n 2"], w: float64[2], v: float64[2]):
        J = np.mean(x @ (w + v))
        return J

    step = whole(cr.sgd(0.5), f, ("w", "v"))
    parts = step.micro_batched(2)
    state, expected = (one.init(w=np.ones(2), v=np.zeros(2)) for one in (parts, step))
    parts(state, x=batch(4)["x"][:, :2])
    step(expected, x=batch(4)["x"][:, :2])
    assert_same(state, expected)
    assert {"dJ/dw", "dJ/dv"} <= set(parts.updating.graph.names)


def test_an_objective_with_a_gradient_in_it_is_split_too():
    def inner(x: float64["n 2"], w: float64[2]):
        J = np.mean(np.tanh(x @ w))
        return J

    inside = cr.backward(cr.trace(inner), wrt="w")
    step = cr.training_step(inside, wrt="w", optimizer=cr.adam(0.1), of="J")
    parts = step.micro_batched(3)
    state, expected = (one.init(w=np.ones(2)) for one in (parts, step))
    for one, made in ((parts, state), (step, expected)):
        one(made, x=batch(6)["x"][:, :2])
    assert_same(state, expected)


def test_an_optimizer_that_moves_nothing_is_no_special_case():
    still = cr.Optimizer("still", (), lambda w, g, scalars, arrays: (w, {}))
    parts = whole(still).micro_batched(2)
    state = parts.init(weights())
    parts(state, batch(4))
    assert_same(state, whole(still).restore(weights(), steps=1), 0)


@pytest.mark.parametrize("kind", [float16, float32])
def test_small_floats_are_summed_in_float32(kind):
    dtype = np.float16 if kind is float16 else np.float32

    def f(x, w):
        J = np.mean(x @ w)
        return J

    step = cr.training_step(f, wrt="w", optimizer=cr.sgd(1.0), x=kind["n 2"], w=kind[2])
    parts = step.micro_batched(64)
    state = parts.init(w=np.zeros(2, dtype))
    J = parts(state, x=np.tile(np.array([2048, 0.5], dtype), (64, 1)))  # the sum is 131072
    assert J.dtype == dtype and state["w"].dtype == dtype
    np.testing.assert_array_equal(state["w"], np.array([-2048, -0.5], dtype))


def test_an_average_of_sums_is_the_sum_of_a_part():
    def total(x: float64["n 2"], w: float64[2]):
        J = np.sum(x @ w)
        return J

    parts = whole(cr.sgd(1.0), total, "w").micro_batched(4)
    state = parts.init(w=np.ones(2))
    assert parts(state, x=np.ones((8, 2))) == 16 / 4
    np.testing.assert_array_equal(state["w"], [1 - 8 / 4] * 2)


def test_states_are_those_of_the_whole_step():
    step = whole(cr.adam(0.1))
    parts = step.micro_batched(2)
    state, expected = step.init(weights()), step.init(weights())
    for index, one in enumerate((step, parts, step, parts)):
        one(state, batch(8, index))
        step(expected, batch(8, index))
    assert_same(state, expected)
    restored = parts.restore({**state}, steps=state.steps)
    assert parts(restored, batch(8)) == parts(state, batch(8))
    assert_same(restored, state, 0)
    kept = parts.run(state, batch(8), keep=["h"])
    assert kept["h"].shape == (8, 5) and state.steps == 5


def test_two_states_of_one_step_do_not_meet():
    parts = whole(cr.sgd(0.1)).micro_batched(2)
    states = [parts.init(weights()) for _ in range(2)]
    threads = [
        threading.Thread(target=lambda one: [parts(one, batch(8, i)) for i in range(30)], args=(s,))
        for s in states
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_same(states[0], states[1], 0)
    states[0].is_stepping = True
    with pytest.raises(StateError, match="another step was still running"):
        parts(states[0], batch(8))


# Errors leave the state ------------------------------------------------------------------------


def test_an_error_in_a_part_leaves_the_state_as_it_was():
    parts = whole(cr.adam(0.1)).micro_batched(4)
    state, expected = parts.init(weights()), parts.init(weights())
    for one in (state, expected):
        parts(one, batch(8))
    before = {name: array.tobytes() for name, array in state.items()}
    wrong = batch(8, 2)
    wrong["y"][7] = 3
    with pytest.raises(IndexOutOfRangeError) as caught:
        parts(state, wrong)
    assert caught.value.__notes__ == [
        "in part 4 of 4 of the batch, rows 6 to 7 (positions count from 6)"
    ]
    assert {name: array.tobytes() for name, array in state.items()} == before
    for one in (state, expected):  # and what the parts before it added is forgotten
        parts(one, batch(8, 3))
    assert_same(state, expected, 0)


def test_an_interrupt_between_parts_leaves_the_state_as_it_was(monkeypatch):
    parts = whole(cr.adam(0.1)).micro_batched(4)
    state, expected = parts.init(weights()), parts.init(weights())
    parts(state, batch(8))
    parts(expected, batch(8))
    taken = []

    def interrupted(self, sums, given):
        assert state.is_stepping  # so that no other thread takes a step between two parts
        taken.append(1)
        if len(taken) == 3:
            raise KeyboardInterrupt
        return called(self, sums, given)

    kind = type(parts.accumulating)
    called = kind.__call__
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(kind, "__call__", interrupted)
        parts(state, batch(8, 2))
    assert_same(state, expected, 0)
    parts(state, batch(8, 3))
    parts(expected, batch(8, 3))
    assert_same(state, expected, 0)


# Memory ----------------------------------------------------------------------------------------


def test_memory_is_stated_and_less_than_that_of_the_whole_batch(executor):
    step = whole(cr.adam(0.1))
    parts = step.micro_batched(16)
    report = parts.memory(n=4096)
    state = sum(array.nbytes for array in step.init(weights()).values())
    sums = 8 + 8 * (6 * 5 + 5 * 3)
    data = sum(array.nbytes for array in batch(4096).values())
    numbers = 8 * 5  # decay, and those of Adam
    assert report.sums_nbytes == sums
    assert report.held_nbytes == state + sums + data + numbers
    assert report.accumulating.sizes == {"n": 256} and report.updating.sizes == {}
    assert report.peak_nbytes == report.held_nbytes + report.scratch_nbytes
    without_data = step.memory(n=4096).main.peak_nbytes - data
    assert report.peak_nbytes - data < without_data / 8
    text = str(report).splitlines()
    assert text[:3] == [
        "memory of objective in 16 parts",
        "  each part  n = 256",
        f"  executor   {executor}",
    ]
    assert text[-1].split()[:2] == ["peak", f"{report.peak_nbytes:,}"]


def test_native_runs_allocate_the_scratch_that_is_stated(monkeypatch):
    monkeypatch.setenv("CHAINRULE_EXECUTOR", "native")
    parts = whole(cr.adam(0.1)).micro_batched(4)
    state = parts.init(weights())
    parts(state, batch(1024))
    (sums,) = parts._sums.values()
    (one,), (update,) = sums.bound.values(), state.bound.values()
    taken = [
        call.launcher.machine.artifact.scratch_nbytes + sum(a.nbytes for a in call.made)
        for call in (one.call, update.call)
    ]
    assert parts.memory(n=1024).scratch_nbytes == sum(taken)
    for seed in range(3):
        parts(state, batch(1024, seed))
    assert len(sums.bound) == len(state.bound) == 1  # nothing was compiled again


def test_every_part_has_a_dropout_of_its_own():
    def J(x: float64["n 3"], w: float64[3], key: uint32[2]):
        return np.mean(cr.dropout(x, 0.5, key=key) @ w)

    x, w, key = np.ones((8, 3)), np.ones(3), cr.random.key(5)
    step = cr.training_step(J, wrt="w", optimizer=cr.sgd(0.1))
    parts = step.micro_batched(2)
    found = parts(parts.init(w=w), x=x, key=key)
    drawn = [cr.dropout(x[:4], 0.5, key=cr.random.fold_in(key, part)) @ w for part in (0, 1)]
    assert not np.array_equal(*drawn)
    np.testing.assert_allclose(found, np.mean(drawn), rtol=1e-12)
    one = step.micro_batched(1)
    assert one(one.init(w=w), x=x, key=key) == step(step.init(w=w), x=x, key=key)


def test_a_batch_like_the_one_before_is_not_checked_again_and_others_are(monkeypatch):
    """Whatever differs in names, shapes, dtypes or kinds is refused, or cast, as at first."""
    calls = []
    real = micro_batches.bound_to
    monkeypatch.setattr(micro_batches, "bound_to", lambda *of: calls.append(1) or real(*of))
    step = whole(cr.sgd(0.1))
    parts = step.micro_batched(3)
    state, expected, data = parts.init(weights()), step.init(weights()), batch(12)
    x = data["x"]
    assert parts(state, data) == pytest.approx(step(expected, data), rel=1e-12)
    again = {**data, "x": x + 1}
    assert parts(state, again) == pytest.approx(step(expected, again), rel=1e-12)
    assert len(calls) == 1
    with pytest.raises(InputError):
        parts(state, {**data, "x": x.astype(complex)})
    with pytest.raises(ChainruleError):
        parts(state, {**data, "x": x[:, :-1]})
    with pytest.raises(InputError):
        parts(state, {**data, "other": x})
    with pytest.raises(InputError):
        parts(state, {name: one for name, one in data.items() if name != "x"})
    with pytest.raises(InputError):
        parts(state, {**data, "learning_rate": np.array(-1.0)})
    with pytest.raises(InputError):
        parts(state, {name: one[:10] for name, one in data.items()})
    listed = {**data, "x": x.tolist()}
    assert parts(state, listed) == pytest.approx(step(expected, listed), rel=1e-12)
    assert state.steps == 3 and len(calls) == 5  # others are refused for their names
    assert_same(state, expected)


def test_from_the_second_step_on_arrays_of_containers_go_straight_to_the_code(
    executor, monkeypatch
):
    def objective(x: float32["n 4"], params):
        return np.mean((x @ params[0] @ params[1]) ** 2)

    step = cr.training_step(objective, "params", cr.adam(), params=[np.eye(4, dtype="f")] * 2)
    parts, x = step.micro_batched(2), np.ones((6, 4), "f")
    state, expected = (one.init(params=[np.eye(4, dtype="f")] * 2) for one in (parts, step))
    assert parts(state, x=x) == step(expected, x=x)
    if executor == "native":  # `reference` looks at them each time
        monkeypatch.setattr(TrainingStep, "arguments", None)  # the long way
    for scale in (2, 3):
        parts(state, x=scale * x)
    monkeypatch.undo()
    for scale in (2, 3):
        step(expected, x=scale * x)
    assert_same(state, expected, 1e-5)

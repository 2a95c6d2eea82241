"""sgd, rmsprop, adam and adamw equal formulas written with NumPy, step for step."""

from __future__ import annotations

import re

import numpy as np
import pytest
from updating import (
    MAX_NORM,
    OPTIMIZERS,
    SCHEDULES,
    STEPS,
    Referee,
    assert_close,
    batch,
    clipped,
    given,
    objective,
    optimizer_of,
    rate_at,
)

import chainrule as cr
from chainrule import float16, float32, float64

EVERY = pytest.mark.parametrize(("make", "options"), OPTIMIZERS.values(), ids=list(OPTIMIZERS))


# Every optimizer plain and with everything; some with each schedule alone.
COMBINED = [
    *((name, None, False) for name in OPTIMIZERS),
    *((name, "cosine", True) for name in OPTIMIZERS),
    *((name, one, False) for name in ("sgd", "rmsprop with all", "adamw") for one in SCHEDULES),
    *((name, None, True) for name in ("sgd", "rmsprop with all", "adamw")),
]


@pytest.mark.sweep(7)
@pytest.mark.parametrize(("name", "schedule", "clips"), COMBINED)
def test_steps_equal_the_formulas(name, schedule, clips):
    make, options = OPTIMIZERS[name]
    step = cr.training_step(
        objective,
        wrt=("W", "w", "scale"),
        optimizer=optimizer_of(name, schedule, clips),
        executor="reference",
    )
    parameters, state = given(), step.init(given())
    referees = {name: Referee(make.__name__, **options) for name in parameters}
    for index in range(STEPS):
        step(state, batch(index))
        gradients = gradients_at(parameters, batch(index))
        if clips:
            gradients = clipped(gradients, MAX_NORM)
        for name, gradient in zip(list(parameters), gradients, strict=True):
            if schedule is not None:
                referees[name].rate = rate_at(schedule, options["learning_rate"], index)
            parameters[name] = referees[name].after(parameters[name], gradient)
    assert_close(state, parameters)


def gradients_at(parameters, data):
    """The gradients of the objective by W, w and scale, by hand."""
    x, y, W, w, scale = data["x"], data["y"], *parameters.values()
    h = np.tanh(x @ W)
    error = 2 * (h @ w * scale - y) / len(y)
    return [
        x.T @ (np.outer(error * scale, w) * (1 - h**2)),
        h.T @ error * scale,
        np.sum(error * (h @ w)),
    ]


def text_of(optimizer) -> str:
    """The lines of the update of an objective of one float32 matrix, without %-numbers."""

    def f(x: float32["n 4"], W: float32[4, 5]):
        J = np.sum(x @ W)
        return J

    text = str(cr.training_step(f, wrt="W", optimizer=optimizer))
    lines = re.sub(r"%\d+", "%", text).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("  dJ/dW"))
    return "\n".join(line for line in lines[start + 1 :] if not line.startswith("  %"))


def test_the_text_of_an_update_names_what_it_computes():
    assert text_of(cr.sgd(0.1)) == ("  W_next: float32[4, 5] = subtract(W, %)\n  return J, W_next")
    assert text_of(cr.sgd(0.1, 0.9)) == (
        "  W_velocity_next: float32[4, 5] = add(%, dJ/dW)\n"
        "  W_next: float32[4, 5] = subtract(W, %)\n"
        "  return J, W_next, W_velocity_next"
    )
    assert text_of(cr.adamw()) == (
        """\
  steps_next: float64[] = add(steps, %)
  bias_correction1: float64[] = subtract(%, %)
  bias_correction2: float64[] = subtract(%, %)
  step_size: float64[] = divide(%, bias_correction1)
  eps_corrected: float64[] = multiply(eps, %)
  one_minus_beta1: weak float64[] = subtract(%, beta1)
  one_minus_beta2: weak float64[] = subtract(%, beta2)
  decay_factor: weak float64[] = subtract(%, %)
  W_m_next: float32[4, 5] = add(%, %)
  W_v_next: float32[4, 5] = add(%, %)
  W_next: float32[4, 5] = subtract(%, %)
  return J, W_next, W_m_next, W_v_next, steps_next"""
    )


def nodes_of(optimizer) -> tuple[list[str], list[str]]:
    """The primitives of an update, of all its elements and of its scalars, without the moves."""

    def f(W: float32[4, 5], V: float32[4, 5]):
        J = np.sum(W * V)
        return J

    graph = cr.training_step(f, wrt="W", optimizer=optimizer).graph
    made = [node for node in graph if node.origin.transform == "update"]
    moves = ("input", "broadcast_to", "full", "cast")
    computed = [node for node in made if node.primitive.name not in moves]
    arrays = [node.primitive.name for node in computed if node.shape]
    return sorted(arrays), sorted(node.primitive.name for node in computed if not node.shape)


def test_an_update_does_little_for_each_element():
    assert nodes_of(cr.sgd(0.1)) == (["multiply", "subtract"], [])
    assert nodes_of(cr.sgd(0.1, 0.9)) == (["add", *["multiply"] * 2, "subtract"], [])
    means = ["add"] * 2 + ["multiply"] * 5  # m and v, and the square of the gradient
    arrays, scalars = nodes_of(cr.adam())
    assert arrays == sorted([*means, "sqrt", "add", "divide", "multiply", "subtract"])
    assert scalars.count("power") == 2 and scalars.count("sqrt") == 1
    assert nodes_of(cr.adamw())[0] == sorted([*arrays, "multiply"])
    one = [*["multiply"] * 4, "add", "sqrt", "add", "divide", "subtract"]
    assert nodes_of(cr.rmsprop()) == (sorted(one), ["subtract"])


def test_rmsprop_keeps_what_it_needs():
    def kept(**options):
        return [array.name for array in cr.rmsprop(**options).arrays]

    assert kept() == ["v"] and kept(momentum=0.9) == ["v", "velocity"]
    assert kept(centered=True, momentum=0.9) == ["v", "m", "velocity"]
    assert [name for name, _ in cr.rmsprop().scalars] == ["learning_rate", "alpha", "eps"]


def test_the_variance_of_a_constant_gradient_is_never_below_zero():
    def f(w: float32[200], a: float32[200]):
        J = np.sum(a * w)
        return J

    step = cr.training_step(f, wrt="w", optimizer=cr.rmsprop(0.1, 0.5, centered=True))
    state = step.init(w=np.zeros(200, np.float32))
    a = np.linspace(0.1, 0.9, 200, dtype=np.float32)
    for _ in range(40):  # the means have become a and a² but for a rounding
        step(state, a=a)
    difference = state["w_v"] - state["w_m"] ** 2
    assert difference.min() < 0  # where a root would be NaN
    assert np.isfinite(state["w"]).all()


def test_hyperparameters_are_inputs_and_change_no_graph():
    hashes = [
        cr.training_step(objective, wrt=("W", "w"), optimizer=optimizer).graph.structural_hash
        for optimizer in (cr.adamw(), cr.adamw(0.3, (0.5, 0.6), 0.1, weight_decay=0.2))
    ]
    assert hashes[0] == hashes[1]
    step = cr.training_step(objective, wrt="W", optimizer=cr.adamw())
    assert step.scalars.keys() == {"learning_rate", "beta1", "beta2", "eps", "weight_decay"}
    other = cr.training_step(
        objective, wrt="W", optimizer=cr.adamw(0.3, (0.5, 0.6), 0.1, weight_decay=0.2)
    )
    W, rest = given()["W"], {**batch(0), "w": given()["w"]}
    state, other_state = step.init(W=W), other.init(W=W)
    changes = dict(learning_rate=0.3, beta1=0.5, beta2=0.6, eps=0.1, weight_decay=0.2)
    step(state, **rest, **changes)
    other(other_state, **rest)
    np.testing.assert_array_equal(state["W"], other_state["W"])
    assert not np.array_equal(state["W"], W)


def test_what_is_zero_is_left_out():
    assert cr.sgd(0.1, momentum=0, weight_decay=0) == cr.sgd(0.1) != cr.sgd(0.2)
    assert [name for name, _ in cr.sgd(0.1).scalars] == ["learning_rate"]
    assert not cr.sgd(0.1, weight_decay=0.1).arrays
    assert "weight_decay" not in dict(cr.adam().scalars)
    assert cr.adamw(weight_decay=0).rule is cr.adam().rule
    assert cr.sgd(0.1, 0.9).rule is not cr.sgd(0.1, 0.9, nesterov=True).rule
    assert "learning_rate" in repr(cr.adam())


def test_containers_of_parameters_are_updated():
    def nested(x: float64["n 2"], params):
        h = np.tanh(x @ params["layer"]["W"] + params["layer"]["b"])
        J = np.sum((h @ params["out"][0]) ** 2)
        return J

    params = {
        "layer": {"W": np.ones((2, 3)), "b": np.zeros(3)},
        "out": [np.full((3, 1), 0.5)],
    }
    step = cr.training_step(nested, wrt="params", optimizer=cr.adam(0.1), params=params)
    state = step.init(params=params)
    step(state, x=np.ones((4, 2)))
    # The first step of Adam is the learning rate against the sign of the gradient.
    np.testing.assert_allclose(state["params"]["out"][0], 0.4, rtol=1e-6)
    assert state["params.layer.W_m"].shape == (2, 3) and state["params.out[0]_v"].min() > 0
    assert state["steps"] == 1 and list(state["params"]["layer"]) == ["W", "b"]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@EVERY
def test_a_step_keeps_dtype_and_shape(make, options, dtype):
    def f(a, b, empty):
        J = np.sum(a * a) * b + np.sum(empty)
        return J

    values = {"a": np.array([0.5, 0.0], dtype), "b": dtype(0.5), "empty": np.zeros((0, 3), dtype)}
    step = cr.training_step(f, wrt=("a", "b", "empty"), optimizer=make(**options), **values)
    state = step.init(values)
    for _ in range(3):
        step(state)
    exact = {name: np.asarray(value, np.float64) for name, value in values.items()}
    referees = {name: Referee(make.__name__, **options) for name in exact}
    for _ in range(3):
        a, b = exact["a"], exact["b"]
        slopes = {"a": 2 * a * b, "b": np.sum(a * a), "empty": np.ones((0, 3))}
        exact = {name: referees[name].after(exact[name], slopes[name]) for name in exact}
    for name, value in values.items():
        after = state[name]
        assert (after.dtype, after.shape) == (value.dtype, value.shape)
        # 3 steps, each with a rounding of the gradient and one of the parameter
        np.testing.assert_allclose(after, exact[name], rtol=20 * np.finfo(dtype).eps, atol=1e-12)
    wide = np.promote_types(dtype, np.float32)
    own = [array for name, array in state.arrays.items() if name.startswith("a_")]
    assert all(array.dtype == wide for array in own)


def test_an_element_without_gradient_stays_where_adam_has_float16():
    def f(w: float16[3]):
        J = np.sum(np.maximum(w, 0))
        return J

    step = cr.training_step(f, wrt="w", optimizer=cr.adam(0.1))
    state = step.init(w=np.array([1, -1, -2], np.float16))
    step(state)  # in float16, eps is 0 and its quotient 0 / 0
    np.testing.assert_array_equal(state["w"], np.array([0.9, -1, -2], np.float16))

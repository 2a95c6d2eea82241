import numpy as np
import pytest

from chainrule import float16, float32, float64
from chainrule.errors import InputError
from chainrule.primitives.arithmetic import sqrt
from chainrule.train import Optimizer, StateArray, scaled, training_step


def objective(w: float64[3], scale=1.0):
    J = np.sum(np.sin(w) * w) + scale**2
    return J


def gradient(w):
    return np.cos(w) * w + np.sin(w)


def momentum(learning_rate: float, decay: float) -> Optimizer:
    def rule(parameter, gradient, scalars, arrays):
        velocity = scaled(scalars["decay"], arrays["velocity"]) + gradient
        return parameter - scaled(scalars["learning_rate"], velocity), {"velocity": velocity}

    scalars = (("learning_rate", learning_rate), ("decay", decay))
    return Optimizer("momentum", scalars, rule, (StateArray("velocity"),))


def adam(learning_rate: float, beta1=0.9, beta2=0.999, epsilon=1e-8) -> Optimizer:
    def rule(parameter, g, scalars, arrays):
        b1, b2 = scalars["beta1"], scalars["beta2"]
        power1, power2 = arrays["power1"] * b1, arrays["power2"] * b2
        mean = scaled(b1, arrays["mean"]) + scaled(1 - b1, g)
        square = scaled(b2, arrays["square"]) + scaled(1 - b2, g * g)
        root = sqrt(scaled(1 / (1 - power2), square))
        rate = scalars["learning_rate"] / (1 - power1)
        after = {"power1": power1, "power2": power2, "mean": mean, "square": square}
        return parameter - scaled(rate, mean / (root + epsilon)), after

    return Optimizer(
        "adam",
        (("learning_rate", learning_rate), ("beta1", beta1), ("beta2", beta2)),
        rule,
        (
            StateArray("mean"),
            StateArray("square"),
            StateArray("power1", 1.0, scalar=True),
            StateArray("power2", 1.0, scalar=True),
        ),
    )


def test_an_optimizer_with_an_array_needs_no_other_caller():
    step = training_step(objective, wrt="w", optimizer=momentum(0.1, 0.9))
    assert [name for name, _ in step.graph.outputs] == ["J", "w_next", "w_velocity_next"]
    w, velocity = np.array([1.0, -2.0, 0.5]), np.zeros(3)
    state = step.init(w=w)
    np.testing.assert_array_equal(state["w_velocity"], velocity)
    for _ in range(10):
        step(state)
        velocity = 0.9 * velocity + gradient(w)
        w = w - 0.1 * velocity
    np.testing.assert_allclose(state["w"], w, rtol=1e-12)
    np.testing.assert_allclose(state["w_velocity"], velocity, rtol=1e-12)
    assert list(state.parameters) == ["w"]


def test_an_optimizer_with_scalar_arrays_needs_no_other_caller():
    step = training_step(objective, wrt=("w", "scale"), optimizer=adam(0.01))
    w, m, v = np.array([1.0, -2.0, 0.5]), np.zeros(3), np.zeros(3)
    state = step.init(w=w)
    for t in range(1, 11):  # Kingma and Ba, 2015, algorithm 1
        step(state)
        g = gradient(w)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w = w - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(state["w"], w, rtol=1e-10)
    assert state["scale"].shape == ()


def averaging(rate: float) -> Optimizer:
    """Descent by rate / steps, which is computed once, that also keeps the mean of what was."""

    def factors(scalars, shared):
        steps = shared["steps"] + 1
        return {"fading": scalars["rate"] / steps, "part": 1 / steps}, {"steps": steps}

    def rule(parameter, gradient, scalars, arrays):
        after = parameter - scaled(scalars["fading"], gradient)
        mean = arrays["mean"] + scaled(scalars["part"], parameter - arrays["mean"])
        return after, {"mean": mean}

    shared = (StateArray("steps"),)
    return Optimizer("averaging", (("rate", rate),), rule, (StateArray("mean"),), shared, factors)


def test_factors_are_computed_once_for_all_parameters():
    def both(w: float64[3], u: float32[2]):
        J = np.sum(w**2) + np.sum(u**2)
        return J

    step = training_step(both, wrt=("w", "u"), optimizer=averaging(0.1))
    made = [node.primitive.name for node in step.graph if node.origin.transform == "update"]
    assert made.count("divide") == 2
    assert [name for name, _ in step.graph.outputs][-3:] == [
        "w_mean_next",
        "u_mean_next",
        "steps_next",
    ]
    assert all(step.graph[name].origin.describe() for name in ("steps", "steps_next", "fading"))
    w, mean = np.array([1.0, -2.0, 0.5]), np.zeros(3)
    state = step.init(w=w, u=np.ones(2, np.float32))
    for t in range(1, 6):
        step(state)
        mean += (w - mean) / t
        w = w - 0.1 / t * 2 * w
    np.testing.assert_allclose(state["w"], w, rtol=1e-14)
    np.testing.assert_allclose(state["w_mean"], mean, rtol=1e-14)
    assert state["u"].dtype == np.float32
    assert state["steps"].shape == () and state["steps"] == state.steps == 5


def test_a_rule_computes_in_float32_where_a_parameter_is_float16():
    def half(w: float16[2]):
        return np.sum(w * w)

    step = training_step(half, wrt="w", optimizer=momentum(0.1, 0.9))
    state = step.init(w=np.array([1, 3e-5], np.float16))
    step(state)
    assert (state["w"].dtype, state["w_velocity"].dtype) == (np.float16, np.float32)
    assert state["w"][0] == np.float16(1 - 0.1 * 2)


def test_what_the_objective_does_not_reach_needs_no_update():
    def f(w: float64[2], unused: float64[3]):
        return np.sum(w**2)

    step = training_step(f, wrt=("unused", "w"), optimizer=momentum(0.1, 0.9))
    assert step.graph["unused_next"] is step.graph["unused"]
    state = step.init(w=np.ones(2), unused=np.ones(3))
    assert set(state.arrays) == {"unused", "w", "w_velocity"}
    step(state)
    np.testing.assert_array_equal(state["unused"], np.ones(3))


def test_names_of_arrays_that_are_taken_are_skipped():
    def f(w: float64[3], steps=2.0, fading=1.0):
        J = np.sum(w) * steps * fading
        return J

    step = training_step(f, wrt="w", optimizer=averaging(0.1))
    assert {"steps_1", "steps_1_next", "fading_1"} <= set(step.graph.names)
    state = step.init(w=np.zeros(3))
    step(state, steps=3.0)
    assert state["steps_1"] == 1 and state["w"][0] == pytest.approx(-0.3, rel=1e-15)


def test_a_rule_that_does_not_fit_its_declaration_is_explained():
    forgets = Optimizer("forgets", (), lambda w, g, scalars, arrays: (w, {}), (StateArray("v"),))
    with pytest.raises(InputError, match=r"forgets updates no arrays, the optimizer .* \['v'\]"):
        training_step(objective, wrt="w", optimizer=forgets)
    shrinks = Optimizer("shrinks", (("rate", 1.0),), lambda w, g, s, arrays: (s["rate"], {}))
    with pytest.raises(InputError, match=r"shrinks makes w_next: .*\[\] of w: float64\[3\]"):
        training_step(objective, wrt="w", optimizer=shrinks)
    nothing = Optimizer("stale", (), lambda w, g, s, a: (w - g, {}), shared=(StateArray("steps"),))
    with pytest.raises(InputError, match=r"the factors of stale updates no arrays.*'steps'"):
        training_step(objective, wrt="w", optimizer=nothing)


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (lambda w, g, s, a: None, "returned None for w"),
        (lambda w, g, s, a: w - g, "returned a node for w"),
        (lambda w, g, s, a: np.ones(3), "returned a NumPy array float64[3] for w"),
        (lambda w, g, s, a: (np.ones(3), {}), "returned (a NumPy array float64[3], a dict) for w"),
        (lambda w, g, s, a: (w - g, None), "returned (a node, None) for w"),
        (lambda w, g, s, a: (w - g, {"v": 1.0}), "returned a float in place of a node for w"),
        (lambda w, g, s, a: (w - g, {}, {}), "returned a tuple for w"),
        (lambda w, g, s, a: (w - s["rate"] * g, {}), "failed for w: types differ: weak float64[]"),
        (lambda w, g, s, a: (w - np.sqrt(g), {}), "failed for w: loop of ufunc does not support"),
    ],
)
def test_a_rule_that_returns_no_update_is_explained(rule, what):
    mine = Optimizer("mine", (("rate", 0.1),), rule)
    with pytest.raises(InputError) as caught:
        training_step(objective, wrt="w", optimizer=mine)
    assert caught.value.what.startswith(f"the rule of mine {what}")
    assert "test_optimizer.py" in caught.value.where and "lambda w, g, s, a" in caught.value.where
    assert caught.value.hint.startswith(("the rule returns (parameter, {", "compute with nodes"))


@pytest.mark.parametrize(
    ("factors", "what"),
    [
        (lambda s, shared: None, "returned None"),
        (lambda s, shared: (s["rate"], {}), "returned (a node, a dict)"),
        (lambda s, shared: ({"half": 0.5}, {}), "returned a float in place of a node"),
    ],
)
def test_factors_that_return_no_scalars_are_explained(factors, what):
    def rule(w, g, scalars, arrays):
        return w - g, {}

    mine = Optimizer("mine", (("rate", 0.1),), rule, factors=factors)
    with pytest.raises(InputError) as caught:
        training_step(objective, wrt="w", optimizer=mine)
    assert caught.value.what == f"the factors of mine {what}"
    assert caught.value.hint.startswith("factors returns ({name: scalar}")

import numpy as np
import pytest

from chainrule import float64
from chainrule.errors import InputError
from chainrule.primitives.arithmetic import sqrt
from chainrule.train import Optimizer, StateArray, sgd, training_step
from chainrule.train.optimizers import scaled


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


def test_sgd_is_a_value():
    assert sgd(0.1) == sgd(0.1) != sgd(0.2)
    assert "learning_rate" in repr(sgd(0.1))


@pytest.mark.parametrize("rate", [-0.1, float("nan"), float("inf"), "0.1", None, True])
def test_a_learning_rate_that_is_none_is_explained(rate):
    with pytest.raises(InputError, match="a learning rate is a finite number of at least 0"):
        sgd(rate)


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


def test_a_rule_that_does_not_fit_its_declaration_is_explained():
    forgets = Optimizer("forgets", (), lambda w, g, scalars, arrays: (w, {}), (StateArray("v"),))
    with pytest.raises(InputError, match=r"forgets updates no arrays, the optimizer .* \['v'\]"):
        training_step(objective, wrt="w", optimizer=forgets)
    shrinks = Optimizer("shrinks", (("rate", 1.0),), lambda w, g, s, arrays: (s["rate"], {}))
    with pytest.raises(InputError, match=r"shrinks makes w_next: .*\[\] of w: float64\[3\]"):
        training_step(objective, wrt="w", optimizer=shrinks)

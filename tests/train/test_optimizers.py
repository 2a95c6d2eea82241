"""sgd, adam and adamw equal formulas written here, and PyTorch, step for step."""

from __future__ import annotations

import re

import numpy as np
import pytest

import chainrule as cr
from chainrule import float16, float32, float64

STEPS = 100
RTOL = 1e-10  # of the largest element: some 100 steps of rounding in float64, 1e-16 each

OPTIMIZERS = {
    "sgd": (cr.sgd, dict(learning_rate=0.1)),
    "sgd with decay": (cr.sgd, dict(learning_rate=0.1, weight_decay=0.03)),
    "momentum": (cr.sgd, dict(learning_rate=0.05, momentum=0.9)),
    "momentum with decay": (cr.sgd, dict(learning_rate=0.05, momentum=0.8, weight_decay=0.03)),
    "nesterov": (cr.sgd, dict(learning_rate=0.05, momentum=0.9, nesterov=True)),
    "nesterov with decay": (
        cr.sgd,
        dict(learning_rate=0.05, momentum=0.9, nesterov=True, weight_decay=0.03),
    ),
    "adam": (cr.adam, dict(learning_rate=0.02)),
    "adam with decay": (cr.adam, dict(learning_rate=0.02, betas=(0.8, 0.95), weight_decay=0.03)),
    "adam with a large eps": (cr.adam, dict(learning_rate=0.02, eps=0.1)),
    "adam without memory": (cr.adam, dict(learning_rate=0.01, betas=(0.0, 0.0), eps=1e-3)),
    "adamw": (cr.adamw, dict(learning_rate=0.02)),
    "adamw with much decay": (cr.adamw, dict(learning_rate=0.02, weight_decay=0.5)),
    "adamw without decay": (cr.adamw, dict(learning_rate=0.02, weight_decay=0.0)),
}
EVERY = pytest.mark.parametrize(("make", "options"), OPTIMIZERS.values(), ids=list(OPTIMIZERS))


def objective(x: float64["n 3"], y: float64["n"], W: float64[3, 4], w: float64[4], scale=0.5):
    h = np.tanh(x @ W)
    J = np.mean((h @ w * scale - y) ** 2)
    return J


def given() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    w, scale = random.normal(size=4), np.array(0.5)
    return {"W": random.normal(size=(3, 4)), "w": w, "scale": scale}


def batch(step: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(step + 1)
    return {"x": random.normal(size=(8, 3)), "y": random.normal(size=8)}


GRADIENTS = cr.grad(objective, wrt=("W", "w", "scale"))


class Referee:
    """The update of one parameter, from the papers: Sutskever et al., Kingma and Ba, Loshchilov
    and Hutter."""

    def __init__(self, kind, learning_rate, weight_decay=None, **options):
        self.kind, self.rate, self.options = kind, learning_rate, options
        self.decay = (0.01 if kind == "adamw" else 0) if weight_decay is None else weight_decay
        self.t, self.m, self.v = 0, 0.0, 0.0

    def after(self, W, g):
        self.t += 1
        return getattr(self, self.kind)(W, g)

    def sgd(self, W, g):
        momentum = self.options.get("momentum", 0.0)
        g = g + self.decay * W
        self.v = momentum * self.v + g
        ahead = momentum * self.v + g if self.options.get("nesterov") else self.v
        return W - self.rate * ahead

    def adam(self, W, g):
        return W - self.moved(g + self.decay * W)

    def adamw(self, W, g):
        return W - self.rate * self.decay * W - self.moved(g)

    def moved(self, g):
        beta1, beta2 = self.options.get("betas", (0.9, 0.999))
        self.m = beta1 * self.m + (1 - beta1) * g
        self.v = beta2 * self.v + (1 - beta2) * g**2
        mean, square = self.m / (1 - beta1**self.t), self.v / (1 - beta2**self.t)
        return self.rate * mean / (np.sqrt(square) + self.options.get("eps", 1e-8))


def assert_close(state, expected):
    for name, value in expected.items():
        error = np.abs(state[name] - value).max()
        assert error <= RTOL * np.abs(value).max(), name


@EVERY
def test_steps_equal_the_formulas(make, options):
    step = cr.training_step(objective, wrt=("W", "w", "scale"), optimizer=make(**options))
    parameters, state = given(), step.init(given())
    referees = {name: Referee(make.__name__, **options) for name in parameters}
    for index in range(STEPS):
        step(state, batch(index))
        gradients = GRADIENTS(**batch(index), **{k: np.asarray(v) for k, v in parameters.items()})
        for (name, value), gradient in zip(list(parameters.items()), gradients, strict=True):
            parameters[name] = referees[name].after(value, gradient)
    assert_close(state, parameters)


@pytest.mark.peers
@EVERY
def test_steps_equal_those_of_pytorch(make, options):
    torch = pytest.importorskip("torch")
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    theirs = {name: torch.tensor(value, requires_grad=True) for name, value in given().items()}
    renamed = {"lr" if name == "learning_rate" else name: v for name, v in options.items()}
    optimizer = kind[make.__name__](theirs.values(), **renamed)
    step = cr.training_step(objective, wrt=("W", "w", "scale"), optimizer=make(**options))
    state = step.init(given())
    for index in range(STEPS):
        data = batch(index)
        ours = step(state, data)
        x, y = torch.tensor(data["x"]), torch.tensor(data["y"])
        h = torch.tanh(x @ theirs["W"])
        J = ((h @ theirs["w"] * theirs["scale"] - y) ** 2).mean()
        assert ours == pytest.approx(J.item(), rel=RTOL)
        optimizer.zero_grad()
        J.backward()
        optimizer.step()
    assert_close(state, {name: value.detach().numpy() for name, value in theirs.items()})


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

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.errors import InputError, NameLookupError, NotDifferentiableError, SizeError
from chainrule.train import TrainingStep, sgd, training_step

n = cr.size("n")


@pytest.fixture(autouse=True, params=["reference", "native"])
def executor(request, monkeypatch):
    """Every test is true of both executors."""
    monkeypatch.setenv("CHAINRULE_EXECUTOR", request.param)


def objective(
    x: float32[n, 4], y: int64[n], W1: float32[4, 5], W2: float32[5, 3], weight_decay=1e-2
):
    h = np.tanh(x @ W1)
    J = cr.cross_entropy(h @ W2, y) + weight_decay * np.sum(W1**2)
    return J


def quadratic(w: float64[3], target: float64[3]):
    J = np.sum((w - target) ** 2)
    return J


def make() -> TrainingStep:
    return training_step(objective, wrt=("W1", "W2"), optimizer=sgd(0.1))


def weights() -> dict[str, np.ndarray]:
    return {"W1": np.ones((4, 5), np.float32), "W2": np.ones((5, 3), np.float32)}


@pytest.mark.parametrize(
    ("wrt", "error", "message"),
    [
        ("y", NotDifferentiableError, "y is int64"),
        ("W3", NameLookupError, "no value called 'W3'.*\n.*W1"),
        ("h", InputError, "h is computed by objective: only an input can be a parameter"),
        ((), InputError, "wrt names no parameter.*\n.*x, W1, W2, weight_decay"),
    ],
)
def test_what_cannot_be_trained_is_explained(wrt, error, message):
    with pytest.raises(error, match=message) as caught:
        training_step(objective, wrt=wrt, optimizer=sgd(0.1))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"W2": None}, r"step.init of objective was not given: W2: float32\[5, 3\]"),
        ({"W11": np.ones(2)}, "objective has no parameter called 'W11'\n.*perhaps W1;"),
        ({"x": np.ones(2)}, "x is an input of objective and no parameter of this step"),
        ({"W1": np.ones((4, 5), int)}, r"W1 of objective must be float32\[4, 5\], got int64"),
        ({"W1": np.ones((5, 4), np.float32)}, r"must be float32\[4, 5\], got float32\[5, 4\]"),
    ],
)
def test_parameters_that_do_not_fit_are_explained(changes, message):
    given = {k: v for k, v in {**weights(), **changes}.items() if v is not None}
    with pytest.raises(InputError, match=message) as caught:
        make().init(**given)
    assert caught.value.hint


def test_parameters_whose_sizes_disagree_are_refused_at_once():
    a, b = cr.sizes("a b")

    def f(U: float64[a, b], V: float64[b]):
        J = np.sum(U @ V)
        return J

    with pytest.raises(SizeError, match="axis 0 of the input V of f must be b = 3"):
        training_step(f, wrt=("U", "V"), optimizer=sgd(1)).init(U=np.ones((2, 3)), V=np.ones(4))


def test_other_wrong_arguments_are_explained():
    with pytest.raises(InputError, match=r"no executor 'gpu'.*\n.*reference"):
        training_step(objective, wrt="W1", optimizer=sgd(0.1), executor="gpu")
    with pytest.raises(InputError, match=r"0\.1 is no optimizer"):
        training_step(objective, wrt="W1", optimizer=0.1)  # type: ignore[arg-type]
    state = make().init(**weights())
    with pytest.raises(InputError, match="the state holds W1, W2; this step updates w"):
        training_step(quadratic, wrt="w", optimizer=sgd(0.1))(state, target=np.ones(3))
    with pytest.raises(NameLookupError, match=r"the state has no array called 'w'.*\n.*W1, W2"):
        state["w"]


def adaptive() -> TrainingStep:
    return training_step(objective, wrt=("W1", "W2"), optimizer=cr.adam(0.01))


def batch() -> dict[str, np.ndarray]:
    return {"x": np.ones((2, 4), np.float32), "y": np.array([0, 1])}


@pytest.mark.parametrize("state", [{"W1": 1}, None])
def test_a_step_on_what_is_no_state_is_explained(state):
    step = make()
    for call in (step, step.run):
        with pytest.raises(InputError) as caught:
            call(state, **batch())
        name = type(state).__name__
        assert caught.value.what == f"the first argument of a step is its state, got {name}"
        hint = "state = step.init(W1=..., W2=...); then step(state, ...)"
        assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [("X", "perhaps x; a step takes: "), ("images", "a step takes: ")],
)
def test_a_batch_with_another_name_is_told_what_a_step_takes(name, hint):
    step = adaptive()
    with pytest.raises(InputError) as caught:
        step(step.init(**weights()), {name: batch()["x"]}, y=batch()["y"])
    assert caught.value.what == f"objective has no input called {name!r}"
    takes = "x, y, weight_decay, learning_rate, beta1, beta2, eps"
    assert caught.value.hint == hint + takes


@pytest.mark.parametrize(
    ("name", "value", "what", "hint"),
    [
        ("learning_rate", -1, "a learning rate is a finite number of at least 0", "0.01"),
        ("learning_rate", -0.5, "a learning rate is a finite number of at least 0", "0.01"),
        ("learning_rate", np.nan, "a learning rate is a finite number of at least 0", "0.01"),
        ("learning_rate", np.inf, "a learning rate is a finite number of at least 0", "0.01"),
        ("learning_rate", "0.1", "a learning rate is a finite number of at least 0", "0.01"),
        ("learning_rate", np.ones(2), "a learning rate is a finite number of at least 0", "0.01"),
        ("beta1", 1.5, "beta1 is a number of at least 0 and less than 1", "0.9"),
    ],
)
def test_a_number_that_the_optimizer_refuses_is_refused_by_a_step_too(name, value, what, hint):
    step = adaptive()
    state = step.init(**weights())
    step(state, batch())  # the code is bound now
    before = {key: array.tobytes() for key, array in state.items()}
    with pytest.raises(InputError) as caught:
        step(state, batch(), **{name: value})
    assert caught.value.what == f"{what}, got {value!r}"
    assert caught.value.hint == f"step(state, ..., {name}={hint})"
    assert {key: array.tobytes() for key, array in state.items()} == before
    step(state, batch(), learning_rate=0.5)


def test_a_number_of_an_optimizer_of_ones_own_is_finite():
    def rule(parameter, gradient, scalars, arrays):
        return parameter - cr.train.scaled(scalars["rate"], gradient), {}

    own = cr.Optimizer("own", (("rate", 0.1),), rule)
    step = training_step(quadratic, wrt="w", optimizer=own)
    state = step.init(w=np.zeros(3))
    step(state, target=np.ones(3), rate=-0.1)
    for wrong in (float("nan"), "0.1"):
        with pytest.raises(InputError) as caught:
            step(state, target=np.ones(3), rate=wrong)
        assert caught.value.what == f"rate of own is a finite number, got {wrong!r}"
        assert caught.value.hint == "step(state, ..., rate=0.1)"


@pytest.mark.parametrize(
    ("optimizer", "what", "hint"),
    [
        ("adam", "optimizer='adam' is no optimizer", "optimizer=cr.adam()"),
        ("Adam", "optimizer='Adam' is no optimizer", "optimizer=cr.adam()"),
        ("lion", "optimizer='lion' is no optimizer", "optimizer=cr.sgd(learning_rate=0.1)"),
        (
            cr.adamw,
            "optimizer=adamw is a function that makes one, and was not called",
            "optimizer=cr.adamw()",
        ),
        (
            make,
            "optimizer=make is a function that makes one, and was not called",
            "optimizer=make(...)",
        ),
    ],
)
def test_an_optimizer_that_is_none_is_explained(optimizer, what, hint):
    with pytest.raises(InputError) as caught:
        training_step(objective, wrt="W1", optimizer=optimizer)
    assert (caught.value.what, caught.value.hint) == (what, hint)


def test_arguments_that_an_optimizer_does_not_take_are_explained():
    with pytest.raises(InputError) as caught:
        cr.adam(lr=0.1)  # type: ignore[call-arg]  # pyright: ignore
    assert caught.value.what == "cr.adam has no argument lr"
    assert caught.value.hint == (
        "perhaps learning_rate; its arguments are: learning_rate=0.001, betas=(0.9, 0.999), "
        "eps=1e-08, weight_decay=0.0"
    )
    with pytest.raises(InputError, match=r"cr\.sgd was called without learning_rate"):
        cr.sgd()  # type: ignore[call-arg]  # pyright: ignore

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
        ({"W1": np.ones((4, 5))}, r"W1 of objective must be float32\[4, 5\], got float64"),
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
    with pytest.raises(NameLookupError, match=r"the state has no parameter called 'w'.*\n.*W1, W2"):
        state["w"]

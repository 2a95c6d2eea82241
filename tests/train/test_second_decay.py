"""A penalty in the objective beside weight_decay= is warned of; nothing else is."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.train import Optimizer
from chainrule.transforms.mistakes.second_decay import penalties

DECAYING = (cr.sgd(0.1, weight_decay=1e-4), cr.adam(weight_decay=1e-4), cr.adamw())


def book(x: float32["n 4"], y: int64["n"], W1: float32[4, 5], W2: float32[5, 3], decay=1e-2):
    h = np.maximum(x @ W1, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


@pytest.mark.parametrize("optimizer", DECAYING, ids=lambda optimizer: optimizer.name)
def test_a_penalty_beside_weight_decay_is_warned_of_naming_both(optimizer):
    with pytest.warns(UserWarning) as caught:
        cr.training_step(book, wrt=("W1", "W2"), optimizer=optimizer)
    (one,) = caught
    what, where, *shown = str(one.message).split("\n")
    decay = dict(optimizer.scalars)["weight_decay"]
    assert what == (
        "J contains a sum of squares of W1 and W2 (in s), and "
        f"weight_decay={decay:g} of {optimizer.name} decays the same once more"
    )
    assert where.startswith("  where: ") and where.endswith("in book")
    assert shown[0].strip() == "s = decay / 2 * (np.sum(W1**2) + np.sum(W2**2))"
    assert shown[-1] == (
        "  try: keep one of them: take the squares out of s, "
        f"or give {optimizer.name} weight_decay=0"
    )
    assert one.filename == __file__


def test_an_optimizer_without_weight_decay_warns_of_nothing():
    for optimizer in (cr.sgd(0.1, 0.9), cr.adam(), cr.adamw(weight_decay=0)):
        cr.training_step(book, wrt=("W1", "W2"), optimizer=optimizer)


def test_only_penalised_parameters_are_named():
    with pytest.warns(UserWarning, match=r"squares of W2 \(in s\)"):
        cr.training_step(book, wrt="W2", optimizer=cr.adamw())


def test_a_weight_decay_that_follows_a_schedule_is_shown_as_one():
    def rule(w, g, scalars, arrays):
        return w - g, {}

    mine = Optimizer("mine", (("weight_decay", cr.schedules.cosine(0.5, 10)),), rule)
    with pytest.warns(UserWarning, match=r"weight_decay=cosine\(base=0\.5, steps=10, .* of mine"):
        cr.training_step(book, wrt="W1", optimizer=mine)


def test_an_optimizer_of_ones_own_is_asked_by_the_name_of_its_scalar():
    def rule(w, g, scalars, arrays):
        return w - g, {}

    mine = Optimizer("mine", (("weight_decay", 0.5),), rule)
    with pytest.warns(UserWarning, match=r"weight_decay=0\.5 of mine decays"):
        cr.training_step(book, wrt=("W1", "W2"), optimizer=mine)


def loss(W):
    return np.sum(np.sin(W)) + np.sum(np.cos(W) * W)


def penalised_by(extra, **numbers) -> dict:
    """The parameters W[3, 4] and b[4] that `loss(W) + loss(b)` with something more penalises."""

    def f(W: float64[3, 4], b: float64[4], x: float64[3, 4], lam=0.1):
        J = extra(loss(W) + loss(b), W, b, x, lam)
        return J

    graph = cr.trace(f, **numbers)
    return set(penalties(graph, graph.outputs[0][0], ("W", "b")))


PENALTIES = {
    "a power": lambda L, W, b, x, lam: L + np.sum(W**2),
    "a product": lambda L, W, b, x, lam: np.sum(W * W) + L,
    "np.square": lambda L, W, b, x, lam: L + lam * np.square(W).sum(),
    "a float power": lambda L, W, b, x, lam: L + lam * (W**2.0).sum(),
    "np.power": lambda L, W, b, x, lam: L + lam * np.power(W, 2).sum(),
    "a mean": lambda L, W, b, x, lam: L + lam * np.mean(W**2),
    "axis by axis": lambda L, W, b, x, lam: L + (W**2).sum(axis=0).sum() * lam,
    "a factor inside": lambda L, W, b, x, lam: L + np.sum(0.5 * lam * W**2),
    "a quotient": lambda L, W, b, x, lam: L + np.sum(W**2) / 2,
    "a factor around all": lambda L, W, b, x, lam: 3 * (L + lam * np.sum(W**2)) / 7,
    "minus minus": lambda L, W, b, x, lam: L - -lam * np.sum(W**2),
    "a double negative": lambda L, W, b, x, lam: -(-L - np.sum(W**2)),
    "of a reshaped one": lambda L, W, b, x, lam: L + lam * (W.ravel() @ W.ravel()),
    "einsum": lambda L, W, b, x, lam: L + lam * np.einsum("ij,ij->", W, W),
    "in another dtype": lambda L, W, b, x, lam: L + np.sum(W.astype(np.float32) ** 2) * 1.0,
    "among other terms": lambda L, W, b, x, lam: np.sum(b) + (L + (lam * np.sum(W**2) + 1)),
}
NOT_PENALTIES = {
    "nothing": lambda L, W, b, x, lam: L,
    "a reward": lambda L, W, b, x, lam: L - lam * np.sum(W**2),
    "a negative factor": lambda L, W, b, x, lam: L + -0.5 * np.sum(W**2),
    "a factor 0": lambda L, W, b, x, lam: L + 0.0 * np.sum(W**2),
    "a factor 0 below another": lambda L, W, b, x, lam: L + 0.0 * (-1.0 * np.sum(W**2)),
    "a cube": lambda L, W, b, x, lam: L + np.sum(W**3),
    "a distance": lambda L, W, b, x, lam: L + np.sum((W - x) ** 2),
    "a part": lambda L, W, b, x, lam: L + np.sum(W[1:] ** 2),
    "a weighted sum": lambda L, W, b, x, lam: L + np.sum(x * W**2),
    "a factor that is trained": lambda L, W, b, x, lam: L + b[0] * np.sum(W**2),
    "a factor from data": lambda L, W, b, x, lam: L + np.sum(x) * np.sum(W**2),
    "a product with another": lambda L, W, b, x, lam: L + np.sum(W * x),
    "a square of data": lambda L, W, b, x, lam: L + np.sum(x**2),
    "other axes": lambda L, W, b, x, lam: L + np.einsum("ij,kj->", W, W),
    "absolute values": lambda L, W, b, x, lam: L + np.sum(np.abs(W)),
    "inside a function": lambda L, W, b, x, lam: L + np.log(np.sum(W**2)),
    "a product with the loss": lambda L, W, b, x, lam: L * np.sum(W**2),
    "nothing else": lambda L, W, b, x, lam: np.sum(W**2) + np.sum(b**2),
    "no other use of it": lambda L, W, b, x, lam: np.sum(W**2) + loss(b),
}


@pytest.mark.parametrize("extra", PENALTIES.values(), ids=list(PENALTIES))
def test_a_sum_of_squares_that_is_added_is_a_penalty(extra):
    assert penalised_by(extra) == {"W"}


@pytest.mark.parametrize("extra", NOT_PENALTIES.values(), ids=list(NOT_PENALTIES))
def test_what_is_not_surely_a_penalty_is_none(extra):
    assert penalised_by(extra) == set()


def test_a_number_counts_by_its_default():
    extra = PENALTIES["np.square"]
    assert penalised_by(extra, lam=0.0) == penalised_by(extra, lam=-1.0) == set()
    assert penalised_by(extra, lam=1) == {"W"}


def test_a_trained_number_is_no_factor_of_a_penalty():
    def f(W: float64[3], scale=0.1):
        J = loss(W) + scale * np.sum(W**2)
        return J

    graph = cr.trace(f)
    assert penalties(graph, "J", ("W", "scale")) == {}
    assert penalties(graph, "J", ("W",)) == {"W": None}


def test_a_product_of_a_matrix_and_its_transpose_is_no_sum_of_squares():
    def f(W: float64[3, 3]):
        J = loss(W) + np.einsum("ij,ji->", W, W)
        return J

    assert penalties(cr.trace(f), "J", ("W",)) == {}


def test_a_penalty_without_a_name_is_placed_by_its_line():
    def f(W: float64["n n"], lam: float64[()]):
        return np.sum(np.tanh(W)) + lam / W.shape[0] * np.sum(W**2)

    with pytest.warns(
        UserWarning, match=r"a sum of squares of W, and weight_decay=0\.01"
    ) as caught:
        cr.training_step(f, wrt="W", optimizer=cr.adamw())
    assert "lam / W.shape[0] * np.sum(W**2)" in str(caught[0].message)


def test_a_penalty_on_all_of_a_container_is_warned_of():
    def f(params, x: float64["n 2"]):
        s = 0.1 * sum(np.sum(W**2) for W in params["layers"])
        J = np.sum(np.tanh(x @ params["layers"][0] @ params["layers"][1])) + s
        return J

    params = {"layers": [np.ones((2, 2)), np.ones((2, 2))]}
    with pytest.warns(UserWarning, match=r"params\.layers\[0\] and params\.layers\[1\] \(in s\)"):
        cr.training_step(f, wrt="params", optimizer=cr.adamw(), params=params)


def test_a_long_sum_that_meets_itself_is_walked_once():
    def f(W: float64[3]):
        J = loss(W)
        for _ in range(200):
            J = J + J
        return J

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.training_step(f, wrt="W", optimizer=cr.adamw())

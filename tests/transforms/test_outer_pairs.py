"""A warning where (n, 1) meets (n,) in an objective, and silence wherever a matrix is meant."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import BroadcastWarning

N, D = 5, 3
X, W, Y = np.ones((N, D)), np.ones((D, 1)), np.arange(N * 1.0)


def squared_error(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    J = cr.squared_error(pred, y)
    return J


def mean_of_squares(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    J = np.mean((pred - y) ** 2)
    return J


def target_first(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    J = np.sum((y - pred) ** 2) / len(y)
    return J


def absolute_values(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    return np.abs(pred - y).mean()


def axis_by_axis(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    error = pred - y
    return np.sum(np.mean(error * error, axis=0))


def weighted(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    weights = np.arange(N * 1.0)
    return np.mean(weights * (pred - y) ** 2)


def root(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    return np.sqrt(np.mean((pred - y) ** 2)) + 0.1 * np.sum(W**2)


def likelihood(X: Any, W: Any, y: Any) -> Any:
    pred = cr.sigmoid(X @ W)
    return -np.mean(y * np.log(pred) + (1 - y) * np.log(1 - pred))


def column_on_an_earlier_line(X: Any, W: Any, y: Any) -> Any:
    pred = np.reshape(X @ W[:, 0], (-1, 1))
    return np.mean((pred - y) ** 2)


def huber(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    error = pred - y
    size = np.abs(error)
    return np.mean(np.where(size < 1, 0.5 * error**2, size - 0.5))


def integer_target(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    target = y.astype(np.int64)
    return np.mean((pred - target) ** 2)


def largest_error(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    return np.abs(pred - y).max()


def smallest_margin(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    return 1 - np.min(pred * y)


def product_with_itself(X: Any, W: Any, y: Any) -> Any:
    r = X @ W - y
    return np.sum(r.T @ r) / len(y)


def product_as_a_number(X: Any, W: Any, y: Any) -> Any:
    r = X @ W - y
    J = (r.T @ r / len(y))[0, 0]
    return J


def product_of_rows(X: Any, W: Any, y: Any) -> Any:
    pred = X @ W
    r = pred - y
    return np.sum((2 * r) @ r.T)


def inner_product(X: Any, W: Any, y: Any) -> Any:
    r = X @ W - y
    return np.vdot(r, r)


def flattened(X: Any, W: Any, y: Any) -> Any:
    r = (X @ W - y).ravel()
    return r @ r


TRAPS = [
    squared_error,
    mean_of_squares,
    target_first,
    absolute_values,
    axis_by_axis,
    weighted,
    root,
    likelihood,
    column_on_an_earlier_line,
    huber,
    integer_target,
    largest_error,
    smallest_margin,
    product_with_itself,
    product_as_a_number,
    product_of_rows,
    inner_product,
    flattened,
]


def warned_by(run: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [str(one.message) for one in caught if issubclass(one.category, BroadcastWarning)]


@pytest.mark.parametrize("function", TRAPS, ids=lambda f: f.__name__)
def test_the_trap_is_told_in_every_spelling(function: Any) -> None:
    texts = warned_by(lambda: cr.backward(cr.trace(function, X, W, Y), wrt="W"))
    assert texts
    assert "meets every element of the other" in texts[0]
    assert f"{__file__}:" in texts[0]
    assert "[5, 1]" in texts[0] and "[5]" in texts[0] and "[5, 5]" in texts[0]


def test_the_text_names_both_and_what_to_write() -> None:
    (text,) = warned_by(lambda: cr.backward(cr.trace(mean_of_squares, X, W, Y), wrt="W"))
    _, start = inspect.getsourcelines(mean_of_squares)
    assert text == (
        "pred (float64[5, 1]) with y (float64[5]) is float64[5, 5]: each element of the one meets "
        "every element of the other, and all of these pairs count in J\n"
        f"  where: {__file__}:{start + 2}, in mean_of_squares\n"
        "    J = np.mean((pred - y) ** 2)\n"
        "                 ^^^^^^^^\n"
        "  try: write y[:, None] or pred[:, 0], if row i belongs to row i;\n"
        "       if all pairs are meant, say so in this expression: x[:, None]"
    )


def test_a_name_is_found_through_a_conversion_of_dtype() -> None:
    (text,) = warned_by(lambda: cr.backward(cr.trace(integer_target, X, W, Y), wrt="W"))
    assert "pred (float64[5, 1]) with target (float64[5])" in text
    assert "target[:, None] or pred[:, 0]" in text


@pytest.mark.parametrize("fix", [lambda p, y: p - y[:, None], lambda p, y: p[:, 0] - y])
def test_what_it_says_to_write_is_silent_and_right(fix: Any) -> None:
    def fixed(X: Any, W: Any, y: Any) -> Any:
        return np.mean(fix(X @ W, y) ** 2)

    assert warned_by(lambda: cr.backward(cr.trace(fixed, X, W, Y), wrt="W")) == []
    expected = np.mean((X @ W - Y[:, None]) ** 2)
    assert np.allclose(cr.trace(fixed, X, W, Y).run(X=X, W=W, y=Y)["out"], expected)


def named(X: cr.float64["n 3"], W: cr.float64["3 1"], y: cr.float64["n"]) -> Any:  # type: ignore
    pred = X @ W
    J = cr.squared_error(pred, y)
    return J


def test_named_sizes_and_training_steps_warn_too() -> None:
    graph = cr.trace(named)
    (text,) = warned_by(lambda: cr.training_step(graph, wrt=("W",), optimizer=cr.sgd(0.1)))
    assert "pred (float64[n, 1]) with y (float64[n]) is float64[n, n]" in text
    data = {"X": X, "y": Y}
    made = warned_by(lambda: cr.Trainer(named, {"W": W}, cr.sgd(0.1), data=data, batch_size=5))
    assert made and "pred (float64[n, 1]) with y (float64[n])" in made[0]


def test_gradients_of_numbers_warn_once_for_each_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            cr.grad(mean_of_squares, wrt="W")(X, W, Y)
    assert [one.category for one in caught] == [BroadcastWarning]
    assert caught[0].filename == __file__
    assert "pred (float64[5, 1]) with y (float64[5])" in str(caught[0].message)


P = np.arange(N * 1.0)  # parameters with as many elements as there are data
COLUMN = np.arange(N * 1.0)[:, None] / 7
SILENT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "pairwise distances": (lambda p, y: np.sum((p[:, None] - y[None, :]) ** 2), (P, Y)),
    "pairs, one side written": (lambda p, y: np.sum((p[:, None] - y) ** 2), (P, Y)),
    "pairs by expand_dims": (lambda p, y: np.sum((np.expand_dims(p, 1) - y) ** 2), (P, Y)),
    "pairs by reshape": (lambda p, y: np.sum((p.reshape(-1, 1) - y) ** 2), (P, Y)),
    "pairs of a scaled column": (lambda p, y: np.sum((2 * p[:, None] - y) ** 2), (P, Y)),
    "pairs by subtract": (lambda p, y: np.sum(np.subtract(p[:, None], y) ** 2), (P, Y)),
    "outer product": (lambda p, y: np.sum(np.outer(p, y)), (P, Y)),
    "kept axes": (lambda p, y: np.sum(np.sum(p, axis=1, keepdims=True) * y), (np.ones((N, 2)), Y)),
    "another length": (lambda p, y: np.sum((p - y) ** 2), (np.ones((N, 1)), np.ones(7))),
    "a row and a column": (lambda p, y: np.sum(p * y), (np.ones((N, 1)), np.ones((1, N)))),
    "a column and a row of another length": (
        lambda p, y: np.sum(p * y),
        (np.ones((N, 1)), np.ones((1, 7))),
    ),
    "bias": (lambda p, y: np.sum((y @ p + p[0]) ** 2), (np.ones((N, N)), np.ones((N, N)))),
    "bias of a column": (lambda p, y: np.sum((y + p) ** 2), (np.ones(1), np.ones((N, 1)))),
    "both are parameters": (lambda p, y: np.sum((p - p[:, 0]) ** 2) + y, (np.ones((N, 1)), 1.0)),
    "softmax": (lambda p, y: np.sum(y * cr.softmax(p, -1)), (np.ones((N, N)), np.ones((N, N)))),
    "centred rows": (
        lambda p, y: np.sum((p - p.mean(axis=1, keepdims=True)) ** 2 * y),
        (np.ones((N, N)), 1.0),
    ),
    "mask of attention": (
        lambda p, y: np.sum(cr.softmax(np.where(y > 0, p @ p.T, -1e9), -1)),
        (np.ones((N, N)), np.ones(N)),
    ),
    "mask of columns on scores": (
        lambda p, y: np.sum((p @ p.T) * y),
        (np.ones((N, 2)), np.ones((N, 1))),
    ),
    "kernel matrix": (
        lambda p, y: np.sum(np.exp(-((p - y) ** 2)) @ y),
        (np.ones((N, 1)), np.ones(N)),
    ),
    "matrix of weights": (
        lambda p, y: np.sum(np.eye(N) * (p - y) ** 2),
        (np.ones((N, 1)), np.ones(N)),
    ),
    "the largest pair": (lambda p, y: np.sum(np.max(p - y, axis=1)), (np.ones((N, 1)), Y)),
    "the nearest of each": (lambda p, y: np.sum(np.min((p - y) ** 2, axis=1)), (COLUMN, Y)),
    "Hausdorff distance": (lambda p, y: np.max(np.min((p - y) ** 2, axis=1)), (COLUMN, Y)),
    "scaled by the largest distance": (
        lambda p, y: np.sum(np.exp(-((p - y) ** 2) / np.max((p - y) ** 2))),
        (COLUMN, Y),
    ),
    "scaled by the largest distance, in two lines": (
        lambda p, y: (lambda D: np.sum(np.exp(-D / np.max(D))))((p - y) ** 2),
        (COLUMN, Y),
    ),
    "softmax of all pairs": (lambda p, y: np.sum(cr.softmax(p + y, (0, 1)) * 2), (COLUMN, Y)),
    "logsumexp of all pairs": (lambda p, y: cr.logsumexp(p * y, (0, 1)), (COLUMN, Y)),
    "attention with a bias of positions": (
        lambda p, y: np.sum(cr.softmax(p + y, -1) @ np.ones((N, 2))),
        (COLUMN, Y),
    ),
    "attention that masks the future": (
        lambda p, y: np.sum(cr.softmax(np.where(np.tri(N) > 0, p + y, -np.inf), -1)),
        (COLUMN, Y),
    ),
    "paths of two steps": (lambda p, y: np.sum((p - y) @ (p - y)), (COLUMN, Y)),
    "powers of a matrix": (lambda p, y: (lambda D: np.sum(D @ D))(p - y), (COLUMN, Y)),
    "the largest sum of a column": (
        lambda p, y: np.max(np.sum(np.abs(p - y), axis=0)),
        (COLUMN, Y),
    ),
    "one of the pairs": (lambda p, y: (p - y)[0, 0] * 2.0, (COLUMN, Y)),
    "a matrix and its transpose": (lambda p, y: np.sum((p - y) * (p - y).T), (COLUMN, Y)),
    "kernels of two sets": (lambda p, y: np.sum((p - y).T @ (p + np.eye(N))), (COLUMN, Y)),
    "Gram matrix that is used": (lambda p, y: np.linalg.det((p - y).T @ (p - y)), (COLUMN, Y)),
    "one axis alone": (
        lambda p, y: np.sum(np.sum(p - y, axis=0) @ np.eye(N)),
        (np.ones((N, 1)), Y),
    ),
    "batch of one": (lambda p, y: np.mean((p - y) ** 2), (np.ones((1, 1)), np.ones(1))),
    "the same shape": (lambda p, y: np.mean((p - y) ** 2), (np.ones((N, 1)), np.ones((N, 1)))),
    "a number": (lambda p, y: np.mean((p - y) ** 2), (np.ones((N, 1)), np.float64(2))),
    "no part of the objective": (
        lambda p, y: (np.sum(p), np.sum(p - y))[0],
        (np.ones((N, 1)), Y),
    ),
    "images and a mean of channels": (
        lambda p, y: np.mean((p - y) ** 2),
        (np.ones((N, 3, 4)), np.ones(4)),
    ),
}


@pytest.mark.parametrize("name", SILENT)
def test_a_matrix_that_is_meant_is_silent(name: str) -> None:
    function, arguments = SILENT[name]
    assert warned_by(lambda: cr.backward(cr.trace(function, *arguments))) == []
    assert warned_by(lambda: cr.grad(function)(*arguments)) == []


def test_a_graph_that_is_not_differentiated_is_silent() -> None:
    assert warned_by(lambda: cr.trace(mean_of_squares, X, W, Y).run(X=X, W=W, y=Y)) == []

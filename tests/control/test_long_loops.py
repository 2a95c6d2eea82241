"""A recurrent network over 10,000 iterations: its gradient is PyTorch's, its graph that of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loops import cell

import chainrule as cr


def problem(length: int) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(0)
    return (
        random.normal(size=(16, 16)) * 0.2,
        random.normal(size=(4, 16)) * 0.5,
        random.normal(size=16) * 0.1,
        random.normal(size=(length, 4)),
        random.normal(size=(length, 16)),
    )


def objective(W: Any, U: Any, b: Any, x: Any, y: Any) -> Any:
    _, hs = cr.scan(cell(W, U, b), np.zeros(16), x)
    J = np.mean((hs - y) ** 2)
    return J


@pytest.mark.peers
@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.parametrize("length", [1_000, pytest.param(10_000, marks=pytest.mark.exhaustive)])
def test_the_gradient_over_thousands_of_steps_is_that_of_pytorch(
    length: int, executor: str
) -> None:
    torch = pytest.importorskip("torch")
    W, U, b, x, y = problem(length)
    got = cr.grad(objective, ("W", "U", "b"), executor=executor)(W, U, b, x, y)
    tensors = [torch.tensor(one, requires_grad=True) for one in (W, U, b)]
    rows, targets, h = torch.tensor(x), torch.tensor(y), torch.zeros(16, dtype=torch.float64)
    states = []
    for row in rows:
        h = torch.tanh(row @ tensors[1] + h @ tensors[0] + tensors[2])
        states.append(h)
    torch.mean((torch.stack(states) - targets) ** 2).backward()
    for one, tensor in zip(got, tensors, strict=True):
        expected = tensor.grad.numpy()
        # sums of so many terms in another order
        assert np.max(np.abs(one - expected)) <= 1e-13 * np.max(np.abs(expected))


@pytest.mark.sweep(2)
@pytest.mark.parametrize("length", [50, 200])
def test_both_orders_are_those_of_the_unrolled_loop(length: int) -> None:
    W, U, b, x, y = problem(length)

    def python(W: Any, U: Any, b: Any) -> Any:
        h, total = np.zeros(16), 0.0
        for i in range(length):
            h, _ = cell(W, U, b)(h, x[i])
            total = total + np.sum((h - y[i]) ** 2)
        return total / y.size

    def loop(W: Any, U: Any, b: Any) -> Any:
        return objective(W, U, b, x, y)

    moves = (np.cos(W), np.sin(U), np.cos(b))
    for derivative in (
        lambda f: cr.grad(f, range(3))(W, U, b),
        lambda f: cr.hvp(f, (W, U, b), moves),
    ):
        for got, expected in zip(derivative(loop), derivative(python), strict=True):
            assert np.max(np.abs(got - expected)) <= 1e-12 * np.max(np.abs(expected))


def test_ten_thousand_steps_are_as_many_nodes_as_two_and_keep_the_states_alone() -> None:
    counts, peaks = [], []
    for length in (2, 5_000, 10_000):
        graph = cr.backward(cr.trace(objective, *problem(length)), wrt=("W", "U", "b"))
        counts.append(len(graph))
        peaks.append(graph.memory(executor="reference").main.peak_nbytes)
    assert len(set(counts)) == 1
    # x and y (20 numbers an iteration); the states twice, their cotangents, and what the loss makes
    assert (peaks[2] - peaks[1]) / 5_000 / 8 <= 20 + 6 * 16


def tangent_peak_nbytes(length: int) -> int:
    """Of the derivative of the last state along W, without the sequence itself."""
    W, U, b, x, _ = problem(length)

    def last(W: Any, x: Any) -> Any:
        h, _ = cr.scan(lambda h, row: (cell(W, U, b)(h, row)[0], None), np.zeros(16), x)
        return np.sum(h)

    graph = cr.trace(lambda W, x: cr.jvp(lambda W: last(W, x), (W,), (W,))[1], W, x)
    return graph.memory(executor="reference").main.peak_nbytes - x.nbytes


def test_forward_mode_keeps_nothing_of_a_step() -> None:
    assert tangent_peak_nbytes(100) == tangent_peak_nbytes(10_000)

"""The loss of alignments: all of them counted one by one, PyTorch, edges, refusals."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule import float64, int64
from chainrule.errors import ChainruleError
from chainrule.testing import check_gradients

RANDOM = np.random.default_rng(37)
X = RANDOM.normal(size=(5, 4, 3))
TARGETS = np.array([[1, 2, 2], [2, 1, -7], [1, 9, 9], [1, 1, 1]])  # what does not count is any
LENGTHS, COUNTS = np.array([5, 4, 2, 4]), np.array([3, 2, 1, 3])


def loss(x: Any, *options: Any) -> Any:
    return cr.ctc_loss(cr.log_softmax(x), TARGETS, LENGTHS, COUNTS, *options)


def counted(log_probs: np.ndarray, target: list[int]) -> float:
    """Minus the log of the sum over all paths that become the target."""
    length, classes = log_probs.shape
    total = 0.0
    for path in product(range(classes), repeat=length):
        if [label for label, _ in groupby(path) if label] == target:
            total += np.exp(sum(log_probs[t, label] for t, label in enumerate(path)))
    return -np.log(total) if total else np.inf


def test_it_is_the_sum_over_all_paths() -> None:
    log_probs = np.asarray(cr.log_softmax(X))
    rows = zip(TARGETS, LENGTHS, COUNTS, strict=True)
    wanted = [
        counted(log_probs[:length, place], target[:count].tolist())
        for place, (target, length, count) in enumerate(rows)
    ]
    assert wanted[-1] == np.inf  # three equal labels need two blanks
    np.testing.assert_allclose(loss(X, 0, "none"), wanted, rtol=1e-13)
    np.testing.assert_allclose(loss(X, 0, "none", True)[:3], wanted[:3], rtol=1e-13)
    alone = cr.ctc_loss(log_probs[:, 0], TARGETS[0], 5, 3, reduction="none")
    np.testing.assert_allclose(alone, wanted[0], rtol=1e-13)


@pytest.mark.peers
@pytest.mark.sweep(4)
@EITHER
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_values_and_gradients_behind_a_log_softmax_are_pytorchs(
    reduction: str, executor: str
) -> None:
    torch = pytest.importorskip("torch")
    leaf = torch.tensor(X, requires_grad=True)
    targets = torch.tensor(np.clip(TARGETS, 0, 2))
    given = (targets, torch.tensor(LENGTHS), torch.tensor(COUNTS), 0, reduction, True)
    value = torch.nn.functional.ctc_loss(torch.log_softmax(leaf, -1), *given)
    value.sum().backward()
    np.testing.assert_allclose(loss(X, 0, reduction, True), value.detach().numpy(), rtol=1e-13)
    gradient = cr.grad(lambda x: np.sum(loss(x, 0, reduction, True)), executor=executor)(X)
    np.testing.assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-11, atol=1e-14)


@pytest.mark.slow
def test_both_orders_agree_with_finite_differences() -> None:
    def alone(x: Any) -> Any:  # no log-softmax before it
        return np.sum(cr.ctc_loss(x, TARGETS[:2], LENGTHS[:2], COUNTS[:2]))

    check_gradients(alone, X[:, :2], order=2)


def test_what_no_alignment_fits_has_the_derivative_0() -> None:
    gradient = cr.grad(lambda x: np.sum(loss(x, 0, "sum", True)))(X)
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradient[:, 3], 0)


@EITHER
def test_all_sizes_may_be_named(executor: str) -> None:
    def objective(x: float64["t n 3"], y: int64["n s"], a: int64["n"], b: int64["n"]):
        L = cr.ctc_loss(cr.log_softmax(x), y, a, b)
        return L

    graph = cr.backward(cr.trace(objective), wrt="x")
    assert "L = CTC(log softmax(x), y, a, b)" in str(graph.equations())
    for rows in (3, 1):
        given = {"y": np.clip(TARGETS, 0, 2)[:rows], "a": LENGTHS[:rows], "b": COUNTS[:rows]}
        run = graph.run({"x": X[:, :rows], **given}, executor=executor)
        wanted = cr.ctc_loss(cr.log_softmax(X[:, :rows]), given["y"], given["a"], given["b"])
        assert run["L"] == pytest.approx(wanted, rel=1e-12)


def test_targets_without_labels_are_all_blanks() -> None:
    log_probs = np.asarray(cr.log_softmax(X[:, :1]))
    wanted = -np.sum(log_probs[:, 0, 0])
    for targets in (np.zeros((1, 0), int), np.array([[1, 2]])):
        found = cr.ctc_loss(log_probs, targets, np.array([5]), np.array([0]))
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
    assert cr.ctc_loss(log_probs.astype("f4"), targets, np.array([5]), np.array([1])).dtype == "f4"


REFUSALS = {
    "the logarithms of probabilities are": (
        lambda x: cr.ctc_loss(x[0, 0], TARGETS, LENGTHS, COUNTS),
        "(length, n, classes)",
    ),
    "the targets int64[2, 3] for 4 sequences": (
        lambda x: cr.ctc_loss(x, TARGETS[:2], LENGTHS, COUNTS),
        "targets are (n, labels)",
    ),
    "input_lengths int64[2] for 4 sequences": (
        lambda x: cr.ctc_loss(x, TARGETS, LENGTHS[:2], COUNTS),
        "one integer for each sequence",
    ),
    "targets is float64[4, 3]": (
        lambda x: cr.ctc_loss(x, TARGETS.astype(float), LENGTHS, COUNTS),
        "give integers",
    ),
    "blank=3 is none of 3 classes": (
        lambda x: cr.ctc_loss(x, TARGETS, LENGTHS, COUNTS, 3),
        "the number of a class",
    ),
}


@pytest.mark.parametrize("is_traced", [False, True], ids=["plain", "traced"])
@pytest.mark.parametrize("text", REFUSALS)
def test_a_refusal_says_what_to_give(text: str, is_traced: bool) -> None:
    call, hint = REFUSALS[text]
    with pytest.raises(ChainruleError) as caught:
        cr.trace(call, X) if is_traced else call(X)
    assert text in str(caught.value) and hint in str(caught.value)

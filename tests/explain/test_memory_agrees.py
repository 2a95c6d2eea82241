"""Reports of memory agree with what is evaluated, and explain views, copies and containers."""

from __future__ import annotations

import numpy as np
import pytest
from executors import needs_native

import chainrule as cr
from chainrule import float32, int64
from chainrule.explain.report.data import report_data


def noisy(x: float32["n 6"], y: int64["n"], params, key):
    h = np.maximum(x @ params["W1"], 0)
    d = cr.dropout(h, 0.3, key=key)
    o = d @ params["W2"]
    J = cr.cross_entropy(o, y)
    return J


def parameters() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"W1": (6, 40), "W2": (40, 3)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def step(executor: str) -> cr.TrainingStep:
    types = {"params": parameters(), "key": cr.random.key(0)}
    return cr.training_step(noisy, "params", cr.sgd(0.1), executor=executor, **types)


@pytest.mark.parametrize("executor", ["reference", pytest.param("native", marks=needs_native)])
@pytest.mark.parametrize("predict", ["o", "J"])
def test_prediction_is_counted_without_dropout_as_it_is_evaluated(
    executor: str, predict: str
) -> None:
    made = step(executor)
    x = np.zeros((50, 6), np.float32)
    data = {"x": x, "y": np.zeros(50, np.int64)}
    trainer = cr.Trainer(made, data=data, parameters={"params": parameters()}, batch_size=50)
    evaluated = trainer.evaluation_graph(predict).memory(n=50, executor=executor)
    for what in (made, cr.backward(cr.trace(noisy, params=parameters(), key=cr.random.key(0)))):
        report = what.memory(n=50, predict=predict, executor=executor)
        assert report.prediction.peak_nbytes == evaluated.main.peak_nbytes
        assert not any(item.name == "key" for item in report.prediction.graph.inputs)
        assert report.formulas.prediction.peak.at(n=50) <= report.prediction.peak_nbytes


def test_dropout_that_nothing_can_leave_out_is_counted() -> None:
    def looped(x: float32["n 4"], key):
        def body(h, one):
            h = cr.dropout(h + one, 0.5, key=key)
            return h, h

        h, _ = cr.scan(body, x[0], x)
        J = np.sum(h)
        return J

    graph = cr.backward(cr.trace(looped, key=cr.random.key(0)), wrt="x")
    assert graph.memory(n=8, executor="reference").prediction.peak_nbytes > 0


def seen(x: float32["n 6"], W: float32["6 4"]):
    p = x @ W
    q = p.reshape(-1, 2)
    t = q.T[1:]
    z = np.ones_like(p)
    J = np.sum(np.tanh(q) ** 2) + np.sum(np.exp(t)) + np.sum(z)
    return J


@pytest.mark.parametrize("executor", ["reference", pytest.param("native", marks=needs_native)])
def test_a_view_is_explained_by_the_value_that_it_shows(executor: str) -> None:
    """And by its own readers first, then by those of the view that keeps the memory longest."""
    report = cr.backward(cr.trace(seen), wrt="W").memory(n=8, executor=executor)
    span, kept = "is kept from instruction 1 to 5: ", "its memory is kept for the view "
    last, own = ("t", "tanh(q)") if executor == "reference" else ("q", "exp(t)")
    assert f"bytes, {span}{kept}{last}, which dJ/d{last} = " in report.why("p")
    other = "q" if last == "t" else "t"
    for name in ("q", "t"):
        assert f"bytes, is a view of p, which {span}" in report.why(name)
        longer = f", and its memory is kept longer for the view {last}, which dJ/d{last} = "
        assert (longer in report.why(name)) == (name == other)
    assert own in report.why(other).partition(span)[2].partition(" needs it")[0]


def test_numbers_that_are_generated_are_told_from_what_nothing_needs() -> None:
    report = cr.trace(seen).memory(n=8, executor="reference")
    assert report.why("z").endswith("is never stored: what reads it generates its elements")


def test_a_padded_copy_is_called_after_what_it_is_a_copy_of() -> None:
    def padded(x: float32["n 5"]):
        J = np.sum(np.sort(np.pad(x, ((0, 0), (1, 1))), axis=0) ** 2)
        return J

    report = cr.trace(padded).memory(n=100, executor="reference")
    assert "pad(x)" in report.main.alive_at_peak
    assert len(set(report.main.names.values())) == len(report.main.names)
    assert "at its peak" in str(report) and "pad(x) = pad(x)" not in str(report)


def test_two_copies_of_one_value_keep_names_apart() -> None:
    def twice(x: float32["n 5"]):
        J = np.sum(np.pad(x, 1)) + np.sum(np.pad(x, 2) ** 2)
        return J

    names = cr.trace(twice).memory(n=3).main.names
    assert len(set(names.values())) == len(names)


def test_why_of_a_container_lists_what_it_contains() -> None:
    report = step("reference").memory(n=9)
    lines = report.why("params").splitlines()
    assert lines == [report.why("params.W1"), report.why("params.W2")]


@pytest.mark.parametrize("executor", ["reference", pytest.param("native", marks=needs_native)])
def test_the_page_of_a_step_shows_the_executor_that_trains(executor: str) -> None:
    made = step(executor)
    data = report_data(made, sizes={"n": 9})
    assert data["memory"]["executor"] == executor
    assert data["memory"]["peak_nbytes"] == made.memory(n=9).main.peak_nbytes
    other = report_data(made, sizes={"n": 9}, executor="reference")
    assert other["memory"]["executor"] == "reference"
    assert report_data(made.differentiated, sizes={"n": 9})["memory"]["executor"] == "reference"

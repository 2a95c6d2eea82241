"""Evaluation: forward propagation alone, weighted right, and counted right."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from trainings import EXECUTORS, data, dropping, plain, trainer, weights

import chainrule as cr
from chainrule import float64, int64, uint32
from chainrule.errors import IndexOutOfRangeError, InputError
from chainrule.graph.rebuild import rebuild
from chainrule.transforms.forward_only import evaluation_graph

n = cr.size("n")
EITHER = pytest.mark.parametrize("executor", EXECUTORS)


def scores(x: np.ndarray) -> np.ndarray:
    return np.tanh(x @ weights()["W1"]) @ weights()["W2"]


def loss(x: np.ndarray, y: np.ndarray) -> float:
    """The mean cross-entropy, written out."""
    o = scores(x)
    o = o - o.max(axis=1, keepdims=True)
    logarithms = o - np.log(np.exp(o).sum(axis=1, keepdims=True))
    return float(-np.mean(logarithms[np.arange(len(y)), y]))


@EITHER
@pytest.mark.parametrize("objective", [plain, dropping])
@pytest.mark.parametrize("batch_size", [7, 100, 1000])
def test_the_measures_are_those_of_all_rows_at_once(objective: Any, batch_size: int, executor: str):
    """With dropout in the objective, too: in evaluation it is the identity."""
    given = data()
    found = cr.evaluate(
        objective,
        weights(),
        given,
        accuracy=("o", "y"),
        batch_size=batch_size,
        executor=executor,
    )
    assert found.count == 100
    assert found.objective == pytest.approx(loss(**given), rel=1e-13)
    taken = scores(given["x"]).argmax(axis=1)
    assert found.accuracy == np.mean(taken == given["y"])
    expected = np.zeros((3, 3), np.int64)
    np.add.at(expected, (given["y"], taken), 1)
    assert found.confusion is not None and found.confusion.dtype == np.int64
    np.testing.assert_array_equal(found.confusion, expected)
    assert str(found) == (
        f"objective {found.objective:.4f}, accuracy {found.accuracy:.1%} of 100 rows"
    )


def test_a_penalty_counts_once_however_many_batches_there_are():
    def penalised(x: float64[n, 5], y: int64[n], W1: float64[5, 7], W2: float64[7, 3]):
        J = plain(x, y, W1, W2) + np.sum(W1**2)
        return J

    found = cr.evaluate(penalised, weights(), data(), batch_size=9)
    expected = loss(**data()) + np.sum(weights()["W1"] ** 2)
    assert found.objective == pytest.approx(expected, rel=1e-13)
    assert found.accuracy is None and found.confusion is None
    assert str(found) == f"objective {found.objective:.4f} of 100 rows"


def test_batches_of_unequal_length_are_weighted_by_their_rows():
    rows = data()
    cuts = (0, 1, 4, 50, 100)
    batches = [
        {name: array[a:b] for name, array in rows.items()} for a, b in itertools.pairwise(cuts)
    ]
    found = cr.evaluate(plain, weights(), iter(batches), accuracy=("o", "y"))
    assert found.count == 100
    assert found.objective == pytest.approx(loss(**rows), rel=1e-13)


@EITHER
def test_evaluation_has_no_backward_pass_and_takes_less_memory(executor: str):
    made = trainer(dropping, cr.adam(0.01), accuracy=("o", "y"), executor=executor)
    graph = made.evaluation_graph()
    assert not graph.gradients and not [name for name in graph.names if name.startswith("d")]
    assert [item.name for item in graph.inputs] == ["x", "y", "W1", "W2"]
    assert not [node for node in graph.nodes if "threefry" in node.primitive.name]
    only = made.evaluation_graph("o")
    assert [item.name for item in only.inputs] == ["x", "W1", "W2"]
    step = made.step.memory(n=4096, executor=executor).main
    for one in (graph, only):
        report = one.memory(n=4096, executor=executor)
        assert report.training is None
        assert report.prediction.peak_nbytes < 0.8 * step.peak_nbytes


def test_what_is_random_besides_dropout_is_the_same_in_every_evaluation():
    def noisy(x: float64[n, 5], w: float64[5], key: uint32[2]):
        first, second = cr.random.split(key)
        noise = cr.random.normal(first, x.shape, np.float64)
        J = np.mean((cr.dropout(x + noise, 0.5, key=second) @ w) ** 2)
        return J

    x, w = data()["x"], np.ones(5)
    one, again = (cr.evaluate(noisy, {"w": w}, {"x": x}, batch_size=40) for _ in range(2))
    assert one.objective == again.objective
    other = cr.evaluate(noisy, {"w": w}, {"x": x}, batch_size=40, key=cr.random.key(1))
    assert other.objective != one.objective
    key = cr.random.fold_in(cr.random.fold_in(cr.random.key(0), 2**32 - 1), 1)
    total = 0.0
    for number, begin in enumerate(range(0, 100, 40)):
        part = x[begin : begin + 40]
        own = cr.random.split(cr.random.fold_in(key, number))[0]
        total += np.sum(((part + cr.random.normal(own, part.shape, np.float64)) @ w) ** 2)
    assert one.objective == pytest.approx(total / 100, rel=1e-12)


def test_dropout_is_found_in_a_graph_whose_sizes_are_bound():
    names = {
        node.primitive.name for node in evaluation_graph(cr.trace(dropping).bind(n=100), ["J"])
    }
    assert not any(name.startswith("threefry") for name in names)


def test_dropout_that_cannot_be_found_is_not_left_in():
    def anew(node, inputs, _):  # with an origin whose scopes know other nodes
        return type(node)(node.primitive, inputs, node.params, node.type, node.origin)

    graph = rebuild(cr.trace(dropping), anew)
    with pytest.raises(InputError) as caught:
        evaluation_graph(graph, ["J"])
    assert "the dropout in dropping cannot be taken out" in caught.value.what
    assert "as cr.trace gives it" in caught.value.hint
    assert "trainings.py" in caught.value.where


def test_dropout_without_a_key_is_what_it_is():
    def without(x: float64[n, 5], W1: float64[5, 7]):
        o = cr.dropout(x, 0.5) @ W1
        return o

    assert evaluation_graph(cr.trace(without), ["o"]).outputs[0][0] == "o"


def test_dropout_within_a_function_of_the_users_own_is_found():
    def layer(x: Any, W: Any, key: Any) -> Any:
        return cr.dropout(np.tanh(x @ W), 0.4, key=key)

    def objective(
        x: float64[n, 5], y: int64[n], W1: float64[5, 7], W2: float64[7, 3], key: uint32[2]
    ):
        h = layer(x, W1, key)
        o = h @ W2
        J = cr.cross_entropy(o, y)
        return J

    found = cr.evaluate(objective, weights(), data())
    assert found.objective == pytest.approx(loss(**data()), rel=1e-13)


def test_a_trainer_evaluates_with_the_weights_that_it_has_now():
    made = trainer(optimizer=cr.adam(0.05), accuracy=("o", "y"))
    before = made.evaluate(data())
    made.fit(5)
    after = made.evaluate(**data())
    assert before.objective == pytest.approx(loss(**data()), rel=1e-13)
    assert after.objective < 0.9 * before.objective
    expected = cr.evaluate(made.step, made.state.parameters, data(), accuracy=("o", "y"))
    assert after.objective == pytest.approx(expected.objective, rel=1e-13)
    assert after.accuracy == expected.accuracy


def test_labels_that_no_loss_looks_at_are_checked_all_the_same():
    def squares(x: float64[n, 5], y: int64[n], W1: float64[5, 3]):
        o = x @ W1
        J = np.mean(o**2)
        return J

    bad = data()
    bad["y"][70] = 3
    with pytest.raises(IndexOutOfRangeError) as caught:
        cr.evaluate(squares, {"W1": np.ones((5, 3))}, bad, accuracy=("o", "y"), batch_size=64)
    assert "y[6] is 3, and o has scores for the 3 classes 0 to 2" in caught.value.what
    bad["y"][70] = -1
    with pytest.raises(IndexOutOfRangeError, match=r"y\[6\] is -1"):
        cr.evaluate(squares, {"W1": np.ones((5, 3))}, bad, accuracy=("o", "y"), batch_size=64)


@EITHER
def test_a_label_that_the_loss_refuses_is_told_in_a_later_batch_too(executor: str):
    bad = data()
    bad["y"][90] = 12
    with pytest.raises(IndexOutOfRangeError) as caught:
        cr.evaluate(plain, weights(), bad, batch_size=8, executor=executor)
    assert "index 12 (at position 2 of the indices) is out of range" in caught.value.what


REFUSED = {
    "no rows": (lambda: cr.evaluate(plain, weights(), data(0)), "the data have no batches"),
    "no batches": (lambda: cr.evaluate(plain, weights(), []), "the data have no batches"),
    "a number": (lambda: cr.evaluate(plain, weights(), 3), "data are arrays by name, or batches"),
    "tuples": (
        lambda: cr.evaluate(plain, weights(), [(1, 2, 3)]),
        "a batch has 3 arrays, and they would be x, y",
    ),
    "an unknown name": (
        lambda: cr.evaluate(plain, weights(), {**data(), "z": np.ones(100)}),
        "the data have 'z', and plain has no input of that name",
    ),
    "labels missing": (
        lambda: cr.evaluate(plain, weights(), {"x": data()["x"]}),
        "the data lack y, to compute J of plain",
    ),
    "weights missing": (
        lambda: cr.evaluate(plain, {"W1": weights()["W1"]}, data()),
        "the data lack W2, to compute J of plain",
    ),
    "another dtype": (
        lambda: cr.evaluate(plain, weights(), {**data(), "x": np.ones((100, 5), np.float32)}),
        "the input x of plain must be float64[n, 5], got float32[100, 5]",
    ),
    "several outputs": (
        lambda: cr.evaluate(lambda x: (x, x), {}, [{}]),
        "no array type",
    ),
    "no number": (
        lambda: cr.evaluate(cr.trace(plain), weights(), data(), of="o"),
        "o is no objective but float64[n, 3]",
    ),
    "a batch size of 0": (
        lambda: cr.evaluate(plain, weights(), data(), batch_size=0),
        "batch_size=0: the number of rows of a batch",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_evaluated_is_explained(case: str):
    provoke, told = REFUSED[case]
    with pytest.raises((InputError, cr.errors.TypeSpecError)) as caught:
        provoke()
    assert told in caught.value.what


def test_the_objective_of_several_outputs_is_named():
    def both(x: float64[n, 5], y: int64[n], W1: float64[5, 7], W2: float64[7, 3]):
        h = np.tanh(x @ W1)
        o = h @ W2
        J = cr.cross_entropy(o, y)
        return o, J

    with pytest.raises(InputError, match="both has 2 outputs: o, J"):
        cr.evaluate(both, weights(), data())
    found = cr.evaluate(both, weights(), data(), of="J")
    assert found.objective == pytest.approx(loss(**data()), rel=1e-13)

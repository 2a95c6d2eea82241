"""The argument `training` selects the graph: True in a step, False in evaluation."""

import warnings

import numpy as np
import pytest
from normalised import STATE, beginning, network, rows, step
from trainings import EXECUTORS

import chainrule as cr
from chainrule import float64, uint32
from chainrule.errors import BatchStatisticsWarning, UnsupportedError


def by_running(arrays, batch):
    z = batch["x"] @ arrays["W"]
    h = (z - arrays["mean"]) / np.sqrt(arrays["var"] + 1e-5)
    return h, np.mean((np.maximum(h, 0) @ arrays["w"] - batch["y"]) ** 2)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_evaluation_takes_the_running_statistics(executor):
    one = step(executor)
    state = one.init(beginning())
    for _ in range(3):
        one(state, rows(8))
    h, J = by_running(state, rows(6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for objective in (one, network, cr.trace(network, training=False)):
            for given in (state, state.weights):
                found = cr.evaluate(objective, given, rows(6), executor=executor)
                np.testing.assert_allclose(found.objective, J, 1e-12)
                shown = cr.predict(objective, given, rows(6), "h", executor=executor)
                np.testing.assert_allclose(shown, h, 1e-12)
        trainer = cr.Trainer(one, state.weights, data=rows(8), batch_size=8, progress=False)
        np.testing.assert_allclose(trainer.evaluate(rows(6)).objective, J, 1e-12)
        np.testing.assert_allclose(trainer.predict(rows(6), output="h"), h, 1e-12)
        assert "var" not in {node.primitive.name for node in trainer.evaluation_graph("h").nodes}
    each = [cr.predict(one, state, {"x": row[None]}, "h") for row in rows(6)["x"]]
    np.testing.assert_allclose(np.concatenate(each), h, 1e-12)  # no row depends on the others


def test_the_switch_is_no_input_and_prediction_needs_less():
    one = step("reference")
    assert "training" not in one.graph.names
    assert one.switched is not None and one.evaluation is one.switched
    report = one.memory(n=32, predict="h")
    graph = cr.trace(network, training=False).memory(n=32, predict="h", executor="reference")
    assert report.prediction.peak_nbytes == graph.prediction.peak_nbytes
    assert set(report.predicting.names) >= {"x", "W", "mean", "var", "z", "h"}
    plain = cr.training_step(lambda w: w * w, "w", cr.sgd(1), w=float64[()])
    assert plain.switched is None and plain.evaluation is plain.differentiated


def test_the_switch_may_be_annotated_alone_and_is_a_bool():
    def annotated(w: float64[()], training: bool):
        J = w * (2.0 if training else 3.0)
        return J

    def array(w: float64[()], training: float64[()]):
        J = w * training
        return J

    one = cr.training_step(annotated, "w", cr.sgd(1))
    assert one(one.init(w=1.0)) == 2
    assert cr.predict.__name__ and cr.trace(annotated, training=False).run(w=1.0)["J"] == 3
    other = cr.training_step(array, "w", cr.sgd(1))
    assert other.switched is None and other(other.init(w=2.0), training=3.0) == 6


def test_dropout_follows():
    def f(x: float64["n 4"], w: float64[4], key: uint32[2], training=True):
        h = cr.dropout(x, 0.5, key=key, training=training)
        o = h @ w
        J = np.mean(o**2)
        return J

    one = cr.training_step(f, "w", cr.sgd(0.1))
    x = np.ones((50, 4))
    assert [*cr.trace(f, training=False).run(x=x, w=np.ones(4), key=cr.random.key(0))["o"]] == [
        4
    ] * 50
    assert {*cr.predict(one, {"w": np.ones(4)}, {"x": x}, "o")} == {4}
    assert len({*cr.trace(f).run(x=x, w=np.ones(4), key=cr.random.key(0))["o"]}) > 1
    np.testing.assert_array_equal(cr.dropout(x, 0.5, key=cr.random.key(0), training=False), x)
    with pytest.raises(UnsupportedError, match="dropout: training='no' is neither True nor False"):
        cr.dropout(x, 0.5, key=cr.random.key(0), training="no")


def test_a_prediction_by_the_statistics_of_its_batch_warns():
    def f(x: float64["n 3"], W: float64["3 4"]):
        h, _, _ = cr.batch_norm(x @ W, None, None, training=True)
        J = np.mean(h**2)
        return J

    def looped(x: float64["n 3"], Ws: float64["2 3 3"]):
        def layer(h, W):
            return cr.batch_norm(h @ W, None, None, training=True)[0], None

        h, _ = cr.scan(layer, x, Ws)
        return h

    W = {"W": beginning()["W"]}
    x = {"x": rows(8)["x"]}
    one = cr.training_step(f, "W", cr.sgd(0.1))
    for call in (
        lambda: cr.predict(f, W, x, "h"),
        lambda: cr.evaluate(one, W, x),
        lambda: cr.predict(looped, {"Ws": np.ones((2, 3, 3))}, x, "h"),
        lambda: one.memory(n=8, predict="h"),
        lambda: cr.trace(f).memory(n=8, predict="h"),
        lambda: cr.trace(network).memory(n=8, predict="h"),
    ):
        with pytest.warns(BatchStatisticsWarning, match="is predicted with the mean") as caught:
            call()
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one.memory(n=8)
        step("reference").memory(n=8, predict="h")
        assert STATE

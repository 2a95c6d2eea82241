import numpy as np
import pytest

from chainrule.errors import DivergenceError, InputError
from chainrule.examples import mlp
from chainrule.examples.digits import Settings, begin, measure, train_epoch, trainer_of


def test_first_weights_have_the_variance_of_he_initialization():
    weights = mlp.initial_weights((64, 500, 10), seed=3)
    assert {name: (w.shape, w.dtype) for name, w in weights.items()} == {
        "W1": ((64, 500), np.float32),
        "W2": ((500, 10), np.float32),
    }
    # the variance of k samples of a uniform law is known to about sqrt(0.8 / k): 5000 → 1.3 %
    for w in weights.values():
        assert abs(w.var() / (2 / w.shape[0]) - 1) < 0.06
    assert not np.array_equal(weights["W1"].ravel()[:100], weights["W2"].ravel()[:100])


@pytest.mark.parametrize("bias", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_the_network_learns_digits(bias: bool):
    training = begin(Settings(epochs=8, bias=bias))
    assert training.parameter_count == 64 * 64 + 64 * 10 + 64 * bias
    before = measure(training)
    for epoch in range(1, 9):
        train_epoch(training, epoch)
    after = measure(training)
    assert training.state.steps == 8 * training.steps_per_epoch == 8 * 45
    assert before.objective > 2 > 0.2 > after.objective
    assert after.test_accuracy > 0.9


@pytest.mark.parametrize("bias", [False, True])
def test_the_trainer_takes_the_steps_of_the_plain_loop(bias: bool):
    """The reference executor, which runs here, gives both the same bits."""
    training = begin(Settings(epochs=2, hidden=8, bias=bias, seed=3))
    trainer = trainer_of(training, progress=False)
    history = trainer.fit(2)
    assert training.state.steps == 0  # it trained a copy
    for epoch in (1, 2):
        train_epoch(training, epoch)
    for name, weights in training.state.parameters.items():
        np.testing.assert_array_equal(trainer.state[name], weights)
    assert history[-1]["validation_accuracy"] == measure(training).test_accuracy


def test_the_graph_of_the_network_has_the_names_of_its_source():
    graph = begin(Settings(bias=True, weight_decay=0.5)).step.graph
    for name in ("z", "h", "o", "L", "s", "J", "dJ/dh", "dJ/dW1", "dJ/db", "b_next"):
        assert name in graph
    assert graph.sizes == ("n", "pixels", "hidden", "classes")
    assert graph.input("weight_decay").default == 0.5
    assert "mlp.py" in graph["h"].origin.short()


def test_the_bias_is_no_part_of_the_penalty():
    training = begin(Settings(bias=True, weight_decay=1e6))
    run = training.step.run(training.state, x=training.train.x, y=training.train.y, keep="named")
    without = begin(Settings(bias=True, weight_decay=0.0))
    other = without.step.run(without.state, x=training.train.x, y=training.train.y, keep="named")
    np.testing.assert_array_equal(run["dJ/db"], other["dJ/db"])
    assert not np.array_equal(run["dJ/dW1"], other["dJ/dW1"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", 0),
        ("hidden", 1.5),
        ("batch", 0),
        ("epochs", -1),
        ("seed", -1),
        ("learning_rate", -0.1),
        ("learning_rate", float("nan")),
        ("learning_rate", float("inf")),
        ("weight_decay", -1e-9),
        ("test_fraction", 1.0),
    ],
)
def test_settings_without_sense_are_explained(name: str, value: float):
    shown = name.replace("_", " ")
    with pytest.raises(InputError, match=f"{shown} is an? .*, got {value}\n.*default is"):
        Settings(**{name: value})


def test_a_batch_larger_than_the_data_is_explained():
    with pytest.raises(InputError, match="batch of 1439 is larger than the training data: 1438"):
        begin(Settings(batch=1439))


def test_training_that_diverges_names_the_step_and_what_to_try():
    training = begin(Settings(learning_rate=1e30))
    with pytest.raises(
        DivergenceError, match=r"objective is (nan|inf) at step \d+ \(epoch 1\)"
    ) as e:
        train_epoch(training, 1)
    assert "a learning rate smaller than 1e+30" in e.value.hint

import re
import threading

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.errors import (
    IndexOutOfRangeError,
    InputError,
    SizeError,
    StateError,
)
from chainrule.train import State, TrainingStep, sgd, training_step

n = cr.size("n")


@pytest.fixture(autouse=True, params=["reference", "native"])
def executor(request, monkeypatch):
    """Every test is true of both executors."""
    monkeypatch.setenv("CHAINRULE_EXECUTOR", request.param)


def objective(
    x: float32[n, 4], y: int64[n], W1: float32[4, 5], W2: float32[5, 3], weight_decay=1e-2
):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def make(learning_rate: float = 0.1) -> TrainingStep:
    return training_step(objective, wrt=("W1", "W2"), optimizer=sgd(learning_rate))


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {
        "W1": random.normal(size=(4, 5)).astype(np.float32),
        "W2": random.normal(size=(5, 3)).astype(np.float32),
    }


def batch(rows: int, seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 4)).astype(np.float32)
    return {"x": x, "y": random.integers(0, 3, rows)}


def numpy_step(x, y, W1, W2, learning_rate, weight_decay=1e-2):
    """One step by the formulas of a textbook, in float64: the objective and the new weights."""
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    p = np.exp(o - o.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(y))
    J = -np.log(p[rows, y]).mean() + weight_decay / 2 * ((W1**2).sum() + (W2**2).sum())
    p[rows, y] -= 1
    p /= len(y)
    dW2 = h.T @ p + weight_decay * W2
    dW1 = x.T @ ((p @ W2.T) * (z > 0)) + weight_decay * W1
    return J, W1 - learning_rate * dW1, W2 - learning_rate * dW2


def same(state: State, given: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(state[name], value) for name, value in given.items())


def test_the_update_is_part_of_the_graph():
    graph = make().graph
    assert [name for name, _ in graph.outputs] == ["J", "W1_next", "W2_next"]
    text = re.sub(r"%\d+", "%", str(graph))
    assert """
  %: float32[] = cast[dtype=float32, weak=False](learning_rate)
  %: float32[4, 5] = broadcast_to[shape=(4, 5)](%)
  %: float32[4, 5] = multiply(%, dJ/dW1)
  W1_next: float32[4, 5] = subtract(W1, %)
""" in re.sub(r" *#.*", "", text)
    assert text.endswith("return J, W1_next, W2_next")
    assert "learning_rate: weak float64[] = 0.1)" in str(graph).splitlines()[0]


def test_the_nodes_of_the_update_come_from_the_transform_update():
    graph = make().graph
    before = set(cr.backward(cr.trace(objective), wrt=("W1", "W2")).names)
    assert graph["W1_next"].origin.transform == "update"
    assert graph["dJ/dW1"].origin.transform == "backward"
    assert not graph["h"].origin.transform
    made = [node for node in graph if node.origin.transform == "update"]
    assert len(made) == 1 + 1 + 2 * 3  # learning_rate, its cast; broadcast, multiply, subtract
    assert set(graph.names) - before == {"learning_rate", "W1_next", "W2_next"}
    assert all(graph[name].origin.describe() for name in ("W1_next", "learning_rate"))


def test_a_step_equals_the_formulas():
    step, given = make(), weights()
    state = step.init(**given)
    data = batch(7)
    J = step(state, **data)
    expected, W1, W2 = numpy_step(data["x"].astype(float), data["y"], **given, learning_rate=0.1)
    assert isinstance(J, np.float32)
    # float32 carries 24 bits; sums here have at most 7 terms of order 1
    np.testing.assert_allclose(J, expected, rtol=1e-6)
    np.testing.assert_allclose(state["W1"], W1, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state["W2"], W2, rtol=1e-5, atol=1e-6)


def test_fifty_steps_with_short_last_batches_equal_a_numpy_loop():
    def exact(x: float64[n, 4], y: int64[n], W1: float64[4, 5], W2: float64[5, 3]):
        return objective(x, y, W1, W2, 1e-2)

    step = training_step(exact, wrt=("W1", "W2"), optimizer=sgd(0.3))
    W1, W2 = (value.astype(float) for value in weights().values())
    state = step.init(W1=W1, W2=W2)
    for index in range(50):
        data = batch(8 if index % 4 else 3, seed=index)
        x, y = data["x"].astype(float), data["y"]
        J = step(state, x=x, y=y)
        expected, W1, W2 = numpy_step(x, y, W1, W2, 0.3)
        np.testing.assert_allclose(J, expected, rtol=1e-11)  # float64, 50 steps of rounding
    assert state.steps == 50
    np.testing.assert_allclose(state["W1"], W1, rtol=1e-10)
    np.testing.assert_allclose(state["W2"], W2, rtol=1e-10)


def test_a_learning_rate_is_an_input_and_changes_no_graph():
    assert make(0.1).graph.structural_hash == make(0.2).graph.structural_hash
    step, other = make(0.1), make(0.2)
    state, other_state = step.init(**weights()), other.init(**weights())
    step(state, **batch(5), learning_rate=0.2)
    other(other_state, **batch(5))
    assert same(state, other_state.parameters)


def test_a_state_holds_copies_and_gives_copies():
    step, given = make(), weights()
    state = step.init(**given)
    old = {name: value.copy() for name, value in given.items()}
    given["W1"][:] = 9
    state["W1"][:] = 9
    state.parameters["W1"][:] = 9
    assert same(state, old)
    run = step.run(state, batch(2), keep="named")
    with pytest.raises(ValueError, match="read-only"):
        state.arrays["W1"][:] = 9
    assert run["dJ/dW1"].shape == (4, 5)
    assert same(state, old) and state.steps == 0


def failing_steps(step: TrainingStep, state: State):
    data = batch(4)
    wrong = {"x": data["x"], "y": data["y"] + 3}
    yield IndexOutOfRangeError, lambda: step(state, wrong)
    yield InputError, lambda: step(state, x=data["x"])
    yield InputError, lambda: step(state, x=data["x"].astype(float), y=data["y"])
    yield SizeError, lambda: step(state, x=data["x"], y=data["y"][:2])
    yield InputError, lambda: step(state, **data, learnign_rate=0.1)
    yield InputError, lambda: step(state, **data, W1=weights()["W1"])


def test_an_error_leaves_the_state_as_it_was():
    step, given = make(), weights()
    state = step.init(**given)
    for error, fails in failing_steps(step, state):
        with pytest.raises(error):
            fails()
        assert same(state, given) and state.steps == 0
    step(state, **batch(4))
    assert state.steps == 1


def test_what_a_step_was_not_given_is_explained():
    step = make()
    state = step.init(**weights())
    with pytest.raises(InputError) as caught:
        step(state, x=batch(2)["x"])
    assert caught.value.what == "step of objective was not given: y: int64[n]"
    assert "test_step.py" in caught.value.where
    assert caught.value.hint == "step(state, y=..., ...)"
    with pytest.raises(InputError, match="W1 was given to a step, and lives in the state"):
        step(state, **batch(2), W1=weights()["W1"])


def test_two_steps_at_a_time_are_refused():
    step = make()
    state = step.init(**weights())
    entered, leave = threading.Event(), threading.Event()

    def hold():  # as a step does
        with state.updating:
            state.is_stepping = True
            entered.set()
            leave.wait(5)
            state.is_stepping = False

    for taken in (0, 1):  # the first step binds the state, the second one finds it bound
        entered.clear()
        leave.clear()
        holder = threading.Thread(target=hold)
        holder.start()
        entered.wait(5)
        try:
            with pytest.raises(StateError, match="another step was still running"):
                step(state, **batch(2))
            assert state.steps == taken and state.arrays["W1"].shape == (4, 5)
        finally:
            leave.set()
            holder.join()
        step(state, **batch(2))
        assert state.steps == taken + 1


def test_who_reads_waits_for_the_step_that_is_running():
    step = make()
    state = step.init(**weights())
    read: list[object] = []
    readers = [
        threading.Thread(target=lambda what=what: read.append(what()))
        for what in (
            lambda: state["W1"],
            lambda: state.parameters,
            lambda: step.run(state, **batch(2)),
        )
    ]
    with state.updating:
        for reader in readers:
            reader.start()
        readers[0].join(0.05)
        assert not read
    for reader in readers:
        reader.join(5)
    assert len(read) == 3


def test_containers_of_parameters_stay_containers():
    def nested(x: float64[n, 2], params):
        h = np.tanh(x @ params["layer1"]["W"] + params["layer1"]["b"])
        J = np.sum((h @ params["layer2"][0]) ** 2)
        return J

    params = {
        "layer1": {"W": np.ones((2, 3)), "b": np.zeros(3)},
        "layer2": [np.full((3, 1), 0.5)],
    }
    step = training_step(nested, wrt="params", optimizer=sgd(0.1), params=params)
    assert [name for name, _ in step.graph.outputs] == [
        "J",
        "params.layer1.W_next",
        "params.layer1.b_next",
        "params.layer2[0]_next",
    ]
    state = step.init(params=params)
    step(state, x=np.ones((4, 2)))
    after = state["params"]
    assert after["layer1"].keys() == {"W", "b"} and isinstance(after["layer2"], list)
    assert not np.array_equal(after["layer1"]["W"], params["layer1"]["W"])
    assert np.array_equal(state["params.layer1.W"], after["layer1"]["W"])
    after["layer1"]["W"][:] = 9
    assert state["params.layer1.W"].max() < 9


def test_a_part_of_a_container_can_be_trained():
    def nested(params, x: float64[n, 2]):
        J = np.sum((x @ params["first"] @ params["second"]) ** 2)
        return J

    params = {"first": np.ones((2, 2)), "second": np.ones((2, 1))}
    step = training_step(nested, wrt="params.second", optimizer=sgd(0.1), params=params)
    state = step.init({"params.second": params["second"]})
    step(state, {"params.first": params["first"]}, x=np.ones((1, 2)))
    assert state["params.second"].max() < 1
    with pytest.raises(InputError, match=r"params\.first"):
        step(state, x=np.ones((1, 2)))


def test_names_that_are_taken_are_skipped():
    def f(w: float64[2], w_next: float64[2], learning_rate=2.0):
        J = learning_rate * np.sum(w * w_next)
        return J

    step = training_step(f, wrt=("w",), optimizer=sgd(0.1))
    assert [name for name, _ in step.graph.outputs] == ["J", "w_next_1"]
    assert step.scalars == {"learning_rate": "learning_rate_1"}
    state = step.init(w=np.ones(2))
    step(state, w_next=np.array([1.0, 2.0]), learning_rate_1=0.5)
    np.testing.assert_array_equal(state["w"], [1 - 0.5 * 2, 1 - 0.5 * 4])


def test_a_parameter_that_the_objective_does_not_reach_is_listed_and_stays():
    def f(w: float64[2], unused: float64[3]):
        J = np.sum(w**2)
        return J

    step = training_step(f, wrt=("w", "unused"), optimizer=sgd(0.1))
    assert step.unreached == ("unused",)
    state = step.init(w=np.ones(2), unused=np.ones(3))
    step(state)
    np.testing.assert_array_equal(state["unused"], np.ones(3))


def test_a_python_number_can_be_a_parameter():
    def f(w: float32[2], scale=3.0):
        J = scale**2 + np.sum(w)
        return J

    step = training_step(f, wrt=("scale", "w"), optimizer=sgd(0.25))
    state = step.init(w=np.zeros(2, np.float32))
    step(state)
    assert state["scale"] == 3.0 - 0.25 * 6
    assert (state["w"].dtype, state["scale"].dtype) == (np.float32, np.float64)


def test_a_graph_can_be_trained_and_one_output_of_several():
    def f(w: float64[2]):
        loss = np.sum(w**2)
        size = np.sum(np.abs(w))
        return loss, size

    graph = cr.trace(f)
    step = training_step(graph, wrt="w", optimizer=sgd(0.5), of="loss")
    state = step.init(w=np.array([3.0, 4.0]))
    assert step.run(state, keep=["size"])["size"] == 7
    assert step(state) == 25
    np.testing.assert_array_equal(state["w"], [0, 0])
    with pytest.raises(InputError, match="f has 2 outputs: loss, size"):
        training_step(graph, wrt="w", optimizer=sgd(0.5))
    with pytest.raises(InputError, match="which is a graph already"):
        training_step(graph, wrt="w", optimizer=sgd(0.5), w=np.ones(2))


def test_a_size_that_only_the_data_tells_is_checked_by_the_step():
    height, width = cr.sizes("height width")

    def f(image: float64[height, width], W: float64[height * width]):
        J = np.sum(image.reshape(-1) * W)
        return J

    step = training_step(f, wrt="W", optimizer=sgd(1))
    W = np.zeros(6)
    state = step.init(W=W)
    W[:] = 5  # the state holds a copy
    with pytest.raises(SizeError, match="axis 0 of the input W"):
        step(state, image=np.ones((2, 2)))
    step(state, image=np.ones((2, 3)))
    np.testing.assert_array_equal(state["W"], -np.ones(6))

"""What is never changed is its own copy; nothing is pickled, and the message says what to do."""

import copy
import io
import json
import pickle

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError, StateError, UnsupportedError

X = np.linspace(-1, 1, 12).reshape(4, 3)


def objective(x: cr.float64["n 3"], W: cr.float64["3 2"], scale=2.0):
    h = np.tanh(x @ W) + np.arange(2.0)
    J = np.sum(h**2) * scale
    return J


def weights():
    return {"W": np.full((3, 2), 0.5)}


GRAPH = cr.trace(objective)
STEP = cr.training_step(objective, wrt="W", optimizer=cr.adam(0.1), executor="reference")


def trainer_of(folder=None, parameters=None):
    return cr.Trainer(
        objective,
        parameters or weights(),
        cr.adam(0.1),
        {"x": X},
        batch_size=2,
        folder=folder,
        progress=False,
    )


FROZEN = {
    "a graph": GRAPH,
    "a graph that is a gradient": cr.backward(GRAPH, wrt="W"),
    "a node of a graph": GRAPH["h"],
    "a constant of a graph": next(
        node.param("value") for node in GRAPH.nodes if node.primitive.name == "constant"
    ),
    "a compiled graph": GRAPH.compile(executor="reference"),
    "a training step": STEP,
    "a training step in parts": STEP.micro_batched(2),
    "a primitive": GRAPH["h"].primitive,
}


@pytest.mark.parametrize("one", FROZEN.values(), ids=FROZEN)
def test_what_is_frozen_is_its_own_copy(one):
    assert copy.copy(one) is one
    assert copy.deepcopy({"held": [one]})["held"][0] is one


@pytest.mark.parametrize(("named", "one"), FROZEN.items(), ids=FROZEN)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_is_frozen_is_not_pickled(named, one, protocol):
    with pytest.raises(UnsupportedError) as caught:
        pickle.dumps([one], protocol)
    named = named.removesuffix(" that is a gradient")
    what = f"unpickling can run arbitrary code, so {named} cannot be pickled"
    assert what in str(caught.value)
    assert isinstance(caught.value, TypeError)  # as that of other objects that are not pickled


def test_the_hints_are_right_when_they_are_followed(tmp_path):
    """Arrays go by np.savez; the graph and the step are made again, and are the same."""
    run = GRAPH.run(x=X, **weights())
    np.savez(tmp_path / "run.npz", **run)
    with np.load(tmp_path / "run.npz") as found:
        assert found["h"].tobytes() == run["h"].tobytes()
    assert str(cr.trace(objective)) == str(GRAPH)
    state = STEP.init(**weights())
    STEP(state, x=X)
    np.savez(tmp_path / "state.npz", **state)
    again = cr.training_step(objective, wrt="W", optimizer=cr.adam(0.1), executor="reference")
    with np.load(tmp_path / "state.npz") as found:
        restored = again.restore(found)
    assert again(restored, x=X) == STEP(state, x=X)
    assert restored["W"].tobytes() == state["W"].tobytes()


HOLDING = {
    "a run": GRAPH.run(x=X, **weights()),
    "a report of memory": GRAPH.memory(n=4),
    "a report of cost": GRAPH.cost(n=4),
    "a list of equations": GRAPH.equations(),
    "a plan": STEP.plan(n=4),
}


@pytest.mark.parametrize(("named", "one"), HOLDING.items(), ids=HOLDING)
def test_what_holds_a_graph_is_copied_and_says_how_it_is_kept(named, one):
    for other in (copy.copy(one), copy.deepcopy(one)):
        assert other is not one
        assert str(other) == str(one)
    assert copy.copy(one).__dict__ == one.__dict__
    with pytest.raises(UnsupportedError) as caught:
        pickle.dumps(one)
    assert f"so {named} cannot be pickled" in str(caught.value)
    if hasattr(one, "json"):
        assert "json.dumps(report.json())" in caught.value.hint
        assert json.loads(json.dumps(one.json())) == one.json()
    elif named == "a run":
        assert "np.savez(file, **run)" in caught.value.hint
        np.savez(file := io.BytesIO(), **one)
        file.seek(0)
        assert {name: array.tolist() for name, array in np.load(file).items()} == {
            name: array.tolist() for name, array in one.items()
        }
    else:
        assert "is its text" in caught.value.hint


def test_a_run_is_copied_with_arrays_of_its_own():
    run = GRAPH.run(x=X, **weights())
    other = copy.deepcopy(run)
    assert {name: value.tobytes() for name, value in other.items()} == {
        name: value.tobytes() for name, value in run.items()
    }
    assert not np.shares_memory(other["h"], run["h"])


def test_reports_plans_and_equations_are_copied():
    shown = GRAPH.memory(n=4), GRAPH.cost(n=4), GRAPH.equations(), GRAPH.draw()
    for one in (*shown, STEP.plan(n=4)):
        assert str(copy.deepcopy(one)) == str(one)


@pytest.mark.exhaustive
def test_a_deep_graph_is_copied_without_recursion():
    def deep(x):
        for _ in range(20_000):
            x = x + 1.0
        return x

    graph = cr.trace(deep, np.zeros(()))
    assert copy.deepcopy([graph])[0].run(x=np.zeros(())).outputs == 20_000


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("has_folder", [False, True])
def test_a_trainer_is_not_copied(take, has_folder, tmp_path):
    folder = tmp_path / "run" if has_folder else None
    trainer = trainer_of(folder)
    trainer.fit(2)
    with pytest.raises(StateError, match="a trainer is neither copied nor pickled") as caught:
        take(trainer)
    assert "trainer.state.parameters" in str(caught.value)
    other = trainer_of(parameters=trainer.state.parameters)
    assert other.state["W"].tobytes() == trainer.state["W"].tobytes()
    if has_folder:
        again = trainer_of(folder)
        again.fit(3)
        trained = trainer_of()
        trained.fit(3)
        assert again.state["W"].tobytes() == trained.state["W"].tobytes()


@pytest.mark.parametrize("take", [copy.deepcopy, pickle.dumps])
def test_a_folder_is_held_once(take, tmp_path):
    with cr.Checkpoints(tmp_path, STEP) as checkpoints:
        with pytest.raises(ChainruleError, match=r"cannot be pickled|neither copied nor pickled"):
            take(checkpoints)
        checkpoints.save(STEP.init(**weights()))

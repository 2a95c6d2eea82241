"""What a new state takes: each array once, and nothing written where it begins at 0."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import MemoryLimitError, StateError
from chainrule.execute import free_memory
from chainrule.execute.free_memory import FreeMemory


def step_of_adam():
    def objective(W: cr.float64["d q"], b: cr.float64["q"], x: cr.float64["n d"]) -> cr.float64[""]:
        J = np.mean((x @ W + b) ** 2)
        return J

    return cr.training_step(objective, wrt=("W", "b"), optimizer=cr.adam(0.1))


@pytest.mark.parametrize("initial", [0.0, -0.0, 1.5])
def test_arrays_of_one_number_begin_as_it(initial):
    from chainrule.train.step.state import State

    given = {
        "p": np.arange(6.0).reshape(2, 3),
        "m": np.broadcast_to(np.float64(initial), (2, 3)),
        "n": np.float64(initial) * np.ones(()),
        "e": np.broadcast_to(np.float64(initial), (0, 3)),
    }
    state = State(given, ("p",), {})
    for name, array in given.items():
        assert state[name].shape == array.shape
        assert state[name].tobytes() == array.tobytes()
    assert all(array.flags.c_contiguous for array in state.arrays.values())


def test_init_copies_parameters_once():
    W = np.ones((1000, 1000))
    step = step_of_adam()
    step.init(W=W, b=np.zeros(1000))  # imports and checks, once
    tracemalloc.start()
    state = step.init(W=W, b=np.zeros(1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    held = sum(array.nbytes for array in state.values())
    assert held > 3 * W.nbytes  # and the moments
    assert peak < held + W.nbytes / 2
    W[:] = 7  # the state has a copy
    assert (state["W"] == 1).all()


def test_a_state_beyond_the_free_memory_is_refused(monkeypatch):
    monkeypatch.setattr(free_memory, "WORTH_CHECKING", 1000)
    monkeypatch.setattr(free_memory, "free_memory", lambda: FreeMemory(20_000, "a test"))
    with pytest.raises(MemoryLimitError) as caught:
        step_of_adam().init(W=np.ones((30, 30)), b=np.ones(30))
    assert "the state of a training needs 22,528 bytes" in str(caught.value)
    assert "20,000 are free (a test)" in str(caught.value)


def test_copies_of_a_state_have_memory_of_their_own():
    step = step_of_adam()
    state = step.init(W=np.ones((3, 2)), b=np.zeros(2))
    step(state, x=np.ones((4, 3)))
    for other in (copy.copy(state), copy.deepcopy(state)):
        assert other.steps == 1 and (other["W"] == state["W"]).all()
        before = state["W"]
        step(other, x=np.ones((4, 3)))
        assert (state["W"] == before).all() and (other["W"] != before).any()
    with pytest.raises(StateError, match="a state cannot be pickled") as caught:
        pickle.dumps(state)
    assert "np.savez" in str(caught.value)

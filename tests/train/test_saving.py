"""A state is a mapping that can be saved, copied, and restored to go on as if nothing had been."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stepping import OPTIMIZERS, batch, network, typed, weights

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, NameLookupError, SizeError, StateError
from chainrule.train import State, TrainingStep


@pytest.fixture(autouse=True, params=["reference", "native"])
def executor(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test is true of both executors."""
    monkeypatch.setenv("CHAINRULE_EXECUTOR", request.param)


def made(optimizer: str = "adam") -> TrainingStep:
    wrt = ("W1", "W2", "b1", "b2")
    types = typed(np.float32, biases=True)
    names = {"b1": cr.float32[33], "b2": cr.float32[10]}
    return cr.training_step(network, wrt, OPTIMIZERS[optimizer](), **{**types, **names})


def begun(step: TrainingStep, count: int = 3) -> State:
    """A state after some steps."""
    state = step.init(weights(np.float32, biases=True))
    for seed in range(count):
        step(state, batch(np.float32, 16, seed))
    return state


def bits(state: Mapping[str, Any]) -> dict[str, bytes]:
    return {name: np.asarray(array).tobytes() for name, array in state.items()}


# Reading ------------------------------------------------------------------------------------------


def test_a_state_is_a_mapping_of_its_arrays() -> None:
    state = begun(made())
    parameters = ["W1", "W2", "b1", "b2"]
    assert isinstance(state, Mapping)
    assert list(state)[:4] == parameters and "W1_m" in list(state) and "steps" in list(state)
    assert len(state) == len(list(state)) == 4 + 2 * 4 + 1
    assert list(state.keys()) == list(state) == list(state.arrays)
    assert all(np.array_equal(array, state[name]) for name, array in state.items())
    assert "W1" in state and "W3" not in state and 0 not in state
    assert bits(dict(state)) == bits({**state}) == bits(state)
    assert state.get("W3") is None


def test_what_is_read_is_a_copy() -> None:
    state = begun(made())
    before = bits(state)
    state["W1"][:] = 7
    for array in state.values():
        array[...] = 7
    assert bits(state) == before


def test_an_assignment_is_refused_and_its_advice_works() -> None:
    step = made()
    state = begun(step)
    anything: Any = state  # whose type would refuse it
    with pytest.raises(StateError) as caught:
        anything["W1"] = state["W1"] * 0
    recipe = caught.value.hint.partition(": ")[2]
    assert recipe == "state = step.restore({**state, 'W1': value}, steps=state.steps)"
    changed = step.restore({**state, "W1": state["W1"] * 0}, steps=state.steps)
    assert not changed["W1"].any() and changed.steps == state.steps
    assert {**bits(changed), "W1": b""} == {**bits(state), "W1": b""}


def test_a_container_is_read_whole_and_counted_by_its_parts() -> None:
    _, state = contained()
    assert list(state) == ["params.W", "params.b"]
    assert "params" in state and "params.W" in state
    assert list(state["params"]) == ["W", "b"]
    np.testing.assert_array_equal(state["params"]["W"], state["params.W"])


def contained() -> tuple[TrainingStep, State]:
    def objective(params: Any, x: float64["n 3"]) -> Any:
        J = np.sum((x @ params["W"] + params["b"]) ** 2)
        return J

    types = {"W": float64["3 2"], "b": float64["2"]}
    step = cr.training_step(objective, "params", cr.sgd(0.01), params=types)
    return step, step.init(params={"W": np.ones((3, 2)), "b": np.zeros(2)})


@pytest.mark.parametrize("name", ["W_1", "w1", 0])
def test_a_name_that_is_not_there_is_explained(name: Any) -> None:
    with pytest.raises(NameLookupError) as caught:
        begun(made())[name]
    assert caught.value.what == f"the state has no array called {name!r}"
    assert caught.value.hint.endswith("one of: W1, W2, b1, b2, W1_m, W1_v, W2_m, W2_v, b1_m, b1_v, b2_m, b2_v, steps")  # fmt: skip # noqa: E501
    assert caught.value.hint.startswith("perhaps W1; ") == (name != 0)


def test_states_are_equal_only_to_themselves() -> None:
    state = begun(made())
    assert state == state and state != state.copy() and len({state, state.copy()}) == 2


# Copying ------------------------------------------------------------------------------------------


def test_a_copy_goes_its_own_way() -> None:
    step = made()
    state = begun(step)
    before, other = bits(state), state.copy()
    assert other.steps == state.steps == 3 and bits(other) == before
    J = step(other, batch(np.float32, 16, 5))
    assert bits(state) == before != bits(other) and (state.steps, other.steps) == (3, 4)
    assert step(state, batch(np.float32, 16, 5)) == J
    assert bits(state) == bits(other)


def test_a_copy_keeps_containers() -> None:
    _, state = contained()
    assert list(state.copy()["params"]) == ["W", "b"]


def test_a_state_that_a_fork_has_torn_is_not_copied() -> None:
    state = begun(made())
    state.is_torn = True
    with pytest.raises(StateError, match="may be half updated here"):
        state.copy()


# Restoring ----------------------------------------------------------------------------------------


@pytest.mark.sweep(5)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_after_restoring_are_those_without_the_break(optimizer: str, tmp_path: Path) -> None:
    step = made(optimizer)
    state = begun(step)
    np.savez(tmp_path / "state.npz", **state)
    later = made(optimizer)  # as another process makes it
    with np.load(tmp_path / "state.npz") as saved:
        restored = later.restore(saved, steps=state.steps)
    assert restored.steps == 3 and list(restored) == list(state) and bits(restored) == bits(state)
    for seed in range(10, 14):
        given = batch(np.float32, 16, seed)
        assert step(state, given).tobytes() == later(restored, given).tobytes()
        assert bits(restored) == bits(state)


def test_init_from_saved_parameters_begins_the_optimizer_anew() -> None:
    step = made()
    state = begun(step)
    again = step.init(state.parameters)
    assert again.steps == 0 and not again["W1_m"].any() and again["W1"].any()


def test_a_restored_state_has_its_containers() -> None:
    step, state = contained()
    step(state, x=np.ones((2, 3)))
    for arrays in ({**state}, {"params": state["params"]}):
        restored = step.restore(arrays)
        assert bits(restored) == bits(state) and restored.steps == 0
        assert list(restored["params"]) == ["W", "b"]


@pytest.mark.parametrize(
    ("changes", "kind", "what", "hint"),
    [
        (
            {"W1_m": None},
            InputError,
            "step.restore of network was not given: W1_m: float32[20, 33]",
            "it takes all arrays of a state, {**state}; step.init begins with parameters alone",
        ),
        (
            {"w1": np.ones(2)},
            InputError,
            "w1 was given to step.restore, and a state of network has no such array",
            "perhaps W1; its arrays are: W1, W2, b1, b2, W1_m,",
        ),
        (
            {"W1_v": np.zeros((20, 33))},
            InputError,
            "the input W1_v of network must be float32[20, 33], got float64[20, 33]",
            "convert it: W1_v.astype(np.float32)",
        ),
        (
            {"W1_v": np.zeros((33, 20), np.float32)},
            InputError,
            "the input W1_v of network must be float32[20, 33], got float32[33, 20] (axis 0)",
            "check the order of the axes",
        ),
    ],
)
def test_arrays_that_are_no_state_are_explained(
    changes: dict[str, Any], kind: type[Exception], what: str, hint: str
) -> None:
    step = made()
    given = {k: v for k, v in {**begun(step), **changes}.items() if v is not None}
    with pytest.raises(kind) as caught:
        step.restore(given)
    assert caught.value.what == what  # type: ignore[attr-defined]
    assert caught.value.hint.startswith(hint)  # type: ignore[attr-defined]


def test_restored_arrays_whose_sizes_disagree_are_refused() -> None:
    def square(w: float64["a"]) -> Any:
        J = np.sum(w**2)
        return J

    step = cr.training_step(square, "w", cr.sgd(0.1, momentum=0.9))
    arrays = {"w": np.ones(3), "w_velocity": np.ones(4)}
    with pytest.raises(SizeError, match="axis 0 of the input w_velocity of square must be a = 3"):
        step.restore(arrays)


def test_init_says_where_the_optimizers_arrays_go() -> None:
    step = made()
    with pytest.raises(InputError) as caught:
        step.init({**begun(step)})
    assert caught.value.what == "W1_m is an array of the optimizer, which step.init makes anew"
    assert caught.value.hint == (
        "step.restore({...}) takes the optimizer's arrays as well;\n"
        "the parameters (wrt=) are: W1, W2, b1, b2"
    )

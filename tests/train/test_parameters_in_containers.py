"""What takes parameters takes their containers and their names alike, and gives containers back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32
from chainrule.errors import InputError, NotDifferentiableError, TypeSpecError

RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


X, Y = normal(10, 3), normal(10)
DATA = {"x": X, "y": Y}


class Layer(NamedTuple):
    W: Any
    b: Any


@dataclass
class Dense:
    b: Any
    W: Any
    activation: str = "tanh"


def by_key(params, x: float32["n 3"], y: float32["n"]):
    h = np.tanh(x @ params["layers"][0]["W"] + params["layers"][0]["b"])
    J = np.mean((h @ params["out"]["W"] - y) ** 2)
    return J


def unpacked(params, x: float32["n 3"], y: float32["n"]):
    h = x
    for W, b in params[:-1]:
        h = np.tanh(h @ W + b)
    (w,) = params[-1]
    J = np.mean((h @ w - y) ** 2)
    return J


def by_attribute(params: dict[str, Any], x: float32["n 3"], y: float32["n"]):
    h = x
    for layer in params["layers"]:
        h = np.tanh(h @ layer.W + layer.b)
    J = np.mean((h @ params["w"] - y) ** 2)
    return J


def keyed(kind: type) -> Any:
    layer = kind([("b", normal(4)), ("W", normal(3, 4))])
    return kind([("out", kind([("W", normal(4))])), ("layers", [layer])])


def tree_of_defaults(pairs: list[tuple[str, Any]]) -> Any:
    return defaultdict(list, pairs)


FORMS: dict[str, tuple[Any, Any]] = {
    "dict": (by_key, keyed(dict)),
    "ordered": (by_key, keyed(OrderedDict)),
    "defaults": (by_key, keyed(tree_of_defaults)),  # type: ignore[arg-type]
    "tuples": (unpacked, [(normal(3, 4), normal(4)), (normal(4, 4), normal(4)), (normal(4),)]),
    "named tuples": (by_attribute, {"w": normal(4), "layers": [Layer(normal(3, 4), normal(4))]}),
    "dataclasses": (by_attribute, {"w": normal(4), "layers": (Dense(normal(4), normal(3, 4)),)}),
}


def same(one: Any, other: Any) -> bool:
    """Whether two containers are alike to the last bit, types and orders of dicts included."""
    if isinstance(one, np.ndarray):
        return type(other) is np.ndarray and one.dtype == other.dtype and np.array_equal(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Dense):
        return same(vars(one), vars(other))
    return one == other


def step_of(objective: Any, params: Any, optimizer: Any = None) -> cr.TrainingStep:
    optimizer = optimizer or cr.adam(0.05)
    return cr.training_step(objective, "params", optimizer, executor="reference", params=params)


@pytest.mark.parametrize("form", FORMS)
def test_parameters_come_back_as_they_were_given(form: str) -> None:
    objective, params = FORMS[form]
    step = step_of(objective, params)
    begun = step.init(params=params)
    assert same(begun.parameters, {"params": params})
    assert same(begun["params"], params) and same(begun.weights, begun.parameters)
    flat = {name: begun[name] for name in step.parameters}
    for given in ({"params": params}, flat, begun.parameters):
        assert same(step.init(given).parameters, {"params": params})
    step(begun, DATA)
    assert same(step.restore({**begun}).parameters, begun.parameters)
    assert not same(begun.parameters, {"params": params})


@pytest.mark.parametrize("form", FORMS)
def test_containers_and_names_are_taken_alike(form: str, tmp_path) -> None:
    objective, params = FORMS[form]
    step = step_of(objective, params)
    state = step.init(params=params)
    step(state, DATA)
    nested, flat = state.parameters, {name: state[name] for name in step.parameters}
    expected = cr.evaluate(step, state, DATA, executor="reference")
    for what, given in [
        (step, nested),
        (step, flat),
        (cr.trace(objective, params=params), nested),
        (objective, nested),
        (objective, state),
    ]:
        assert cr.evaluate(what, given, DATA, executor="reference") == expected
    h = [cr.predict(step, given, {"x": X}, "h") for given in (state, nested, flat)]
    assert same(h[0], h[1]) and same(h[0], h[2])
    graph = cr.trace(objective, params=params)
    assert graph.run(nested, **DATA)["J"] == graph.run(flat, **DATA)["J"]
    path = cr.save_weights(tmp_path / "w.safetensors", nested)
    loaded = cr.load_weights(path)
    assert loaded.keys() == flat.keys() and all(np.array_equal(loaded[n], flat[n]) for n in flat)
    assert same(cr.load_weights(path, like={"params": params}), nested)


@pytest.mark.parametrize("form", FORMS)
def test_a_trainer_gives_the_containers_back(form: str, tmp_path) -> None:
    objective, params = FORMS[form]
    given: Any = ({"params": params}, cr.adam(0.05), DATA)
    options: Any = {"progress": False, "executor": "reference", "folder": tmp_path / "run"}
    trainer = cr.Trainer(objective, *given, **options)
    trainer.fit(1)
    found = trainer.state.parameters
    assert type(found["params"]) is type(params)
    assert same(cr.Trainer(objective, *given, **options).state.parameters, found)  # resumed
    flat = {name: trainer.state[name] for name in trainer.step.parameters}
    again = cr.Trainer(trainer.step, flat, data=DATA, progress=False)
    assert same(again.state.parameters, found)
    nested = cr.Trainer(objective, found, cr.adam(0.05), DATA, progress=False)
    assert same(nested.state.parameters, found)


def test_the_state_of_an_objective_comes_back_in_its_containers() -> None:
    def averaged(params, slow, x: float32["n 3"], y: float32["n"]):
        J = by_key(params, x, y)
        layers = [{"W": params["layers"][0]["W"] * 0.5, "b": slow["layers"][0]["b"]}]
        return J, {"slow": {"layers": layers, "out": slow["out"]}}

    params = FORMS["dict"][1]
    types: Any = {"params": params, "slow": params}
    step = cr.training_step(
        averaged, "params", cr.sgd(0.1), state="slow", executor="reference", **types
    )
    state = step.init(**types)
    assert same(state.carried, {"slow": params})
    assert list(state.weights) == ["params", "slow"]
    step(state, DATA)
    assert same(step.init(state.weights).carried, state.carried)
    assert np.array_equal(
        state.carried["slow"]["layers"][0]["W"], params["layers"][0]["W"] * np.float32(0.5)
    )


def test_a_container_that_is_trained_in_part_comes_back_by_names() -> None:
    params = FORMS["dict"][1]
    step = cr.training_step(
        by_key, "params.layers", cr.sgd(0.1), executor="reference", params=params
    )
    assert step.parameters == ("params.layers[0].W", "params.layers[0].b")
    state = step.init({"params.layers": params["layers"]})
    assert list(state.parameters) == list(step.parameters)
    both = {**state.parameters, "params.out.W": params["out"]["W"]}
    assert cr.evaluate(step, both, DATA) == cr.evaluate(step, {"params": params}, DATA)


@pytest.mark.peers
def test_trees_are_those_of_jax() -> None:
    jax = pytest.importorskip("jax")
    for objective, params in FORMS.values():
        if objective is by_attribute and isinstance(params["layers"], tuple):
            continue  # dataclasses are registered with JAX by hand
        state = step_of(objective, params).init(params=params)
        given, found = ({"params": params}, state.parameters)
        assert jax.tree_util.tree_structure(given) == jax.tree_util.tree_structure(found)
        ours = [state[name] for name in step_of(objective, params).parameters]
        theirs = jax.tree_util.tree_leaves(given)
        assert all(map(np.array_equal, ours, theirs)) and len(ours) == len(theirs)


def test_none_and_empty_containers_have_no_arrays_as_in_jax() -> None:
    def objective(params, x: float32["n 3"], y: float32["n"]):
        b = 0 if params["b"] is None else params["b"]
        J = np.mean((x @ params["W"] + b - y) ** 2)
        return J

    params = {"b": None, "W": normal(3), "more": ()}
    state = step_of(objective, params).init(params=params)
    assert same(state.parameters, {"params": params})
    with pytest.raises(InputError, match=r"unknown params\.b"):
        step_of(objective, params).init(params={**params, "b": np.float32(1)})


# Refusals ------------------------------------------------------------------------------------


def refusal(call: Any, error: type[Exception] = InputError) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_what_is_given_twice_is_refused() -> None:
    params = FORMS["dict"][1]
    step = step_of(by_key, params)
    twice = {"params": params, "params.out.W": normal(4)}
    for call in (
        lambda: step.init(twice),
        lambda: cr.evaluate(step, twice, DATA),
        lambda: cr.trace(by_key, params=params).run(twice, **DATA),
        lambda: cr.Trainer(step, twice, data=DATA),
    ):
        assert "params.out.W is given twice" in refusal(call)


def test_names_that_two_inputs_would_have_are_refused() -> None:
    def summed(p, **more):
        return np.sum(p["W"]) + np.sum(more["p.W"])

    said = refusal(lambda: cr.trace(summed, p={"W": X}, **{"p.W": X}))
    assert "two inputs are called p.W" in said and "summed" in said

    class Key:
        def __repr__(self) -> str:
            return "K"

    said = refusal(lambda: cr.trace(lambda p: sum(p.values()), {Key(): X, Key(): X}))
    assert "two parts of the container p are called p[K]" in said


def test_a_container_that_changed_is_told_by_its_parts() -> None:
    params = FORMS["dict"][1]
    step = step_of(by_key, params)
    layers = params["layers"]
    more, less = {**params, "layers": layers * 2}, {**params, "layers": []}
    for call in (
        lambda given: step.init(params=given),
        lambda given: cr.evaluate(step, {"params": given}, DATA),
        lambda given: cr.trace(by_key, params=params).run(params=given, **DATA),
    ):
        said = refusal(lambda call=call: call(more))
        assert "unknown params.layers[1].b, params.layers[1].W" in said.replace(
            "W, params.layers[1].b", "b, params.layers[1].W"
        )
        assert "missing params.layers[0].W" in refusal(lambda call=call: call(less))


def test_text_in_a_container_is_part_of_the_program() -> None:
    def objective(params, x: float32["n 3"], y: float32["n"]):
        h = x @ params["W"]
        h = np.tanh(h) if params["activation"] == "tanh" else h
        J = np.mean((h - y) ** 2)
        return J

    params = {"W": normal(3), "activation": "tanh"}
    step = step_of(objective, params, cr.sgd(0.1))
    assert step.parameters == ("params.W",)
    state = step.init(params=params)
    assert same(state.parameters, {"params": params})
    trainer = cr.Trainer(objective, {"params": params}, cr.sgd(0.1), DATA, progress=False)
    trainer.fit(1)
    assert trainer.state.parameters["params"]["activation"] == "tanh"
    other = {**params, "activation": "relu"}
    for call in (
        lambda: step.init(params=other),
        lambda: cr.evaluate(step, {"params": other}, DATA),
        lambda: cr.trace(objective, params=params).run(params=other, **DATA),
    ):
        assert "traced with params.activation = 'tanh'" in refusal(call)
    said = refusal(lambda: cr.grad(objective)(params, X, Y), NotDifferentiableError)
    assert "params.activation is 'tanh', a str" in said


def test_a_number_that_is_no_parameter_stays_in_its_container() -> None:
    def objective(params, x: float32["n 3"], y: float32["n"]):
        J = np.mean((x @ params["W"] * params["times"] - y) ** 2)
        return J

    params = {"W": normal(3), "times": 2}
    said = refusal(lambda: step_of(objective, params), NotDifferentiableError)
    assert "params.times is weak int64[]" in said and "wrt=('params.W',)" in said
    step = cr.training_step(objective, "params.W", cr.sgd(0.1), executor="reference", params=params)
    state = step.init(params=params)
    assert list(state.parameters) == ["params.W"]
    said = refusal(lambda: step.init(params={**params, "times": 3}))
    assert "params.times is an input of objective and no parameter" in said


def test_containers_of_other_classes_are_refused() -> None:
    class Mine(dict):
        pass

    params = FORMS["dict"][1]
    for kind in (Mine, MappingProxyType):
        said = refusal(lambda kind=kind: cr.trace(by_key, params=kind(params)), TypeSpecError)
        assert "which is not taken apart" in said and "try: dict(params)" in said
    cr.trace(lambda x, config: x, X, MappingProxyType({"depth": 3}))  # has no array


def test_a_bare_container_is_told_its_name() -> None:
    params = FORMS["dict"][1]
    step = step_of(by_key, params)
    for call in (
        lambda: step.init(params),
        lambda: cr.evaluate(step, params, DATA),
        lambda: cr.predict(step, params, DATA, "h"),
        lambda: cr.Trainer(by_key, params, cr.sgd(0.1), DATA),
        lambda: cr.evaluate(by_key, params, DATA),
    ):
        assert '{"params": params}' in refusal(call)
    tuples = FORMS["tuples"][1]
    step = step_of(unpacked, tuples)
    for call in (lambda: step.init(tuples), lambda: cr.evaluate(step, tuples, DATA)):
        assert '{"params": params}' in refusal(call)


def test_arrays_one_by_one_need_a_graph_that_knows_their_container() -> None:
    params = FORMS["dict"][1]
    step = step_of(by_key, params)
    state = step.init(params=params)
    flat = {name: state[name] for name in step.parameters}
    for call in (
        lambda: cr.evaluate(by_key, flat, DATA),
        lambda: cr.Trainer(by_key, flat, cr.sgd(0.1), DATA),
    ):
        said = refusal(call)
        assert "params of by_key is a container, whose arrays are given one by one" in said
        assert 'load_weights(path, like={"params": params})' in said

"""A native training step does what the reference step does, step for step."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest
from stepping import OPTIMIZERS, RTOL, agree, batch, both, follow, network, typed, weights

import chainrule as cr
from chainrule import float64, int64
from chainrule.errors import ChainruleError, IndexOutOfRangeError
from chainrule.schedule.records import SCRATCH
from chainrule.train import TrainingStep

ROOT = Path(__file__).parents[2]
n = cr.size("n")


@pytest.mark.slow
@pytest.mark.sweep(22)
@pytest.mark.parametrize(
    ("dtype", "biases"),
    [(np.float64, False), (np.float32, True), (np.float32, False)],
    ids=["float64", "float32-biases", "float32"],
)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_equal_the_references_whatever_the_batch(optimizer: str, dtype: Any, biases: bool):
    given = weights(dtype, biases)
    steps = both(network, tuple(given), OPTIMIZERS[optimizer](), **typed(dtype, biases))
    sizes = [8, 8, 3, 8, 1, 3, 8]
    # Adam divides by the root of v, of which float32 leaves few digits where gradients are small.
    rtol = 5e-4 if dtype is np.float32 and optimizer.startswith("adam") else RTOL[dtype]
    follow(steps, given, [batch(dtype, rows, k) for k, rows in enumerate(sizes)], rtol)


@pytest.mark.exhaustive
def test_more_sizes_than_a_state_remembers_can_alternate():
    given = weights(np.float64, False)
    steps = both(network, tuple(given), cr.sgd(0.1), **typed(np.float64, False))
    sizes = [*range(1, 12), 1, 11, 2]
    follow(steps, given, [batch(np.float64, k, k) for k in sizes], 1e-12)


def test_a_penalty_in_the_objective_is_descended_too():
    def penalised(
        x: float64[n, 20], y: int64[n], W1: float64[20, 33], W2: float64[33, 10], decay=0.1
    ):
        L = network(x, y, W1, W2)
        J = L + decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
        return J

    given = weights(np.float64, False)
    steps = both(penalised, ("W1", "W2"), cr.sgd(0.1))
    batches: list[dict[str, Any]] = [batch(np.float64, 6, k) for k in range(5)]
    batches[2]["decay"] = 0.5
    follow(steps, given, batches, 1e-12)


def test_containers_of_parameters_and_of_data_are_stepped():
    def nested(batch: Any, params: Any) -> Any:
        h = batch["x"]
        for layer in params["layers"]:
            h = np.tanh(h @ layer["W"] + layer["b"])
        J = np.mean((h - batch["target"]) ** 2)
        return J

    random = np.random.default_rng(0)
    layers = [{"W": random.normal(size=(5, 5)), "b": random.normal(size=5)} for _ in range(3)]
    data = {"x": random.normal(size=(7, 5)), "target": random.normal(size=(7, 5))}
    params = {"layers": layers}
    steps = both(nested, "params", cr.adam(0.01), batch=data, params=params)
    state, wanted = follow(steps, {"params": params}, [{"batch": data}] * 4, 1e-12)
    after = state["params"]
    assert after.keys() == params.keys() and isinstance(after["layers"], list)
    np.testing.assert_allclose(
        after["layers"][2]["W"], wanted["params"]["layers"][2]["W"], rtol=1e-11
    )


def test_a_learning_rate_that_is_given_holds_for_one_step():
    given = weights(np.float64, False)
    steps = both(network, ("W1", "W2"), cr.sgd(0.1, momentum=0.5), **typed(np.float64, False))
    rates: list[dict[str, Any]] = [
        *({}, {"learning_rate": 0.5}, {}, {"learning_rate": 1}, {}),
        *({"learning_rate": np.float64(0.3), "momentum": 0.1}, {}, {"learning_rate": 0.0}, {}),
    ]
    batches = [{**batch(np.float64, 5, k), **rate} for k, rate in enumerate(rates)]
    follow(steps, given, batches, 1e-12)


def test_nan_and_infinity_go_through_a_step():
    given = weights(np.float64, False)
    steps = both(network, ("W1", "W2"), cr.sgd(0.1), **typed(np.float64, False))
    data = batch(np.float64, 5, 0)
    data["x"][1, 2], data["x"][3, 4] = np.inf, np.nan
    state, wanted = (step.init(given) for step in steps)
    J, expected = steps[0](state, data), steps[1](wanted, data)
    assert np.isnan(J) and np.isnan(expected)
    for name in ("W1", "W2"):
        assert np.array_equal(np.isnan(state[name]), np.isnan(wanted[name]))


def test_errors_have_the_same_text_and_leave_every_bit_of_the_state():
    given = weights(np.float32, True)
    good = batch(np.float32, 6, 0)
    wrong = [
        {**good, "y": good["y"] + 9},
        {**good, "y": good["y"] - 10},
        {**good, "x": good["x"].astype(float)},
        {**good, "x": good["x"][:, :5]},
        {**good, "y": good["y"][:2]},
        {**good, "learnign_rate": 0.1},
        {**good, "learning_rate": "fast"},
        {**good, "learning_rate": np.ones(2)},
        {**good, "W1": given["W1"]},
        {"x": good["x"]},
        {},
    ]
    told = []
    for executor in ("native", "reference"):
        step = cr.training_step(
            network, tuple(given), cr.adam(0.1), executor=executor, **typed(np.float32, True)
        )
        state, texts = step.init(given), []
        for prepare in (lambda: None, lambda step=step, state=state: step(state, good)):
            prepare()
            before = {name: state[name].tobytes() for name in state.arrays}
            steps = state.steps
            for bad in wrong:
                with pytest.raises(ChainruleError) as caught:
                    step(state, bad)
                texts.append((type(caught.value), str(caught.value)))
                after = {name: state[name].tobytes() for name in state.arrays}
                assert after == before and state.steps == steps
        step(state, good)
        told.append(texts)
    assert told[0] == told[1]
    assert told[0][0][0] is IndexOutOfRangeError


@pytest.mark.slow
def test_a_run_shows_the_step_that_would_be_taken():
    given = weights(np.float64, True)
    steps = both(network, tuple(given), cr.adamw(0.01), **typed(np.float64, True))
    data = batch(np.float64, 6, 0)
    state, wanted = follow(steps, given, [data] * 2, 1e-12)
    run, expected = (
        steps[0].run(state, data, keep="named"),
        steps[1].run(wanted, data, keep="named"),
    )
    assert [*run] == [*expected]
    for name in run:
        np.testing.assert_allclose(run[name], expected[name], rtol=1e-11, atol=1e-13, err_msg=name)
    assert state.steps == 2
    J = steps[0](state, data)
    assert J == run["L"]
    for name in given:
        np.testing.assert_allclose(state[name], run[f"{name}_next"], rtol=1e-13, atol=1e-15)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_backward_pass_reads_the_parameters_before_the_update(optimizer: str):
    def deep(x: float64[6, 8], A: float64[8, 8], B: float64[8, 8], C: float64[8, 8]):
        J = np.sum(np.tanh(np.tanh(np.tanh(x @ A) @ B) @ C) ** 2)
        return J

    random = np.random.default_rng(0)
    given = {name: random.normal(size=(8, 8)) for name in "ABC"}
    x = random.normal(size=(6, 8))
    gradients = cr.grad(deep, wrt=("A", "B", "C"), executor="reference")(x, **given)
    # A large rate: a gradient that saw a new parameter would be quite another one.
    steps = both(deep, ("A", "B", "C"), OPTIMIZERS[optimizer]())
    state, _ = follow(steps, given, [{"x": x, "learning_rate": 10.0}], 1e-12)
    if optimizer == "sgd":
        for name, gradient in zip("ABC", gradients, strict=True):
            np.testing.assert_allclose(state[name], given[name] - 10 * gradient, rtol=1e-11)


def test_with_decay_a_gradient_is_folded_into_the_product_and_has_no_buffer():
    step = cr.training_step(
        network,
        ("W1", "W2"),
        cr.sgd(0.1, weight_decay=0.01),
        executor="native",
        **typed(np.float32, False),
    )
    plan = step.plan(n=256)
    nbytes = {item.type.nbytes for item in plan.graph.inputs if item.name in ("W1", "W2")}
    scratch = [
        node
        for compute in plan.computes
        for node, buffer in zip(compute.nodes, compute.into, strict=True)
        if buffer.arena == SCRATCH
    ]
    assert not nbytes & {node.type.nbytes for node in scratch}
    for name in ("W1", "W2"):
        assert plan.graph[f"dL/d{name}"] not in scratch
        given = plan.graph.input(name).node
        assert plan.overwrites[given] is plan.graph[f"{name}_next"]
        (update,) = [c for c in plan.computes if plan.graph[f"{name}_next"] in c.nodes]
        assert plan.schedule.given[given] in update.into
    kept = cr.backward(cr.trace(network, **typed(np.float32, False)), wrt=("W1", "W2"))
    assert kept.compile(executor="native").plan(n=256).computes  # here gradients are results


def transformer() -> Any:
    path = ROOT / "benchmarks" / "cases" / "transformer_objective.py"
    spec = importlib.util.spec_from_file_location("transformer_objective", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_small_transformer_is_stepped_as_by_the_reference():
    module = transformer()
    params = module.initial_parameters(vocabulary=11, length=6, width=8, depth=2)
    tokens, targets = module.random_tokens(vocabulary=11, length=6, batch=3)
    types = {"params": params, "tokens": tokens, "targets": targets}
    steps = both(module.objective, "params", cr.adamw(1e-3), **types)
    data = {"tokens": tokens, "targets": targets}
    # Adam's first steps are ± the learning rate wherever the gradient is above its rounding, and
    # anything between where it is not: biases of keys, whose gradient is 0.
    follow(steps, {"params": params}, [data] * 3, 2e-3)


@pytest.mark.slow
def test_the_gradients_of_a_small_transformer_equal_the_references():
    module = transformer()
    params = module.initial_parameters(vocabulary=11, length=6, width=8, depth=2)
    wide = optree.tree_map(lambda array: array.astype(np.float64), params)
    tokens, targets = module.random_tokens(vocabulary=11, length=6, batch=3)
    graph = cr.backward(
        cr.trace(module.objective, params=wide, tokens=tokens, targets=targets), wrt="params"
    )
    given = {"params": wide, "tokens": tokens, "targets": targets}
    got = graph.run(given, executor="native")
    wanted = graph.run(given, executor="reference")
    for name, expected in wanted.items():
        if expected.dtype.kind == "f":
            largest = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)
            assert expected.dtype == np.float64
            np.testing.assert_allclose(got[name], expected, 1e-11, 1e-12 * largest, err_msg=name)


@pytest.mark.parametrize("examples", [False, True], ids=["annotated", "by example"])
def test_from_the_second_step_on_arrays_go_straight_to_the_code(
    examples: bool, monkeypatch: pytest.MonkeyPatch
):
    given, data = weights(np.float32, True), batch(np.float32, 6, 0)
    types = {**given, **data} if examples else typed(np.float32, True)
    step, reference = both(network, tuple(given), cr.sgd(0.1), **types)
    state, wanted = step.init(given), reference.init(given)
    step(state, data)
    monkeypatch.setattr(TrainingStep, "arguments", None)  # the long way
    step(state, data)
    step(state, data, learning_rate=0.5)
    monkeypatch.undo()
    for rate in ({}, {}, {"learning_rate": 0.5}):
        reference(wanted, data, **rate)
    agree(state, wanted, 2e-5)

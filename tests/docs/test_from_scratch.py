"""`docs/from_scratch.py` gives the names and the numbers that the package gives."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import tracemalloc
from types import ModuleType

import numpy as np
import pytest
from pages import ROOT, blocks

import chainrule as cr

SOURCE = ROOT / "docs" / "from_scratch.py"
PARAMETERS = ("W1", "W2")


@pytest.fixture(scope="module")
def scratch() -> ModuleType:
    spec = importlib.util.spec_from_file_location("from_scratch", SOURCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their annotations
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


def objective(x, y, W1, W2, weight_decay):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def test_it_needs_nothing_but_numpy() -> None:
    imported = set()
    for node in ast.walk(ast.parse(SOURCE.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
    assert imported - sys.stdlib_module_names == {"numpy"}


@pytest.mark.slow
def test_the_page_shows_what_it_prints() -> None:
    done = subprocess.run(
        [sys.executable, SOURCE], capture_output=True, text=True, encoding="utf-8", check=True
    )
    page = blocks((ROOT / "docs" / "from-scratch.md").read_text(encoding="utf-8"))
    assert [one.text for one in page if one.info == "text"] == [done.stdout]


def test_values_gradients_and_names_are_those_of_the_package(scratch: ModuleType) -> None:
    arrays = scratch.example()
    ours = cr.backward(cr.trace(objective, **arrays), wrt=PARAMETERS)
    run = ours.run(**arrays)
    step = scratch.backward(scratch.trace(scratch.objective, **arrays), PARAMETERS)
    named = {node.name: node for node in step.nodes if node.inputs and node.name}
    assert set(named) >= {"z", "h", "o", "L", "s", "J", "dJ/do", "dJ/dh", "dJ/dz", "dJ/dW1"}
    every = scratch.Graph(step.inputs, named)
    results, _ = scratch.run(every, **arrays)
    for name in named:
        np.testing.assert_allclose(results[name], run[name], rtol=1e-12, atol=1e-15, err_msg=name)


def test_a_gradient_is_differentiated_again(scratch: ModuleType) -> None:
    def cubic(w):
        s = np.sum(np.tanh(w) ** 3 / (1 + np.exp(-w)))
        return s

    w = np.array([0.3, -1.2, 2.0])
    first = scratch.backward(scratch.trace(cubic, w=w), ["w"])
    slope = np.sum(first.outputs["ds/dw"])
    second = scratch.backward(scratch.Graph(first.inputs, {"slope": slope}), ["w"])
    found, _ = scratch.run(second, w=w)
    np.testing.assert_allclose(found["dslope/dw"], np.diag(cr.hessian(cubic)(w)), rtol=1e-12)


def test_a_copied_number_has_the_sum_of_its_gradients(scratch: ModuleType) -> None:
    def weighted(x, b):
        L = np.sum((x + b) * x)
        return L

    arrays = {"x": np.arange(12.0).reshape(4, 3), "b": np.ones((1, 3))}
    step = scratch.backward(scratch.trace(weighted, **arrays), ["x", "b"])
    found, _ = scratch.run(step, **arrays)
    x, b = cr.grad(weighted, wrt=("x", "b"))(*arrays.values())
    np.testing.assert_allclose(found["dL/dx"], x, rtol=1e-14)
    np.testing.assert_allclose(found["dL/db"], b, rtol=1e-14)


def test_what_has_no_derivative_is_refused(scratch: ModuleType) -> None:
    def raised(x):
        y = np.sum(2.0**x)
        return y

    graph = scratch.trace(raised, x=np.ones(3))
    with pytest.raises(NotImplementedError, match="derivative of power by an operand"):
        scratch.backward(graph, ["x"])


def test_the_peak_is_what_is_allocated(scratch: ModuleType) -> None:
    def chain(x, rate):  # the array made of a number goes before the end
        y = np.sum(np.exp(np.tanh(x * rate) * 2.0) / x)
        return y

    arrays = {"x": np.linspace(1, 2, 200_000), "rate": 1.5}
    step = scratch.backward(scratch.trace(chain, **arrays), ["x"])
    _, predicted = scratch.run(step, **arrays)
    tracemalloc.start()
    try:
        scratch.run(step, **arrays)
        _, measured = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert predicted <= measured <= predicted + 100_000  # Python's objects


def test_a_training_step_updates_its_parameters(scratch: ModuleType) -> None:
    arrays = scratch.example()
    graph = scratch.backward(scratch.trace(scratch.objective, **arrays), PARAMETERS)
    training = scratch.descended(graph, "J", PARAMETERS, learning_rate=0.5)
    traced = cr.trace(objective, **arrays)
    step = cr.training_step(traced, wrt=PARAMETERS, optimizer=cr.sgd(0.5))
    state = step.init(**{name: arrays[name] for name in PARAMETERS})
    data = {name: arrays[name] for name in ("x", "y", "weight_decay")}
    for _ in range(3):
        results, _ = scratch.run(training, **arrays)
        arrays |= {name: results[f"new {name}"] for name in PARAMETERS}
        assert step(state, **data) == pytest.approx(results["J"], rel=1e-12)
        for name in PARAMETERS:
            np.testing.assert_allclose(arrays[name], state[name], rtol=1e-12, atol=1e-15)

"""`graph.compile`, `graph.run(executor=)`, and which executor runs where none is named."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float16, float32, float64, int64
from chainrule.errors import InputError, NameLookupError, SizeError, UnsupportedError
from chainrule.execute import executors
from chainrule.execute.native.runtime import machine
from chainrule.machine_code import target

n = cr.size("n")
RANDOM = np.random.default_rng(9)


def network(x: float64[n, 4], y: int64[n], W1: float64[4, 5], W2: float64[5, 3], decay=0.1):
    z = x @ W1
    h = np.tanh(z)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    J = L + decay * np.sum(W1**2)
    return J


def arguments(rows: int) -> dict[str, Any]:
    return {
        "x": RANDOM.normal(size=(rows, 4)),
        "y": RANDOM.integers(0, 3, rows),
        "W1": RANDOM.normal(size=(4, 5)),
        "W2": RANDOM.normal(size=(5, 3)),
    }


def step() -> cr.Graph:
    return cr.backward(cr.trace(network), wrt=("W1", "W2"))


def agree(run: Any, wanted: Any) -> None:
    assert [*run] == [*wanted]
    for name in run:
        np.testing.assert_allclose(run[name], wanted[name], rtol=1e-11, atol=1e-13, err_msg=name)


KEEPS: list[Any] = ["named", "outputs", ["h"], ("z", "dJ/dh", "x"), ["J", "J"], []]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("keep", KEEPS, ids=str)
def test_a_run_keeps_the_same_values_as_the_references(keep: Any):
    graph = step()
    for rows in (3, 7, 3):
        given = arguments(rows)
        wanted = graph.run(given, keep=keep, executor="reference")
        agree(graph.run(given, keep=keep, executor="native"), wanted)
        for one in (graph, graph.bind(n=rows)):
            compiled = one.compile(keep=keep, executor="native")
            agree(compiled.run(given), wanted)
            agree(compiled.run(**given, decay=0.1), wanted)
            for got, expected in zip(compiled(given), wanted.outputs, strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13)


def test_a_compiled_graph_has_defaults_and_takes_other_values():
    graph = step()
    given = arguments(4)
    compiled = graph.compile(executor="native")
    for decay in (0.5, 2, np.float64(0.0)):
        wanted = graph.run(**given, decay=decay, keep="outputs")
        agree(compiled.run(**given, decay=decay), wanted)
    agree(compiled.run(given), graph.run(given, keep="outputs"))


def test_what_is_not_kept_and_what_is_unknown_is_refused_in_the_same_words():
    graph = step()
    given = arguments(3)
    calls = [
        lambda e: graph.run(given, keep=["h"], executor=e)["z"],
        lambda e: graph.run(given, keep="outputs", executor=e)["dJ/dx"],
        lambda e: graph.run(given, keep=["q"], executor=e),
        lambda e: graph.compile(keep=["q"], executor=e),
        lambda e: graph.compile(keep="all", executor=e),
        lambda e: graph.compile(executor=e)(**given, V=1),
        lambda e: graph.compile(executor=e)(x=given["x"]),
        lambda e: graph.compile(executor=e)({**given, "x": given["x"].astype(np.float32)}),
        lambda e: graph.compile(executor=e)({**given, "y": given["y"][:2]}),
        lambda e: graph.bind(n=4).compile(executor=e)(given),
        lambda e: graph.compile(executor=e)({**given, "y": given["y"] + 5}),
        lambda e: graph.compile(executor=e)([given]),  # type: ignore[arg-type]
    ]
    for call in calls:
        told = []
        for executor in ("native", "reference"):
            with pytest.raises(
                (InputError, NameLookupError, SizeError, cr.errors.IndexOutOfRangeError)
            ) as caught:
                call(executor)
            told.append((type(caught.value), str(caught.value)))
        assert told[0] == told[1]


# Operations without a kernel --------------------------------------------------------------------


def mixed(x: float16[3, 4], k: int64[4, 4], w: float32[4]):
    halves = x @ x.T
    counts = k @ k
    a = halves.astype(np.float32) * 2
    b = counts * w
    c = np.sum(a) + np.sum(b @ b.T)
    return c, counts + 1, halves


def mixed_arguments() -> dict[str, Any]:
    return {
        "x": RANDOM.normal(size=(3, 4)).astype(np.float16),
        "k": RANDOM.integers(0, 5, (4, 4)),
        "w": RANDOM.normal(size=4).astype(np.float32),
    }


def test_what_has_no_kernel_is_evaluated_between_native_parts():
    graph = cr.trace(mixed)
    compiled = graph.compile(keep="named", executor="native")
    foreign = {graph.name_of[node] for node in compiled.plan().foreign if node in graph.name_of}
    assert {"halves", "counts"} <= foreign
    assert "counts" in str(compiled.plan())
    for _ in range(3):
        given = mixed_arguments()
        run, wanted = compiled.run(given), graph.run(given)
        for name in wanted:
            assert run[name].dtype == wanted[name].dtype
            np.testing.assert_allclose(run[name], wanted[name], rtol=1e-6, err_msg=name)


def test_strict_refuses_it_by_name_and_line():
    graph = cr.trace(mixed)
    for call in (
        lambda: graph.compile(executor="native", strict=True),
        lambda: cr.compile(graph, executor="native", strict=True),
        lambda: cr.compile(mixed, executor="native", strict=True)(*mixed_arguments().values()),
    ):
        with pytest.raises(UnsupportedError) as caught:
            call()
        expected = "halves = matmul of float16[3, 3] has no native kernel, and strict=True"
        assert caught.value.what == expected
        assert "test_compiled_graphs.py" in caught.value.where
        assert "halves = x @ x.T" in caught.value.where
        assert "leave strict=True out" in caught.value.hint
    assert step().compile(executor="native", strict=True)(arguments(2))
    with pytest.raises(InputError, match="the executor 'reference' has none"):
        graph.compile(executor="reference", strict=True)
    with pytest.raises(InputError, match="the executor 'reference' has none"):
        cr.compile(mixed, executor="reference", strict=True)(*mixed_arguments().values())


# Which executor ---------------------------------------------------------------------------------


def test_an_unknown_executor_is_refused_wherever_it_is_named():
    graph, given = step(), arguments(2)
    for call in (
        lambda: graph.run(given, executor="gpu"),
        lambda: graph.compile(executor="gpu"),
        lambda: cr.compile(graph, executor="gpu"),
        lambda: cr.compile(network, executor="gpu"),
        lambda: cr.grad(network, executor="gpu"),
        lambda: cr.jvp(np.sin, 1.0, 1.0, executor="gpu"),
        lambda: cr.hvp(np.sin, 1.0, 1.0, executor="gpu"),
        lambda: cr.vjp(np.sin, 1.0, executor="gpu"),
    ):
        with pytest.raises(InputError, match="there is no executor 'gpu'") as caught:
            call()
        assert caught.value.hint == "one of: 'native', 'reference', 'xla'"


def test_the_environment_names_the_default(monkeypatch: pytest.MonkeyPatch):
    for name in ("native", "reference"):
        monkeypatch.setenv("CHAINRULE_EXECUTOR", name)
        assert step().compile().executor == name
    monkeypatch.setenv("CHAINRULE_EXECUTOR", "gpu")
    with pytest.raises(InputError, match="'gpu', which the environment variable CHAINRULE"):
        cr.grad(np.sin)(1.0)
    monkeypatch.setenv("CHAINRULE_EXECUTOR", "")
    executors._best.cache_clear()
    assert step().compile().executor == "native"


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As on a machine for which no native code can be made."""
    text = "the native executor has no code for this machine (a PDP-11)"
    monkeypatch.delenv("CHAINRULE_EXECUTOR", raising=False)
    for module in (target, machine):
        monkeypatch.setattr(module, "native_refusal", lambda: text)
    executors._best.cache_clear()
    machine._refusal.cache_clear()
    yield text
    monkeypatch.undo()
    executors._best.cache_clear()
    machine._refusal.cache_clear()


def test_where_there_is_no_native_code_the_reference_runs(refused: str):
    given = arguments(2)
    assert step().compile().executor == "reference"
    assert cr.compile(lambda x: x * 2)(np.ones(2)).tolist() == [2, 2]
    np.testing.assert_allclose(cr.grad(lambda x: np.sum(x * x))(np.ones(2)), 2)
    training = cr.training_step(network, ("W1",), cr.sgd(0.1))
    assert training.executor == "reference"
    for call in (
        lambda: step().run(given, executor="native"),
        lambda: cr.compile(lambda x: x * 2, executor="native")(np.ones(2)),
        lambda: cr.grad(lambda x: np.sum(x), executor="native")(np.ones(2)),
        lambda: step().bind(n=2).compile(executor="native"),
    ):
        with pytest.raises(UnsupportedError) as caught:
            call()
        assert caught.value.what == refused
        assert caught.value.hint == 'executor="reference" runs everywhere'


@pytest.mark.slow
def test_native_code_is_the_default_of_a_fresh_process():
    program = (
        "import numpy as np, chainrule as cr, sys\n"
        "assert 'llvmlite' not in sys.modules and 'scipy' not in sys.modules\n"
        "assert cr.grad(lambda x: np.sum(x * x))(np.ones(2)).tolist() == [2, 2]\n"
        "print('llvmlite' in sys.modules)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "CHAINRULE_EXECUTOR"}
    for value, expected in ((None, "True"), ("reference", "False")):
        named = {} if value is None else {"CHAINRULE_EXECUTOR": value}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            env={**environment, **named, "CHAINRULE_CACHE": "0"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.stdout.strip(), done.stderr) == (expected, "")

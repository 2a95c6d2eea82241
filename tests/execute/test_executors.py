"""Executors are objects: a third one, registered in the public way, does all that the others do."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64, int64
from chainrule.errors import EvaluationError, InputError, MemoryLimitError, UnsupportedError
from chainrule.execute.executor import Traits
from chainrule.execute.plain import PlainExecutor
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.schedule.plain import plain_schedule
from chainrule.schedule.records import Schedule
from chainrule.testing import simulate

# A whole executor, without anything of chainrule's own ones ------------------------------------


@dataclass
class Counting:
    """Evaluates every node in order and keeps all values; counts its programs and their calls."""

    name: str = "counting"
    traits: Traits = field(default_factory=Traits)
    prepared: int = 0
    calls: int = 0

    def refusal(self) -> str | None:
        return None

    def prepare(self, graph: Graph, results: Any, overwrites: Any, *, traced: Any = None) -> Any:
        self.prepared += 1
        return CountingProgram(self, graph, tuple(dict.fromkeys(results)))


@dataclass
class CountingProgram:
    executor: Counting
    graph: Graph
    results: Sequence[Node]
    refused: Sequence[Node] = ()
    plan: str = "all nodes in order"

    def __call__(self, inputs: Mapping[Node, np.ndarray]) -> dict[Node, np.ndarray]:
        self.executor.calls += 1
        values = dict(inputs)
        for node in self.graph.nodes:
            if node not in values:
                operands = [values[one] for one in node.inputs]
                value = node.primitive.evaluate(np, *operands, **dict(node.params))
                values[node] = np.asarray(value, node.dtype)
        return {node: values[node].copy() for node in self.results}

    def schedule(self, outlines: Mapping[Node, np.ndarray]) -> Schedule:
        return plain_schedule(self.graph, self.results, outlines)

    def overhead(self, arrays: int) -> dict[str, int]:
        return {"counters": 8}


@pytest.fixture
def counting(registry: None) -> Counting:
    """An executor that is registered, for one test."""
    made = Counting()
    cr.register_executor(made)
    return made


n = cr.size("n")
RANDOM = np.random.default_rng(3)


def network(x: float64[n, 4], y: int64[n], W1: float64[4, 5], W2: float64[5, 3], decay=0.1):
    h = np.tanh(x @ W1)
    o = h @ W2
    J = cr.cross_entropy(o, y) + decay * np.sum(W1**2)
    return J


def weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    return {"W1": random.normal(size=(4, 5)), "W2": random.normal(size=(5, 3))}


def batch(rows: int) -> dict[str, np.ndarray]:
    return {"x": RANDOM.normal(size=(rows, 4)), "y": RANDOM.integers(0, 3, rows)}


def same(run: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert [*run] == [*wanted]
    for name in run:
        np.testing.assert_array_equal(run[name], wanted[name], err_msg=name, strict=True)


def test_it_runs_graphs(counting: Counting) -> None:
    graph = cr.backward(cr.trace(network), wrt=("W1", "W2"))
    for keep in ("named", "outputs", ["h"]):
        given = {**weights(), **batch(6)}
        same(graph.run(given, keep=keep, executor="counting"), graph.run(given, keep=keep))
    compiled = graph.compile(keep="named", executor="counting")
    assert (compiled.executor, counting.calls) == ("counting", 3)
    assert "counting" in repr(compiled)
    assert compiled.plan(n=4) == "all nodes in order"
    prepared = counting.prepared
    for rows in (5, 3, 5, 3, 5):
        given = {**weights(), **batch(rows)}
        same(compiled.run(given), graph.run(given))
    assert counting.prepared == prepared + 2  # a program for each size, which is remembered
    assert counting.calls == 8


def test_the_collector_is_off_while_a_program_is_made_and_on_when_it_runs(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = dict[str, bool]()
    prepare, call = Counting.prepare, CountingProgram.__call__
    for owner, function in ((Counting, prepare), (CountingProgram, call)):
        name = function.__name__

        def look(*given: Any, name: str = name, function: Any = function, **named: Any) -> Any:
            seen[name] = gc.isenabled()
            return function(*given, **named)

        monkeypatch.setattr(owner, name, look)
    assert gc.isenabled()
    cr.trace(np.sin, np.ones(3)).run(x=np.ones(3), executor="counting")
    assert seen == {"prepare": False, "__call__": True}


def test_it_runs_functions(counting: Counting) -> None:
    compiled = cr.compile(lambda x, s: {"y": np.sin(x) * s, "x": x}, executor="counting")
    x = RANDOM.normal(size=(3, 2))
    for scale in (2.0, 3, np.float64(0.5), np.array(4.0)):
        for given in (x, x.T, x.astype(">f8")):
            found = compiled(given, scale)
            np.testing.assert_array_equal(found["y"], np.sin(given) * scale)
            assert found["x"] is not given and (found["x"] == given).all()
    made = counting.prepared
    compiled(x, 7.0)
    assert counting.prepared == made and counting.calls == 13


def test_derivatives_are_computed_by_it(counting: Counting) -> None:
    def f(x):
        return np.sum(np.sin(x) * x)

    x, v = RANDOM.normal(size=4), RANDOM.normal(size=4)
    for ways in (
        lambda **e: cr.grad(f, **e)(x),
        lambda **e: cr.value_and_grad(f, **e)(x)[1],
        lambda **e: cr.jvp(f, x, v, **e)[1],
        lambda **e: cr.vjp(f, x, **e)[1](1.0)[0],
        lambda **e: cr.hvp(f, x, v, **e),
        lambda **e: cr.jacobian(np.sin, **e)(x),
        lambda **e: cr.hessian(f, rows=2, **e)(x),
        lambda **e: cr.vmap(np.cos, **e)(x),
    ):
        before = counting.calls
        np.testing.assert_array_equal(ways(executor="counting"), ways(executor="reference"))
        assert counting.calls > before
    assert cr.hessian(f, executor="counting").cost(x).executor == "counting"


def test_it_takes_training_steps(counting: Counting) -> None:
    states = {}
    for executor in ("counting", "reference"):
        random = np.random.default_rng(1)
        step = cr.training_step(network, ("W1", "W2"), cr.adam(0.1), executor=executor)
        state = states[executor] = step.init(weights())
        for rows in (6, 6, 4, 6):
            given = {"x": random.normal(size=(rows, 4)), "y": random.integers(0, 3, rows)}
            step(state, given, learning_rate=0.05)
            step(state, given)
        step.micro_batched(2)(state, given)
        with pytest.raises((IndexError, EvaluationError)):
            step(state, {**given, "y": given["y"] + 9})
        with pytest.raises(InputError, match="was not given: y"):
            step(state, x=given["x"])
    assert counting.prepared < counting.calls
    assert states["counting"].steps == 9
    same(dict(states["counting"]), dict(states["reference"]))
    assert step.run(state, given, keep=["h"])["h"].shape == (6, 5)


def test_it_serves_a_trainer(counting: Counting) -> None:
    data = {"x": RANDOM.normal(size=(32, 4)), "y": RANDOM.integers(0, 3, 32)}
    lines = {}
    for executor in ("counting", "reference"):
        trainer = cr.Trainer(
            network,
            weights(),
            optimizer=cr.sgd(0.1),
            data=data,
            batch_size=5,
            validation=data,
            key=cr.random.key(0),
            executor=executor,
        )
        lines[executor] = [(one.objective, one.validation) for one in trainer.epochs(3)]
        assert trainer.memory().executor == executor
    assert lines["counting"] == lines["reference"]
    graph = cr.trace(network)
    for function in (
        lambda **e: cr.evaluate(graph, weights(), data, batch_size=7, **e),
        lambda **e: cr.predict(graph, weights(), data, "o", batch_size=7, **e).tolist(),
    ):
        before = counting.calls
        assert function(executor="counting") == function(executor="reference")
        assert counting.calls == before + 5  # batches


def test_reports_of_memory_are_of_its_schedules(counting: Counting) -> None:
    step = cr.training_step(network, ("W1", "W2"), cr.adam(0.1), executor="counting")
    graph = cr.backward(cr.trace(network), wrt=("W1", "W2"))
    for one in (step, graph):
        report = one.memory(n=64, executor="counting")
        wanted = one.memory(n=64, executor="reference")
        assert (report.executor, report.overhead) == ("counting", {"counters": 8})
        for phase, other in (
            (report.training, wanted.training),
            (report.prediction, wanted.prediction),
        ):
            assert phase.peak_nbytes == other.peak_nbytes
            assert phase.timeline == other.timeline
            simulate(phase.usage.schedule)
        assert "executor  counting" in str(report)
        limit = report.main.peak_nbytes + 8
        assert report.largest("n", limit).size == 64
    parts = step.micro_batched(4)
    reference = parts.memory(n=64, executor="reference")
    assert parts.memory(n=64).peak_nbytes == reference.peak_nbytes
    assert parts.memory(n=64).executor == "counting"
    assert parts.plan(n=64) == ("all nodes in order",) * 2
    assert graph.fits(n=64, nbytes="1GiB", executor="counting")


def test_costs_and_the_report_page_are_made_for_it(counting: Counting) -> None:
    step = cr.training_step(network, ("W1", "W2"), cr.sgd(0.1), executor="counting")
    assert (
        step.graph.cost(n=8).flops
        == cr.training_step(network, ("W1", "W2"), cr.sgd(0.1), executor="reference")
        .graph.cost(n=8)
        .flops
    )
    page = cr.report(step, batch(4), state=step.init(weights()))
    assert page.data["memory"]["executor"] == "counting"


def test_loops_run_on_it(counting: Counting) -> None:
    def objective(w: float64["3"], xs: float64["5 3"]):
        last, states = cr.scan(lambda h, x: (np.tanh(h * w + x),) * 2, np.zeros(3), xs)
        return np.sum(last) + np.sum(states**2)

    given = {"w": RANDOM.normal(size=3), "xs": RANDOM.normal(size=(5, 3))}
    graph = cr.backward(cr.trace(objective), wrt="w")
    same(graph.run(given, executor="counting"), graph.run(given))
    compiled = cr.compile(
        lambda x: cr.while_loop(lambda h: h < 9, np.square, x), executor="counting"
    )
    assert compiled(np.float64(1.5)) == 1.5**8
    assert counting.calls == 2


def test_the_command_trains_on_it(
    counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from chainrule.cli import main

    monkeypatch.setenv("CHAINRULE_EXECUTOR", "native")
    options = ["train", "--epochs", "1", "--hidden", "8", "--executor", "counting", "--no-report"]
    done = CliRunner().invoke(main, [*options, "--output-folder", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert counting.calls > 40  # steps
    done = CliRunner().invoke(main, ["train", "--help"])
    assert "[native|reference|xla|counting]" in done.output


def test_the_environment_names_it(counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAINRULE_EXECUTOR", "counting")
    assert cr.grad(lambda x: np.sum(x * x))(np.ones(2)).tolist() == [2, 2]
    assert counting.calls == 1
    assert cr.training_step(network, "W1", cr.sgd(0.1)).executor == "counting"


def test_strict_refuses_what_it_says_and_means_nothing_without_kernels(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = cr.trace(network)
    with pytest.raises(InputError, match="the executor 'counting' has none"):
        graph.compile(executor="counting", strict=True)
    counting.traits = Traits(has_kernels=True)
    assert graph.compile(executor="counting", strict=True)({**weights(), **batch(2)}).shape == ()
    refused = property(lambda self: tuple(x for x in self.graph.nodes if "tanh" in repr(x)))
    monkeypatch.setattr(CountingProgram, "refused", refused, raising=False)
    monkeypatch.setattr(CountingProgram, "__init__", _without_refused)
    with pytest.raises(UnsupportedError) as caught:
        graph.bind(n=2).compile(executor="counting", strict=True)
    expected = "h = tanh of float64[2, 5] has no counting kernel, and strict=True"
    assert caught.value.what == expected
    assert "h = np.tanh(x @ W1)" in caught.value.where


def _without_refused(self: Any, executor: Any, graph: Any, results: Any) -> None:
    self.executor, self.graph, self.results = executor, graph, results


# An executor made of a function -----------------------------------------------------------------


def float_by_float(graph: Graph, inputs: Any, results: Any, traced: Any = None) -> Any:
    """Every elementwise product by Python's floats."""
    values = dict(inputs)
    for node in graph.nodes:
        operands = [values[one] for one in node.inputs]
        if node.primitive.name == "multiply" and node.shape:
            pairs = zip(*(one.ravel().tolist() for one in operands), strict=True)
            values[node] = np.reshape([a * b for a, b in pairs], node.shape).astype(node.dtype)
        elif node not in values:
            value = node.primitive.evaluate(np, *operands, **dict(node.params))
            values[node] = np.asarray(value, node.dtype)
    return {node: values[node].copy() for node in results}


def test_a_function_is_an_executor(counting: Counting) -> None:
    cr.register_executor(PlainExecutor("floats", float_by_float))
    step = cr.training_step(network, ("W1", "W2"), cr.sgd(0.1), executor="floats")
    other = cr.training_step(network, ("W1", "W2"), cr.sgd(0.1), executor="reference")
    state, wanted = step.init(weights()), other.init(weights())
    for rows in (4, 3, 4):
        given = batch(rows)
        assert step(state, given) == other(wanted, given)
    same(dict(state), dict(wanted))
    assert str(step.plan(n=3)) == str(other.plan(n=3))
    report, expected = step.memory(n=9), other.memory(n=9)
    assert (report.overhead, report.needed_nbytes) == (expected.overhead, expected.needed_nbytes)


def test_runs_of_it_that_would_not_fit_are_refused(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    from small_machine import having

    cr.register_executor(PlainExecutor("floats", float_by_float))
    graph = cr.trace(lambda x: np.tanh(x * x), x=float64["n"])
    having(monkeypatch, 6000)
    for call in (
        lambda: graph.run(x=np.ones(1000), executor="floats"),
        lambda: graph.compile(executor="floats")(x=np.ones(1000)),
        lambda: cr.compile(lambda x: np.tanh(x * x), executor="floats")(np.ones(1000)),
    ):
        with pytest.raises(MemoryLimitError) as caught:
            call()
        assert "6,000 (5.86 KiB) are free (pretended)" in str(caught.value)


# Registering --------------------------------------------------------------------------------------


def test_what_is_no_executor_is_refused(counting: Counting) -> None:
    class Nothing:
        name = "nothing"

    with pytest.raises(InputError, match="has no traits and no refusal and no prepare"):
        cr.register_executor(Nothing())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="has the name ''"):
        cr.register_executor(PlainExecutor("", float_by_float))
    for name in ("native", "reference", "xla"):
        with pytest.raises(InputError, match=f"the executor {name!r} is chainrule's own"):
            cr.register_executor(PlainExecutor(name, float_by_float))
    other = Counting()
    cr.register_executor(other)  # in place of the one before
    cr.trace(network).run({**weights(), **batch(2)}, executor="counting")
    assert (counting.calls, other.calls) == (0, 1)


def test_an_unknown_name_is_told_the_known_ones(counting: Counting) -> None:
    with pytest.raises(ValueError, match="there is no executor 'gpu'") as caught:
        cr.compile(np.sin, executor="gpu")
    assert "one of: 'native', 'reference', 'xla', 'counting'" in str(caught.value)
    for strange in (3, ["native"], object()):
        with pytest.raises(ValueError, match="there is no executor"):
            cr.compile(np.sin, executor=strange)  # type: ignore[arg-type]

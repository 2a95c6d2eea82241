"""Runs within a budget of memory: what reports count is within it, and bits are the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from deep_programs import PROGRAMS, N, deep, network
from executors import WITHIN, needs_native

import chainrule as cr
from chainrule.errors import InputError, MemoryLimitError
from chainrule.execute import repeating
from chainrule.execute.executors import executor_names
from chainrule.schedule.usage import usage_of
from chainrule.testing import simulate

COUNT = 3  # budgets
W, LAYERS = 48, 8


def gradients(*wrt: str) -> cr.Graph:
    graph = cr.trace(network, x=cr.float32["n", W], Ws=deep(LAYERS, W).parameters)
    return cr.backward(graph, wrt=wrt or "Ws")


def arguments(n: int) -> dict[str, Any]:
    program = deep(LAYERS, W)
    return {"x": program.batch(n), "Ws": program.parameters}


def least_of(report: Any) -> int:
    """The least that a run needs, as the refusal of no memory at all says it."""
    with pytest.raises(MemoryLimitError) as error:
        report(memory=0)
    return error.value.needed_nbytes


@pytest.mark.slow
@pytest.mark.sweep(6)
@WITHIN
@pytest.mark.parametrize("keep", ["outputs", "named", ["z", "dJ/dx"]])
def test_compiled_graphs_within_budgets(executor: str, keep: Any) -> None:
    graph = gradients("Ws") if isinstance(keep, str) else gradients("Ws", "x")
    given = arguments(512)
    report = graph.memory(n=512, keep=keep, executor=executor)
    want = graph.compile(keep, executor=executor).run(given)
    least = least_of(
        lambda memory: graph.memory(n=512, keep=keep, executor=executor, memory=memory)
    )
    full = report.needed_nbytes
    assert least <= full
    for number in range(COUNT):
        nbytes = least + (full - least) * number // (COUNT - 1)
        within = graph.compile(keep, executor=executor, memory=nbytes)
        found = graph.memory(n=512, keep=keep, executor=executor, memory=nbytes)
        assert found.needed_nbytes <= nbytes
        simulate(found.main.usage.schedule)
        got = within.run(given)
        for name, value in want.items():
            assert got[name].tobytes() == value.tobytes()
    with pytest.raises(MemoryLimitError):
        graph.compile(keep, executor=executor, memory=least - 1).run(given)


@pytest.mark.slow
@pytest.mark.sweep(6)
@WITHIN
@pytest.mark.parametrize("name", PROGRAMS)
def test_training_steps_within_budgets(executor: str, name: str) -> None:
    program = PROGRAMS[name]
    plain = program.step(executor=executor)
    full = plain.memory(n=N).needed_nbytes
    least = least_of(lambda memory: program.step(executor=executor, memory=memory).memory(n=N))
    state = program.state(plain)
    want = [plain(state, x=program.batch(N)) for _ in range(3)]
    assert least < full
    for number in range(COUNT):
        nbytes = least + (full - least) * number // (COUNT - 1)
        step = program.step(executor=executor, memory=nbytes)
        assert step.memory(n=N).needed_nbytes <= nbytes
        mine = program.state(step)
        assert [step(mine, x=program.batch(N)) for _ in range(3)] == want
        for key, array in state.items():
            assert mine[key].tobytes() == array.tobytes()


@WITHIN
def test_a_budget_that_is_large_enough_changes_nothing(executor: str) -> None:
    graph = gradients()
    plain = graph.memory(n=64, executor=executor)
    within = graph.memory(n=64, executor=executor, memory="1 TiB")
    assert within.needed_nbytes == plain.needed_nbytes
    assert within.main.usage.live_nbytes == plain.main.usage.live_nbytes


@pytest.mark.slow
@pytest.mark.sweep(2)
@WITHIN
def test_each_size_has_a_plan_of_its_own(executor: str) -> None:
    graph = gradients()
    limit = graph.memory(n=512, executor=executor).needed_nbytes - 300_000
    within = graph.compile(executor=executor, memory=limit)
    for n in (8, 512, 520):
        given = arguments(n)
        want = graph.compile(executor=executor)(given)
        assert graph.memory(n=n, executor=executor, memory=limit).needed_nbytes <= limit
        np.testing.assert_array_equal(within(given)[0], want[0])
    with pytest.raises(MemoryLimitError):
        within(arguments(20_000))


@WITHIN
def test_functions_are_compiled_within_a_budget(executor: str) -> None:
    program = deep(LAYERS, W)
    gradient = cr.grad(network, wrt="Ws")
    x = program.batch(512)
    want = gradient(x, program.parameters)
    graph = gradients()
    limit = graph.memory(n=512, executor=executor).needed_nbytes - 300_000
    got = cr.compile(gradient, executor=executor, memory=limit)(x, program.parameters)
    plain = cr.compile(gradient, executor=executor)(x, program.parameters)
    for one, other, near in zip(got, plain, want, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, near, rtol=1e-4, atol=1e-6)


def test_the_reference_executor_counts_arguments_as_they_lie() -> None:
    graph = gradients()
    limit = graph.memory(n=512, executor="reference").needed_nbytes - 300_000
    given = {**arguments(512), "x": np.asfortranarray(arguments(512)["x"])}
    report = graph.memory(n=512, executor="reference", memory=limit, layout={"x": "F"})
    assert report.needed_nbytes <= limit
    want = graph.compile(executor="reference")(given)
    got = graph.compile(executor="reference", memory=limit)(given)
    for one, other in zip(got, want, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.slow
@needs_native
def test_what_runs_again_is_compiled_once() -> None:
    from chainrule.execute.native.artifact import artifact_of
    from chainrule.execute.native.native_overhead import CODE_NBYTES_PER_REPETITION
    from chainrule.execute.native.plan_to_ir.driver import program
    from chainrule.machine_code.target import host_target

    graph = gradients()
    limit = graph.memory(n=512, executor="native").needed_nbytes - 300_000
    plain = graph.compile(executor="native").plan(n=512)
    found = graph.compile(executor="native", memory=limit).plan(n=512)
    assert len(found.works) > len(plain.works)
    kernels, codes = [], []
    for one in (plain, found):
        sent: list[str] = []
        program(one, "", lambda text, level, sent=sent: sent.append(text))
        text = "\n".join(sent)
        kernels.append(len(re.findall(r"^define .*@(?:nest|product)\d+\(", text, re.M)))
        codes.append(len(artifact_of(one, {}, host_target()).code))
    assert kernels[0] == kernels[1]
    again = len(found.works) - len(plain.works)
    assert 0 < codes[1] - codes[0] <= CODE_NBYTES_PER_REPETITION * again


def test_amounts_and_executors_that_cannot_be_are_told(registry: None) -> None:
    graph = gradients()
    with pytest.raises(InputError, match=r"memory='much' is not an amount[\s\S]*memory=\"8GiB\""):
        graph.compile(memory="much")

    from chainrule.execute.plain import PlainExecutor
    from chainrule.execute.reference import evaluate

    cr.register_executor(PlainExecutor("counted", evaluate))
    with pytest.raises(InputError, match=r"memory='1 MiB' is for[\s\S]*'counted' cannot"):
        graph.compile(executor="counted", memory="1 MiB")
    assert not any("within" in name for name in executor_names())


def test_a_run_of_the_reference_executor_counts_its_bytes_once(monkeypatch):
    counted = []
    monkeypatch.setattr(
        repeating, "usage_of", lambda *args, **named: counted.append(1) or usage_of(*args, **named)
    )
    graph = cr.trace(lambda x: np.tanh(x) * x, x=cr.float32["50"])
    run = graph.compile(executor="reference", memory="200 MB")
    x = np.ones(50, np.float32)
    run(x=x)
    first = len(counted)
    run(x=x)
    assert first and len(counted) == first


def solving(x: cr.float64["40 40"], W: cr.float64["40 40"]) -> Any:
    a = np.exp(x @ W) + 40 * np.eye(40)
    J = np.sum(np.linalg.solve(a, np.sin(a)) ** 2)
    return J


@needs_native
@pytest.mark.parametrize("is_within", [False, True])
def test_factors_that_two_routines_share_are_named_and_counted(is_within: bool) -> None:
    """They are no values of the graph, but lie in memory while most is in use."""
    graph = cr.backward(cr.trace(solving), wrt="W")
    memory = None
    if is_within:
        with pytest.raises(MemoryLimitError, match=r"%\d+ +13,120\n") as error:
            graph.memory(executor="native", memory=0)
        memory = error.value.needed_nbytes
    report = graph.memory(executor="native", memory=memory)
    beside = set(report.main.alive_at_peak) - set(report.main.names[node] for node in graph.nodes)
    assert {report.main.alive_at_peak[name] for name in beside} == {40 * 41 * 8}
    assert report.main.parts["saved intermediates"] >= 40 * 41 * 8
    assert sum(report.main.parts.values()) == report.main.peak_nbytes
    assert "another graph" not in str(graph.compile(executor="native", memory=memory).plan())

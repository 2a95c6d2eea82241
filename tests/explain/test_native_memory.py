"""The native executor has the bytes that a report counts, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from namespaces import with_gradients
from programs import Program, programs

import chainrule as cr
from chainrule import float32, float64, int64
from chainrule.errors import ScheduleError
from chainrule.execute.aligned import alignment_of
from chainrule.execute.native.artifact import artifact_of
from chainrule.execute.native.runtime.machine import Machine, plan_for
from chainrule.explain.memory.kinds import Kind
from chainrule.explain.memory.report import memory_of_graph, memory_of_step
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.graph.node import Node
from chainrule.machine_code.target import host_target, native_refusal
from chainrule.schedule.lifetimes import Simulation
from chainrule.schedule.records import ALIGNMENT, SCRATCH, Buffer, Compute, Schedule, aligned
from chainrule.schedule.usage import Usage
from chainrule.testing import simulate
from chainrule.train.step.bound import results_of

BATCHES = (1, 7, 256, 4096)
WIDTH, CLASSES = 24, 10
OPTIMIZERS = {
    "sgd": lambda: cr.sgd(0.1),
    "momentum": lambda: cr.sgd(0.1, momentum=0.9),
    "adam": lambda: cr.adam(1e-3),
}
DTYPES = {"float32": float32, "float64": float64}

pytestmark = pytest.mark.skipif(bool(native_refusal()), reason="no native executor")


def scratch_buffers(schedule: Schedule) -> list[Buffer]:
    """Those of values and of workspaces."""
    found = []
    for one in schedule.instructions:
        if isinstance(one, Compute):
            found += [buffer for buffer in (*one.into, one.workspace) if buffer is not None]
    return [buffer for buffer in found if buffer.arena == SCRATCH and buffer.nbytes]


def unused_lines(schedule: Schedule) -> int:
    """How many cache lines of the arena no value and no workspace ever touches."""
    used = np.zeros(schedule.scratch_nbytes // ALIGNMENT, bool)
    for buffer in scratch_buffers(schedule):
        used[buffer.offset // ALIGNMENT : aligned(buffer.end) // ALIGNMENT] = True
    return int(np.sum(~used))


def scratch_load(usage: Usage) -> list[int]:
    """The bytes in use in the scratch block, at each instruction that computes."""
    change = np.zeros(usage.count + 2, np.int64)
    for life in usage.lives:
        if life.arena == SCRATCH:
            change[life.first] += life.nbytes
            change[life.last + 1] -= life.nbytes
    live = np.cumsum(change)[:-1] + np.array(usage.workspaces)
    return [int(one) for one in live[1:]]


def last_reads(usage: Usage) -> dict[Node, int]:
    """The instruction that needs each value in memory last, of its last life."""
    known = usage.schedule.given
    return {
        life.node: life.last_read
        for life in usage.lives
        if life.nbytes and not (life.node in known and life.arena.startswith("copy of "))
    }


def simulated_last_reads(found: Simulation) -> dict[Node, int]:
    """The same by the simulator, whose instructions are all, counted from 0."""
    schedule = found.schedule
    number_of = [0]
    for one in schedule.instructions:
        number_of.append(number_of[-1] + isinstance(one, Compute))
    return {
        life.node: number_of[min(life.last_needed + 1, len(schedule.instructions))]
        for life in found.lifetimes
        if life.nbytes
    }


def check(run: RunMemory, load_nbytes: int | None = None) -> None:
    """Arena, simulator and report agree to the byte."""
    schedule = run.usage.schedule
    found = simulate(schedule)
    computing = [isinstance(one, Compute) for one in schedule.instructions]
    wanted = [live for live, computes in zip(found.live_nbytes, computing, strict=True) if computes]
    assert scratch_load(run.usage) == wanted
    assert last_reads(run.usage) == simulated_last_reads(found)
    ends = (aligned(buffer.end) for buffer in scratch_buffers(schedule))
    assert max(ends, default=0) == schedule.scratch_nbytes == found.arena_nbytes
    assert found.peak_nbytes + found.wasted_nbytes == schedule.scratch_nbytes
    load = max(found.live_aligned_nbytes, default=0)
    assert load_nbytes in (None, load)
    assert unused_lines(schedule) * ALIGNMENT <= schedule.scratch_nbytes - load
    assert sum(run.parts.values()) == run.peak_nbytes
    assert min(run.parts.values(), default=0) >= 0
    outside = {buffer.arena: buffer.nbytes for buffer in schedule.given.values()}
    for one in schedule.instructions:
        for node, buffer in zip(getattr(one, "nodes", ()), getattr(one, "into", ()), strict=True):
            if node in schedule.results:
                outside.setdefault(buffer.arena, buffer.nbytes)
    outside.pop(SCRATCH, None)
    copies = sum(life.nbytes for life in run.usage.lives if life.arena.startswith("copy of "))
    assert run.peak_nbytes == sum(outside.values()) + copies + schedule.scratch_nbytes


def network(params: Sequence[Any], x: Any, y: Any) -> Any:
    h = x
    for layer in params[:-1]:
        h = np.maximum(h @ layer["W"] + layer["b"], 0)
    o = h @ params[-1]["W"] + params[-1]["b"]
    J = cr.cross_entropy(o, y)
    return J


def training(layers: int, dtype: str, optimizer: str) -> Any:
    widths = [*[WIDTH] * (layers - 1), CLASSES]
    params = [{"W": np.zeros((WIDTH, n), dtype), "b": np.zeros(n, dtype)} for n in widths]
    kind = DTYPES[dtype]
    return cr.training_step(
        network,
        ("params",),
        OPTIMIZERS[optimizer](),
        params=params,
        x=kind["n", WIDTH],
        y=int64["n"],
    )


def check_step(step: Any, **sizes: int) -> None:
    report = memory_of_step(step, sizes, executor="native")
    for run in (report.training, report.prediction):
        assert run is not None
        check(run)
    concrete = step.graph.bind(**sizes)
    made = plan_for(concrete, *results_of(step, concrete))
    assert made.schedule.scratch_nbytes == report.main.usage.scratch_nbytes
    check(report.main, made.load_nbytes)


@pytest.mark.sweep(11)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layers", [1, 2, 10])
def test_a_network_at_any_batch(layers: int, dtype: str, optimizer: str) -> None:
    step = training(layers, dtype, optimizer)
    for n in BATCHES:
        check_step(step, n=n)


@pytest.mark.exhaustive
def test_a_network_of_twenty_layers() -> None:
    step = training(20, "float32", "adam")
    for n in (1, 4096):
        check_step(step, n=n)


def attention(x: Any, block: Any, heads: int) -> Any:
    batch, length, width = x.shape
    q, k, v = (
        np.transpose(np.reshape(x @ block[name], (batch, length, heads, -1)), (0, 2, 1, 3))
        for name in ("Wq", "Wk", "Wv")
    )
    weights = cr.softmax(q @ np.swapaxes(k, -1, -2) / 4.0)
    mixed = np.reshape(np.transpose(weights @ v, (0, 2, 1, 3)), (batch, length, width))
    out = mixed @ block["Wo"]
    return out


def transformer(params: Any, tokens: Any, targets: Any) -> Any:
    x = params["tokens"][tokens]
    for block in params["blocks"]:
        x = x + attention(cr.layer_norm(x), block, 2)
        x = x + cr.gelu(cr.layer_norm(x) @ block["Win"]) @ block["Wout"]
    o = cr.layer_norm(x) @ params["Whead"]
    J = cr.cross_entropy(np.reshape(o, (-1, o.shape[-1])), np.reshape(targets, (-1,)))
    return J


def transformer_training(optimizer: str) -> Any:
    width, vocabulary = 32, 50
    square = {name: np.zeros((width, width), np.float32) for name in ("Wq", "Wk", "Wv", "Wo")}
    wide = {
        "Win": np.zeros((width, 4 * width), np.float32),
        "Wout": np.zeros((4 * width, width), np.float32),
    }
    params = {
        "tokens": np.zeros((vocabulary, width), np.float32),
        "blocks": [{**square, **wide} for _ in range(2)],
        "Whead": np.zeros((width, vocabulary), np.float32),
    }
    tokens = np.zeros((4, 16), np.int64)
    return cr.training_step(
        transformer,
        ("params",),
        OPTIMIZERS[optimizer](),
        params=params,
        tokens=tokens,
        targets=tokens,
    )


@pytest.mark.sweep(3)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_transformer(optimizer: str) -> None:
    check_step(transformer_training(optimizer))


@pytest.mark.slow
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(programs(), st.integers(0, 2**32 - 1))
def test_random_graphs(program: Program, seed: int) -> None:
    graph, _ = with_gradients(program, seed)
    for keep in ("outputs", "named"):
        report = memory_of_graph(graph, {}, keep=keep, executor="native")
        assert report.training is not None
        check(report.training)
        check(report.prediction)


@pytest.mark.slow
def test_a_machine_allocates_the_arena_and_nothing_more() -> None:
    step = training(3, "float32", "adam")
    for n in (1, 256):
        concrete = step.graph.bind(n=n)
        results, overwrites = results_of(step, concrete)
        made = plan_for(concrete, results, overwrites)
        context = Machine(artifact_of(made, overwrites, host_target())).new_context()
        assert context.scratch.nbytes == made.schedule.scratch_nbytes
        assert context.scratch.base is not None
        nbytes = made.schedule.scratch_nbytes
        assert context.scratch.base.nbytes == nbytes + alignment_of(nbytes)
        report = memory_of_step(step, {"n": n}, executor="native")
        assert report.main.usage.scratch_nbytes == context.scratch.nbytes


def test_a_byte_less_than_the_arena_is_seen() -> None:
    step = training(2, "float32", "sgd")
    report = memory_of_step(step, {"n": 7}, executor="native")
    schedule = report.main.usage.schedule
    with pytest.raises(ScheduleError):
        simulate(replace(schedule, scratch_nbytes=schedule.scratch_nbytes - ALIGNMENT))


def test_a_life_that_a_report_forgets_is_seen() -> None:
    report = memory_of_step(training(2, "float32", "sgd"), {"n": 7}, executor="native")
    run = report.main
    lives = [life for life in run.usage.lives if life.arena == SCRATCH]
    fewer = tuple(life for life in run.usage.lives if life is not lives[0])
    with pytest.raises(AssertionError):
        check(replace(run, usage=replace(run.usage, lives=fewer)))


def test_what_the_backward_pass_reads_is_saved_and_nothing_else() -> None:
    """gelu's backward pass computes its tanh again from z, and h for the gradient of W2."""

    def objective(x: float32[64, 32], W1: float32[32, 48], W2: float32[48, 16]) -> Any:
        z = x @ W1
        h = cr.gelu(z, approximate="tanh")
        o = h @ W2
        J = np.sum(np.exp(o))
        return J

    step = cr.training_step(objective, wrt=("W1", "W2"), optimizer=cr.sgd(0.1), executor="native")
    report = memory_of_step(step, {})
    assert report.training is not None
    saved = {name for name, value in report.values.items() if value.kind is Kind.SAVED}
    assert saved == {"z"} and report.values["z"].stored
    h, o = report.values["h"], report.values["o"]
    assert h.made_at < o.made_at < h.again_at[0] < h.last_needed_at
    assert f"; computed again by instruction {h.again_at[0]}, and kept to" in report.why("h")
    assert f"from instruction {h.made_at} to {o.made_at}: o = h · W2 needs it" in report.why("h")
    assert f" {h.made_at}, {h.again_at[0]} " in str(report)
    (found,) = (one for one in report.json()["values"] if one["name"] == "h")
    assert found["again_at"] == list(h.again_at)
    inside = [n for n in report.training.graph.nodes if n.primitive.name == "tanh"]
    assert inside and not report.training.life_of.keys() & set(inside)
    z = report.values["z"]
    assert z.last_needed_at > report.values["o"].made_at and "needs it" in z.kept_because

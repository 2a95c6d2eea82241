"""Stages are cut by the times of the executor that runs them."""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np
import pytest
from alone import RanksAlone
from executors import needs_native
from parallel_models import MODELS, ROWS, case
from test_rank_memory import taken_nbytes

import chainrule as cr
from chainrule.devices import splitting, stages
from chainrule.devices.instructions import Receive
from chainrule.devices.splitting import node_seconds
from chainrule.execute import plain
from chainrule.execute.executors import prepare
from chainrule.schedule.records import Compute

n = cr.size("n")


def deep(x: cr.float64[n, 4], y: cr.float64[n, 4], w: cr.float64[4]):
    """Two sines first, two hyperbolic tangents after them."""
    a = np.sin(x * w)
    b = np.sin(a)
    c = np.tanh(b)
    d = np.tanh(c)
    J = np.mean((d - y) ** 2)
    return J


class Program(plain.PlainProgram):
    """Only `slow` takes any time."""

    slow = ""

    def durations(self, speeds: Any = None) -> tuple[float, ...]:
        computes = [one for one in self.schedule({}).instructions if isinstance(one, Compute)]
        return tuple([1e6 if one.label == self.slow else 1.0 for one in computes])


class Executor(plain.PlainExecutor):
    """Of such programs."""

    def prepare(self, graph: Any, results: Any, overwrites: Any, *, traced: Any = None) -> Program:
        return Program(graph, tuple(dict.fromkeys(results)), traced, self.evaluate)


@pytest.mark.parametrize(("slow", "last", "first"), [("sin", "a", "b"), ("tanh", "c", "d")])
def test_stages_are_cut_by_the_times_of_their_executor(
    slow: str, last: str, first: str, registry: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Program, "slow", slow)
    cr.register_executor(Executor("timed", plain._evaluated))
    step = cr.training_step(deep, "w", cr.sgd(0.1), executor="timed")
    pieces = cr.parallel(step, micro_batches=2, stages=2).split_at(n=8).pieces
    names = [one.graph.names for one in pieces if one.purpose == "forward"]
    assert last in names[0] and first not in names[0] and first in names[1]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("executor", [pytest.param("native", marks=needs_native), "reference"])
def test_a_nest_takes_as_long_as_its_nodes(model: str, executor: str) -> None:
    step, *_ = case(model, "sgd", executor)
    graph = step.differentiated.bind(n=ROWS)
    program = prepare(executor, graph, [node for _, node in graph.outputs])
    found = node_seconds(program)
    assert set(found) <= set(graph.nodes) and min(found.values()) >= 0
    assert fsum(found.values()) == pytest.approx(fsum(program.durations()) / 1e9)  # type: ignore[attr-defined]


Matrix = cr.float64[128, 128]


def layers(x: cr.float64[n, 128], y: cr.float64[n, 128], W1: Matrix, W2: Matrix, W3: Matrix, W4):
    h1 = np.maximum(x @ W1, 0)
    h2 = np.maximum(h1 @ W2, 0)
    h3 = np.maximum(h2 @ W3, 0)
    J = np.mean((h3 @ W4 - y) ** 2)
    return J


@pytest.mark.slow
def test_a_product_that_goes_back_over_a_cut_is_where_a_step_takes_less_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stages, "MESSAGE_SECONDS", 1e-6)
    names = ("W1", "W2", "W3", "W4")
    step = cr.training_step(layers, names, cr.adam(0.01), executor="reference", W4=Matrix)
    random = np.random.default_rng(2)
    weights = {name: random.normal(size=(128, 128)) / 8 for name in names}
    batch = {name: random.normal(size=(512, 128)) for name in "xy"}
    options: dict[str, Any] = {"micro_batches": 8, "stages": 2}
    whole = step.micro_batched(8)
    state = whole.init(weights)
    wanted = [whole(state, batch) for _ in range(3)]
    for more in ({}, {"schedule": "zb-h1"}, {"schedule": "gpipe", "recompute": True}):
        split = cr.parallel(step, **options, **more)
        own = split.init(weights)
        assert [split(own, batch) for _ in range(3)] == wanted
        for name in names:
            np.testing.assert_array_equal(own[name], state[name])
    ranks = RanksAlone(split, weights, batch, monkeypatch)  # of what stages compute again, too
    for rank, one in enumerate(split.memory(n=512).ranks):
        ranks.run(rank)
        assert taken_nbytes(ranks, rank) == one.allocated_nbytes
    split = cr.parallel(step, **options)
    product, sent = split.why("dJ/dh2", n=512), split.why("W3", n=512)
    assert product.startswith("dJ/dh2 is computed on stage 0 (rank 0), the earlier side of the cut")
    assert sent.endswith(
        "updated there, and sent to stage 0 (rank 0) at the beginning of each step"
    )
    first = split.split_at(n=512).programs[0].instructions
    received = [at for at, one in enumerate(first) if isinstance(one, Receive)]
    assert received[1] == received[0] + 1 > 3  # the parameter, when the first gradient is there
    moved = split.timeline(n=512)
    monkeypatch.setattr(splitting, "evened", lambda place, *_: place)
    mirrored = cr.parallel(step, **options)
    assert moved.seconds < mirrored.timeline(n=512).seconds
    assert "stage 1 (rank 1): a stage does the backward" in mirrored.why("dJ/dh2", n=512)
    monkeypatch.undo()
    monkeypatch.setattr(stages, "BYTES_EACH_SECOND", 1e6)  # then the parameter takes too long
    slow = cr.parallel(step, **options)
    assert not slow.split_at(n=512).placed.moved

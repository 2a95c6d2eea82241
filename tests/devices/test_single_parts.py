"""A rank that works on one part of a batch has gradients as they are: nothing is added to 0."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from alone import RanksAlone
from executors import needs_native
from measured_memory import no_collection
from numpy_memory import numpy_traced
from parallel_models import MODELS, ROWS, case

import chainrule as cr
from chainrule import float64
from chainrule.devices import overlap
from chainrule.devices.instructions import Clear


@pytest.mark.sweep(7)
@pytest.mark.parametrize(
    "executor",
    ["reference", pytest.param("native", marks=(needs_native, pytest.mark.slow))],
)
@pytest.mark.parametrize("model", MODELS)
def test_gradients_are_their_own_sums(
    model: str, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlap, "LEAST_NBYTES", 1)  # helpers add in the gradients themselves
    step, weights, batch = case(model, "adamw", executor)
    for stages, replicas in ((1, 1), (2, 3)):
        split = cr.parallel(step, micro_batches=replicas, stages=stages, replicas=replicas)
        parts = split.split_at(n=ROWS)
        cleared = [
            parts.values[key.value][0]
            for program in parts.programs
            for one in program.instructions
            for key in (one.keys if isinstance(one, Clear) else ())
        ]
        assert set(cleared) == {"J_sum"}  # which the forward pass computes
        one, whole = split.init(weights), step.micro_batched(replicas)
        other = whole.init(weights)
        for _ in range(2):
            np.testing.assert_allclose(split(one, batch), whole(other, batch), rtol=1e-12)
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12)


def test_a_rank_takes_what_is_predicted_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    for least in (1 << 22, 1):
        monkeypatch.setattr(overlap, "LEAST_NBYTES", least)
        for model in ("network", "tied", "recurrent"):
            step, weights, batch = case(model, "adamw", "reference")
            split = cr.parallel(step, micro_batches=2, stages=2, replicas=2)
            ranks = RanksAlone(split, weights, batch, monkeypatch)
            for rank, one in enumerate(split.memory(n=ROWS).ranks):
                ranks.run(rank)
                with numpy_traced(), no_collection():
                    ranks.run(rank)
                    taken = tracemalloc.get_traced_memory()[1]
                assert taken == one.allocated_nbytes, (least, model, rank)


n = cr.size("n")


def shared(x: float64[n, 4], a: float64[4], b: float64[4], c: float64[4], d: float64[4]):
    """Gradients that are constant, alike, or read by others."""
    u = x + a
    v = np.tanh(u + b)
    J = np.mean(np.sum(v * x, axis=1)) + np.sum(c) + np.sum(d * c)
    return J


@pytest.mark.parametrize("executor", ["reference", pytest.param("native", marks=needs_native)])
def test_gradients_of_which_there_is_more_to_do_are_added_to_zero(executor: str) -> None:
    random = np.random.default_rng(0)
    step = cr.training_step(shared, ("a", "b", "c", "d"), cr.adam(0.1), executor=executor)
    start = {name: random.normal(size=4) for name in "abcd"}
    batch = {"x": random.normal(size=(ROWS, 4))}
    for stages, replicas in ((2, 2), (("u",), 3)):
        split = cr.parallel(step, micro_batches=replicas, stages=stages, replicas=replicas)
        one, whole = split.init(start), step.micro_batched(replicas)
        other = whole.init(start)
        for _ in range(3):
            np.testing.assert_allclose(split(one, batch), whole(other, batch), rtol=1e-12)
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12)

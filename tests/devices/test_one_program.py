"""A plan of one stage is one program on several devices, and the step that it is without them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jobs import HOST_AND_PID, needs_mpi, run, written
from lockstep import in_lockstep, part_of
from spread_program import CHECKS, FURTHER, PLANS
from tensor_models import case

import chainrule as cr
from chainrule.devices.graphs import graphs_of
from chainrule.devices.one_graph import OneGraph, one_graph
from chainrule.devices.one_program import is_one_program
from chainrule.devices.tensor.layouts import Layout
from chainrule.execute.xla import processes

HERE = Path(__file__).parent
FIRST = ("data", "products", "both", "sharded", "convolutions", "running")
# Sums of other orders; float64.
NEAR = 1e-12


def made(split: Any, rows: int) -> OneGraph:
    parts = split.parts
    sizes = {parts.size: rows // parts.count}
    return one_graph("step", graphs_of(split, sizes), parts.split, parts.count)


@pytest.mark.parametrize(
    "model, optimizer, options",
    [
        ("network", "adamw", {"micro_batches": 4, "replicas": 2}),
        ("layers", "momentum", {"micro_batches": 1, "ways": 2}),
        ("dropout", "sgd", {"micro_batches": 2, "replicas": 2}),
        ("layers", "adamw", {"micro_batches": 2, "replicas": 2, "shard_optimizer": True}),
    ],
)
def test_the_graph_of_each_rank_computes_its_part_of_the_step(
    model: str, optimizer: str, options: dict[str, Any]
) -> None:
    """Evaluated by NumPy, for both ranks in turns."""
    step, weights, batch = case(model, optimizer, "reference")
    split = cr.parallel(step, **options)
    graph = made(split, 24)
    state = split.init(weights)
    whole = {**split.parts.whole_batch(state, batch), **state.arrays}
    whole |= {x.name: np.asarray(x.default) for x in graph.graph.inputs if x.name not in whole}
    given: list[dict[str, np.ndarray]] = [{}, {}]
    for name, array in whole.items():
        cuts = [axis for among, axis in graph.cuts.get(name, ()) if split.grid.size(among) > 1]
        for rank in range(2):
            layout = Layout(cuts[0] if cuts else None)
            given[rank][name] = part_of(array, layout, rank, 2)
    found = in_lockstep(graph.graph, given)
    objective = step.micro_batched(options["micro_batches"])(state, batch)
    for rank, values in enumerate(found):
        results = {name: values[node] for name, node in graph.graph.outputs}
        assert abs(results[graph.objective] / objective - 1) < NEAR
        for name, then in graph.following.items():
            cuts = [axis for among, axis in graph.cuts.get(name, ()) if split.grid.size(among) > 1]
            wanted = part_of(state[name], Layout(cuts[0] if cuts else None), rank, 2)
            np.testing.assert_allclose(results[then], wanted, rtol=NEAR, atol=1e-14)


def test_who_can_run_one_program_takes_plans_of_one_stage_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = case("network", "sgd", "xla")[0]
    plain = case("network", "sgd", "reference")[0]
    both = {"micro_batches": 2, "replicas": 2}
    assert is_one_program(cr.parallel(step, **both))
    assert not is_one_program(cr.parallel(plain, **both))
    assert not is_one_program(cr.parallel(step, micro_batches=2, stages=2))
    monkeypatch.setenv("CHAINRULE_TRANSPORT", "threads")
    assert not is_one_program(cr.parallel(step, **both))


def checked(names: list[str], folder: Path) -> dict[str, Any]:
    """What is found on 8 devices, which a process has only if it asks for them at its start."""
    file = folder / "found.json"
    flags = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=0"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "spread_program.py"), str(file), *names],
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    return json.loads(file.read_text())


def assert_equal(found: dict[str, Any]) -> None:
    wrong = {
        name: off
        for name, off in found.items()
        if name in PLANS and not (off["objective"] < NEAR and off["state"] < NEAR)
    }
    assert not wrong


@pytest.mark.peers
def test_plans_on_eight_devices_are_the_step_on_one(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    assert_equal(checked([*FIRST, *CHECKS], tmp_path))


@pytest.mark.peers
@pytest.mark.exhaustive
def test_further_plans_on_eight_devices_are_the_step_on_one(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    assert_equal(checked([*(one for one in PLANS if one not in FIRST), *FURTHER], tmp_path))


# Ranks of a job.


def test_a_process_takes_the_gpu_that_it_was_given_or_that_of_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in processes.VISIBLE:
        monkeypatch.delenv(name, raising=False)
    assert processes.own_number(3) == 3
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    assert processes.own_number(3) == 0
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    assert processes.own_number(3) == 3


RANKS = str(HERE / "spread_ranks.py")


@needs_mpi
@pytest.mark.peers
def test_plans_on_two_processes_are_the_step_on_one(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    code, _, errors, _ = run(2, RANKS, "equal", str(tmp_path / "found"))
    assert not code, errors
    for found in written(tmp_path / "found", 2):
        assert len(found) == 3 and max(found.values()) < NEAR


FAILURES = {
    "kill": (2.0, rf"rank 1 {HOST_AND_PID} of 2 was killed"),
    "soon": (2.0, rf"rank 1 {HOST_AND_PID} of 2 was killed"),
    "raise": (2.0, r"rank 1 has had enough\n\(on rank 1 of 2\)"),
    "leave": (4.0, rf"rank 0 {HOST_AND_PID} waits .*, but rank 1 {HOST_AND_PID} has ended"),
    "early": (60.0, r"JAX cannot join 2 processes: .*before anything of JAX runs"),
    "index": (60.0, r"index 9 .* out of range"),
}


@needs_mpi
@pytest.mark.peers
@pytest.mark.parametrize("how", ["soon"])
def test_where_a_rank_of_a_program_fails_all_end(how: str) -> None:
    pytest.importorskip("jax")
    within, told = FAILURES[how]
    code, _, errors, seconds = run(2, RANKS, "fail", how)
    assert code == 70 and re.search(told, errors, re.DOTALL), errors
    assert seconds < within


@needs_mpi
@pytest.mark.peers
@pytest.mark.exhaustive
@pytest.mark.parametrize("how", [one for one in FAILURES if one != "soon"])
def test_however_a_rank_of_a_program_fails_all_end(how: str) -> None:
    test_where_a_rank_of_a_program_fails_all_end(how)

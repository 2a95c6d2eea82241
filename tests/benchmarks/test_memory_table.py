"""The table of peak bytes counts alike in every library, and its status tells the truth."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
cases, memory, peers = map(importlib.import_module, ("cases", "memory", "memory_peers"))
case_module = importlib.import_module("cases.case")

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed"
)
needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)
SMALLEST = next(case for case in cases.TINY if case.name == "tiny-mlp")
MLP = next(case for case in cases.CASES if case.name == "mlp-small")
F32, I64, I32 = 4, 8, 4
n, d, h, q = 32, 20, 64, 10  # of MLP
W1, W2 = F32 * d * h, F32 * h * q


def row(chainrule: int, torch: int | None, jax: int | None, **changes: Any) -> Any:
    def ways(nbytes: int | None) -> dict[str, int]:
        return {} if nbytes is None else {"some": nbytes + 100, "least": nbytes}

    absent = {"PyTorch: x": "torch is not installed"} if torch is None else {}
    found = {"PyTorch": ways(torch), "JAX": ways(jax)}
    made = memory.Row("a", "A", memory.TRAINING, chainrule, {}, found, absent)
    return replace(made, **changes)


def test_ratios_are_those_of_the_least_of_the_ways() -> None:
    one = row(1000, 1500, 500)
    assert (one.least("PyTorch"), one.ratio("PyTorch"), one.ratio("JAX")) == (1500, 1.5, 0.5)
    assert row(1000, None, 500).ratio("PyTorch") is None


@pytest.mark.parametrize(
    ("one", "status"),
    [
        (row(1000, 1000, 1000), memory.REACHED),
        (row(1000, 1000, 1001, below=True), memory.NOT_REACHED),
        (row(1000, 1001, 1001, below=True), memory.REACHED),
        (row(1000, 1001, 999), memory.NOT_REACHED),
        (row(1000, None, 1001), memory.NOT_COMPARED),
        (row(1000, None, 999), memory.NOT_REACHED),
        (row(1000, 10, 10, computes=memory.FUNCTION), memory.REACHED),
    ],
)
def test_a_training_step_must_need_no_more_than_each_peer(one: Any, status: int) -> None:
    assert one.status == status
    assert memory.status_of([row(1, 2, 2), one]) == status
    assert memory.status_of([row(1, None, 2), one]) == (status or memory.NOT_COMPARED)


def test_the_table_shows_every_figure_and_why_one_is_missing() -> None:
    text = memory.table([row(1000, None, 500), row(1000, 1500, 2000, below=True)])
    assert "500 (0.500×)" in text and "1,500 (1.500×)" in text
    assert "none [1]" in text and "[1] torch is not installed" in text
    assert "at most: NOT REACHED" in text and "below: reached" in text
    assert "* a, training step, JAX: some 600, least 500" in text


def test_chainrule_counts_the_given_arrays_the_results_and_its_scratch_memory(native: Any) -> None:
    x, y = np.zeros((3, 5), np.float32), np.zeros((3, 5), np.float32)
    (build,) = (
        next(c for c in cases.TINY if c.name == "tiny-layer-norm").variants["chainrule"].values()
    )
    bias = np.zeros(5, np.float32)
    graph = cr.trace(build.keywords["function"], x, bias, bias, y)
    phase = memory.function_memory(graph)
    given = sum(item.node.type.nbytes for item in graph.inputs)
    results = sum(node.type.nbytes for _, node in graph.outputs)
    schedule = phase.usage.schedule
    assert phase.peak_nbytes == given + results + schedule.scratch_nbytes


@needs_torch
@pytest.mark.peers
def test_the_tracker_sees_what_a_person_counts() -> None:
    """In the backward pass of relu: h, its gradient and that of x W1; dW2, and the penalty's part
    of dW1, which waits for the other; and two numbers, J among them."""
    build = MLP.variants["PyTorch"]["for loop"]
    given = F32 * n * d + I64 * n + W1 + W2
    by_hand = given + 3 * F32 * n * h + W2 + W1 + 2 * F32
    assert peers.torch_nbytes(MLP.problem(), build) == by_hand


@needs_torch
@pytest.mark.peers
def test_the_tracked_peak_is_of_the_second_call() -> None:
    import torch

    def prepare() -> Any:
        kept: list[Any] = [torch.ones(10)]

        def call() -> None:
            torch.ones(1000 if len(kept) == 1 else 100)  # more in the first call
            kept.append(torch.ones(5))

        return call

    assert peers.torch_peak_nbytes(prepare) == F32 * (10 + 5 + 100)


@needs_torch
@pytest.mark.peers
def test_without_a_choice_pytorch_updates_in_a_loop() -> None:
    case = next(c for c in cases.TINY if c.name == "tiny-deep-mlp-adam")
    build = case.variants["PyTorch"]["for loop"]
    default = partial(build, optimizer=build.keywords["optimizer"].func)
    counted = {
        way: peers.torch_nbytes(case.problem(), build)
        for way, build in {"default": default, **case.variants["PyTorch"]}.items()
    }
    assert counted["default"] == counted["for loop"] < counted["foreach"]


@needs_jax
@pytest.mark.peers
def test_memory_analysis_counts_donated_arrays_once() -> None:
    import jax

    shape = jax.ShapeDtypeStruct((3, 4), np.float32)
    for donated, arrays in (((), 3), ((0,), 2)):
        jitted = jax.jit(lambda p, g: p - g, donate_argnums=donated)
        assert peers.account(jitted.lower(shape, shape).compile()) == arrays * F32 * 3 * 4


@needs_jax
@pytest.mark.peers
def test_memory_analysis_counts_the_arrays_of_the_backward_pass() -> None:
    """h and its gradient at least, beside what is given; labels are int32."""
    given = F32 * n * d + I32 * n + W1 + W2
    keywords = MLP.variants["JAX"]["jit"].keywords
    found = peers.jax_training_nbytes(MLP.problem(), keywords["objective"], keywords["optimizer"])
    assert given + 2 * F32 * n * h < found < given + 4 * F32 * n * h + W1 + W2


@needs_jax
@pytest.mark.peers
def test_what_lies_between_two_products_is_counted_in_a_prediction() -> None:
    problem = case_module.Problem({"x": np.zeros((512, 64), np.float32)})
    A, B = np.zeros((64, 2048), np.float32), np.zeros((2048, 8), np.float32)

    def objective(params: Any, x: Any) -> Any:
        import jax

        return (jax.nn.relu(x @ params["A"]) @ params["B"]).sum()

    problem = replace(problem, parameters={"A": A, "B": B})
    assert peers.jax_prediction_nbytes(problem, objective) > F32 * 512 * 2048


@needs_torch
@needs_jax
@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_the_command_prints_the_table_and_saves_every_way(
    native: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "memory.json"
    status = memory.main(["--cases", "tiny-mlp", "--json", str(file)], [SMALLEST])
    saved = json.loads(file.read_text())["rows"]
    assert [one["computes"] for one in saved] == [memory.TRAINING, memory.PREDICTION]
    for one in saved:
        assert one["absent"] == {} and sum(one["parts"].values()) == one["chainrule"]
        for peer, ways in one["peers"].items():
            assert one["ratio_to_chainrule"][peer] == min(ways.values()) / one["chainrule"]
    assert set(saved[0]["peers"]["PyTorch"]) == set(SMALLEST.variants["PyTorch"])
    assert status == saved[0]["status"]
    assert f"{saved[0]['chainrule']:,}" in capsys.readouterr().out


def test_a_way_that_fails_is_absent_with_its_reason(
    native: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: Any, **__: Any) -> int:
        raise ModuleNotFoundError("No module named 'nolibrary'", name="nolibrary")

    for name in ("torch_nbytes", "torch_prediction_nbytes", "jax_training_nbytes", "jax_nbytes"):
        monkeypatch.setattr(peers, name, missing)
    assert memory.main([], [SMALLEST]) == memory.NOT_COMPARED
    assert "nolibrary is not installed" in capsys.readouterr().out

"""The benchmark compares equals: every way to write a case gives the same results."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
cases, worker, measure, agreement = map(
    importlib.import_module, ("cases", "worker", "measure", "agreement")
)
case_module, limits, mlp = map(importlib.import_module, ("cases.case", "cases.limits", "cases.mlp"))

EVERY_CASE = pytest.mark.parametrize("case", cases.TINY, ids=lambda case: case.name)
PEERS = {"PyTorch": "torch", "JAX": "jax"}
REFERENCE = case_module.Settings(executor="reference", threads=1)
SHORT = measure.Timing(pause=0, warm=0, burst=0, fewest=1)


def tiny(name: str) -> Any:
    return next(case for case in cases.TINY if case.name == f"tiny-{name}")


def installed() -> list[str]:
    """The peers that are here; torch.compile is the same program as PyTorch, minutes later."""
    found = [name for name, module in PEERS.items() if importlib.util.find_spec(module)]
    return [*found, "NumPy"]


@pytest.mark.sweep(7)
@EVERY_CASE
@pytest.mark.parametrize("executor", ["reference", "native"])
@pytest.mark.peers
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_every_way_to_write_a_case_gives_the_same_results(case: Any, executor: str) -> None:
    peers = [name for name in installed() if name in case.variants]
    if executor == "reference":  # they are compared with each other beside the native executor
        peers = [name for name in peers if name != "JAX"][-1:] or peers
    if not peers:
        pytest.skip("neither PyTorch nor JAX is installed, and there is no NumPy version")
    settings = replace(REFERENCE, executor=executor)
    ready, absent = worker.prepare(case, [*peers, "chainrule"], settings)
    assert absent == {}
    written = {(name, way) for name in (*peers, "chainrule") for way in case.variants[name]}
    assert set(ready) == written


@EVERY_CASE
def test_no_call_changes_the_arrays_that_all_start_from(case: Any) -> None:
    problem = case.problem()
    ways = [way for name in ("NumPy", "chainrule") for way in case.variants.get(name, {}).values()]
    for build in ways:
        agreement.results(case, problem, build(problem, REFERENCE))
    fresh = case.problem()
    for kept, made in ((problem.arrays, fresh.arrays), (problem.parameters, fresh.parameters)):
        for name, array in case_module.flat(made).items():
            np.testing.assert_array_equal(case_module.flat(kept)[name], array, err_msg=name)


def test_the_matrix_products_of_a_step_are_those_of_its_graph() -> None:
    shapes = {"x": (3, 4), "W1": (4, 5), "W2": (5, 2)}
    types: dict[str, Any] = {name: cr.float32[shape] for name, shape in shapes.items()}
    types["y"] = cr.int64[(3,)]
    step = cr.training_step(mlp.objective, ("W1", "W2"), cr.sgd(0.1), **types)
    products = [node for node in step.graph.nodes if node.primitive.name == "matmul"]
    alone = limits.products_alone(step)
    calls = [call.gemm for work in alone.works for call in work.calls]
    assert len(calls) == len(products) == 5
    assert sum(gemm.flops for gemm in calls) == sum(n.primitive.flops(n) for n in products)
    assert limits.matrix_products_seconds(step, repeats=3) > 0


def test_a_copy_moves_as_many_bytes_as_the_operation() -> None:
    pytest.importorskip("torch")
    case = tiny("softmax-backward")
    build = case.yardsticks["copying the same bytes"]
    copied = build(case.problem(), REFERENCE).call()
    array = case.problem().arrays["y"]
    assert copied.numel() == array.size * 3 // 2  # reads y and g, writes dx


@pytest.mark.slow
def test_a_worker_measures_in_a_process_of_its_own() -> None:
    common = {"case": "tiny-mlp", "implementations": ["NumPy"], "threads": 1}
    common |= {"executor": "reference"}
    steady = ask({**common, "rounds": 2, "timing": {"pause": 0, "warm": 0, "burst": 0.001}})
    assert len(steady["seconds"]["NumPy"]) == 2 and min(steady["seconds"]["NumPy"]) > 0
    assert steady["variants"] == {"NumPy": "by hand"}
    first = ask({**common, "first_call": True})
    assert 0 < first["seconds"] < 60 and first["import_seconds"] > 0


def ask(request: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, str(BENCHMARKS / "worker.py"), json.dumps(request)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout.splitlines()[-1])


def test_the_command_refuses_a_case_that_is_not_there() -> None:
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--cases", "mlp-*", "nosuch"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "no case matches 'nosuch'" in done.stderr and "first-call-mlp-small" in done.stderr


def test_an_implementation_that_fails_is_absent_with_its_reason() -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("no compiler\nand more")

    ways = {**tiny("mlp").variants["NumPy"], "compiled": fails}
    case = replace(tiny("mlp"), variants={"NumPy": ways}, missing={"JAX": "why"})
    _, absent = worker.prepare(case, ["NumPy", "JAX"], REFERENCE)
    assert absent == {"NumPy: compiled": "RuntimeError: no compiler", "JAX": "why"}

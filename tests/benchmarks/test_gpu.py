"""The benchmark for GPUs compares equals, and says where there is no GPU."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
gpu, case_module = map(importlib.import_module, ("gpu", "cases.case"))


def objectives(name: str, dtype: str, part: str) -> list[float]:
    case = gpu.case_of(name, dtype, "small")
    build = next(iter(case.variants[part].values()))
    prepared = build(case.problem(), case_module.Settings("xla", 1))
    return [gpu.number(prepared.call()) for _ in range(gpu.STEPS)]


def compared(name: str, dtype: str, parts: tuple[str, ...]) -> None:
    near = 1e-4 if dtype == "float32" else 3e-2
    ours: Any = objectives(name, dtype, gpu.OURS)
    for part in parts:
        np.testing.assert_allclose(objectives(name, dtype, part), ours, rtol=near, err_msg=part)


@pytest.mark.peers
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_libraries_take_the_same_steps(dtype: str) -> None:
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    compared("mlp", dtype, ("JAX", "PyTorch"))


@pytest.mark.peers
@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_libraries_take_the_same_steps_of_a_transformer(dtype: str) -> None:
    pytest.importorskip("jax")
    pytest.importorskip("torch")
    compared("transformer", dtype, ("JAX", "PyTorch"))


@pytest.mark.peers
def test_without_a_gpu_it_says_so_and_how_to_try_it() -> None:
    jax = pytest.importorskip("jax")
    if any(one.platform == "gpu" for one in jax.devices()):
        pytest.skip("there is one")
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--rounds", "1", "--cases", "mlp"]
    done = subprocess.run(
        [*command, "--size", "small"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert (
        "there is no gpu here: JAX has cpu alone" in done.stderr and "--platform cpu" in done.stderr
    )

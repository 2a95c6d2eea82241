"""What is outside arrays: the constants of the estimate are bounds of what is measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reports import both, deep, needs_native, objective

import chainrule as cr
from chainrule.execute.overhead import BLAS_NBYTES_PER_THREAD, NUMPY_NBYTES
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.graph import Graph

RESIDENT = """
import os, sys
import numpy as np
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
grown = 0
for dtype in (np.float32, np.float64):
    a, out = np.ones((1024, 1024), dtype), np.ones((1024, 1024), dtype)
    before = resident()
    np.matmul(a, a, out=out)
    grown += resident() - before
print(grown)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_the_buffers_of_blas_are_within_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    command = [sys.executable, "-c", RESIDENT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    grown = int(done.stdout)
    assert grown <= BLAS_NBYTES_PER_THREAD
    if "openblas" in str(np.show_config(mode="dicts")):
        assert grown >= BLAS_NBYTES_PER_THREAD / 8  # or the estimate tells nothing


@needs_native
@pytest.mark.parametrize("graph", [both(), cr.trace(objective), deep(12)], ids=len)
def test_compiled_code_is_within_the_estimate(graph: Graph) -> None:
    from chainrule.execute.native.runtime.machine import machine_for

    concrete = graph.bind(n=16)
    artifact = machine_for(concrete, [node for _, node in concrete.outputs]).artifact
    overhead = graph.memory(n=16, executor="native").overhead
    nbytes = len(artifact.code) + 8 * len(artifact.arenas)
    assert nbytes <= overhead["compiled code"] <= 16 * nbytes  # or the estimate tells nothing


@pytest.mark.parametrize(("threads", "mib"), [("1", 8), ("3", 24)])
def test_overhead_is_told_and_in_no_other_number(
    monkeypatch: pytest.MonkeyPatch, threads: str, mib: int
) -> None:
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", threads)
    report = both().memory(n=16, executor="reference")
    parts = {"buffers of BLAS": mib << 20, "buffers of NumPy": NUMPY_NBYTES}
    assert report.overhead_nbytes == sum(report.overhead.values()) == sum(parts.values())
    assert report.main.peak_nbytes < 1 << 20
    sentence = (
        f"outside these numbers, estimated: {in_bytes(report.overhead_nbytes)} (buffers of BLAS "
        f"{mib} MiB, buffers of NumPy 256 KiB); Python, its libraries and the compiler are not "
        "counted"
    )
    assert sentence in " ".join(str(report).split())
    assert report.json()["overhead"] == parts


def chosen(x: Any) -> Any:
    return cr.cond(np.sum(x) > 0, lambda x: x @ x, lambda x: x * 2, x)


@needs_native
@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda x: np.tanh(x), ()),
        (lambda x: np.sort(x, axis=0), ("buffers of NumPy",)),
        (lambda x: np.linalg.inv(x), ("buffers of BLAS", "buffers of NumPy")),
        (chosen, ("buffers of BLAS", "buffers of NumPy")),
    ],
)
def test_buffers_of_libraries_are_told_where_compiled_code_calls_them(
    function: Any, parts: tuple[str, ...]
) -> None:
    report = cr.trace(function, x=np.ones((8, 8), np.float32)).memory(executor="native")
    assert tuple(part for part in report.overhead if "buffers" in part) == parts

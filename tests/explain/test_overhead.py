"""What is outside arrays: the constants of the estimate are bounds of what is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reports import both, deep, needs_native, objective

import chainrule as cr
from chainrule.execute import overhead
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

RESIDENT = """
import json, re, sys
import numpy as np
from pathlib import Path
def status(key):
    return int(re.search(key + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
for m, k, n, dtype in json.loads(sys.argv[1]):
    x, y, out = np.ones((m, k), dtype), np.ones((n, k), dtype).T, np.ones((m, n), dtype)
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    np.matmul(x, y, out=out)
    print(status("VmHWM") - before, flush=True)
"""
PRODUCTS = [
    (20_000, 256, 256, "float32"),
    (1024, 1024, 1024, "float64"),
    (20, 20_000, 256, "float64"),
]
FURTHER = [
    (256, 600, 20_000, "float32"),
    (1024, 1024, 1024, "float32"),
    (20_000, 256, 256, "float64"),
    (20_000, 600, 20, "float32"),
    (200_000, 300, 20, "float64"),
]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs /proc of Linux")
@pytest.mark.parametrize(
    ("products", "threads"),
    [
        (PRODUCTS, 2),
        pytest.param(PRODUCTS, 1, marks=pytest.mark.slow),
        pytest.param(FURTHER, 2, marks=pytest.mark.exhaustive),
        pytest.param(FURTHER, 1, marks=pytest.mark.exhaustive),
    ],
)
def test_the_buffers_of_blas_are_within_the_estimate(
    monkeypatch: pytest.MonkeyPatch, products: list[Any], threads: int
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", str(threads))
    monkeypatch.setattr(overhead, "blas_threads", lambda: threads)
    grown = []
    for one in products:  # each in a process of its own: what is packed stays
        command = [sys.executable, "-c", RESIDENT, json.dumps([one])]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        grown.append(int(done.stdout))
    said = [overhead.blas_nbytes([product_of(*one)]) for one in products]
    for one, grew, nbytes in zip(products, grown, said, strict=True):
        assert grew <= nbytes, one
    if "openblas" in str(np.show_config(mode="dicts")) and threads == 2:
        assert sum(grown) >= sum(said) / 3  # or the estimate tells nothing


def product_of(m: int, k: int, n: int, dtype: str) -> Node:
    graph = cr.trace(lambda x, y: x @ y, x=np.ones((m, k), dtype), y=np.ones((k, n), dtype))
    return graph.outputs[0][1]


def buffers_of(function: Any, **types: Any) -> int:
    return overhead.blas_nbytes(cr.trace(function, **types).nodes)


def test_matrices_of_a_stack_are_packed_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overhead, "blas_threads", lambda: 2)
    blocks = 4 << 20
    types = {"x": cr.float32["50 300 40"], "y": cr.float32["50 40 20"]}
    assert buffers_of(lambda x, y: x @ y, **types) == blocks + 300 * 40 * 4
    found = buffers_of(lambda x, y: np.einsum("bik,bkj->bji", x, y), **types)
    assert blocks < found <= blocks + 300 * 40 * 4
    inverse = buffers_of(lambda x: np.linalg.inv(x), x=cr.float32["5 600 600"])
    assert inverse == blocks + 600 * 512 * 8
    types = {"x": cr.float32["1000000 900"], "y": cr.float32["900 100"]}
    assert buffers_of(lambda x, y: x @ y, **types) == 64 << 20  # all that OpenBLAS has
    assert not buffers_of(lambda x: np.tanh(x), x=cr.float32["4 4"])
    assert not buffers_of(lambda x: x @ x, x=cr.int64["4 4"])


def test_the_threads_of_blas_are_those_that_it_says() -> None:
    script = "from chainrule.execute.overhead import blas_threads; print(blas_threads())"
    for threads in ("2",):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        )
        if "openblas" in str(np.show_config(mode="dicts")) and (os.cpu_count() or 1) >= 2:
            assert done.stdout.strip() == threads


@needs_native
@pytest.mark.parametrize("graph", [both(), cr.trace(objective), deep(12)], ids=len)
def test_compiled_code_is_within_the_estimate(graph: Graph) -> None:
    from chainrule.execute.native.runtime.machine import machine_for

    concrete = graph.bind(n=16)
    artifact = machine_for(concrete, [node for _, node in concrete.outputs]).artifact
    found = graph.memory(n=16, executor="native").overhead
    nbytes = len(artifact.code) + 8 * len(artifact.arenas)
    assert nbytes <= found["compiled code"] <= 16 * nbytes  # or the estimate tells nothing


@pytest.mark.parametrize("threads", [1, 3])
def test_overhead_is_told_and_in_no_other_number(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr(overhead, "blas_threads", lambda: threads)
    report = both().memory(n=4000, executor="reference")
    packed = (threads << 21) + 4000 * 64 * 4  # of x @ W1
    large = [one for one in report.main.usage.lives if one.nbytes >= 1 << 16]
    ends = report.overhead["ends of arrays"]
    assert 0 < ends <= overhead.ARRAY_NBYTES * len(large) and not ends % overhead.ARRAY_NBYTES
    parts = {
        "buffers of BLAS": packed,
        "buffers of NumPy": overhead.NUMPY_NBYTES,
        "ends of arrays": ends,
        "freed arrays": overhead.KEPT_NBYTES,
    }
    assert report.overhead_nbytes == sum(report.overhead.values()) == sum(parts.values())
    sentence = (
        f"outside these numbers, estimated: {in_bytes(report.overhead_nbytes)} (buffers of BLAS "
        f"{in_bytes(packed)}, buffers of NumPy 256 KiB, ends of arrays {in_bytes(ends)}, freed "
        "arrays 4 MiB); Python, its libraries and the compiler are not counted"
    )
    assert sentence in " ".join(str(report).split())
    assert report.json()["overhead"] == parts


def chosen(x: Any) -> Any:
    return cr.cond(np.sum(x) > 0, lambda x: x @ x, lambda x: x * 2, x)


def chosen_and_sorted(x: Any) -> Any:
    return cr.cond(np.sum(x) > 0, lambda x: x @ x, lambda x: np.sort(x, axis=0), x)


@needs_native
@pytest.mark.parametrize(
    ("function", "parts"),
    [
        (lambda x: np.tanh(x), ()),
        (lambda x: np.sort(x, axis=0), ("buffers of NumPy",)),
        (lambda x: np.linalg.inv(x), ("buffers of BLAS",)),
        (lambda x: np.linalg.pinv(x), ("buffers of BLAS", "buffers of NumPy")),
        (chosen, ()),
        (chosen_and_sorted, ("buffers of BLAS", "buffers of NumPy")),
    ],
)
def test_buffers_of_libraries_are_told_where_compiled_code_calls_them(
    function: Any, parts: tuple[str, ...]
) -> None:
    report = cr.trace(function, x=np.ones((8, 8), np.float32)).memory(executor="native")
    assert tuple(part for part in report.overhead if "buffers" in part) == parts

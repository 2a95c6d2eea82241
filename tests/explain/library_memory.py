"""What operations and programs take from malloc, as a program: a line of JSON for each.

    python library_memory.py               (all)
    python library_memory.py float64       (operations on arrays of this dtype)
    python library_memory.py programs

It runs with counted_malloc.c loaded before the C library, and so sees all that routines in C ask
for, which tracemalloc does not.
"""

import ctypes
import gc
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy_memory import peak_nbytes

import chainrule as cr
from chainrule.execute.native.runtime import machine, recycled
from chainrule.graph.graph import Graph
from chainrule.graph.types import type_of
from chainrule.machine_code.target import native_refusal
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing.samples import graph_of

BY_NAME = {one.name: one for one in PRIMITIVES}
RANDOM = np.random.default_rng(0)
SQUARE, STACK = RANDOM.normal(size=(200, 200)), RANDOM.normal(size=(5, 100, 100))
TALL, LONG = RANDOM.normal(size=(400, 90)), RANDOM.normal(size=(1000, 30))
TALLS = RANDOM.normal(size=(4, 90, 50))
WIDE, MANY = RANDOM.normal(size=(150, 300)), RANDOM.normal(size=(6, 100, 80))
DTYPES = ("float64", "float32", "float16")
WORDS = ("float64", "float32", "int64", "int32", "int16", "uint8")

Arrays = tuple[np.ndarray, ...]
Case = tuple[str, Arrays, dict[str, Any]]


def taken(call: Callable[[], Any]) -> int:
    """The most bytes from malloc, of a call that was done before: the least of two."""
    library = ctypes.CDLL(None)
    library.counted_now.restype = library.counted_most.restype = ctypes.c_long
    found = []
    call()
    for _ in range(2):
        for one in machine._machines.values():
            one._free.clear()
        recycled.forget()
        gc.collect()
        before = library.counted_now()
        library.counted_reset()
        result = call()
        found.append(library.counted_most() - before)
        del result
    return min(found)


def definite(x: np.ndarray) -> np.ndarray:
    """Symmetric matrices with large diagonals."""
    return x @ np.swapaxes(x, -1, -2) + x.shape[-1] * np.eye(x.shape[-1])


def lying_like(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array in another dtype, with strides of as many elements."""
    strides = [step // array.itemsize for step in array.strides]
    ends = [step * (size - 1) for step, size in zip(strides, array.shape, strict=True)]
    first = -sum(end for end in ends if end < 0)
    memory = np.zeros(first + sum(end for end in ends if end > 0) + 1, dtype)
    own = tuple(step * memory.itemsize for step in strides)
    found = np.lib.stride_tricks.as_strided(memory[first:], array.shape, own)
    found[...] = array
    return found


def factored() -> Iterator[Case]:
    """Of matrices, as LAPACK takes them."""
    for x in (SQUARE, STACK, SQUARE.T, STACK[:, ::-1]):
        for name in ("inv", "det", "slogdet", "cofactor"):
            yield name, (x,), {}
    for a, b in ((SQUARE, TALL[:200]), (STACK, STACK[:, :, :30]), (SQUARE.T, SQUARE[:, :1])):
        yield "solve", (a, b), {}
    for x in (SQUARE, STACK):
        yield "cofactor_change", (x, np.swapaxes(x, -1, -2)), {}
        yield "cholesky", (definite(x),), {}
        for name in ("eigh", "eigvalsh"):
            yield name, (definite(x),), {"uplo": "L"}
            yield name, (definite(x),), {"uplo": "U"}
    for tall in (TALL, LONG, TALLS, TALLS[:, :, ::-1]):
        for x in (tall, np.swapaxes(tall, -1, -2), np.swapaxes(tall, -1, -2).copy()):
            for name in ("svd", "svdvals", "qr"):
                yield name, (x,), {}
            for cutoff in (1e-12, None):
                yield "pinv", (x,), {"cutoff": cutoff}


def multiplied() -> Iterator[Case]:
    """Of matrices, as BLAS takes them or does not."""
    gaps, part = WIDE[:, ::2], WIDE[:, :150]
    for x, y in (
        (gaps, gaps.T),
        (gaps, part),
        (part, part[:, ::-1]),
        (part, part.T),
        (np.broadcast_to(part[:1], part.shape), WIDE),
        (WIDE[::-1], WIDE.T),
        (WIDE[::-1], WIDE[::-1].T),
        (gaps, gaps[0]),
        (gaps[0], part),
        (gaps[:1], part[::-2]),
        (gaps, part[:, ::-1][:, :1]),
        (MANY[:, :, ::2], MANY[:, :40]),
        (MANY[:, ::-1], WIDE[:80]),
    ):
        if x.shape[-1] == y.shape[max(y.ndim - 2, 0)] and (y.ndim == 2 or x.ndim == y.ndim):
            yield "matmul", (x, y), {}
    axes = {"x_axes": (0, 1), "y_axes": (2, 1), "out_axes": (0, 2)}
    for x, y in ((WIDE[::-1], WIDE), (gaps, part), (gaps, gaps)):
        yield "contract", (x, y), axes


def transformed() -> Iterator[Case]:
    """Of lengths that have small factors, or one large one; of a single row, and of many."""
    for length in (1000, 4096, 211, 1009, 998, 4999, 53, 121, 169 * 3):
        half = length // 2 + 1
        for rows in (1, 3, 40):
            yield "dft", (RANDOM.normal(size=(rows, length, 2)),), {"axes": (1,), "sign": -1}
            yield "half_dft", (RANDOM.normal(size=(length, rows)),), {"axis": 0}
            params = {"axis": 1, "length": length}
            yield "half_dft_transpose", (RANDOM.normal(size=(rows, half, 2)),), params
    yield "dft", (RANDOM.normal(size=(300, 97, 2)),), {"axes": (0, 1), "sign": 1}


def ordered() -> Iterator[tuple[Arrays, dict[str, Any]]]:
    """Of elements in no order, of which half are of the other half's size."""
    for dtype in WORDS:
        x = RANDOM.integers(0, 200, 100_000).astype(dtype)
        yield (x,), {"axis": 0}
        yield (x.reshape(1000, 100),), {"axis": 0}
        yield (x.reshape(100, 1000),), {"axis": 1}


def cases() -> Iterator[Case]:
    for name, operands, params in (*factored(), *multiplied(), *transformed()):
        for dtype in DTYPES:
            yield name, tuple(lying_like(one, dtype) for one in operands), params
    for operands, params in ordered():
        yield "argsort", operands, params


def line_of(name: str, operands: Arrays, params: dict[str, Any]) -> dict[str, Any]:
    primitive = BY_NAME[name]
    out = graph_of(primitive, [type_of(one) for one in operands], params)["out"]

    def call() -> Any:
        return primitive.evaluate(np, *operands, **params)

    shown = [f"{one.dtype}{one.shape} of strides {one.strides}" for one in operands]
    return {
        "case": f"{name} {params} of {', '.join(shown)}",
        "name": name,
        "taken": taken(call),
        "traced": peak_nbytes(call),
        "declared": int(out.type.nbytes) + primitive.scratch(out, *operands),
        "library": primitive.library_bytes(out, *operands),
    }


def solved(x: Any, b: Any) -> Any:
    """A system in each step of a loop."""

    def step(h: Any, row: Any) -> Any:
        h = np.linalg.solve(x, h + row)
        return h, h

    return cr.scan(step, b[0], b)[1]


def programs() -> Iterator[tuple[str, Graph, dict[str, np.ndarray]]]:
    """What calls these operations, and its gradients."""
    functions = {
        "flipped": lambda x: np.flip(x, 0) @ x.T,
        "cholesky": lambda x: np.linalg.cholesky(x @ x.T + 200 * np.eye(200)),
        "svd": lambda x: np.linalg.svd(x, full_matrices=False)[0],
        "slogdet": lambda x: np.linalg.slogdet(x)[1],
        "qr": lambda x: np.linalg.qr(x)[0],
        "pinv": lambda x: np.linalg.pinv(x[:, :90]),
        "eigh": lambda x: np.linalg.eigh(x + x.T)[1],
        "sort": lambda x: np.sort(x, axis=None),
        "spectrum": lambda x: cr.fft.rfft(x[:, :199])[0],
    }
    for name, function in functions.items():
        graph = cr.trace(function, x=SQUARE)
        yield name, graph, {"x": SQUARE}
        total = cr.trace(lambda x, function=function: np.sum(np.sin(function(x))), x=SQUARE)
        yield f"gradient of {name}", cr.backward(total), {"x": SQUARE}
    given = {"x": SQUARE, "b": RANDOM.normal(size=(5, 200, 3))}
    yield "systems in a loop", cr.trace(solved, **given), given
    total = cr.trace(lambda x, b: np.sum(solved(x, b) ** 2), **given)
    yield "gradient of systems in a loop", cr.backward(total, wrt="x"), given


def line_of_program(
    name: str, graph: Graph, given: dict[str, np.ndarray], executor: str
) -> dict[str, Any]:
    report = graph.memory(executor=executor)
    there = report.main.usage.given_nbytes

    def call() -> Any:
        return graph.run(given, keep="outputs", executor=executor)

    return {
        "case": f"{name}, {executor}",
        "taken": taken(call),
        "said": report.main.peak_nbytes - there,
        "beside": sum(n for what, n in report.overhead.items() if "BLAS" not in what),
    }


if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # what is imported need not be looked through for each case
    np.seterr(all="ignore")
    wanted = sys.argv[1:]
    for case in cases() if wanted != ["programs"] else ():
        if case[1][0].dtype.name in wanted or not wanted:
            print(json.dumps(line_of(*case)), flush=True)
    executors = ("reference",) if native_refusal() else ("reference", "native")
    for number, program in enumerate(programs() if "programs" in wanted or not wanted else ()):
        # asked for alone: values by one executor, gradients by the other
        for executor in (executors[number % len(executors)],) if wanted else executors:
            print(json.dumps(line_of_program(*program, executor)), flush=True)

"""What some primitives take from the system, as a program: a line of JSON for each.

The most memory that the process has had since it was asked last (Linux) has all that C routines
take, which tracemalloc does not see.
"""

import ctypes
import gc
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy_memory import peak_nbytes

from chainrule.graph.types import type_of
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing.samples import graph_of

BY_NAME = {one.name: one for one in PRIMITIVES}


def now_and_most() -> tuple[int, int]:
    text = Path("/proc/self/status").read_text()
    lines = {line.split(":")[0]: line.split()[1] for line in text.splitlines() if " kB" in line}
    return int(lines["VmRSS"]) << 10, int(lines["VmHWM"]) << 10


def taken(call: Callable[[], Any]) -> int:
    """The least of three tries: memory that a try before gave back is not always gone."""
    found = []
    call()
    for _ in range(3):
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
        before, _ = now_and_most()
        result = call()
        found.append(now_and_most()[1] - before)
        del result
    return min(found)


def cases() -> Iterator[tuple[str, tuple[np.ndarray, ...], dict[str, Any]]]:
    random = np.random.default_rng(0)
    square, tall = random.normal(size=(700, 700)), random.normal(size=(1500, 400))
    small = square[:300, :300].copy()
    yield "solve", (square, square[:, :300].copy()), {}
    yield "inv", (square,), {}
    yield "det", (square,), {}
    yield "slogdet", (square,), {}
    yield "cholesky", (square @ square.T + 700 * np.eye(700),), {}
    yield "eigh", (square + square.T,), {"uplo": "L"}
    yield "eigvalsh", (square + square.T,), {"uplo": "L"}
    for x in (square, tall, tall.T.copy()):
        yield "svd", (x,), {}
        yield "svdvals", (x,), {}
        yield "qr", (x,), {}
    yield "pinv", (tall,), {"cutoff": 1e-12}
    yield "cofactor", (small,), {}
    yield "cofactor_change", (small, small.T.copy()), {}
    yield "svd", (random.normal(size=(20, 200, 200)),), {}
    yield "solve", (square.astype(np.float32), square[:, :300].astype(np.float32)), {}
    yield "argsort", (random.normal(size=10**6),), {"axis": 0}
    yield "argsort", (random.normal(size=10**6).astype(np.float32),), {"axis": 0}
    yield "argsort", (random.integers(0, 256, 10**6).astype(np.uint8),), {"axis": 0}
    yield "argsort", (random.normal(size=(10**6, 2)),), {"axis": 0}
    wide = random.normal(size=(1500, 3000))
    yield "matmul", (wide[:, ::2], wide[:, ::2].T), {}
    yield "matmul", (wide[:, ::2], wide[:, :1500]), {}
    yield "matmul", (wide[:, :1500], wide[:, 1499::-1]), {}
    yield "matmul", (wide[:, :1500], wide[:, :1500].T), {}
    yield "matmul", (np.broadcast_to(wide[:1, :1500], (1500, 1500)), wide), {}


if __name__ == "__main__":
    np.seterr(all="ignore")
    for name, operands, params in cases():
        primitive = BY_NAME[name]
        out = graph_of(primitive, [type_of(one) for one in operands], params)["out"]

        def call(operands: Any = operands, params: Any = params, of: Any = primitive) -> Any:
            return of.evaluate(np, *operands, **params)

        line = {
            "case": f"{name} of {operands[0].dtype}{operands[0].shape}",
            "taken": taken(call),
            "traced": peak_nbytes(call),
            "declared": int(out.type.nbytes) + primitive.scratch(out, *operands),
            "library": primitive.library_bytes(out, *operands),
        }
        print(json.dumps(line))
        sys.stdout.flush()

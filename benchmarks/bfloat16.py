"""Steps and products in bfloat16 beside the same in float32, in fresh processes, in turns.

    python benchmarks/bfloat16.py [--rounds 7] [--threads 1] [--only deep-mlp ...]

Prints for each step the medians of both and of their quotients round by round, and the scratch
memory of both; of each product GFLOP/s of the native executor in bfloat16, in bfloat16 without the
instruction for pairs (CHAINRULE_WITHOUT=avx512bf16), and in float32.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
SECONDS = 0.3  # of calls in a process, after as long for a warm machine
WAYS = {
    "float32": ("float32", ""),
    "bfloat16": ("bfloat16", ""),
    "bfloat16, widened": ("bfloat16", "avx512bf16"),
}
PRODUCTS = {
    f"{m}x{k}x{n}{way}": (m, k, n, way)
    for m, k, n in ((256, 784, 256), (512, 784, 2048), (64, 1024, 1024))
    for way in ("", " back to x", " back to W")
}
STEPS = ("mlp", "deep-mlp", "transformer")


def problem_of(name: str) -> tuple[Any, Any, Any]:
    """The objective, the optimizer and the float32 problem of a step."""
    from cases import deep_mlp, mlp, transformer
    from cases.transformer_objective import objective

    import chainrule as cr

    match name:
        case "mlp":
            return _mlp, cr.sgd(0.1), mlp.problem(784, 2048, 10, 512)
        case "deep-mlp":
            return deep_mlp.objective, cr.adam(1e-3), deep_mlp.problem(1024, 4, 10, 256)
        case _:
            return objective, cr.adamw(1e-3), transformer.problem(256, 64, 128, 2, 16)


def _mlp(params: Any, x: Any, y: Any) -> Any:
    """That of `cases.mlp`, whose annotations say float32, without weight decay."""
    import numpy as np

    import chainrule as cr

    return cr.cross_entropy(np.maximum(x @ params["W1"], 0) @ params["W2"], y)


def step_call(name: str, dtype: str, threads: int) -> tuple[Callable[[], Any], float]:
    """A call of the step, and its megabytes of scratch memory."""
    import numpy as np
    from cases.case import map_tree

    import chainrule as cr

    def narrowed(one: np.ndarray) -> np.ndarray:
        return one.astype(cr.bfloat16.dtype) if one.dtype.kind == "f" else one

    objective, optimizer, problem = problem_of(name)
    change = narrowed if dtype == "bfloat16" else np.asarray
    params = map_tree(change, problem.parameters)
    batch = {key: change(array) for key, array in problem.arrays.items()}
    step = cr.training_step(
        objective, "params", optimizer, executor="native", params=params, **batch
    )
    state = step.init(params=params)
    return partial(step, state, **batch), step.memory().main.usage.scratch_nbytes / 1e6


def product_call(name: str, dtype: str, threads: int) -> tuple[Callable[[], Any], float]:
    """A call of the product, which leaves float32, and its GFLOP."""
    import numpy as np

    import chainrule as cr

    m, k, n, way = PRODUCTS[name]
    shapes = {"": ((m, k), (k, n)), " back to x": ((m, n), (k, n)), " back to W": ((m, k), (m, n))}

    def product(a: Any, b: Any) -> Any:
        a, b = a.astype(np.float32), b.astype(np.float32)
        return {"": lambda: a @ b, " back to x": lambda: a @ b.T, " back to W": lambda: a.T @ b}[
            way
        ]()

    random = np.random.default_rng(0)
    kind = cr.bfloat16.dtype if dtype == "bfloat16" else np.float32
    a, b = (random.standard_normal(shape).astype(kind) for shape in shapes[way])
    return partial(cr.compile(product, executor="native"), a, b), 2 * m * k * n / 1e9


def in_this_process(name: str, dtype: str, threads: int) -> None:
    """Print the median seconds of a call, and the number that goes with it."""
    call, number = (step_call if name in STEPS else product_call)(name, dtype, threads)
    call()
    for seconds in (SECONDS, SECONDS):
        samples, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end:
            begin = time.perf_counter()
            call()
            samples.append(time.perf_counter() - begin)
    print(json.dumps([median(samples), number]))


def measured(name: str, way: str, threads: int) -> tuple[float, float]:
    """The same in a fresh process."""
    dtype, without = WAYS[way]
    variables = {
        **os.environ,
        "CHAINRULE_NUM_THREADS": str(threads),
        "CHAINRULE_WITHOUT": without,
        "PYTHONPATH": str(HERE),
    }
    command = [sys.executable, "-W", "ignore", __file__, "--alone", name, dtype]
    command += ["--threads", str(threads)]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    seconds, number = json.loads(done.stdout.strip().splitlines()[-1])
    return seconds, number


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7, help="processes of each kind [7]")
    parser.add_argument("--threads", type=int, default=1, help="of the native executor [1]")
    parser.add_argument("--only", nargs="+", default=[*STEPS, *PRODUCTS], help="steps, products")
    parser.add_argument("--alone", nargs=2, metavar=("NAME", "DTYPE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.alone:
        in_this_process(*asked.alone, asked.threads)
        return
    for name in asked.only:
        rounds = [
            {way: measured(name, way, asked.threads) for way in WAYS} for _ in range(asked.rounds)
        ]
        told = []
        for way in WAYS:
            seconds, number = median(one[way][0] for one in rounds), rounds[0][way][1]
            quotient = median(one[way][0] / one["float32"][0] for one in rounds)
            what = f"{number:.1f} MB" if name in STEPS else f"{number / seconds:.0f} GFLOP/s"
            told.append(f"{way} {1e3 * seconds:.3f} ms ({quotient:.2f}), {what}")
        print(f"{name}: {'; '.join(told)}", flush=True)


if __name__ == "__main__":
    main()

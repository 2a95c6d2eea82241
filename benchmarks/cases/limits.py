"""Yardsticks: what a computation cannot do without, its matrix products or its memory traffic."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from .case import Prepared, Problem, Settings
from .libraries import chainrule_step


def matrix_products(step: Any) -> Callable[[], None]:
    """A call that does the matrix products of a training step, and nothing else.

    `step` is a TrainingStep of concrete sizes whose products are of two matrices each.  This is
    SciPy's BLAS (its threads are those of the environment, as run.py sets them) called from
    Python, on column-major arrays, transposed by its flags as in the graph.  It stands in for a
    list of the calls of the native executor; what Python adds is some microseconds.
    """
    from scipy.linalg import get_blas_funcs

    (sgemm,) = get_blas_funcs(("gemm",), dtype=np.float32)
    random = np.random.default_rng(0)
    calls = []
    for node in step.graph.nodes:
        if node.primitive.name != "matmul":
            continue
        # Row-major C = A B is column-major Cᵀ = Bᵀ Aᵀ.
        factors, flags = [], []
        for factor in reversed(node.inputs):
            turned = factor.primitive.name == "transpose"
            stored = factor.inputs[0] if turned else factor
            if len(stored.type.shape) != 2:
                raise ValueError(f"a product of {stored.type}: only matrices are counted here")
            array = random.standard_normal(stored.type.shape, dtype=np.float32)
            factors.append(array.T)
            flags.append(int(turned))
        result = np.zeros(node.type.shape, np.float32).T
        calls.append((*factors, result, *flags))

    def run() -> None:
        for first, second, result, turn_first, turn_second in calls:
            sgemm(
                1.0,
                first,
                second,
                0.0,
                result,
                trans_a=turn_first,
                trans_b=turn_second,
                overwrite_c=1,
            )

    return run


def matrix_products_seconds(step: Any, repeats: int = 20) -> float:
    """The median seconds that the matrix products of a training step take alone."""
    run = matrix_products(step)
    taken = []
    for _ in range(repeats + 2):
        begin = perf_counter()
        run()
        taken.append(perf_counter() - begin)
    return median(taken[2:])


def matrix_products_of(problem: Problem, settings: Settings, *, objective: Any) -> Prepared:
    """The yardstick: the products of the step that `objective` and the problem's arrays give."""
    import chainrule as cr

    step, _ = chainrule_step(problem, objective, cr.sgd(0.1), "reference", examples=True)
    return Prepared(matrix_products(step), lambda _: {})


def copy_of_same_bytes(problem: Problem, settings: Settings, *, arrays_moved: int) -> Prepared:
    """Reads and writes together as many bytes as `arrays_moved` arrays like the problem's first.

    By PyTorch's copy_, which divides it among the threads.
    """
    import torch

    size = next(iter(problem.arrays.values())).size * arrays_moved // 2
    source, target = torch.ones(size), torch.zeros(size)
    return Prepared(lambda: target.copy_(source), lambda _: {})

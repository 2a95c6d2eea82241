"""The backward pass of gelu, alone, in its exact form (erf) and its approximation by tanh."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import chainrule as cr

from .case import Case, Problem
from .functions import function_variants

SLOPE, CUBIC = math.sqrt(2 / math.pi), 0.044715  # of the approximation


def problem(rows: int, columns: int) -> Problem:
    random = np.random.default_rng(0)
    return Problem(
        {name: random.standard_normal((rows, columns), dtype=np.float32) for name in ("x", "g")}
    )


def backward(x, g, *, approximate):
    """The cotangent of x for the cotangent g of gelu(x)."""
    _, pull = cr.vjp(partial(cr.gelu, approximate=approximate), x)
    return pull(g)[0]


def torch_backward(x, g, *, approximate):
    import torch

    return torch.ops.aten.gelu_backward(g, x, approximate=approximate)


def torch_pull(x, g, *, approximate):
    import torch

    gelu = partial(torch.nn.functional.gelu, approximate=approximate)
    return torch.func.vjp(gelu, x)[1](g)[0]


def jax_backward(x, g, *, approximate):
    import jax

    gelu = partial(jax.nn.gelu, approximate=approximate == "tanh")
    return jax.vjp(gelu, x)[1](g)[0]


def numpy_erf_backward(x, g):
    """NumPy has no erf: SciPy's."""
    from scipy.special import erf

    normal, density = np.empty_like(x), np.empty_like(x)

    def call() -> Any:
        np.multiply(x, math.sqrt(0.5), out=normal)
        erf(normal, out=normal)
        np.add(normal, 1, out=normal)
        np.multiply(normal, 0.5, out=normal)
        np.multiply(x, x, out=density)
        np.multiply(density, -0.5, out=density)
        np.exp(density, out=density)
        np.multiply(density, x, out=density)
        np.multiply(density, 1 / math.sqrt(2 * math.pi), out=density)
        np.add(normal, density, out=normal)
        return np.multiply(normal, g, out=normal)

    return call


def numpy_tanh_backward(x, g):
    t, slope = np.empty_like(x), np.empty_like(x)

    def call() -> Any:
        np.multiply(x, x, out=slope)
        np.multiply(slope, SLOPE * CUBIC, out=t)
        np.add(t, SLOPE, out=t)
        np.multiply(t, x, out=t)
        np.tanh(t, out=t)
        np.multiply(slope, 3 * SLOPE * CUBIC, out=slope)
        np.add(slope, SLOPE, out=slope)
        np.multiply(slope, x, out=slope)
        # (1 + t) / 2 + x / 2 · (1 - t²) · slope = (1 + t) / 2 · (1 + (1 - t) · x · slope)
        np.multiply(slope, 1 - t, out=slope)
        np.add(slope, 1, out=slope)
        np.add(t, 1, out=t)
        np.multiply(t, 0.5, out=t)
        np.multiply(t, slope, out=t)
        return np.multiply(t, g, out=t)

    return call


def case(name: str, rows: int, columns: int, approximate: str) -> Case:
    def form(function: Any) -> Any:
        return partial(function, approximate=approximate)

    by_hand = numpy_tanh_backward if approximate == "tanh" else numpy_erf_backward
    return Case(
        name=name,
        title=f"gelu backward ({'tanh' if approximate == 'tanh' else 'erf'}), {rows}×{columns}",
        problem=partial(problem, rows, columns),
        variants=function_variants(
            ("dx",),
            chainrule={"cr.vjp": form(backward)},
            torch={"aten": form(torch_backward)},
            compiled={"aten": form(torch_backward), "vjp": form(torch_pull)},
            jax={"vjp": form(jax_backward)},
            numpy={"in place": by_hand},
        ),
    )

"""The log-density of a Gaussian by its Cholesky factor, with its gradient, in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import chainrule as cr

from .case import Case, Problem
from .functions import function_variants
from .programs import NOT_WRITTEN

WRT = ("similar", "mean", "scale")
NOISE = 0.5


def problem(n: int) -> Problem:
    """Values, similarities, means and a scale, for n points in five dimensions."""
    random = np.random.default_rng(0)
    points = random.normal(size=(n, 5))
    squares = ((points[:, None] - points[None]) ** 2).sum(-1)
    similar = np.exp(-squares / 2)
    arrays = {"y": random.normal(size=n), "similar": similar, "mean": np.zeros(n)}
    return Problem({**arrays, "scale": np.array(1.3)})


def log_density(y, similar, mean, scale):
    factor = np.linalg.cholesky(scale * similar + NOISE * np.eye(len(y)))
    z = np.linalg.solve(factor, y - mean)
    return -0.5 * np.sum(z * z) - np.sum(np.log(np.diagonal(factor)))


def with_gradient(y, similar, mean, scale):
    value, gradients = cr.value_and_grad(log_density, wrt=WRT)(y, similar, mean, scale)
    return value, *gradients


def torch_log_density(y, similar, mean, scale):
    import torch

    factor = torch.linalg.cholesky(scale * similar + NOISE * torch.eye(len(y), dtype=y.dtype))
    z = torch.linalg.solve_triangular(factor, (y - mean)[:, None], upper=False)
    return -0.5 * (z * z).sum() - factor.diagonal().log().sum()


def torch_autograd(y, *wrt):
    import torch

    value = torch_log_density(y, *wrt)
    return value, *torch.autograd.grad(value, wrt)


def torch_pull(y, *wrt):
    import torch

    compute = torch.func.grad_and_value(partial(torch_log_density, y), argnums=(0, 1, 2))
    gradients, value = compute(*wrt)
    return value, *gradients


def jax_with_gradient(y, *wrt):
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import solve_triangular

    def compute(similar: Any, mean: Any, scale: Any) -> Any:
        factor = jnp.linalg.cholesky(scale * similar + NOISE * jnp.eye(len(y)))
        z = solve_triangular(factor, y - mean, lower=True)
        return -0.5 * jnp.sum(z * z) - jnp.sum(jnp.log(jnp.diagonal(factor)))

    value, gradients = jax.value_and_grad(compute, argnums=(0, 1, 2))(*wrt)
    return value, *gradients


def case(name: str, n: int) -> Case:
    variants = function_variants(
        ("J", *(f"d{one}" for one in WRT)),
        chainrule={"value_and_grad": with_gradient},
        torch={"autograd": torch_autograd},
        compiled={"grad_and_value": torch_pull},
        jax={"value_and_grad": jax_with_gradient},
        numpy={},
        differentiable={"autograd": WRT},
    )
    return Case(
        name=name,
        title=f"log-density of a Gaussian, {n:,} points, and its gradient, float64",
        problem=partial(problem, n),
        variants={who: ways for who, ways in variants.items() if ways},
        missing={"NumPy": NOT_WRITTEN},
    )

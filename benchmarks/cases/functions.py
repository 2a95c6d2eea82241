"""How each library calls a function of arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import chainrule as cr

from .case import Builder, Prepared, Problem, Settings, named_results, narrow

Ways = Mapping[str, Callable[..., Any]]


def function_variants(
    names: tuple[str, ...],
    *,
    chainrule: Ways,
    torch: Ways,
    compiled: Ways,
    jax: Ways,
    numpy: Ways,
    differentiable: Mapping[str, tuple[str, ...]] | None = None,
) -> dict[str, dict[str, Builder]]:
    """The ways to compute arrays called `names` by implementation.

    Each is a function of the problem's arrays, but for those of `numpy`, which prepare a call.
    `compiled` are for torch.compile.  `differentiable` has, by way of `torch`, the arguments whose
    gradient it takes by autograd.
    """
    by_autograd = differentiable or {}

    def ways(build: Callable[..., Prepared], functions: Ways) -> dict[str, Builder]:
        return {way: partial(build, function=f, names=names) for way, f in functions.items()}

    return {
        "chainrule": ways(chainrule_function, chainrule),
        "PyTorch": {
            way: partial(
                torch_function, function=f, names=names, differentiable=by_autograd.get(way, ())
            )
            for way, f in torch.items()
        },
        "torch.compile": ways(partial(torch_function, compiled=True), compiled),
        "JAX": ways(jax_function, jax),
        "NumPy": ways(numpy_function, numpy),
    }


def chainrule_function(
    problem: Problem, settings: Settings, *, function: Callable[..., Any], names: tuple[str, ...]
) -> Prepared:
    """Compiled, but for the reference executor, by which functions run as they are."""
    compiled = function
    if settings.executor != "reference":
        compiled = cr.compile(function, executor=settings.executor)
    arrays = tuple(problem.arrays.values())

    def plan() -> Any:
        names = inspect.signature(function).parameters
        named = dict(zip(names, arrays, strict=False))  # the rest have defaults
        return cr.trace(function, **named).compile(executor=settings.executor).plan()

    return Prepared(lambda: compiled(*arrays), named_results(names), plan)


def torch_function(
    problem: Problem,
    settings: Settings,
    *,
    function: Callable[..., Any],
    names: tuple[str, ...],
    compiled: bool = False,
    differentiable: tuple[str, ...] = (),
) -> Prepared:
    """`differentiable` names the arguments that `function` takes gradients of by autograd."""
    import torch

    arrays = [
        torch.tensor(array).requires_grad_(name in differentiable)
        for name, array in problem.arrays.items()
    ]
    compute = torch.compile(function) if compiled else function

    def detached(result: Any) -> dict[str, np.ndarray]:
        results = result if isinstance(result, (tuple, list)) else (result,)
        return named_results(names)(tuple(tensor.detach().numpy() for tensor in results))

    return Prepared(lambda: compute(*arrays), detached)


def jax_function(
    problem: Problem, settings: Settings, *, function: Callable[..., Any], names: tuple[str, ...]
) -> Prepared:
    """In JAX's mode of float64 only where an array has that: the mode takes time in each call."""
    import jax
    import jax.numpy as jnp

    given = [narrow(array) for array in problem.arrays.values()]
    is_wide = any(array.dtype == np.float64 for array in given)
    with jax.enable_x64(is_wide):
        arrays = [jnp.array(array) for array in given]
    compiled = jax.jit(function)

    def call() -> Any:
        return jax.block_until_ready(compiled(*arrays))

    def wide_call() -> Any:
        with jax.enable_x64(True):
            return call()

    return Prepared(wide_call if is_wide else call, named_results(names))


def numpy_function(
    problem: Problem,
    settings: Settings,
    *,
    function: Callable[..., Callable[[], Any]],
    names: tuple[str, ...],
) -> Prepared:
    """`function(*arrays)` allocates what is used again by each call, and returns the call."""
    return Prepared(function(*problem.arrays.values()), named_results(names))

"""How each library trains, and calls a function: what the cases share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from .case import (
    Builder,
    Prepared,
    Problem,
    Settings,
    leaves,
    map_tree,
    named_results,
    trained,
)

# PyTorch's three ways to run the same optimizer; which is fastest depends on the sizes.
OPTIMIZER_FORMS: Mapping[str, dict[str, bool]] = {
    "fused": {"fused": True},
    "foreach": {"foreach": True},
    "for loop": {"foreach": False},
}


def chainrule_step(
    problem: Problem, objective: Any, optimizer: Any, executor: str, examples: bool
) -> tuple[Any, dict[str, Any]]:
    """The training step, and the parameters as its `init` takes them.

    An objective with an argument `params` takes all parameters in it, another each by its name.
    With `examples`, the problem's arrays are the types; without, the annotations.
    """
    import chainrule as cr

    together = "params" in inspect.signature(objective).parameters
    given = {"params": problem.parameters} if together else dict(problem.parameters)
    types = {**given, **problem.arrays} if examples else {}
    step = cr.training_step(
        objective, wrt=tuple(given), optimizer=optimizer, executor=executor, **types
    )
    return step, given


def chainrule_training(
    problem: Problem,
    settings: Settings,
    *,
    objective: Any,
    optimizer: Callable[[Any], Any],
    examples: bool = True,
) -> Prepared:
    """`optimizer(chainrule)` makes the optimizer; the rest as in `chainrule_step`."""
    import chainrule as cr

    step, given = chainrule_step(problem, objective, optimizer(cr), settings.executor, examples)
    state = step.init(**given)
    batch = dict(problem.arrays)

    def parameters() -> Any:
        return state["params"] if "params" in given else {name: state[name] for name in given}

    return Prepared(lambda: step(state, **batch), lambda J: trained(J, parameters()))


def chainrule_function(
    problem: Problem, settings: Settings, *, function: Callable[..., Any], names: tuple[str, ...]
) -> Prepared:
    """Compiled, but for the reference executor, by which functions run as they are."""
    import chainrule as cr

    compiled = function
    if settings.executor != "reference":
        compiled = cr.compile(function, executor=settings.executor)
    arrays = tuple(problem.arrays.values())
    return Prepared(lambda: compiled(*arrays), named_results(names))


def torch_training(
    problem: Problem,
    settings: Settings,
    *,
    objective: Callable[..., Any],
    optimizer: Callable[..., Any],
    linear: bool = False,
    compiled: bool = False,
) -> Prepared:
    """`objective(params, ...)`; `optimizer(torch.optim, parameters)` makes the optimizer.

    `linear` keeps each matrix of a name in W... as torch.nn.Linear does, (outputs, inputs).
    """
    import torch

    def parameter(array: np.ndarray, turn: bool) -> Any:
        kept = np.ascontiguousarray(array.T) if turn else array
        return torch.nn.Parameter(torch.tensor(kept))

    params = _by_name(parameter, problem.parameters, linear)
    batch = {name: torch.tensor(array) for name, array in problem.arrays.items()}
    update = optimizer(torch.optim, leaves(params))
    compute = torch.compile(objective) if compiled else objective

    def step() -> Any:
        update.zero_grad()
        J = compute(params, **batch)
        J.backward()
        update.step()
        return J

    def parameters() -> Any:
        def array(tensor: Any, turn: bool) -> np.ndarray:
            return tensor.detach().numpy().T if turn else tensor.detach().numpy()

        return _by_name(array, params, linear)

    return Prepared(step, lambda J: trained(J.item(), parameters()))


def _by_name(function: Callable[[Any, bool], Any], tree: Any, linear: bool, name: str = "") -> Any:
    """The tree with function(array, whether it is the matrix of a linear layer) of each array."""
    if isinstance(tree, Mapping):
        return {key: _by_name(function, value, linear, key) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_by_name(function, value, linear) for value in tree]
    return function(tree, linear and name.startswith("W"))


def torch_trainings(
    objective: Callable[..., Any], optimizer: Callable[..., Any], linear: bool = False
) -> dict[str, dict[str, Builder]]:
    """PyTorch eager and compiled, with each form of the optimizer."""

    def variants(compiled: bool) -> dict[str, Builder]:
        return {
            form: partial(
                torch_training,
                objective=objective,
                optimizer=partial(optimizer, **options),
                linear=linear,
                compiled=compiled,
            )
            for form, options in OPTIMIZER_FORMS.items()
        }

    return {"PyTorch": variants(False), "torch.compile": variants(True)}


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


def jax_training(
    problem: Problem, settings: Settings, *, objective: Callable[..., Any], optimizer: Any
) -> Prepared:
    """`optimizer` is a pair: init(params) -> state, update(params, gradients, state)."""
    import jax
    import jax.numpy as jnp

    init, update = optimizer
    params = jax.tree.map(jnp.array, problem.parameters)
    state = init(params)
    batch = {name: jnp.array(_narrow(array)) for name, array in problem.arrays.items()}

    @partial(jax.jit, donate_argnums=(0, 1))
    def compute(params: Any, state: Any, batch: Any) -> Any:
        J, gradients = jax.value_and_grad(objective)(params, **batch)
        params, state = update(params, gradients, state)
        return J, params, state

    def step() -> Any:
        nonlocal params, state
        J, params, state = compute(params, state, batch)
        return J.block_until_ready()

    return Prepared(step, lambda J: trained(J, map_tree(np.array, params)))


def jax_sgd(learning_rate: float) -> Any:
    import jax

    def update(params: Any, gradients: Any, state: Any) -> Any:
        return jax.tree.map(lambda p, g: p - learning_rate * g, params, gradients), state

    return (lambda params: ()), update


def jax_adam(learning_rate: float, weight_decay: float = 0.0) -> Any:
    """Adam (Kingma and Ba, 2015, algorithm 1); the decay is AdamW's."""
    import jax
    import jax.numpy as jnp

    first_rate, second_rate, eps = 0.9, 0.999, 1e-8

    def init(params: Any) -> Any:
        zeros = partial(jax.tree.map, jnp.zeros_like)
        return zeros(params), zeros(params), jnp.zeros((), jnp.int32)

    def update(params: Any, gradients: Any, state: Any) -> Any:
        first, second, count = state
        count = count + 1
        first = jax.tree.map(lambda m, g: first_rate * m + (1 - first_rate) * g, first, gradients)
        second = jax.tree.map(
            lambda v, g: second_rate * v + (1 - second_rate) * g * g, second, gradients
        )
        first_bias, second_bias = 1 - first_rate**count, 1 - second_rate**count

        def moved(p: Any, m: Any, v: Any) -> Any:
            direction = (m / first_bias) / (jnp.sqrt(v / second_bias) + eps)
            return p - learning_rate * (direction + weight_decay * p)

        return jax.tree.map(moved, params, first, second), (first, second, count)

    return init, update


def jax_function(
    problem: Problem, settings: Settings, *, function: Callable[..., Any], names: tuple[str, ...]
) -> Prepared:
    import jax
    import jax.numpy as jnp

    arrays = [jnp.array(_narrow(array)) for array in problem.arrays.values()]
    compiled = jax.jit(function)
    return Prepared(lambda: jax.block_until_ready(compiled(*arrays)), named_results(names))


def numpy_function(
    problem: Problem,
    settings: Settings,
    *,
    prepare: Callable[..., Callable[[], Any]],
    names: tuple[str, ...],
) -> Prepared:
    """`prepare(*arrays)` allocates what is used again by each call, and returns the call."""
    return Prepared(prepare(*problem.arrays.values()), named_results(names))


def _narrow(array: np.ndarray) -> np.ndarray:
    """Integers as JAX has them by default."""
    return array.astype(np.int32) if array.dtype == np.int64 else array

"""How each library trains: an objective and an optimizer, written once for each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.execute.arguments import sizes_from

from .case import Builder, Prepared, Problem, Settings, leaves, map_tree, narrow, trained

# PyTorch's three ways to run the same optimizer; which is fastest depends on the sizes.
OPTIMIZER_FORMS: Mapping[str, dict[str, bool]] = {
    "fused": {"fused": True},
    "foreach": {"foreach": True},
    "for loop": {"foreach": False},
}


@dataclass(frozen=True)
class Optimizer:
    """The same optimizer in each library.

    `chainrule()` and `torch(torch.optim, parameters, **form)` make it; `jax` is a pair:
    init(params) -> state, update(params, gradients, state) -> (params, state).
    """

    chainrule: Callable[[], Any]
    torch: Callable[..., Any]
    jax: tuple[Callable[..., Any], Callable[..., Any]]


def sgd(learning_rate: float) -> Optimizer:
    return Optimizer(
        lambda: cr.sgd(learning_rate),
        lambda optim, parameters, **form: optim.SGD(parameters, lr=learning_rate, **form),
        jax_sgd(learning_rate),
    )


def adam(learning_rate: float) -> Optimizer:
    return Optimizer(
        lambda: cr.adam(learning_rate),
        lambda optim, parameters, **form: optim.Adam(parameters, lr=learning_rate, **form),
        jax_adam(learning_rate),
    )


def adamw(learning_rate: float, weight_decay: float) -> Optimizer:
    rates = {"lr": learning_rate, "weight_decay": weight_decay}
    return Optimizer(
        lambda: cr.adamw(learning_rate, weight_decay=weight_decay),
        lambda optim, parameters, **form: optim.AdamW(parameters, **rates, **form),
        jax_adam(learning_rate, weight_decay),
    )


def training_variants(
    objective: Callable[..., Any],
    torch_objective: Callable[..., Any],
    jax_objectives: Mapping[str, Callable[..., Any]],
    optimizer: Optimizer,
    *,
    examples: bool = True,
    linear: bool = False,
) -> dict[str, dict[str, Builder]]:
    """The ways to train by implementation, but for NumPy's, which each case writes by hand.

    PyTorch and JAX take `objective(params, ...)`; `examples` is for `chainrule_step`, `linear` for
    `torch_training`.
    """

    def torch_ways(compiled: bool) -> dict[str, Builder]:
        return {
            name: partial(
                torch_training,
                objective=torch_objective,
                optimizer=partial(optimizer.torch, **form),
                linear=linear,
                compiled=compiled,
            )
            for name, form in OPTIMIZER_FORMS.items()
        }

    ours = partial(chainrule_training, objective=objective, optimizer=optimizer, examples=examples)
    return {
        "chainrule": {"training_step": ours},
        "PyTorch": torch_ways(compiled=False),
        "torch.compile": torch_ways(compiled=True),
        "JAX": {
            way: partial(jax_training, objective=theirs, optimizer=optimizer.jax)
            for way, theirs in jax_objectives.items()
        },
    }


def chainrule_step(
    problem: Problem, objective: Any, optimizer: Any, executor: str, examples: bool
) -> tuple[Any, dict[str, Any]]:
    """The training step, and the parameters as its `init` takes them.

    An objective with an argument `params` takes all parameters in it, another each by its name.
    With `examples`, the problem's arrays are the types; without, the annotations.
    """
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
    optimizer: Optimizer,
    examples: bool,
) -> Prepared:
    step, given = chainrule_step(
        problem, objective, optimizer.chainrule(), settings.executor, examples
    )
    state = step.init(**given)
    batch = dict(problem.arrays)

    def parameters() -> Any:
        return state["params"] if "params" in given else {name: state[name] for name in given}

    def plan() -> Any:
        return step.plan(**sizes_from(step.graph, {**given, **batch}))

    return Prepared(lambda: step(state, **batch), lambda J: trained(J, parameters()), plan)


def torch_training(
    problem: Problem,
    settings: Settings,
    *,
    objective: Callable[..., Any],
    optimizer: Callable[..., Any],
    linear: bool,
    compiled: bool,
) -> Prepared:
    """`objective(params, ...)`; `optimizer(torch.optim, parameters)` makes the optimizer.

    `linear` keeps each matrix of a name in W... as torch.nn.Linear does, (outputs, inputs).
    """
    import torch

    device = settings.torch_device

    def parameter(array: np.ndarray, turn: bool) -> Any:
        kept = np.ascontiguousarray(array.T) if turn else array
        return torch.nn.Parameter(torch.tensor(kept, device=device))

    params = _by_name(parameter, problem.parameters, linear)
    batch = {name: torch.tensor(one, device=device) for name, one in problem.arrays.items()}
    update = optimizer(torch.optim, leaves(params))
    compute = torch.compile(objective) if compiled else objective

    def step() -> Any:
        update.zero_grad()
        J = compute(params, **batch)
        J.backward()
        update.step()
        if device != "cpu":
            torch.cuda.synchronize()
        return J

    def parameters() -> Any:
        def array(tensor: Any, turn: bool) -> np.ndarray:
            found = tensor.detach().cpu().numpy()
            return found.T if turn else found

        return _by_name(array, params, linear)

    return Prepared(step, lambda J: trained(J.item(), parameters()))


def _by_name(function: Callable[[Any, bool], Any], tree: Any, linear: bool, name: str = "") -> Any:
    """The tree with function(array, whether it is the matrix of a linear layer) of each array."""
    if isinstance(tree, Mapping):
        return {key: _by_name(function, value, linear, key) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_by_name(function, value, linear) for value in tree]
    return function(tree, linear and name.startswith("W"))


def jax_training(
    problem: Problem,
    settings: Settings,
    *,
    objective: Callable[..., Any],
    optimizer: Any,
    sent: bool = True,
) -> Prepared:
    """`objective(params, ...)`; the batch is on the device before, or (`sent=False`) each step is
    given NumPy's arrays, as they come from a data set."""
    import jax
    import jax.numpy as jnp

    init, update = optimizer
    params = jax.tree.map(jnp.array, problem.parameters)
    state = init(params)
    batch = {name: narrow(array) for name, array in problem.arrays.items()}
    if sent:
        batch = {name: jnp.array(array) for name, array in batch.items()}

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
    def update(params: Any, gradients: Any, state: Any) -> Any:
        import jax

        return jax.tree.map(lambda p, g: p - learning_rate * g, params, gradients), state

    return (lambda params: ()), update


def jax_adam(learning_rate: float, weight_decay: float = 0.0) -> Any:
    """Adam (Kingma and Ba, 2015, algorithm 1); the decay is AdamW's."""
    first_rate, second_rate, eps = 0.9, 0.999, 1e-8

    def init(params: Any) -> Any:
        import jax
        import jax.numpy as jnp

        zeros = partial(jax.tree.map, jnp.zeros_like)
        return zeros(params), zeros(params), jnp.zeros((), jnp.int32)

    def update(params: Any, gradients: Any, state: Any) -> Any:
        import jax
        import jax.numpy as jnp

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

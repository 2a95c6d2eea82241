"""The bytes that PyTorch and JAX need at the peak, by what each library says of itself.

PyTorch: `MemTracker` (torch.distributed._tools.mem_tracker) sees every storage come and go, under
`FakeTensorMode`, where nothing is computed or allocated.  It is entered again for the second call,
which starts from what the first has left: optimizer state, gradients.

JAX: `memory_analysis()` of the compiled program: arguments + outputs + temporaries - aliases, where
aliases are outputs in the memory of donated arguments.  The outputs include XLA's table of
pointers to them, 8 bytes each.  On a CPU, XLA may give several operations at once to YNNPACK, and
what lies between them is in nobody's account: an objective of two products with 512 MiB between
them had 3 MiB of temporaries by `memory_analysis()` and took 300 MiB more of the machine.  In the
training steps each such call has at most one product, and they are counted as JAX ships them;
predictions and functions are compiled without these calls.

Neither counts what a matrix product allocates inside of itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from cases.case import Builder, Problem, Settings, map_tree, narrow
from cases.training import _by_name

WITHOUT_YNNPACK: dict[str, str | bool] = {"xla_cpu_experimental_ynn_fusion_type": ""}


def torch_peak_nbytes(prepare: Callable[[], Callable[[], Any]]) -> int:
    """The peak of the second call of what `prepare()` gives, with all that it has allocated."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    tracker = MemTracker()
    with FakeTensorMode():
        with tracker:
            call = prepare()
            call()
        with tracker:  # its peak starts again at what is there now
            call()
            by_device = tracker.get_tracker_snapshot("peak")
    (parts,) = by_device.values()
    return parts["Total"]


def torch_nbytes(problem: Problem, build: Builder) -> int:
    """Of a training step, or of a function, as the benchmark runs it."""
    return torch_peak_nbytes(lambda: build(problem, Settings()).call)


def torch_prediction_nbytes(
    problem: Problem, objective: Callable[..., Any], *, linear: bool
) -> int:
    """Of objective(params, ...) alone; `linear` as in `cases.training.torch_training`."""
    import torch

    def parameter(array: Any, turn: bool) -> Any:
        return torch.tensor(array.T if turn else array)

    def prepare() -> Callable[[], Any]:
        params = _by_name(parameter, problem.parameters, linear)
        batch = {name: torch.tensor(array) for name, array in problem.arrays.items()}
        return torch.no_grad()(partial(objective, params, **batch))

    return torch_peak_nbytes(prepare)


def jax_nbytes(function: Callable[..., Any], *arguments: Any) -> int:
    """Of the jitted function on arrays like these; integers are int32, as JAX has them."""
    import jax

    return account(jax.jit(function).lower(*_shapes(arguments)).compile(WITHOUT_YNNPACK))


def jax_training_nbytes(problem: Problem, objective: Callable[..., Any], optimizer: Any) -> int:
    """Of a step whose parameters and optimizer state are donated, as in `jax_training`."""
    import jax

    init, update = optimizer

    def step(params: Any, state: Any, batch: Any) -> Any:
        J, gradients = jax.value_and_grad(objective)(params, **batch)
        return J, *update(params, gradients, state)

    params, batch = _shapes((problem.parameters, problem.arrays))
    state = jax.eval_shape(init, params)
    return account(jax.jit(step, donate_argnums=(0, 1)).lower(params, state, batch).compile())


def jax_prediction_nbytes(problem: Problem, objective: Callable[..., Any]) -> int:
    """Of objective(params, ...) alone."""

    def predict(params: Any, batch: Any) -> Any:
        return objective(params, **batch)

    return jax_nbytes(predict, problem.parameters, problem.arrays)


def account(compiled: Any) -> int:
    """The bytes of a compiled program, by its own analysis."""
    found = compiled.memory_analysis()
    return (
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )


def _shapes(arguments: tuple[Any, ...]) -> list[Any]:
    """Shapes and types instead of the arrays, which nobody needs."""
    import jax

    def shape(array: Any) -> Any:
        return jax.ShapeDtypeStruct(array.shape, narrow(array).dtype)

    return map_tree(shape, list(arguments))

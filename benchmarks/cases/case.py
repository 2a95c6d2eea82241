"""A case: one computation on given arrays, written for each library as its users would run it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

IMPLEMENTATIONS = ("chainrule", "PyTorch", "torch.compile", "JAX", "NumPy")


@dataclass(frozen=True)
class Settings:
    """What holds for a whole run: the executor of chainrule, the threads of everything, and the
    device of PyTorch."""

    executor: str = "native"
    threads: int = 2
    torch_device: str = "cpu"


@dataclass(frozen=True)
class Problem:
    """The arrays that every implementation starts from; none of them may change these.

    They are float32 or integers (float64 instead of float32 where results are checked), or all
    float64.
    `parameters` (nested dicts and lists) are what a training step updates, `arrays` the rest: the
    batch of a training step, the arguments of a function in order.
    """

    arrays: Mapping[str, np.ndarray]
    parameters: Any = None


@dataclass(frozen=True)
class Prepared:
    """A computation ready to run.

    `call()` does it once and returns when it is complete; `as_numpy(result)` gives what it
    computed (for training: the objective "J", and the parameters as they are now) by name.
    `plan()`, of chainrule's, is the plan by which it runs.
    """

    call: Callable[[], Any]
    as_numpy: Callable[[Any], dict[str, np.ndarray]]
    plan: Callable[[], Any] | None = None


Builder = Callable[[Problem, Settings], Prepared]


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `variants` has the ways to write it by implementation, then by name: the fastest is measured.
    `missing` says why an implementation has none.  `yardsticks` are computations that take a turn
    with the others, so that times can be given in multiples of theirs.
    """

    name: str
    title: str
    problem: Callable[[], Problem]
    variants: Mapping[str, Mapping[str, Builder]]
    missing: Mapping[str, str] = field(default_factory=dict)
    yardsticks: Mapping[str, Builder] = field(default_factory=dict)
    trains: bool = False


def named_results(names: tuple[str, ...]) -> Callable[[Any], dict[str, np.ndarray]]:
    """`as_numpy` of a function that returns one array, or a tuple of these, called `names`."""

    def as_numpy(result: Any) -> dict[str, np.ndarray]:
        results = result if isinstance(result, (tuple, list)) else (result,)
        return {name: np.array(value) for name, value in zip(names, results, strict=True)}

    return as_numpy


def trained(J: Any, parameters: Any) -> dict[str, np.ndarray]:
    """The results of a training step: the objective and the parameters, nested names joined."""
    return {"J": np.array(J), **flat(parameters)}


def flat(tree: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays of nested dicts and lists by path, such as "blocks.0.Wout"."""
    if isinstance(tree, Mapping):
        items = tree.items()
    elif isinstance(tree, (list, tuple)):
        items = enumerate(tree)
    else:
        return {prefix: np.array(tree)}
    found: dict[str, np.ndarray] = {}
    for key, value in items:
        found |= flat(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """The nested dicts and lists with `function` of each array."""
    if isinstance(tree, Mapping):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [map_tree(function, value) for value in tree]
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """The arrays of nested dicts and lists."""
    found: list[Any] = []
    map_tree(found.append, tree)
    return found


def narrow(array: np.ndarray) -> np.ndarray:
    """Integers as JAX has them by default."""
    return array.astype(np.int32) if array.dtype == np.int64 else array

"""The demonstration: trains the network of `mlp.py` on the packaged digits, and tests it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from chainrule.annotations import float32
from chainrule.data import digits, minibatches, train_test_split
from chainrule.dataclass import dataclass
from chainrule.errors import DivergenceError, InputError
from chainrule.examples import mlp
from chainrule.graph.graph import Graph
from chainrule.random import fold_in, key
from chainrule.tracing import trace
from chainrule.train.loop.trainer import Trainer
from chainrule.train.optimizers.optimizers import sgd
from chainrule.train.step.making import training_step
from chainrule.train.step.random_inputs import ORDER
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep

SCORES, LABELS = "o", "y"  # what accuracy compares


@dataclass(frozen=True)
class Settings:
    """What may be chosen; InputError where a value makes no sense."""

    hidden: int = 64
    learning_rate: float = 0.5
    weight_decay: float = 1e-4
    batch: int = 32
    epochs: int = 30
    seed: int = 0
    bias: bool = False
    test_fraction: float = 0.2

    def __post_init__(self) -> None:
        for name, (is_sensible, sensible) in _SENSIBLE.items():
            value = getattr(self, name)
            if not is_sensible(value):
                raise InputError(
                    f"{name.replace('_', ' ')} is {sensible}, got {value!r}",
                    hint=f"leave it out: the default is {getattr(type(self), name)}",
                )


_AT_LEAST_1 = (lambda value: isinstance(value, int) and value >= 1, "an integer of at least 1")
_SENSIBLE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "hidden": _AT_LEAST_1,
    "learning_rate": (lambda value: 0 < value < math.inf, "a finite number above 0"),
    "weight_decay": (lambda value: 0 <= value < math.inf, "a finite number of at least 0"),
    "batch": _AT_LEAST_1,
    "epochs": _AT_LEAST_1,
    "seed": (lambda value: isinstance(value, int) and value >= 0, "an integer of at least 0"),
    "test_fraction": (lambda value: 0 < value < 1, "a number between 0 and 1"),
}


@dataclass(frozen=True, eq=False)
class Rows:
    """Images float32[n, pixels] and their labels int64[n]."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Measures:
    """The objective on all training rows, and the fractions of rows that are classified right."""

    objective: float
    train_accuracy: float
    test_accuracy: float


@dataclass(frozen=True, eq=False)
class Training:
    """A network and its data: `begin` makes it, `trainer_of` trains a copy of it."""

    settings: Settings
    step: TrainingStep
    forward: Graph
    state: State
    train: Rows
    test: Rows
    data: str = "digits"

    @property
    def parameter_count(self) -> int:
        """The number of numbers that are trained."""
        return sum(array.size for array in self.state.parameters.values())

    @property
    def steps_per_epoch(self) -> int:
        """The number of minibatches, the last of them perhaps short."""
        return math.ceil(len(self.train.y) / self.settings.batch)


def begin(
    settings: Settings, executor: str | None = None, memory: int | str | None = None
) -> Training:
    """Everything ready for the first step, which `executor` takes, within `memory`.

    Raises InputError where the settings do not fit the data, DataFileError without the data.
    """
    data = digits()
    train_rows, test_rows = train_test_split(
        len(data.labels), settings.test_fraction, settings.seed
    )
    if settings.batch > len(train_rows):
        raise InputError(
            f"a batch of {settings.batch} is larger than the training data: {len(train_rows)} rows",
            hint=f"choose a batch of 1 to {len(train_rows)}",
        )
    widths = (data.images.shape[1], settings.hidden, len(data.names))
    forward = forward_graph(settings.bias, settings.weight_decay)
    parameters = mlp.initial_weights(widths, settings.seed)
    if settings.bias:
        parameters["b"] = np.zeros(settings.hidden, np.float32)
    optimizer = sgd(settings.learning_rate)
    step = training_step(forward, tuple(parameters), optimizer, executor=executor, memory=memory)
    return Training(
        settings=settings,
        step=step,
        forward=forward,
        state=step.init(parameters),
        train=Rows(data.images[train_rows], data.labels[train_rows]),
        test=Rows(data.images[test_rows], data.labels[test_rows]),
    )


def forward_graph(bias: bool, weight_decay: float) -> Graph:
    """The graph of the objective, with the bias `b` of the hidden layer or without."""
    types = {"b": float32[mlp.hidden]} if bias else {}
    return trace(mlp.objective, weight_decay=weight_decay, **types)


def trainer_of(training: Training, **options: Any) -> Trainer:
    """The trainer of this network, from its weights on or, in a `folder`, from a checkpoint.

    `options` are `folder`, `resume` and so on, as `Trainer` has them.
    """
    train, test = training.train, training.test
    return Trainer(
        training.step,
        training.state.parameters,
        data={"x": train.x, "y": train.y},
        batch_size=training.settings.batch,
        validation={"x": test.x, "y": test.y},
        accuracy=(SCORES, LABELS),
        key=key(training.settings.seed),
        **options,
    )


def train_epoch(training: Training, epoch: int) -> None:
    """Take the steps of one epoch (the first is 1) in a plain loop, which are those of the trainer;
    DivergenceError where training diverges."""
    rows, order = training.train, fold_in(key(training.settings.seed), ORDER)
    for x, y in minibatches((rows.x, rows.y), training.settings.batch, order, epoch=epoch):
        value = training.step(training.state, x=x, y=y)
        if not np.isfinite(value):
            raise _diverged(training, value)


def measure(training: Training) -> Measures:
    """How good the network is now; DivergenceError where training has diverged."""
    forward, parameters = training.forward, training.state.parameters
    objective, train_accuracy = evaluate(forward, parameters, training.train)
    if not math.isfinite(objective):
        raise _diverged(training, objective)
    _, test_accuracy = evaluate(forward, parameters, training.test)
    return Measures(objective, train_accuracy, test_accuracy)


def evaluate(
    forward: Graph, parameters: Mapping[str, np.ndarray], rows: Rows
) -> tuple[float, float]:
    """The objective on these rows, and the fraction of them whose largest output is the label's."""
    run = forward.run({**parameters, "x": rows.x, "y": rows.y}, keep=[SCORES])
    return float(run["J"]), float(np.mean(run[SCORES].argmax(axis=1) == rows.y))


def _diverged(training: Training, value: Any) -> DivergenceError:
    settings, steps = training.settings, training.state.steps
    return DivergenceError(
        f"training diverged: the objective is {value} at step {steps} "
        f"(epoch {math.ceil(steps / training.steps_per_epoch)})",
        hint=calmer(settings),
    )


def calmer(settings: Settings) -> str:
    """What to try where training diverges."""
    return (
        f"a learning rate smaller than {settings.learning_rate:g}, "
        f"or a weight decay smaller than {settings.weight_decay:g}"
    )

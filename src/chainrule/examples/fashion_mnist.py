"""The demonstration on Fashion-MNIST: the network of `mlp_with_biases.py`, by d2l.ai's recipe."""

from __future__ import annotations

import os

from chainrule.data.fashion_mnist import fashion_mnist
from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.examples import mlp_with_biases
from chainrule.examples.digits import Rows, Settings, Training
from chainrule.tracing import trace
from chainrule.train.optimizers.optimizers import sgd
from chainrule.train.step.making import training_step

NAME = "fashion-mnist"


@dataclass(frozen=True)
class FashionSettings(Settings):
    """What may be chosen; both layers have biases, and the images to test are not drawn."""

    hidden: int = 256
    learning_rate: float = 0.1
    weight_decay: float = 0.0
    batch: int = 256
    epochs: int = 10
    bias: bool = True


def begin(
    settings: FashionSettings,
    folder: str | os.PathLike[str] | None = None,
    *,
    download: bool = False,
    executor: str | None = None,
    memory: int | str | None = None,
) -> Training:
    """Everything ready for the first step, which `executor` takes, within `memory`; `fashion_mnist`
    finds the data.

    Raises InputError where the settings do not fit the data, DataFileError without the data.
    """
    data = fashion_mnist(folder, download=download)
    count = len(data.train_labels)
    if settings.batch > count:
        raise InputError(
            f"a batch of {settings.batch} is larger than the training data: {count} rows",
            hint=f"choose a batch of 1 to {count}",
        )
    widths = (data.train_images.shape[1], settings.hidden, len(data.names))
    parameters = mlp_with_biases.initial_weights(widths, settings.seed)
    forward = trace(mlp_with_biases.objective, weight_decay=settings.weight_decay)
    optimizer = sgd(settings.learning_rate)
    step = training_step(forward, tuple(parameters), optimizer, executor=executor, memory=memory)
    return Training(
        settings=settings,
        step=step,
        forward=forward,
        state=step.init(parameters),
        train=Rows(data.train_images, data.train_labels),
        test=Rows(data.test_images, data.test_labels),
        data=NAME,
    )

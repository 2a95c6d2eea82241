"""Computes the learning rate of a step for display: a number, or the value of its schedule."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping

import numpy as np

from chainrule.execute import run_graph
from chainrule.train.optimizers.optimizer import STEPS
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep
from chainrule.transforms.forward_only import prediction_graph

NAME = "learning_rate"


def learning_rate_of(
    step: TrainingStep, arrays_of: Callable[[State, Collection[str]], Mapping[str, np.ndarray]]
) -> Callable[[State], float | None]:
    """A function of a state: the rate of the last step that it took; None where there is none.

    `arrays_of` gives arrays of a state by name, also those that only another rank has.
    """
    if NAME in step.optimizer.numbers:
        rate = float(step.optimizer.numbers[NAME])
        return lambda state: rate
    if NAME not in step.optimizer.schedules:
        return lambda state: None
    counters = [x.name for x in step.persistent if x.array == STEPS and x.parameter is None]
    name, others = NAME, step.differentiated.names
    for number in itertools.count(1):
        if name not in others:
            break
        name = f"{NAME}_{number}"
    graph = prediction_graph(step.graph, [name])

    def scheduled(state: State) -> float | None:
        counter = arrays_of(state, counters[:1])[counters[0]]
        taken = max(0.0, float(counter) - 1)  # before the last step
        given = {counters[0]: np.float64(taken)}
        return float(run_graph(graph, given, keep="outputs", flat=True)[name])

    return scheduled

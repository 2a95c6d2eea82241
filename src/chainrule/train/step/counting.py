"""Adds to a training step's graph the count of rows that it classifies correctly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chainrule.errors import InputError
from chainrule.graph.graph import Graph
from chainrule.graph.invariants import check
from chainrule.graph.node import stamp, topological
from chainrule.graph.parts import Input
from chainrule.graph.rebuild import ordered, substituted
from chainrule.graph.types import array_type
from chainrule.primitives.arithmetic import add
from chainrule.primitives.logic import cast, equal
from chainrule.primitives.reduce import argmax, sum_
from chainrule.primitives.sources import input_
from chainrule.train.optimizers.optimizer import StateArray
from chainrule.train.step.step import TrainingStep
from chainrule.train.step.update import Persistent

CORRECT = "correct"
FLOAT64 = np.dtype(np.float64)
Accuracy = tuple[str, str]  # names of class scores and of labels


def checked_accuracy(graph: Graph, accuracy: Accuracy) -> Accuracy:
    """The pair, if these are scores [n, classes] and integer labels [n] of the graph.

    InputError where they are not, NameLookupError for a name that the graph does not have.
    """
    hint = 'accuracy=("o", "y"): o has a score for each class in each row, y the right class'
    is_pair = isinstance(accuracy, (tuple, list)) and len(accuracy) == 2
    if not is_pair or not all(isinstance(name, str) for name in accuracy):
        raise InputError(f"accuracy is a pair of names, got {accuracy!r}", hint=hint)
    scores, labels = (graph[name].type for name in accuracy)
    fits = scores.ndim == 2 and labels.ndim == 1 and labels.dtype.kind in "iu"
    if not fits or scores.shape[:1] != labels.shape:
        raise InputError(
            f"accuracy compares scores [n, classes] with integer labels [n], and {accuracy[0]} is "
            f"{scores}, {accuracy[1]} is {labels}",
            where=graph[accuracy[0]].origin.describe(),
            hint=hint,
        )
    return accuracy[0], accuracy[1]


def counting(step: TrainingStep, accuracy: Accuracy) -> tuple[TrainingStep, str]:
    """The step with one more array in its state, and the name of that: the number of rows so far
    whose largest score was that of the label (of equal ones the first counts), float64[]."""
    graph = step.graph
    scores, labels = (graph[name] for name in accuracy)
    name, taken = CORRECT, {*graph.names}
    while name in taken or f"{name}_next" in taken:
        name += "_1"
    before = input_(index=len(graph.inputs), type=array_type(FLOAT64, ()))
    chosen = argmax(scores, axis=1)
    if labels.dtype != chosen.dtype:
        labels = cast(labels, dtype=chosen.dtype, weak=False)
    right = cast(equal(chosen, labels), dtype=FLOAT64, weak=False)
    after = add(before, sum_(right, axes=(0,)))
    stamp((before, after), scores.origin.derived("accuracy", scores))
    part = Persistent(name, f"{name}_next", None, StateArray(CORRECT))
    made = graph.replace(
        inputs=(*graph.inputs, Input(name, before)),
        outputs=(*graph.outputs, (part.next_name, after)),
        names={**graph.names, name: before, part.next_name: after},
        result=None,
    )
    # Behind the objective, and not at the end.
    inputs = [item.node for item in made.inputs]
    first = topological([*inputs, graph[step.objective], after])
    nodes = tuple(dict.fromkeys([*first, *ordered(made)]))
    counted = check(substituted(made, {}, nodes))
    return replace(step, graph=counted, persistent=(*step.persistent, part)), name

"""What is true of a program with a NaN or an inf, written down before it was tried, and checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import chainrule as cr
from chainrule.explain.nonfinite import Diagnosis

FORWARD, BACK, SECOND = "the forward pass", "the backward pass", "the second backward pass"


class Truth(NamedTuple):
    """A program, its argument, how often it is differentiated, and what is true of it."""

    function: Callable[..., Any]
    x: Any
    order: int
    source: str  # of the operation at fault, as it stands in the line
    became: str
    place: tuple[int, ...]
    inside: tuple[str, ...]
    because: str
    phase: str = FORWARD
    operands: str = ""  # of the element at fault, as they are told
    value: str | None = None  # the name that the line gives to it


def of(step: int, name: str, last: int | None = None) -> str:
    count = "" if last is None else f" (of 0 to {last})"
    return f"iteration {step}{count} of a loop over {name}"


def branch(taken: bool, name: str) -> str:
    return f"the branch for {taken} ({name}) of a cond"


def diagnosed(truth: Truth) -> Diagnosis | None:
    x = np.asarray(truth.x, float)

    def J(x):
        J = truth.function(x)
        return J

    graph = cr.trace(J, x)
    for _ in range(truth.order):
        target = graph.outputs[-1][0]
        seed = np.ones(x.shape) if graph[target].ndim else None
        graph = cr.backward(graph, wrt="x", of=target, seed=seed)
    return graph.nonfinite(x=x)


def check(truth: Truth) -> Diagnosis:
    """AssertionError unless `nonfinite` tells what is true; what it tells."""
    found = diagnosed(truth)
    assert found is not None
    assert (found.inside, found.phase) == (truth.inside, truth.phase)
    assert (found.became, found.indices[0]) == (truth.became, truth.place)
    assert truth.because in found.because
    line, marks = found.where.splitlines()[1:3]
    assert line[marks.index("^") : marks.rindex("^") + 1] in truth.source and truth.source in line
    assert ", in ".join([truth.phase, *truth.inside]) in str(found).splitlines()[0]
    assert truth.operands in ", ".join(found.elements[0].operands)
    assert truth.value in (None, found.value)
    assert json.loads(json.dumps(found.json()))["inside"] == list(truth.inside)
    return found

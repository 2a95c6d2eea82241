"""Programs with a fault, as a user has them in `model.py`, and their graphs."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.explain.nonfinite import Diagnosis, nonfinite, nonfinite_step

FILE = "model.py"
GOLDEN = Path(__file__).parent / "golden" / "nonfinite"
TYPES = ("float16", "float32", "float64", "int64", "bool_")


@dataclass(frozen=True)
class Case:
    """A program, and what it is run on.

    `wrt` is what its objective is differentiated by (of a tuple, one after the other; None: not at
    all); with a `learning_rate` it is a training step.
    """

    title: str
    source: str
    arguments: Mapping[str, Any]
    wrt: str | tuple[str, ...] | None = "x"
    learning_rate: float | None = None

    @property
    def golden(self) -> Path:
        """The file that has, word for word, what is said of it."""
        return GOLDEN / f"{re.sub('[^0-9A-Za-z]+', '-', self.title)}.txt"

    def diagnosis(self) -> Diagnosis | None:
        """What is found."""
        arguments = {name: np.asarray(value) for name, value in self.arguments.items()}
        function = function_of(self.source)
        if self.learning_rate is not None:
            assert isinstance(self.wrt, str)
            optimizer = cr.sgd(self.learning_rate)
            step = cr.training_step(function, self.wrt, optimizer, executor="reference")
            state = step.init({self.wrt: arguments.pop(self.wrt)})
            return nonfinite_step(step, state, arguments)
        graph = cr.trace(function)
        target = graph.outputs[0][0]
        for wrt in (self.wrt,) if isinstance(self.wrt, str) else self.wrt or ():
            graph = cr.backward(graph, wrt=wrt, of=target)
            target = graph.outputs[-1][0]
        return nonfinite(graph, arguments)


def model(parameters: str, *lines: str) -> str:
    """The source of a function with these annotated parameters."""
    return "".join([f"def objective({parameters}):\n", *(f"    {line}\n" for line in lines)])


def function_of(source: str, file: str = FILE) -> Any:
    """The function that the source defines, as if it were imported from `file`."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    types = {name: getattr(cr, name) for name in TYPES}
    scope: dict[str, Any] = {"np": np, "cr": cr, "n": cr.size("n"), **types}
    exec(compile(source, file, "exec"), scope)
    return scope["objective"]


def f16(values: Any) -> np.ndarray:
    """An array of float16; "nan" and "-inf" are written as text."""
    return np.array(values, object).astype(np.float16)


def f32(values: Any) -> np.ndarray:
    """An array of float32; "nan" and "-inf" are written as text."""
    return np.array(values, object).astype(np.float32)


def f64(values: Any) -> np.ndarray:
    """An array of float64; "nan" and "-inf" are written as text."""
    return np.array(values, object).astype(np.float64)

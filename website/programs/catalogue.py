"""Lists the programs that the playground offers and the reports show, and runs one to its graph."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Program:
    """A file of this folder, and what the reader's list calls it."""

    name: str
    title: str

    @property
    def text(self) -> str:
        """Its source."""
        return (FOLDER / f"{self.name}.py").read_text(encoding="utf-8")


PROGRAMS = (
    Program("book", "The network of the book"),
    Program("bias", "With a bias"),
    Program("second", "A second derivative"),
    Program("attention", "Attention"),
    Program("recurrent", "A recurrent network"),
)


def graph_of(program: Program) -> cr.Graph:
    """The graph that the program makes."""
    file, text = f"{program.name}.py", program.text
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": program.name}
    exec(compile(text, file, "exec", dont_inherit=True), names)
    return names["graph"]


def inputs_of(graph: cr.Graph) -> dict[str, np.ndarray | float]:
    """Random arrays for a graph, each named size another small number; labels are 0 or 1."""
    random = np.random.default_rng(0)
    bound = graph.bind(**{name: 8 - 2 * place for place, name in enumerate(graph.sizes[:3])})
    bound = bound.bind(**{name: 3 for name in bound.sizes})
    arrays: dict[str, np.ndarray | float] = {}
    for item in bound.inputs:
        shape, dtype = item.node.shape, item.node.dtype
        if not shape and item.default is not None:
            continue
        if np.issubdtype(dtype, np.integer):
            arrays[item.name] = random.integers(0, 2, shape).astype(dtype)
        else:
            arrays[item.name] = random.normal(0, 0.5, shape).astype(dtype)
    return arrays

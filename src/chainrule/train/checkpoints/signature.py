"""Describes a training step, so that it can be compared with the one of a checkpoint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass, replace
from chainrule.graph.graph import Graph
from chainrule.graph.node import digest_of, structural_hash
from chainrule.graph.types import type_of
from chainrule.primitives.sources import constant
from chainrule.train.step.step import TrainingStep

FIRST = 3  # differences that a message names
PARTS = ("arrays", "values", "digests")
WIRING = "->"  # no name of a constant


@dataclass(frozen=True)
class Signature:
    """`arrays` are the types of what lives from step to step, by name; `values` those of all other
    named values of the graph; `digests` say how each of these is computed.

    These digests leave out the numbers in arrays that the program closed over, and which of them is
    read where: that is in `constants`, and under `WIRING`.  It is None in older files.
    """

    graph: str
    arrays: Mapping[str, str]
    values: Mapping[str, str]
    digests: Mapping[str, str]
    constants: Mapping[str, str] | None = None

    def json(self) -> dict[str, Any]:
        """As JSON has it."""
        found = {"graph": self.graph} | {part: dict(getattr(self, part)) for part in PARTS}
        return found | ({} if self.constants is None else {"constants": dict(self.constants)})

    @classmethod
    def of(cls, step: TrainingStep, arrays: Mapping[str, np.ndarray]) -> Signature:
        """The signature of a step on a state with these arrays."""
        graph = step.graph
        others = {name: node for name, node in graph.names.items() if name not in arrays}
        return cls(
            structural_hash(graph.nodes),
            {name: str(type_of(array)) for name, array in arrays.items()},
            {name: str(node.type) for name, node in others.items()},
            {name: digest_of(node)[:16] for name, node in others.items()},
            _constants(graph),
        )

    @classmethod
    def read(cls, found: Any) -> Signature:
        """From JSON; ValueError where it has another shape."""
        if not isinstance(found, dict) or not isinstance(found.get("graph"), str):
            raise ValueError("the signature of the model is missing")
        for part in (*PARTS, *({"constants"} & set(found))):
            table = found.get(part)
            if not isinstance(table, dict) or not all(isinstance(v, str) for v in table.values()):
                raise ValueError(f"the {part} of the model are no table of texts")
        tables = [found[part] for part in PARTS]
        return cls(found["graph"], *tables, constants=found.get("constants"))


def _constants(graph: Graph) -> dict[str, str]:
    """The SHA-256 of each constant by name, and of what every node reads."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    wiring = [[places[one] for one in node.inputs] for node in graph.nodes]
    found = {}
    for node in graph.nodes:
        if node.primitive is constant:
            name = graph.name_of.get(node, f"constant {len(found)}")
            found[name] = node.param("value").sha256[:16]
    return {**found, WIRING: hashlib.sha256(str(wiring).encode()).hexdigest()[:16]}


def differences(stored: Signature, here: Signature) -> list[str]:
    """What the stored model has otherwise, in words, the first few; empty where both are the same.

    First the arrays that would have to be loaded, then the other values in the order of the graph.
    """
    if stored.constants is None:
        here = replace(here, constants=None)
    if stored == here:
        return []
    found = [
        *_tables(stored.arrays, here.arrays),
        *_tables(stored.values, here.values),
        *(
            f"{name} is computed differently"
            for name in here.digests
            if stored.digests.get(name, here.digests[name]) != here.digests[name]
        ),
    ]
    found += [
        f"{name} has other numbers"
        for name, digest in (here.constants or {}).items()
        if name != WIRING and (stored.constants or {}).get(name) not in (None, digest)
    ]
    found = found or ["what has no name is computed differently"]
    more = len(found) - FIRST
    return found[:FIRST] + ([f"and {more} more"] if more > 0 else [])


def _tables(stored: Mapping[str, str], here: Mapping[str, str]) -> list[str]:
    found = []
    for name, type_ in here.items():
        if name not in stored:
            found.append(f"{name}: {type_} is new here")
        elif stored[name] != type_:
            found.append(f"{name} is {stored[name]} there and {type_} here")
    return found + [f"{name}: {stored[name]} is not here" for name in stored if name not in here]

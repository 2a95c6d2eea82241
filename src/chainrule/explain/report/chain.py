"""The chain rule of each gradient in terms, one for every value that was computed from its own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from chainrule.explain.equations import Equations
from chainrule.explain.equations.formula import Chain, Total
from chainrule.explain.reading.statements import Contribution, Reading
from chainrule.explain.reading.symbols import Notation
from chainrule.explain.report.plain import known
from chainrule.explain.report.steps import Steps
from chainrule.explain.report.subject import Subject
from chainrule.explain.report.terms import Again
from chainrule.explain.values.statistics import statistics_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Gradient
from chainrule.transforms.backward import gradient_name

MOST_TERMS = 60  # of one gradient


class Chains:
    """Writes the terms of gradients, and says how large each is where the arrays are known."""

    def __init__(
        self,
        reading: Reading,
        notation: Notation,
        equations: Equations,
        subject: Subject,
        ids: Mapping[str, int],
    ) -> None:
        self.reading, self.notation, self.equations, self.ids = reading, notation, equations, ids
        self.graph: Graph = reading.graph
        self.written = subject.graph  # that of the equations
        self.values = subject.values
        self.again = None if self.values is None else Again(self.graph, self.values)
        self.shortened = 0
        self.names_of: dict[Node, list[str]] = {}
        for name, node in self.graph.names.items():
            self.names_of.setdefault(node, []).append(name)

    def terms(self, name: str, gradient: Gradient, steps: Steps) -> list[dict[str, Any]]:
        """The `chain` of the gradient called `name`, in the order of the program."""
        several = self.reading.contributions(gradient)
        norms = self._norms(gradient, several)
        total = math.fsum(one for one in norms if one is not None and math.isfinite(one))
        are_known = all(one is not None and math.isfinite(one) for one in norms)
        chained = set(self._chained(name))
        found = []
        for one, norm in zip(several, norms, strict=True):
            share = norm / total if are_known and norm is not None and total else None
            found.append(
                {
                    "latex": self._latex(
                        gradient, one, one.consumer.name in chained, len(several) == 1
                    ),
                    "consumer": self.ids.get(one.consumer.name),
                    "upstream": self._upstream(gradient, one),
                    "step": steps.adding.get((name, one.consumer.name)),
                    "norm": None if norm is None else known(norm),
                    "share": None if share is None else known(share),
                }
            )
        if len(found) > MOST_TERMS:
            self.shortened += 1
        return found[:MOST_TERMS]

    def _chained(self, name: str) -> Iterator[str]:
        """The consumers for which the equation has prod(∂J/∂o, ∂o/∂W), by name."""
        for formula in self.equations[name].formulas[:1] if name in self.equations else ():
            for one in formula.operands if isinstance(formula, Total) else (formula,):
                if isinstance(one, Chain) and one.consumer is not None:
                    yield self.written.name_of[one.consumer]

    def _upstream_name(self, gradient: Gradient, one: Contribution) -> str:
        if one.upstream is None:
            return ""
        name = gradient_name(gradient.of, one.consumer.name)
        if self.graph.names.get(name) is one.upstream:
            return name
        return next(iter(self.names_of.get(one.upstream, ())), "")

    def _upstream(self, gradient: Gradient, one: Contribution) -> int | None:
        return self.ids.get(self._upstream_name(gradient, one))

    def _latex(
        self, gradient: Gradient, one: Contribution, is_chained: bool, is_alone: bool
    ) -> str:
        """prod(∂J/∂o, ∂o/∂W); ∂J/∂L of J = L + s; else the part of ∂J/∂x that comes through h.

        That part is no product where J depends on what is inside of h otherwise, too.
        """
        sources = self.reading.sources
        variable = self.reading.names.get(gradient.wrt) or sources.get(gradient.wrt, "")
        consumer, upstream = one.consumer.name, self._upstream_name(gradient, one)
        if is_chained and upstream:
            first = self.notation.latex(upstream)
            second = replace(self.notation, seeds={}).latex(gradient_name(consumer, variable))
            return rf"\operatorname{{prod}}\left( {first}, {second} \right)"
        whole = self.notation.latex(gradient_name(gradient.of, variable))
        if consumer == gradient.of:
            return whole if is_alone else rf"\left.{whole}\right|_{{\text{{direct}}}}"
        through = self.notation.latex(consumer)
        return rf"\left.{whole}\right|_{{\text{{via }} {through}}}"

    def _norms(self, gradient: Gradient, several: Sequence[Contribution]) -> list[float | None]:
        """The norm of what each contribution adds; None where it is not known."""
        if self.values is None or self.again is None:
            return [None] * len(several)
        is_all = len(several) == 1 and len(several[0].terms) == len(gradient.terms)
        if is_all and gradient.value in self.values:
            return [_norm(self.values[gradient.value])]
        found: list[float | None] = []
        for one in several:  # one after another: their arrays together may take much
            parts = self.again.compute(one.terms)
            arrays = [part for part in parts if part is not None]
            found.append(_norm(_sum(arrays)) if len(arrays) == len(parts) else None)
        return found

    def notes(self) -> Iterator[str]:
        """What is not there, and why."""
        if self.shortened:
            noun = "gradient" if self.shortened == 1 else "gradients"
            yield (
                f"Of {self.shortened:,} {noun}, only the first {MOST_TERMS} terms of the chain "
                "rule are listed."
            )
        if self.again is not None and self.again.is_spent:
            yield "The sizes of some terms of the chain rule were not computed: it took too long."


def _sum(parts: Sequence[np.ndarray]) -> np.ndarray:
    total = parts[0]
    with np.errstate(all="ignore"):
        for part in parts[1:]:
            total = total + part
    return total


def _norm(array: np.ndarray) -> float:
    """The Euclidean norm; NaN or infinity where an element is."""
    found = statistics_of(array)
    if found.nan:
        return math.nan
    if found.infinite:
        return math.inf
    return found.norm if found.count else 0.0

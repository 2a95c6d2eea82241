"""Writes a choice by cases: y = {√x if x > 0; 0 otherwise}."""

from __future__ import annotations

from chainrule.explain.equations.bodies import Opened, Page, Sheet, indices
from chainrule.explain.equations.formula import Formula, Held
from chainrule.explain.equations.indexing import Iterations
from chainrule.explain.equations.parts import Bound, Cases, Fence, separated
from chainrule.explain.equations.setting import Setter
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.sources import input_


class ChoiceText:
    """The equations of one choice: those of values that have names in a branch."""

    def __init__(
        self, page: Page, outer: Setter, held: Held, around: tuple[Iterations, ...]
    ) -> None:
        self.outer = outer
        self.condition, *given = held.operands
        self.lines: list[Opened] = []
        self.branches: list[list[tuple[Formula, Setter]]] = []
        graphs = [held.node.param(key).graph for key in ("if_true", "if_false")]
        first = Sheet(page, outer, graphs[0], around)
        for item, formula in zip(graphs[0].inputs, given, strict=True):
            first.fix(item.name, item.node, formula, around)
        for graph in graphs:
            self._branch(first, graph, around)

    def result(self, place: int) -> Bound:
        """The cases of one result; for a place below 0, all of them."""
        if place < 0:
            several = [self.result(one) for one in range(len(self.branches[0]))]
            return Bound(Fence(separated([*several])))
        (x, one), (y, other) = (branch[place] for branch in self.branches)
        return Bound(Cases(((one.set(x), self.outer.set(self.condition)), (other.set(y), None))))

    def _branch(self, first: Sheet, graph: Graph, around: tuple[Iterations, ...]) -> None:
        """One branch, which is given what the first one is given."""
        sheet, page = first, first.page
        if graph is not first.graph:
            sheet = Sheet(page, self.outer, graph, around)
            for item, other in zip(graph.inputs, first.graph.inputs, strict=True):
                sheet.bounds[item.node] = first.bounds[other.node]
                if other.node in first.indexed:
                    sheet.indexed[item.node] = first.indexed[other.node]
        results = [node for _, node in graph.outputs]
        named: list[Node] = []
        for name, node in graph.names.items():
            if node.primitive is not input_ and node not in results and node not in sheet.bounds:
                sheet.put(node, page.alphabet.indexed(name, node, below=indices(around)))
                named.append(node)
        found: dict[Node, tuple[Formula, Setter]] = {}
        for node, formulas, setter in sheet.values([*named, *dict.fromkeys(results)]):
            if node in named:
                sheet.say(node, formulas, sheet.bounds[node], setter, around)
            else:
                found[node] = formulas[0], setter
        self.lines += sheet.lines
        self.branches.append([found[node] for node in results])

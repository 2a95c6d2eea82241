"""Opens a loop or a choice: writes its body as equations."""

from __future__ import annotations

from chainrule.control import cond_primitive
from chainrule.explain.equations.bodies import Opened, Page
from chainrule.explain.equations.choices import ChoiceText
from chainrule.explain.equations.formula import Held
from chainrule.explain.equations.indexing import Alphabet, Iterations
from chainrule.explain.equations.loops import LoopText
from chainrule.explain.equations.setting import Setter
from chainrule.explain.reading.bodies import inner_graphs, results
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node


def page_of(graph: Graph, setter: Setter, shapes: bool) -> Page:
    """What the bodies of a graph share, before the first one is opened."""
    found = results(graph)
    values: dict[Node, list[Node]] = {}
    for node, one in found.items():
        values.setdefault(one.holder, []).append(node)
    inside = {name for body in inner_graphs(graph) for name in body.names}
    alphabet = Alphabet(setter.notation, graph.names, {*inside, *graph.sizes})
    heads = {text[:1] for text in (*alphabet.owners, *inside)} | {setter.letter}
    letter = next((one for one in "cbedgupw" if one not in heads), "aux")
    return Page(graph, found, values, alphabet, letter, shapes, opened)


def opened(page: Page, setter: Setter, held: Held, around: tuple[Iterations, ...]) -> list[Opened]:
    """The equations of a body; from now on the setter can write what it gives."""
    kind = ChoiceText if held.node.primitive is cond_primitive else LoopText
    text = kind(page, setter, held, around)
    setter.held[held.node] = text
    return text.lines

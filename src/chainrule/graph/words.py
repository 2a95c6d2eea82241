"""How messages call a node: by its name, by the user's call that made it, by its operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from chainrule.graph.node import Node
from chainrule.graph.origin import Scope

if TYPE_CHECKING:
    from chainrule.graph.graph import Graph

Word = Callable[[Node], str]
UNSAID = "..."


def printable(text: str) -> str:
    """The text on one line, without what a screen would obey: a name may hold a new line."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def names_of(graph: Graph) -> dict[Node, str]:
    """A name for every value: the user's, or `%3` as in the graph's text."""
    names = dict(graph.name_of)
    unnamed = (node for node in graph.nodes if node not in names)
    return names | {node: f"%{number}" for number, node in enumerate(unnamed)}


def operation(node: Node, word: Word) -> str:
    """The primitive and its operands: `gather(W, labels)`."""
    return f"{node.primitive.name}({', '.join(map(word, node.inputs))})"


def composite_of(node: Node) -> Scope | None:
    """The outermost call of a composite in which a value was made; None if in none."""
    return next((one for one in reversed(node.origin.scopes) if one.symbol), None)


def composite_call(node: Node, word: Word) -> str:
    """That call as the user wrote it, `softmax(scores)`; "" if there is none."""
    scope = composite_of(node)
    if scope is None:
        return ""
    given = [word(one) if isinstance(one, Node) else _static(one) for _, one in scope.arguments]
    return f"{scope.name}({', '.join(given)})"


def _static(value: object) -> str:
    """An argument that is no array; what is longer than a number or a word is left out."""
    is_short = value is None or isinstance(value, (bool, int, float, str))
    return printable(repr(value)) if is_short else UNSAID

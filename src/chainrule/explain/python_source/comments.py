"""Writes the user's source lines as comments that no text can escape."""

from __future__ import annotations

import io
import linecache
import tokenize

from chainrule.explain.reading.statements import Reading, Statement
from chainrule.graph.node import Node

MOST_LINES = 3  # of the user's, in one comment
WIDTH = 94


def plain(text: str) -> str:
    """The text on one line: whatever a terminal or a tokenizer might obey is a blank."""
    return "".join(c if c.isprintable() else " " for c in text).strip()


class UserLines:
    """The user's lines that the nodes of one graph come from; each is looked up once."""

    def __init__(self) -> None:
        self._known: dict[
            tuple[int, int], tuple[str, str]
        ] = {}  # by the code's id: it is not hashed

    def of(self, node: Node) -> tuple[str, str]:
        """`model.py:12` and the source of that line, without its comment; '' where unknown."""
        key = id(node.origin.code), node.origin.lasti
        if key not in self._known:
            self._known[key] = _user_line(node)
        return self._known[key]

    def of_statement(self, reading: Reading, statement: Statement) -> list[tuple[str, str]]:
        """The lines that a statement comes from.

        Of a gradient these are the lines that read its variable: one for each term of the chain
        rule.
        """
        nodes: list[Node] = []
        gradients = reading.gradients.get(statement.value, ())
        for gradient in (one for one in gradients if one.wrt in reading.names):
            nodes += [one.consumer.value for one in reading.contributions(gradient)]
        found = dict.fromkeys(self.of(node) for node in nodes or [statement.value])
        return [(place, text) for place, text in found if place]


def _user_line(node: Node) -> tuple[str, str]:
    place, location = node.origin.short(), node.origin.location
    if location is None or not place:
        return "", ""
    line = linecache.getline(location.filename, location.line)
    return plain(place), plain(_without_comment(line))


def _without_comment(line: str) -> str:
    """The line without the comment at its end, if it has one."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(line.strip()).readline):
            if token.type == tokenize.COMMENT:
                return line.strip()[: token.start[1]]
    except (tokenize.TokenError, SyntaxError):  # a statement that goes on in the next line
        pass
    return line


def comments_of(places: list[tuple[str, str]]) -> list[str]:
    """One comment for each of the user's lines, `# model.py:12: h = np.maximum(z, 0)`."""
    shown = [f"# {place}: {text}" if text else f"# {place}" for place, text in places]
    if len(shown) > MOST_LINES:
        shown[MOST_LINES - 1 :] = [f"# and {len(shown) - MOST_LINES + 1} more lines"]
    return [line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in shown]

"""Colours the text form of a graph for a terminal; only `rich_text` imports rich."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from chainrule.graph.words import printable

if TYPE_CHECKING:
    from chainrule.graph.graph import Graph

STYLES = (
    (r"^graph [^(]*", "bold"),
    (r"^  return .*", "bold"),
    (r"^  (?!%|return |require )[^:=]+(?=: | = )", "bold blue"),  # a name
    (r"^  (?:d[^\s:=]*/d[^:=]*)(?=: | = )", "bold dark_orange3"),  # of a gradient
    (r"(?<=: )[a-z ]*[a-z0-9]+\[[^\]]*\](?= = |,|\)| #|$)", "dim"),  # a type
    (r"%\d+", "dim"),
    (r"(?<== )\w+(?=[\[(])", "cyan"),  # a primitive
)


def rich_text(graph: Graph) -> Any:
    """The text form as rich shows it: names, gradients, primitives and types apart."""
    from rich.text import Text

    lines = []
    for line in graph.text().split("\n"):
        shown = Text(printable(line), no_wrap=True)
        for pattern, style in STYLES:
            for match in re.finditer(pattern, shown.plain):
                shown.stylize(style, *match.span())
        lines.append(shown)
    return Text("\n").join(lines)

"""Writes a graph as the source of one Python function that needs only NumPy."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator

import numpy as np

from chainrule.errors import InputError
from chainrule.explain.python_source.body import Block, Body
from chainrule.explain.python_source.comments import UserLines, comments_of, plain
from chainrule.explain.python_source.header import (
    checks,
    conversions,
    described,
    docstring,
    signature,
    sizes_read,
)
from chainrule.explain.python_source.identifiers import RESERVED, Identifiers, normalized
from chainrule.explain.python_source.wrapping import INDENT, WIDTH, bracketed, wrapped
from chainrule.explain.reading.statements import Direction, Pass, Reading, read
from chainrule.graph.graph import Graph
from chainrule.graph.sizes import sizes
from chainrule.transforms.widen import has_bfloat16, widen

PASSES = {
    Direction.FORWARD: "forward",
    Direction.BACKWARD: "backward",
    Direction.TANGENT: "tangents",
    Direction.UPDATE: "update",
}


def python(
    graph: Graph, *, name: str | None = None, delete: bool = False, comments: bool = True
) -> str:
    """The graph as the source of a function called `name` (default: as the graph).

    The function takes the inputs of the graph, each by its own identifier (`params.layer1.W` is
    `params_layer1_W`), and gives its outputs in their order, one alone or a tuple.  What the
    outputs do not need is left out.  Given arrays in C order, the values are those of the reference
    executor bit for bit; 0-d results are NumPy's scalars or 0-d arrays.  NumPy's warnings (division
    by zero) are not silenced.  Constants of more than a few elements are keyword arguments:
    `constants_of(graph)` gives their values.

    `delete` adds a `del` after the last use of each value, `comments` the lines of the user's
    source.  Raises InputError for a name that is no identifier, SizeError where a named size that
    is needed cannot be read off an input.
    """
    return "\n".join(_lines(graph, name, delete, comments)) + "\n"


def constants_of(graph: Graph) -> dict[str, np.ndarray]:
    """The values of the keyword arguments that `python(graph)` has for large constants."""
    graph = widen(graph)
    body, _, _ = _body(graph, read(graph), None)
    return {name: node.param("value").array for name, node in body.constants.items()}


def _body(graph: Graph, reading: Reading, name: str | None) -> tuple[Body, Identifiers, dict]:
    identifiers = Identifiers()
    identifiers.add("the function", _function_name(graph, name), "function")
    identifiers.add_all((item.node, item.name) for item in graph.inputs)
    named = [(node, text) for node, text in reading.names.items() if node not in identifiers]
    identifiers.add_all(named)
    identifiers.add_all((("size", one), one) for one in _all_sizes(graph))
    names = {one: identifiers["size", one] for one in _all_sizes(graph)}
    return Body(reading, identifiers, names), identifiers, names


def _all_sizes(graph: Graph) -> tuple[str, ...]:
    """The named sizes, those that only conditions or results mention too."""
    return tuple(dict.fromkeys(graph.sizes))


def _function_name(graph: Graph, name: str | None) -> str:
    if name is None:
        own = normalized(graph.name)
        return "function" if own in RESERVED else own
    if not name.isidentifier() or keyword.iskeyword(name) or normalized(name) in RESERVED:
        raise InputError(
            f"{plain(name)!r} cannot be the name of the function that graph.python() writes",
            hint='give an identifier that is not used otherwise: graph.python(name="step")',
        )
    return name


def _lines(graph: Graph, name: str | None, delete: bool, comments: bool) -> Iterator[str]:
    graph = widen(graph)
    reading = read(graph)
    body, identifiers, names = _body(graph, reading, name)
    wanted = body.sizes.union(*(sizes.names(one.expression) for one in graph.conditions))
    blocks = [block.lines for block in body.blocks]
    if delete:
        _add_deletions(blocks, body.results, {identifiers[item.node] for item in graph.inputs})
    if any("math." in helper for helper in body.helpers.values()):
        yield "import math"
        yield ""
    if has_bfloat16(graph):
        yield "import ml_dtypes"
    yield "import numpy as np"
    for helper in body.helpers.values():
        yield "\n" + helper.rstrip("\n")
    yield "\n"
    yield from signature(graph, identifiers["the function"], identifiers, body)
    results = [
        described(text if text.isidentifier() else "-", output, node.type)
        for text, (output, node) in zip(body.results, graph.outputs, strict=True)
    ]
    title = f"{plain(graph.name)}, written out by chainrule."
    yield from docstring(graph, title, identifiers, body, results)
    head = [
        *sizes_read(graph, wanted, names, identifiers),
        *conversions(graph, identifiers, body.needed),
        *checks(graph, names, identifiers),
    ]
    yield from (INDENT + line for line in head)
    yield from _statements(reading, body.blocks, blocks, comments, bool(head))
    yield from _returned(body.results)


def _returned(results: list[str]) -> Iterator[str]:
    line = f"{INDENT}return {', '.join(results) or '()'}"
    if len(line) <= WIDTH or len(results) < 2:
        yield line
    else:
        yield from bracketed("return (", results, ")", INDENT)


def _statements(
    reading: Reading, blocks: list[Block], lines: list[list[str]], comments: bool, has_head: bool
) -> Iterator[str]:
    """The blocks, with a heading for each pass and a comment for each of the user's lines."""
    during: Pass | None = None
    user_lines = UserLines()
    last: list[str] = []
    has_passes = len({one.statement.during for one in blocks if one.statement is not None}) > 1
    for block, statements in zip(blocks, lines, strict=True):
        statement = block.statement
        if comments and has_passes and statement is not None and statement.during != during:
            if during is not None or has_head:
                yield ""
            during, last = statement.during, []
            yield f"{INDENT}# {_heading(during)}"
        if not comments or (during is not None and during.direction is Direction.UPDATE):
            places = []
        elif statement is not None:
            places = user_lines.of_statement(reading, statement)
        else:
            places = [one for one in [user_lines.of(block.value)] if one[0]]
        above = comments_of(places)
        if len(places) == 1 and _is_only(statements, places[0][1]):
            statements, above = [f"{statements[0]}  # {places[0][0]}", *statements[1:]], []
        if above != last:
            yield from (INDENT + line for line in above)
        last = above
        for line in statements:
            yield from wrapped(line)


def _is_only(statements: list[str], text: str) -> bool:
    """Whether the statements are the user's own, and perhaps a deletion."""
    return statements[0] == text and all(one.startswith("del ") for one in statements[1:])


def _heading(during: Pass) -> str:
    again = f", order {during.order}" if during.order > 1 else ""
    return PASSES[during.direction] + again


def _add_deletions(blocks: list[list[str]], results: list[str], inputs: set[str]) -> None:
    """Add `del` lines after the last use of each variable that is not returned."""
    kept = set(re.findall(r"\w+", " ".join(results))) | inputs
    made = {line.partition(" = ")[0] for lines in blocks for line in lines if " = " in line}
    live = made - kept
    for lines in reversed(blocks):
        changed: list[str] = []
        for line in reversed(lines):
            words = dict.fromkeys(re.findall(r"(?<![\w.])[^\W\d]\w*", line))
            done = [one for one in words if one in live]
            live.difference_update(done)
            changed += [f"del {', '.join(done)}", line] if done else [line]
        lines[:] = reversed(changed)

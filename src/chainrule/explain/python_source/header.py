"""Writes the head of the function: arguments, docstring, sizes and checks."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from textwrap import wrap

from chainrule.errors import SizeError
from chainrule.explain.python_source.body import Body
from chainrule.explain.python_source.comments import plain
from chainrule.explain.python_source.identifiers import Identifiers
from chainrule.explain.python_source.numbers import default_text, size_text
from chainrule.explain.python_source.wrapping import bracketed
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Input
from chainrule.graph.sizes import size_values, sizes
from chainrule.graph.sizes.sizes import Size
from chainrule.primitives.python import dtype_text

INSIDE = " " * 12


def signature(graph: Graph, name: str, identifiers: Identifiers, body: Body) -> Iterator[str]:
    """The `def` line; what has no default after what has one, and constants, go by keyword."""
    parts: list[str] = []
    is_keyword = has_default = False
    for item in graph.inputs:
        text = identifiers[item.node]
        if item.default is not None:
            has_default = True
            text += f"={default_text(item.default)}"
        elif has_default and not is_keyword:
            is_keyword = True
            parts.append("*")
        parts.append(text)
    if body.constants:
        parts += [*([] if is_keyword else ["*"]), *body.constants]
    return bracketed(f"def {name}(", parts, "):")


def docstring(
    graph: Graph, title: str, identifiers: Identifiers, body: Body, results: list[str]
) -> Iterator[str]:
    """What the function takes and returns: identifiers, types, and names where they differ."""
    yield f'    """{_quoted(title)}'
    taken = [_described(identifiers[item.node], item.name, item) for item in graph.inputs]
    taken += [
        f"{name}: {_type(node)}, a constant of the program" for name, node in body.constants.items()
    ]
    for heading, lines in (("Takes", taken), ("Returns", results)):
        if lines:
            yield ""
            yield f"    {heading}"
            for line in lines:
                yield from wrap(_quoted(line), 92, initial_indent=" " * 8, subsequent_indent=INSIDE)
    yield '    """'


def described(identifier: str, name: str, type_: object) -> str:
    """`dJ_dW1: float32[4, 3]`, with the graph's own name where that is another."""
    note = "" if name == identifier else f" ({plain(name)})"
    return f"{identifier}: {type_}{note}"


def _described(identifier: str, name: str, item: Input) -> str:
    return described(identifier, name, _type(item.node))


def _type(node: Node) -> str:
    if node.type.weak:
        return {"f": "a Python float", "i": "a Python int"}.get(
            dtype_kind(node.dtype), str(node.type)
        )
    return str(node.type)


def _quoted(text: str) -> str:
    """The text in a docstring, which it cannot end."""
    return text.replace("\\", "/").replace('"', "'")


def conversions(graph: Graph, identifiers: Identifiers, needed: Container[Node]) -> Iterator[str]:
    """Scalars as numbers of their dtype, whatever the caller gives: a Python float is weak."""
    for item in graph.inputs:
        if item.node.ndim or item.node not in needed:
            continue
        name, type_ = identifiers[item.node], item.type
        convert = "float" if type_.weak and type_.is_float else dtype_text(type_.dtype)
        yield f"{name} = {convert}({name})"


_OPPOSITE = {"==": "!=", ">=": "<", "!=": "=="}


def checks(graph: Graph, names: Mapping[str, str], identifiers: Identifiers) -> Iterator[str]:
    """What the program relies on, as statements that raise ValueError."""
    for condition in graph.conditions:
        expression = size_text(condition.expression, names)
        yield f"if {expression} {_OPPOSITE[condition.relation]} 0:"
        yield from _raised(f"{condition.text} (from {condition.origin.short() or 'the program'})")
    nodes = {item.name: item.node for item in graph.inputs}
    for guard in graph.guards:
        name = identifiers[nodes[guard.name]]
        yield f"if {name} != {default_text(guard.value)}:"
        yield from _raised(
            f"{graph.name} was traced with {guard.name} = {guard.value!r}, which the program used "
            f"as a Python number"
        )


def _raised(text: str) -> Iterator[str]:
    pieces = wrap(plain(text), 70, drop_whitespace=False) or [""]
    if len(pieces) == 1:
        yield f"    raise ValueError({pieces[0]!r})"
        return
    yield "    raise ValueError("
    yield from (f"        {piece!r}" for piece in pieces)
    yield "    )"


def sizes_read(
    graph: Graph, wanted: set[str], names: Mapping[str, str], identifiers: Identifiers
) -> Iterator[str]:
    """Statements that read the wanted sizes off the shapes of the inputs.

    Raises SizeError for one that no single axis shows.
    """
    known: dict[str, int | Size] = {}
    pending = [
        (item, axis, size)
        for item in graph.inputs
        for axis, size in enumerate(item.type.shape)
        if isinstance(size, Size)
    ]
    missing = set(wanted)
    while missing:
        for item, axis, size in pending:
            shape = f"{identifiers[item.node]}.shape"
            found = _solved(size, f"{shape}[{axis}]", known, names)
            if found is None or found[0] not in missing:
                continue
            whole = [str(one) for one in item.type.shape]
            if len(whole) > 1 and len(set(whole)) == len(whole) and missing.issuperset(whole):
                yield f"{', '.join(names[one] for one in whole)} = {shape}"
                new = set(whole)
            else:
                yield f"{names[found[0]]} = {found[1]}"
                new = {found[0]}
            missing -= new
            known.update({one: sizes.size(one) for one in new})
            break
        else:
            more = _helpful(missing, known, pending)
            if not more:
                raise _unreadable(graph, missing)
            missing |= more


def _solved(
    size: Size, shown: str, known: Mapping[str, int | Size], names: Mapping[str, str]
) -> tuple[str, str] | None:
    """The one unknown name of a size that an axis has, and what it is; None if not linear."""
    unknown = sizes.names(size) - known.keys()
    if len(unknown) != 1:
        return None
    (name,) = unknown
    one = sizes.size(name)
    slope = size_values.evaluate(size, {name: one + 1}) - size
    rest = size - slope * one
    if name in sizes.names(slope) | sizes.names(rest):
        return None
    text = shown if rest == 0 else f"({shown} - ({size_text(rest, names)}))"
    return name, text if slope == 1 else f"{text} // ({size_text(slope, names)})"


def _helpful(missing: set[str], known: Mapping[str, int | Size], pending: list) -> set[str]:
    """Names without which the missing ones cannot be read."""
    shared = [sizes.names(size) for _, _, size in pending if sizes.names(size) & missing]
    return {name for several in shared for name in several} - missing - known.keys()


def _unreadable(graph: Graph, missing: set[str]) -> SizeError:
    several = ", ".join(sorted(missing))
    return SizeError(
        f"the sizes {several} of {graph.name} cannot be read off the shapes of its inputs",
        hint="bind them first: graph.bind("
        + ", ".join(f"{name}=..." for name in sorted(missing))
        + ")",
    )

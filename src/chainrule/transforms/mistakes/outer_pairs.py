"""Warns where (n, 1) meets (n,) in an objective: every prediction meets every target.

NumPy broadcasts the two to (n, n).  That is what outer products, masks and pairwise distances want,
so the warning is for a shape that is very likely meant for no matrix: see `outer_pairs`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.errors import BroadcastWarning, ChainruleError
from chainrule.graph.node import Node, topological
from chainrule.graph.origin import Origin
from chainrule.graph.types import ArrayType
from chainrule.primitives.logic import cast
from chainrule.primitives.movement import broadcast_to, expanded_axes, reshape, slice_
from chainrule.primitives.primitive import MOVING, Map
from chainrule.tracebacks import warn_user
from chainrule.transforms.mistakes.only_summed import only_summed
from chainrule.transforms.vjp import depends_on

_told: dict[Any, int] = {}  # which places Python's "default" filter has shown already


@dataclass(frozen=True)
class OuterPair:
    """`out` pairs all elements of two operands: `column` has a length of 1 where `row` has no
    axis, or the other way round; `axes` are those of `out` that only one of them has."""

    out: Node
    column: Node
    row: Node
    axes: tuple[int, int]


def warn_of_outer_pairs(
    nodes: Sequence[Node],
    target: Node,
    wrt: Iterable[Node],
    name: Callable[[Node], str | None],
) -> None:
    """A BroadcastWarning at the user's line for each of `outer_pairs`; `name` is how the user
    calls a node."""
    for pair in outer_pairs(nodes, target, wrt):
        text = str(_message(pair, target, name))
        where = pair.out.origin.location
        if where is None:
            warn_user(text, BroadcastWarning)
        else:
            warnings.warn_explicit(
                BroadcastWarning(text),
                BroadcastWarning,
                where.filename,
                where.line,
                registry=_told,
            )


def outer_pairs(nodes: Sequence[Node], target: Node, wrt: Iterable[Node]) -> tuple[OuterPair, ...]:
    """The operations between a value that depends on `wrt` and one that does not, in which each
    gains an axis of the same length, of which the expression itself says nothing, and both of
    which do nothing but to be summed up in `target`, or to give the largest or smallest of all."""
    found = [pair for node in nodes if (pair := _outer_pair(node)) is not None]
    if not found:
        return ()
    active = depends_on(nodes, wrt)
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for parent in dict.fromkeys(node.inputs):
            users.setdefault(parent, []).append(node)
    needed = set(topological([target]))
    return tuple(
        pair
        for pair in found
        if pair.out in needed
        and (pair.column in active) != (pair.row in active)
        and not _is_written(pair.column, pair.out.origin)
        and only_summed(pair.out, pair.axes, target, users, needed)
    )


def _outer_pair(node: Node) -> OuterPair | None:
    """The node as a pair, where its two operands were broadcast against each other."""
    if not isinstance(node.primitive.kernel, Map) or len(node.inputs) != 2:
        return None
    if any(one.primitive is not broadcast_to for one in node.inputs):
        return None
    operands = [one.inputs[0] for one in node.inputs]
    gained = [set(expanded_axes(one.shape, node.shape)) for one in operands]
    low = 0 if operands[0].ndim < operands[1].ndim else 1
    row, column = operands[low], operands[1 - low]
    if row.ndim >= column.ndim or not row.ndim:
        return None
    own, other = gained[low] - gained[1 - low], gained[1 - low] - gained[low]
    for i in sorted(own):
        for j in sorted(other):
            if node.shape[i] == node.shape[j]:
                return OuterPair(node, column, row, (i, j))
    return None


def _is_written(column: Node, origin: Origin) -> bool:
    """Whether the axis of length 1 was made within the expression that broadcasts it: by None,
    reshape, keepdims, a slice."""
    pending, seen = [column], set()
    while pending:
        node = pending.pop()
        if node in seen or not _within(node.origin, origin):
            continue
        seen.add(node)
        if node.primitive in (reshape, slice_):
            return True
        if isinstance(node.primitive.kernel, (Map, *MOVING)):
            pending.extend(node.inputs)
    return False


def _within(inner: Origin, outer: Origin) -> bool:
    """Whether the code of `inner` lies in that of `outer`, or on its line."""
    if inner.code is not outer.code:
        return False
    part, whole = inner.location, outer.location
    if part is None or whole is None:
        return False
    last = whole.line if whole.end_line is None else whole.end_line
    return whole.line <= part.line <= last


# What it says ------------------------------------------------------------------------------------


def _message(pair: OuterPair, target: Node, name: Callable[[Node], str | None]) -> ChainruleError:
    column, row = _shown(pair.column, name), _shown(pair.row, name)
    last = pair.column.ndim - 1
    hints = []
    if (bare := _name(pair.row, name)) and pair.axes[1] == last:
        hints.append(f"{bare}[{':, ' * pair.row.ndim}None]")
    if (bare := _name(pair.column, name)) and pair.axes[1] == last:
        hints.append(f"{bare}[{':, ' * last}0]")
    hint = " or ".join(hints) or "give both the same shape"
    objective = name(target) or "the objective"
    return ChainruleError(
        f"{column} with {row} is {_text(pair.out.type)}: each element of the one meets every "
        f"element of the other, and all of these pairs count in {objective}",
        where=pair.out.origin.describe(),
        hint=f"write {hint}, if row i belongs to row i;\n"
        "if all pairs are meant, say so in this expression: x[:, None]",
    )


def _name(node: Node, name: Callable[[Node], str | None]) -> str | None:
    """The user's name of a node, or of what it is converted from."""
    while True:
        found = name(node)
        if found is not None or node.primitive is not cast:
            return found
        node = node.inputs[0]


def _shown(node: Node, name: Callable[[Node], str | None]) -> str:
    found = _name(node, name)
    return f"{found or f'the result of {node.primitive.name}'} ({_text(node.type)})"


def _text(type_: ArrayType) -> str:
    return f"{type_.dtype.name}[{', '.join(map(str, type_.shape))}]"

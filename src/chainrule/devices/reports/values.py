"""Finds what the values of a split step are: their names, their bytes, what they are for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from chainrule.dataclass import dataclass
from chainrule.devices.instructions import Key, Run
from chainrule.explain.memory.kinds import Kind
from chainrule.explain.memory.words import expression
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.words import UNSAID, printable

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep, Split

SUMS, MESSAGES, WORKSPACE = "sums of gradients", "messages", "workspace"
BLOCKS = "blocks of compiled code"
KINDS = (
    str(Kind.PARAMETER),
    str(Kind.CARRIED),
    str(Kind.STATE),
    str(Kind.INPUT),
    str(Kind.CONSTANT),
    SUMS,
    str(Kind.SAVED),
    MESSAGES,
    str(Kind.GRADIENT),
    str(Kind.TEMPORARY),
    str(Kind.RESULT),
    WORKSPACE,
    BLOCKS,
)
UNNAMED = re.compile(r"%\d+")  # inputs of a piece that nobody has named


@dataclass(frozen=True)
class Value:
    """A value of the step: `kind` is one of KINDS, `node` is of the graph of its piece."""

    name: str
    kind: str
    nbytes: int
    node: Node


def called(graph: Graph, node: Node) -> str:
    """The user's name of a value of a piece; of one without, how it is computed."""
    name = graph.name_of.get(node, "%")
    if name.startswith("%"):  # of what other pieces compute nothing else is known here
        name = UNNAMED.sub(UNSAID, expression(graph, node))
    return printable(name)


def values_of(step: ParallelStep, split: Split) -> dict[int, Value]:
    """All values that programs name, by their numbers."""
    inputs = {number: name for name, number in split.names.items()}
    known = _kinds_of_inputs(step)
    ends = set(split.ends.values())
    found: dict[int, Value] = {}
    for key, outside, piece_node, name in _said(split):
        if key.value in found:
            continue
        if key.value in inputs:
            name = printable(inputs[key.value])
            kind = known.get(inputs[key.value], str(Kind.INPUT))
        elif outside in split.placed.forward:
            kind = str(Kind.SAVED)
        elif outside in split.placed.backward:
            kind = str(Kind.GRADIENT)
        else:
            kind = str(Kind.RESULT if key.value in ends else Kind.TEMPORARY)
        found[key.value] = Value(name, kind, int(piece_node.type.nbytes), piece_node)
    return found


def _said(split: Split) -> Iterator[tuple[Key, Node, Node, str]]:
    """Each key with its node, the one that stands for it in a piece, and its name: those that
    ranks make together, and that pieces give, before those that they read, whose piece does not
    know how they are computed."""
    for number, (graph, node) in split.exchanged.items():
        named = node if node in graph.name_of else node.inputs[0]
        yield Key(number, None), node, node, called(graph, named)
    runs = [one for program in split.programs for one in program.instructions]
    done: set[int] = set()
    found = []
    for one in runs:
        if not isinstance(one, Run) or one.piece in done:
            continue
        done.add(one.piece)
        piece = split.pieces[one.piece]
        for key, (outside, node) in zip(one.gives, piece.gives.items(), strict=True):
            yield key, outside, node, called(piece.graph, node)
        for key, (outside, node) in zip(one.reads, piece.reads.items(), strict=True):
            found.append((key, outside, node, ""))
    yield from found


def _kinds_of_inputs(step: ParallelStep) -> dict[str, str]:
    parameters = step.parts.whole.parameters
    found = {}
    for part in step.parts.updating.persistent:
        found[part.name] = str(Kind.PARAMETER if part.name in parameters else Kind.STATE)
    for part in step.parts.accumulating.persistent:
        found[part.name] = str(Kind.CARRIED) if part.is_carried else SUMS
        if part.is_carried:  # what the last part leaves
            found[part.next_name] = str(Kind.CARRIED)
    return found

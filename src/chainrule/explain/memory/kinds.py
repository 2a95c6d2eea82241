"""Decides what the bytes of a value are for: parameter, gradient, saved value, and others."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.sources import constant
from chainrule.schedule.lives import Life, lives_of
from chainrule.schedule.records import Compute, Schedule


class Kind(StrEnum):
    """What a value is for; in the order in which tables show it."""

    PARAMETER = "parameters"
    CARRIED = "carried state"
    STATE = "optimizer state"
    INPUT = "inputs"
    CONSTANT = "constants"
    SAVED = "saved intermediates"
    GRADIENT = "gradients"
    TEMPORARY = "temporaries"
    RESULT = "results"


def saved_values(schedule: Schedule, forward: Collection[Node]) -> set[Node]:
    """The values of forward propagation that an instruction after it reads.

    It is the schedule that knows them: what is computed again where it is needed, or before, is not
    saved, but what it is computed from.
    """
    computes = [one for one in schedule.instructions if isinstance(one, Compute)]
    lives = lives_of((one.reads, one.nodes) for one in computes)
    made: set[Node] = set()
    found: set[Node] = set()
    again: set[Life] = set()  # what is written after forward propagation
    for one, reads, writes in zip(computes, lives.reads, lives.writes, strict=True):
        fresh = {node for node in (*one.nodes, *one.inner) if node in forward} - made
        if not fresh:
            found.update(life.node for life in reads if life.node in forward and life not in again)
            again.update(writes)
        made |= fresh
    return found


def kinds_of(
    graph: Graph,
    saved: Collection[Node],
    parameters: Collection[Node],
    state: Collection[Node],
    carried: Collection[Node],
    results: Collection[Node],
) -> dict[Node, Kind]:
    """The kind of every value of a graph."""
    inputs = {item.node for item in graph.inputs}
    gradients = {gradient.value for gradient in graph.gradients}
    found: dict[Node, Kind] = {}
    for node in graph.nodes:
        if node in parameters:
            kind = Kind.PARAMETER
        elif node in carried:
            kind = Kind.CARRIED
        elif node in state:
            kind = Kind.STATE
        elif node in inputs:
            kind = Kind.INPUT
        elif node.primitive is constant:
            kind = Kind.CONSTANT
        elif node in gradients:
            kind = Kind.GRADIENT
        elif node in saved:
            kind = Kind.SAVED
        elif node in results:
            kind = Kind.RESULT
        else:
            kind = Kind.TEMPORARY
        found[node] = kind
    return found

"""Merges pieces that always run one right after the other: compiled code then fuses across them.

A stage that waits for nobody between its forward and its backward pass, as the last one of 1F1B
does, has one piece for both: what only the second reads of the first is never kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from chainrule.devices.instructions import Instruction, Key, Program, Run
from chainrule.devices.pieces import PASSES, Piece, piece_of, shared_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

Pair = tuple[int, int]


def merged(
    programs: Sequence[Program], pieces: Sequence[Piece], graph: Graph
) -> tuple[tuple[Program, ...], list[Piece]]:
    """The programs with merged pieces of the passes, whose graph this is; and all pieces."""
    programs, known = tuple(programs), list(pieces)
    while (pair := _pair(programs)) is not None:
        first, second = (known[number] for number in pair)
        known.append(_joined(first, second, graph, _inside(programs, pair)))
        programs = tuple(_with(one, pair, known) for one in programs)
    runs = {
        one.piece for program in programs for one in program.instructions if isinstance(one, Run)
    }
    numbers = {old: new for new, old in enumerate(sorted(runs))}
    return (
        tuple(_renumbered(one, numbers) for one in programs),
        [known[number] for number in numbers],
    )


def _pair(programs: Sequence[Program]) -> Pair | None:
    """Two pieces of the passes, the first of which always runs right before the second."""
    after: dict[int, set[int | None]] = {}
    before: dict[int, set[int | None]] = {}
    for program in programs:
        for one, other in pairwise((None, *program.instructions, None)):
            if isinstance(one, Run):
                after.setdefault(one.piece, set()).add(_beside(one, other))
            if isinstance(other, Run):
                before.setdefault(other.piece, set()).add(_beside(other, one))
    for first, found in after.items():
        second = next(iter(found))
        if second is not None and len(found) == 1 and before[second] == {first}:
            return first, second
    return None


def _beside(one: Run, other: Instruction | None) -> int | None:
    """The piece of the other instruction, if it runs for the same micro-batch."""
    if not isinstance(other, Run) or one.micro_batch is None:
        return None
    return other.piece if other.micro_batch == one.micro_batch else None


def _is(pair: Pair, one: Instruction | None, other: Instruction | None) -> bool:
    runs = [run.piece for run in (one, other) if isinstance(run, Run)]
    return tuple(runs) == pair


def _inside(programs: Sequence[Program], pair: Pair) -> set[int]:
    """The places of what the first piece gives to the second, and to nobody else."""
    found: list[set[int]] = []
    for program in programs:
        for one, other in pairwise(program.instructions):
            if isinstance(one, Run) and isinstance(other, Run) and _is(pair, one, other):
                freed = {*one.frees, *other.frees}
                found.append({place for place, key in enumerate(one.gives) if key in freed})
    return set.intersection(*found)


def _joined(first: Piece, second: Piece, graph: Graph, inside: set[int]) -> Piece:
    own = {*first.nodes, *second.nodes}
    given = {node for place, node in enumerate(first.gives) if place not in inside}
    given |= {*second.gives}
    shared = (shared_of(first) | shared_of(second)) - own
    name = f"{PASSES} {first.name.partition(' ')[2]}"
    gives = [node for node in graph.nodes if node in given]
    return piece_of(graph, name, own, gives, shared, {**first.places, **second.places})


def _with(program: Program, pair: Pair, pieces: Sequence[Piece]) -> Program:
    """The program with one run of the last piece for each two; frees are those of both."""
    made: list[Instruction] = []
    number = len(pieces) - 1
    for one in program.instructions:
        last = made[-1] if made else None
        if not (_is(pair, last, one) and isinstance(last, Run) and isinstance(one, Run)):
            made.append(one)
            continue
        keys: dict[Node, Key] = {}
        for run in (last, one):
            keys |= zip(pieces[run.piece].reads, run.reads, strict=True)
            keys |= zip(pieces[run.piece].gives, run.gives, strict=True)
        reads, gives = (
            tuple([keys[node] for node in nodes])
            for nodes in (pieces[number].reads, pieces[number].gives)
        )
        there = {*reads, *gives}
        frees = tuple([key for key in (*last.frees, *one.frees) if key in there])
        made[-1] = Run(number, one.micro_batch, reads, gives, frees)
    return replace(program, instructions=tuple(made))


def _renumbered(program: Program, numbers: Mapping[int, int]) -> Program:
    made = (
        replace(one, piece=numbers[one.piece]) if isinstance(one, Run) else one
        for one in program.instructions
    )
    return replace(program, instructions=tuple(made))

"""Lets ranks go on while gradients are added up: a sum is begun as soon as it can be.

What replicas add up is parted into buckets, in the order in which the backward pass comes to them.
A piece that makes the gradients of several buckets is cut after each, and the update before each:
the helper of a rank adds the first bucket up while the rank computes the second, and the last
while it updates by the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from chainrule.devices.instructions import (
    AllReduce,
    Await,
    Begin,
    Instruction,
    Key,
    Program,
    Run,
    Send,
)
from chainrule.devices.lives import freeing
from chainrule.devices.pieces import Piece, piece_of, shared_of
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node, topological

LEAST_NBYTES = 1 << 22  # of a bucket, but of the last one: less is added up in no time
MOST_BUCKETS = 8  # each takes pieces of its own


@dataclass(eq=False)
class Overlapping:
    """Makes the programs with sums that are begun and awaited.

    `graphs` are those that pieces are of, `number` the numbers of their nodes, `sums` maps those of
    sums to the nodes that follow them, `nbytes` has their bytes.
    """

    pieces: Sequence[Piece]
    graphs: Sequence[Graph]
    number: Mapping[Node, int]
    sums: Mapping[int, Node]
    nbytes: Mapping[int, int]
    made: list[Piece] = field(default_factory=list)
    _cuts: dict[tuple[int, tuple[tuple[Key, ...], ...]], list[int]] = field(default_factory=dict)

    def programs(self, programs: Sequence[Program]) -> tuple[Program, ...]:
        """The programs of all ranks; their pieces are `made`."""
        return tuple(self._program(one) for one in programs)

    def _program(self, program: Program) -> Program:
        buckets = [one for sum_ in program.instructions for one in self._buckets(sum_)]
        keys = tuple(one.keys for one in buckets)
        found: list[Instruction] = []
        for one in program.instructions:
            if isinstance(one, Run):
                found += self._runs(one, keys)
            elif not (isinstance(one, AllReduce) and self._buckets(one)):
                found.append(one)
        for bucket in buckets:
            found = _begun(found, bucket)
        return freeing(program.rank, found, program.results)

    def _buckets(self, one: Instruction) -> list[AllReduce]:
        """The buckets of what replicas add up after their parts; none where there would be one."""
        if not isinstance(one, AllReduce) or any(key.value not in self.sums for key in one.keys):
            return []
        ready = {key: self._depth[self.sums[key.value]] for key in one.keys}
        whole = sum(self.nbytes[key.value] for key in one.keys)
        least = max(LEAST_NBYTES, -(-whole // MOST_BUCKETS))
        found, open_ = list[AllReduce](), list[Key]()
        for key in sorted(one.keys, key=ready.__getitem__):
            open_.append(key)
            if sum(self.nbytes[other.value] for other in open_) >= least:
                found.append(replace(one, keys=tuple(open_)))
                open_ = []
        if open_:
            found.append(replace(one, keys=tuple(open_)))
        return found if len(found) > 1 else []

    @cached_property
    def _depth(self) -> dict[Node, int]:
        """How many nodes are computed one after the other before each of the passes: gradients of
        later layers come first."""
        found: dict[Node, int] = {}
        for node in self.graphs[0].nodes:
            found[node] = 1 + max((found[one] for one in node.inputs), default=0)
        return found

    def _runs(self, run: Run, buckets: tuple[tuple[Key, ...], ...]) -> list[Run]:
        """What runs instead of a piece: itself, or its parts."""
        piece = self.pieces[run.piece]
        known = (run.piece, buckets)
        if known not in self._cuts:
            parts = self._parts(piece, run, buckets)
            self._cuts[known] = list(range(len(self.made), len(self.made) + len(parts)))
            self.made += parts
        keys = dict(zip(piece.reads, run.reads, strict=True))
        keys |= zip(piece.gives, run.gives, strict=True)

        def key(node: Node) -> Key:
            return keys.get(node) or Key(self.number[node], run.micro_batch)

        return [
            Run(
                number,
                run.micro_batch,
                tuple(map(key, self.made[number].reads)),
                tuple(map(key, self.made[number].gives)),
            )
            for number in self._cuts[known]
        ]

    def _parts(self, piece: Piece, run: Run, buckets: tuple[tuple[Key, ...], ...]) -> list[Piece]:
        order = {key: place for place, keys in enumerate(buckets) for key in keys}
        gives = {n: order[k] for n, k in zip(piece.gives, run.gives, strict=True) if k in order}
        reads = {n: order[k] for n, k in zip(piece.reads, run.reads, strict=True) if k in order}
        own = set(piece.nodes)
        if len(set(gives.values())) > 1:  # as soon as they can be: what each needs, and no more
            part = {}
            for node, place in sorted(gives.items(), key=lambda one: one[1]):
                for one in topological([node]):
                    if one in own:
                        part.setdefault(one, place)
            last = max(part.values())
            part |= {node: last for node in own if node not in part}
        elif len(set(reads.values())) > 1:  # as late as they must be
            part = dict(reads)
            for node in piece.nodes:
                part[node] = max((part.get(one, 0) for one in node.inputs), default=0)
        else:
            return [piece]
        places = sorted({part[node] for node in own})
        if len(places) == 1:
            return [piece]
        graph = next(one for one in self.graphs if piece.nodes[0] in set(one.nodes))
        shared = shared_of(piece)
        found = []
        for place in places:
            here = {node for node in own if part[node] == place}
            later = {one for node in own if part[node] > place for one in node.inputs}
            given = [n for n in graph.nodes if n in here and (n in later or n in piece.gives)]
            name = f"{piece.name} ({places.index(place) + 1} of {len(places)})"
            found.append(piece_of(graph, name, here, given, shared, piece.places))
        return found


def _begun(instructions: Sequence[Instruction], bucket: AllReduce) -> list[Instruction]:
    """The instructions with this sum: begun after what is written last, awaited before it is
    read."""
    keys = set(bucket.keys)
    writes = [
        at for at, one in enumerate(instructions) if isinstance(one, Run) and keys & {*one.gives}
    ]
    begin = writes[-1] + 1 if writes else 0
    reads = (at for at in range(begin, len(instructions)) if keys & {*_read(instructions[at])})
    end = next(reads, len(instructions))
    found = list(instructions)
    found.insert(end, Await(bucket))
    found.insert(begin, Begin(bucket))
    return found


def _read(one: Instruction) -> tuple[Key, ...]:
    match one:
        case Run():
            return one.reads
        case Send():
            return (one.key,)
    return ()

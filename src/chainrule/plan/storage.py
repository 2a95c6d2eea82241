"""Where values lie while works run one after another: in arrays from outside, or in scratch memory.

A value that a nest is the last to read, element by element, hands its bytes on to one that the nest
writes.  Where that one is a result with an array of its own, the value lies in this array before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.checks import reliance
from chainrule.plan.overwriting import successors, takes_over
from chainrule.plan.roles import nbytes_of
from chainrule.plan.work import Work
from chainrule.schedule.lives import BEFORE, Life, lives_of
from chainrule.schedule.placement.place import Placement, Request, load_of, place
from chainrule.schedule.records import (
    SCRATCH,
    Buffer,
    Compute,
    Free,
    Instruction,
    Schedule,
    aligned,
)


class Outside:
    """The arrays from outside, by the lives of values that lie in them: what is given, results, and
    results that take the array of a given value, as `overwrites` says of given values."""

    def __init__(
        self, given: Sequence[Node], results: Sequence[Node], overwrites: Mapping[Node, Node]
    ) -> None:
        self.results, self.overwrites = results, overwrites
        self.given = {node: _array(f"given {n}", node) for n, node in enumerate(given)}
        found = dict(self.given)
        found |= {node: _array(f"result {n}", node) for n, node in enumerate(results)}
        found |= {result: self.given[one] for one, result in overwrites.items()}
        self.buffers = {Life(node): buffer for node, buffer in found.items()}


class Storage:
    """The buffers of all lives of values, and of workspaces; offsets are looked for when they are
    asked for, which takes most of the time.

    `seconds` is how long offsets are searched for.  A result, or what takes its array before, has
    one life.
    """

    def __init__(self, works: Sequence[Work], outside: Outside, seconds: float = 0.0) -> None:
        self.works, self.seconds = works, seconds
        self.given, self.outside = outside.given, outside.buffers
        self.results, self.overwrites = outside.results, outside.overwrites
        self.lives = lives_of(((work.reads, work.writes) for work in works), self.given)
        written = (life for life, number in self.lives.first.items() if number != BEFORE)
        self.scratch = [life for life in written if life not in self.outside]
        self.dying: dict[int, list[Life]] = defaultdict(list)  # scratch, by last work
        for life in self.scratch:
            self.dying[self.lives.last[life]].append(life)

    def fits(self, capacity: int) -> bool:
        """Whether scratch memory of so many bytes is enough; no offsets are looked for where the
        load alone is larger."""
        return self.load_nbytes <= capacity and self.scratch_nbytes <= capacity

    @cached_property
    def inherited(self) -> dict[Life, Life]:
        """For lives with memory of their own, those in scratch whose bytes they take over."""
        overwriting = {Life(result) for result in self.overwrites.values()}
        found: dict[Life, Life] = {}
        for number, work in enumerate(self.works):
            if not takes_over(work):
                continue
            ending = self.dying.get(number, ())
            dying = {life.node: life for life in ending if self.lives.first[life] < number}
            if dying:
                written = {life.node: life for life in self.lives.writes[number]}
                own = [node for node, life in written.items() if life not in overwriting]
                own.sort(key=lambda node: written[node] not in self.outside)  # results first
                taken = successors(work, [*dying], own)
                found |= {written[node]: dying[value] for node, value in taken.items()}
        return found

    @cached_property
    def _before_results(self) -> dict[Life, Buffer]:
        """The arrays of results, by the lives in scratch that lie there before."""
        found: dict[Life, Buffer] = {}
        for result in self.results:
            life = Life(result)
            while life in self.inherited:
                life = self.inherited[life]
                found[life] = self.outside[Life(result)]
        return found

    @cached_property
    def _requests(self) -> tuple[Request, ...]:
        """For the lives in scratch memory, in their order, and for workspaces."""
        inherited = self.inherited
        scratch = [life for life in self.scratch if life not in self._before_results]
        places = {life: place for place, life in enumerate(scratch)}
        first, last = self.lives.first, self.lives.last
        same = (places[inherited[life]] if life in inherited else None for life in scratch)
        requests = [
            Request(nbytes_of(life.node), first[life], last[life], one)
            for life, one in zip(scratch, same, strict=True)
        ]
        spaces = (Request(nbytes, number, number) for number, nbytes in self._spaces)
        return (*requests, *spaces)

    @property
    def _spaces(self) -> Iterator[tuple[int, int]]:
        """The numbers of works that have a workspace, with its bytes."""
        spaces = ((number, work.workspace_nbytes) for number, work in enumerate(self.works))
        return ((number, nbytes) for number, nbytes in spaces if nbytes)

    @cached_property
    def load_nbytes(self) -> int:
        """The most bytes of scratch memory in use at one work."""
        return load_of(self._requests)

    @cached_property
    def _placement(self) -> Placement:
        return _placed(self._requests, self.seconds)

    @property
    def scratch_nbytes(self) -> int:
        """The bytes of scratch memory."""
        return self._placement.nbytes

    @cached_property
    def buffers(self) -> dict[Life, Buffer]:
        """Where each life lies."""
        found = self.outside | self._before_results
        offsets = iter(self._placement.offsets)
        for life in self.scratch:
            if life not in found:
                found[life] = Buffer(SCRATCH, next(offsets), nbytes_of(life.node))
        return found

    @cached_property
    def workspaces(self) -> dict[int, Buffer]:
        """Where the workspace of each work lies that has one."""
        spaces = list(self._spaces)
        offsets = self._placement.offsets[len(self._placement.offsets) - len(spaces) :]
        return {
            number: Buffer(SCRATCH, offset, nbytes)
            for (number, nbytes), offset in zip(spaces, offsets, strict=True)
        }

    @cached_property
    def in_place(self) -> dict[Life, Life]:
        """The lives that lie where others did that ended with the work that writes them."""
        buffers = self.buffers
        found = {Life(result): Life(one) for one, result in self.overwrites.items()}
        for life, one in self.inherited.items():
            if buffers[life] == buffers[one]:
                found[life] = one
        return found

    @property
    def loads(self) -> list[int]:
        """The bytes of scratch memory in use at each work, each buffer rounded up; those handed on
        count once."""
        change = [0] * (len(self.works) + 1)
        handed_on = set(self.in_place.values())
        for life in self.scratch:
            if self.buffers[life].arena == SCRATCH:
                change[self.lives.first[life]] += aligned(nbytes_of(life.node))
                end = self.lives.last[life] + (life not in handed_on)
                change[end] -= aligned(nbytes_of(life.node))
        values = list(accumulate(change))
        spaces = [aligned(work.workspace_nbytes) for work in self.works]
        return [one + space for one, space in zip(values, spaces, strict=False)]

    def schedule(self, graph: Graph) -> Schedule:
        """The works as instructions, with what is freed after each."""
        handed_on = set(self.in_place.values())
        instructions: list[Instruction] = []
        stops, _ = reliance(self.works)
        for number, work in enumerate(self.works):
            written = self.lives.writes[number]
            pairs = [(one.node, self.in_place[one].node) for one in written if one in self.in_place]
            instructions.append(
                Compute(
                    nodes=tuple(life.node for life in written),
                    into=tuple(self.buffers[life] for life in written),
                    reads=tuple(work.reads),
                    inner=tuple(work.inner),
                    workspace=self.workspaces.get(number),
                    in_place=tuple(pairs),
                    fails=stops[number],
                    label=work.label,
                    allocated_nbytes=work.allocated_nbytes,
                )
            )
            gone = self.dying.get(number, ())
            instructions += [Free(life.node) for life in gone if life not in handed_on]
        return Schedule(
            graph=graph,
            instructions=tuple(instructions),
            given=self.given,
            results=tuple(self.results),
            overwrites=dict(self.overwrites),
            scratch_nbytes=self.scratch_nbytes,
        )


@lru_cache(maxsize=256)  # a report counts what compiled code takes, also where time ended a search
def _placed(requests: Sequence[Request], seconds: float) -> Placement:
    """The better placement, with bytes handed on or without; searched for so long."""
    found = place(requests, seconds=seconds)
    if not found.wasted_nbytes:
        return found
    alone = place([one._replace(same_as=None) for one in requests])
    return min(found, alone, key=lambda one: one.nbytes)


def _array(name: str, node: Node) -> Buffer:
    return Buffer(name, 0, nbytes_of(node))

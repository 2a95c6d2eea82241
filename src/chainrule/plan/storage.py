"""Where values lie while works run one after another: in arrays from outside, or in scratch memory.

A value that a nest is the last to read, element by element, hands its bytes on to one that the nest
writes.  Where that one is a result with an array of its own, the value lies in this array before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan.overwriting import successors
from chainrule.plan.place import Placement, Request, place
from chainrule.plan.roles import nbytes_of
from chainrule.plan.schedule import SCRATCH, Buffer, Compute, Free, Instruction, Schedule
from chainrule.plan.work import Work


class Storage:
    """The buffers of all values and workspaces.

    `overwrites` maps a given value to the result that takes its array.
    """

    def __init__(
        self,
        works: Sequence[Work],
        given: Sequence[Node],
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
    ) -> None:
        self.works, self.results, self.overwrites = works, results, overwrites
        self.given = {node: _array(f"given {n}", node) for n, node in enumerate(given)}
        self.first: dict[Node, int] = {}
        self.last: dict[Node, int] = {}
        for number, work in enumerate(works):
            for node in work.writes:
                self.first.setdefault(node, number)
                self.last[node] = number
            for node in work.reads:
                self.last[node] = number
        self.buffers = dict(self.given)
        self.buffers |= {node: _array(f"result {n}", node) for n, node in enumerate(results)}
        self.buffers |= {result: self.given[one] for one, result in overwrites.items()}
        self.dying: dict[int, list[Node]] = defaultdict(list)  # scratch, by last work
        for node in self.first:
            if node not in self.buffers:
                self.dying[self.last[node]].append(node)
        self.in_place = {result: one for one, result in overwrites.items()}
        self._place(self._inherited())

    def _inherited(self) -> dict[Node, Node]:
        """For values with memory of their own, those in scratch whose bytes they take over."""
        found: dict[Node, Node] = {}
        for number, work in enumerate(self.works):
            reads = {*work.reads}.difference(work.writes)
            dying = [node for node in self.dying.get(number, ()) if node in reads]
            if dying:
                own = [node for node in work.writes if node not in self.in_place]
                own.sort(key=lambda node: node not in self.buffers)  # results first
                found.update(successors(work, dying, own))
        return found

    def _place(self, inherited: Mapping[Node, Node]) -> None:
        """Find the buffers of what is neither given nor a result."""
        for result in self.results:
            node = result
            while node in inherited:
                node = inherited[node]
                self.buffers[node] = self.buffers[result]
        scratch = [node for node in self.first if node not in self.buffers]
        places = {node: place for place, node in enumerate(scratch)}
        requests = [
            Request(
                nbytes_of(node),
                self.first[node],
                self.last[node],
                places[inherited[node]] if node in inherited else None,
            )
            for node in scratch
        ]
        spaces = [(k, work.workspace_nbytes) for k, work in enumerate(self.works)]
        spaces = [(number, nbytes) for number, nbytes in spaces if nbytes]
        requests += [Request(nbytes, number, number) for number, nbytes in spaces]
        placement = _placed(requests)
        self.load_nbytes, self.scratch_nbytes = placement.largest_load, placement.nbytes
        found = iter(placement.offsets)
        for node in scratch:
            self.buffers[node] = Buffer(SCRATCH, next(found), nbytes_of(node))
        self.workspaces = {
            number: Buffer(SCRATCH, next(found), nbytes) for number, nbytes in spaces
        }
        for node, one in inherited.items():
            if self.buffers[node] == self.buffers[one]:
                self.in_place[node] = one

    def schedule(self, graph: Graph) -> Schedule:
        """The works as instructions, with what is freed after each."""
        handed_on = set(self.in_place.values())
        instructions: list[Instruction] = []
        for number, work in enumerate(self.works):
            pairs = [(node, self.in_place[node]) for node in work.writes if node in self.in_place]
            instructions.append(
                Compute(
                    nodes=tuple(work.writes),
                    into=tuple(self.buffers[node] for node in work.writes),
                    reads=tuple(work.reads),
                    inner=tuple(work.inner),
                    workspace=self.workspaces.get(number),
                    in_place=tuple(pairs),
                    fails=work.fails,
                    label=work.label,
                    allocated_nbytes=work.allocated_nbytes,
                )
            )
            gone = self.dying.get(number, ())
            instructions += [Free(node) for node in gone if node not in handed_on]
        return Schedule(
            graph=graph,
            instructions=tuple(instructions),
            given=self.given,
            results=tuple(self.results),
            overwrites=dict(self.overwrites),
            scratch_nbytes=self.scratch_nbytes,
        )


def _placed(requests: Sequence[Request]) -> Placement:
    """The better placement, with bytes handed on or without."""
    found = place(requests)
    if not found.wasted_nbytes:
        return found
    alone = place([replace(one, same_as=None) for one in requests])
    return min(found, alone, key=lambda one: one.nbytes)


def _array(name: str, node: Node) -> Buffer:
    return Buffer(name, 0, nbytes_of(node))

"""Walks from zeros of a value back to what makes them, through loops and choices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush

import numpy as np

from chainrule.control.replay import carried
from chainrule.control.wording import gives_derivatives
from chainrule.dataclass import dataclass, field
from chainrule.explain.nonfinite import flow
from chainrule.explain.zeros.causes import Why
from chainrule.explain.zeros.found import Cause, ZeroElements
from chainrule.explain.zeros.frames import Change, Frame, Frames, Mask, Place, depending
from chainrule.explain.zeros.words import because, is_unread, within
from chainrule.graph.body import holds_bodies
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.indexing import gather, scatter_add
from chainrule.primitives.sources import constant, input_, is_uniform

MOST_CAUSES = 8  # of one gradient; what is left is counted
MOST_COLUMNS = 8  # that are listed
MOST_PASSED = 3000  # places that zeros come through, where names are looked for among them
MOST_ALSO = 2  # reasons at other times

Found = tuple["Place | Why", Mask, "Change | None"]  # a source, or the end; and the way forward
ReadAt = Mapping["Place", Collection[Frame]]
Links = dict[Place, list[tuple[Place, Change]]]  # from a source to its readers


class Walker:
    """Walks from zeros of a value to what makes them; `names` are also those that origins know."""

    def __init__(
        self,
        graph: Graph,
        names: Mapping[Node, str],
        values: Mapping[Node, np.ndarray],
        frames: Frames | None = None,
    ) -> None:
        sources = [one for one in graph.nodes if one.primitive in (input_, constant)]
        self.names = names
        self.frames = Frames() if frames is None else frames
        self.program = Frame(graph, values, depending(graph, sources))

    def explained(self, name: str, node: Node) -> ZeroElements:
        """The zeros of one value, by cause."""
        start = Place(self.program, node)
        mask = self.program.values[node] == 0
        blamed = _Queue(last=True)
        if mask.any():
            blamed.add(start, mask)
        ends: dict[End, dict[Place, Mask]] = {}
        onward: Links = {}
        read_at: dict[Place, set[Frame]] = {}  # outside of loops, in which turns it is read
        while blamed:
            reader, asked = blamed.pop()  # all that read it are done
            for source, part, forward in self._parts(reader, asked):
                if isinstance(source, Why):
                    ends.setdefault(self._end(reader, source), {})[reader] = part
                elif part.any() and forward is not None:
                    blamed.add(source, part)
                    onward.setdefault(source, []).append((reader, forward))
                    if source.frame is self.program:
                        read_at.setdefault(source, set()).update(self._read_at(reader, read_at))
        causes = self._counted(start, mask, ends, onward, read_at)
        shown = causes[:MOST_CAUSES]
        others = int(mask.sum()) - sum(one.count for one in shown)
        return ZeroElements(name, int(mask.sum()), mask.size, tuple(shown), others)

    def _parts(self, reader: Place, mask: Mask) -> Iterator[Found]:
        """Who is to blame for zeros: elements of sources, or the reader itself."""
        frame, node = reader.frame, reader.node
        ways = [frame.ways[node]] if node in frame.ways else None
        if ways is None and holds_bodies(node):
            ways = self.frames.ways(reader)
        if ways is not None:
            for way in ways:
                yield way.source, way.back(mask), way.forward
            return
        if frame is not self.program:
            self.frames.visits -= 1
        for where, part in frame.splitter.parts(node, mask):
            if isinstance(where, Why):
                yield Why.INDEPENDENT if _is_unused(reader) else where, part, None
                continue
            arrays = [frame.values[one] for one in node.inputs]
            zero = flow.back(node, where, part, arrays[1:]) & (arrays[where] == 0)
            yield Place(frame, node.inputs[where]), zero, _forward(reader, where, part)

    def _end(self, reader: Place, why: Why) -> End:
        words = because(reader.node, why, self.names)
        inside = tuple([one.name for one in reader.frame.outwards])
        return End(why, words, reader.node.origin.short(), inside, reader.node)

    def _counted(
        self,
        start: Place,
        mask: Mask,
        ends: Mapping[End, Mapping[Place, Mask]],
        onward: Links,
        read_at: ReadAt,
    ) -> list[Cause]:
        """The causes with the elements of `start` that each explains; none is counted twice."""
        alone = len(ends) == 1
        told = []
        for end, places in ends.items():
            elements = mask if alone else _reached(start, places, onward)
            turns = {turn for place in places for turn in self._turns(place, read_at)}
            where = within(turns, self.frames)
            if end.inside:
                where = " ".join(filter(None, (_in_columns(places.values()), where)))
            told.append(_Told(end, elements, where, len(turns)))
        told.sort(key=_Told.rank)
        in_loops = any(place.frame is not self.program for place in onward)
        found: list[Cause] = []
        left = mask
        for one in told:
            mine = one.elements & left
            left = left & ~one.elements
            if mine.any():
                name, place = self.names.get(one.end.node, ""), one.end.place
                also = tuple(_also(one, mine, told)) if in_loops else ()
                where = one.within
                if one.end.inside:
                    where += self._way(one.end, start, ends[one.end], onward, mine)
                count = int(mine.sum())
                found.append(Cause(one.end.why, one.end.because, name, place, count, where, also))
        return sorted(found, key=lambda one: -one.count)

    def _way(
        self, end: End, start: Place, ends: Mapping[Place, Mask], onward: Links, mine: Mask
    ) -> str:
        """`, by way of s and both`: other values of iterations through which all the zeros come."""
        passed: dict[str, bool] = {}  # and whether it is computed
        seen, waiting = set(ends), list(ends)
        for place in waiting:  # which grows
            for reader, _ in onward.get(place, ()):
                if reader not in seen and len(seen) < MOST_PASSED:
                    seen.add(reader)
                    waiting.append(reader)
            name = self.names.get(place.node, "")
            if name and _is_on_the_way(place):
                passed[name] = passed.get(name, False) or bool(place.node.inputs)
        passed.pop(self.names.get(end.node, ""), None)
        if len(seen) >= MOST_PASSED or len(passed) > MOST_COLUMNS:
            return ""
        way = [
            name
            for name in passed
            if not (mine & _reached(start, ends, onward, self.names, name)).any()
        ]
        return f", by way of {' and '.join(way)}" if any(passed[one] for one in way) else ""

    def _read_at(self, reader: Place, known: ReadAt) -> Collection[Frame]:
        """The turns in which what a reader reads outside of loops is read, if in some alone."""
        if reader.frame is self.program:
            return known.get(reader, ())
        return {reader.frame} if reader.frame.ways[reader.node].is_row else ()

    def _turns(self, end: Place, read_at: ReadAt) -> Collection[Frame]:
        return read_at.get(end, ()) if end.frame is self.program else {end.frame}


@dataclass(frozen=True)
class End:
    """Where walks end: what is said of it, and in which loops it is (the same in all turns)."""

    why: Why
    because: str
    place: str
    inside: tuple[str, ...]
    node: Node = field(compare=False)


@dataclass(frozen=True)
class _Told:
    """An end, the elements that it explains, and at which times."""

    end: End
    elements: Mask
    within: str
    turns: int

    def rank(self) -> tuple[bool, int, bool, float]:
        """What explains most elements is first, then what does so most often; what is read, too,
        and gives nothing says more than what is not read beside it, or than a number."""
        node, why = self.end.node, self.end.why
        often = self.turns or np.inf  # outside of loops
        return is_uniform(node), -int(self.elements.sum()), is_unread(node, why), -often

    def __str__(self) -> str:
        return f"{self.end.because} {self.within}".rstrip()


def _also(chosen: _Told, mine: Mask, told: Sequence[_Told]) -> Iterator[str]:
    """What makes the same elements 0 at times at which a chosen cause does not."""
    others = [
        str(one)
        for one in told
        if one is not chosen
        and one.end.why is not Why.INDEPENDENT
        and not is_uniform(one.end.node)
        and (one.elements & mine).any()
    ]
    yield from others[:MOST_ALSO]
    if len(others) > MOST_ALSO:
        yield f"{len(others) - MOST_ALSO} more"


class _Queue:
    """Places with masks: those along the way of data first, or last; a place is in it once."""

    def __init__(self, last: bool) -> None:
        self.sign = -1 if last else 1
        self.masks: dict[Place, Mask] = {}
        self.heap: list[tuple[tuple[float, ...], int, Place]] = []

    def __len__(self) -> int:
        return len(self.masks)

    def add(self, place: Place, mask: Mask) -> None:
        """Put elements of a place to those that are in it."""
        if place in self.masks:
            self.masks[place] = self.masks[place] | mask
            return
        self.masks[place] = mask
        key = tuple([self.sign * one for one in place.position])
        heappush(self.heap, (key, len(self.heap), place))

    def pop(self) -> tuple[Place, Mask]:
        """The next place, with its elements."""
        place = heappop(self.heap)[-1]
        return place, self.masks.pop(place)


def _is_on_the_way(place: Place) -> bool:
    """Whether a value of an iteration is the user's, and not only handed to the next one."""
    frame, node = place.frame, place.node
    if frame.body is None or frame.holder is None or node.origin.transform:
        return False
    constants, carries = carried(frame.holder.node)
    states = [one.node for one in frame.graph.inputs[constants : constants + carries]]
    is_sum = gives_derivatives(frame.body) and node in states
    return not is_sum and node not in [one for _, one in frame.graph.outputs]


def _in_columns(masks: Collection[Mask]) -> str:
    """`in columns 2, 5` where the masks are some indices of the last axis, throughout; else ""."""
    if any(one.ndim < 2 for one in masks):
        return ""
    found = {tuple(np.flatnonzero(one.any(axis=tuple(range(one.ndim - 1))))) for one in masks}
    few = found.pop()
    size = next(iter(masks)).shape[-1]
    is_throughout = all(one[..., list(few)].all() for one in masks)
    if found or not 0 < len(few) < min(size, MOST_COLUMNS + 1) or not is_throughout:
        return ""
    return f"in column{'s' * (len(few) > 1)} {', '.join(map(str, few))}"


def _is_unused(reader: Place) -> bool:
    """Whether a branch or an iteration gives zeros as the derivative of what it does not use."""
    body = reader.frame.body
    if reader.node.inputs or body is None:
        return False
    return gives_derivatives(body) and reader.node in [one for _, one in body.graph.outputs]


def _forward(reader: Place, where: int, part: Mask) -> Change:
    """From elements of an operand to those of the reader that came to it."""
    frame, node = reader.frame, reader.node

    def changed(mask: Mask) -> Mask:
        goes_by_index = node.primitive in (gather, scatter_add)
        operands = [frame.values[one] for one in node.inputs] if goes_by_index else ()
        return flow.forward(node, where, mask, operands) & part

    return changed


def _reached(
    start: Place,
    ends: Mapping[Place, Mask],
    onward: Links,
    names: Mapping[Node, str] | None = None,
    without: str = "",
) -> Mask:
    """The elements of `start` that the walk came from, when it ended at these elements; only where
    it did not pass a value of the name `without`."""
    queue = _Queue(last=False)
    for place, mask in ends.items():
        queue.add(place, mask)
    while queue:
        place, mask = queue.pop()
        if place == start:
            return mask
        for reader, forward in onward[place]:
            if without and names and names.get(reader.node) == without:
                continue
            queue.add(reader, forward(mask))
    return np.zeros(start.node.shape, bool)

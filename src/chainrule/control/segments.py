"""Runs loops again segment by segment, so that their backward passes read fewer states.

The backward pass of a scan reads the state that each iteration began with.  In segments, only the
states that segments begin with are kept (Chen et al., 2016, "Training Deep Nets with Sublinear
Memory Cost"); before the way back enters a segment, its states are computed again.  The last
iterations, whose states the way back reads first, are kept, and not computed again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from chainrule.control.joined import done_by
from chainrule.control.kept import kept, kept_inside
from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.packing import in_parts, some_rows, stacked_type
from chainrule.control.scan_node import scan
from chainrule.control.scan_rules import loop_of, shown_carries, variable
from chainrule.control.segment_counts import Segments, least_states, segments
from chainrule.control.stacked_rows import stacked_by
from chainrule.control.sums import Sums, block_of, parts_after, run, sums_of
from chainrule.dataclass import dataclass, replace
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.primitives.movement import concatenate, reshape


@dataclass(frozen=True, eq=False)
class Way:
    """A loop and the scan `back` that goes back through it; the scan `saved` stacks its states.

    `rows` gives for each slice of `back` (by the node that stands for it in its body) the carry of
    the loop whose values before each iteration it reads.
    """

    there: Loop
    saved: Node
    back: Node
    rows: Mapping[Node, int]

    @property
    def iterations(self) -> int:
        """How many there are."""
        assert isinstance(self.there.length, int)
        return self.there.length

    @property
    def block(self) -> int:
        """The iterations of a block, if sums are made after the loop (`sums.run`); else 0."""
        loop = loop_of(self.back, self.back.inputs)
        block = block_of(self.iterations, {})
        assert isinstance(block, int)
        return block if block and sums_of(loop, self.back.dtype, {}) else 0

    @property
    def read(self) -> list[int]:
        """The carries of the loop that an iteration back reads, each once."""
        return list(dict.fromkeys(self.rows.values()))

    @property
    def state_nbytes(self) -> int:
        """The bytes of what an iteration back reads of the loop's state."""
        return sum(int(self.there.carries[i].before.type.nbytes) for i in self.read)


def ways_back(graph: Graph) -> list[Way]:
    """The scans of a concrete graph that alone read the states of another one.

    A scan gives values of one dtype: of states of several dtypes, the largest are segmented.
    """
    users: dict[Node, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for parent in node.inputs:
            users[parent].append(node)
    found = []
    for node in graph.nodes:
        if node.primitive is not scan:
            continue
        loop = loop_of(node, node.inputs)
        rows: dict[Node, dict[Node, int]] = defaultdict(dict)  # by the scan that stacks them
        for one in loop.slices:
            seen = _before(one.outer, users, node)
            if seen is not None:
                rows[seen[0]][one.inner] = seen[1]
        ways = []
        for saved, some in rows.items():
            there = loop_of(saved, saved.inputs)
            if there.length == loop.length and there.reverse is not loop.reverse:
                ways.append(Way(there, saved, node, some))
        if ways:
            found.append(max(ways, key=lambda way: way.state_nbytes))
    return found


def _before(rows: Node, users: Mapping[Node, list[Node]], reader: Node) -> tuple[Node, int] | None:
    """The scan that stacks the values of a carry before each iteration, and which carry it is;
    None where the rows are something else, or have another reader."""
    found = stacked_by(rows)
    if found is None or not isinstance(found.whole.param("length"), int):
        return None
    if any(users[one] != [after] for after, one in pairwise([reader, *(found.views or [rows])])):
        return None
    befores = [one.before for one in loop_of(found.whole, found.whole.inputs).carries]
    return (found.whole, befores.index(found.value)) if found.value in befores else None


def in_segments(
    graph: Graph,
    choose: Callable[[Way], Segments | None],
    forward: Mapping[Node, tuple[Node, tuple[int, ...]]] = {},
    *,
    sums_after: bool = True,
) -> tuple[Graph, dict[Node, Node]]:
    """The graph in which the states of loops are computed again, segment by segment, and what each
    of its nodes became; `choose` says how, None for a loop whose states are all kept.

    Loops of `forward` keep, for these ways back, the states with which segments begin: nothing is
    done for them alone, but they take bytes from then on.  The same bodies give the same bits; with
    `sums_after` those of `sums.summed`, where segments hold whole blocks (`Way.block`).
    """
    chosen = {way.back: (way, how) for way in ways_back(graph) if (how := choose(way))}
    gone: dict[Node, _There] = {}  # by the way back

    def parts(node: Node, inputs: tuple[Node, ...], new: Mapping[Node, Node]) -> list[Any] | None:
        back, read = forward.get(node, (None, ()))
        if back is not None and back in chosen:
            loop = loop_of(node, inputs)
            shown = shown_carries(node, loop)
            gone[back] = _there(_stacking(loop, read), chosen[back][1], shown)
            return [gone[back].finals[i] for i in shown]
        if node not in chosen:
            return parts_after(node, inputs, {}) if sums_after else None
        way, how = chosen[node]
        if node not in gone:
            gone[node] = _there(_stacking(way.there.on(new), way.read), how, ())
        sums = Sums(node.dtype, way.block if sums_after else 0)
        return _segmented(way, how, new, gone[node], sums)

    return in_parts(graph, parts)


def _forward(
    graph: Graph, ways: Sequence[Way], *, sums_after: bool
) -> dict[Node, tuple[Node, tuple[int, ...]]]:
    """The loops of final states alone that do all which the way there of a way back does: with that
    way back, and which of their carries it reads.  Not those whose sums are made after them."""
    scans = [node for node in graph.nodes if node.primitive is scan]
    finals = [node for node in scans if not loop_of(node, node.inputs).stacked]
    if sums_after:
        finals = [node for node in finals if parts_after(node, node.inputs, {}) is None]
    found: dict[Node, tuple[Node, tuple[int, ...]]] = {}
    for way in ways:
        for one in finals:
            for match in done_by(one, [way.saved]):
                found.setdefault(one, (way.back, tuple([match.carries[i] for i in way.read])))
    return found


def shorter(graph: Graph, sums_after: bool) -> Iterator[Graph]:
    """The graph with fewer and fewer states of its loops kept, as far as segments go.

    First three quarters of them, then a half, a quarter, ...; each with and without what is done
    once for a forward pass and its way back, and what is kept of a segment beside its states.
    """
    ways = ways_back(graph)
    blocks = {way: way.block if sums_after else 0 for way in ways}
    least = {way: least_states(way.iterations, blocks[way]) for way in ways}
    forward = _forward(graph, ways, sums_after=sums_after)
    before: dict[Node, Segments | None] = {}
    for part in (4 / 3, *(2.0**power for power in range(1, 64))):
        chosen = {
            way.back: _chosen(way, max(least[way], int(way.iterations / part)), blocks[way])
            for way in ways
        }
        if chosen != before and any(chosen.values()):
            for some in (forward, {}) if forward else ({},):
                found, _ = in_segments(
                    graph, lambda way, chosen=chosen: chosen[way.back], some, sums_after=sums_after
                )
                yield from dict.fromkeys([kept_inside(kept(found, {})), found])
        before = chosen
        if all(way.iterations / part < least[way] for way in ways):
            return


def _chosen(way: Way, states: int, block: int) -> Segments | None:
    """Even segments where the way back stacks values: those of the rest are joined to them, which
    takes their bytes twice."""
    stacks = len(way.back.param("body").graph.outputs) > way.back.param("carries")
    more = states + states // 4
    even = segments(way.iterations, more, even=True, block=block) if stacks else None
    return even or segments(way.iterations, states, block=block)


@dataclass(frozen=True, eq=False)
class _There:
    """What a loop keeps for its way back: the states with which segments begin, and those of the
    rest; `finals` are its carries after all of it, by their numbers."""

    loop: Loop
    starts: Mapping[int, Any]
    rest: Mapping[int, Any]
    finals: Mapping[int, Any]


def _there(loop: Loop, how: Segments, finals: Sequence[int]) -> _There:
    """A loop that stacks states, and these of its final carries."""
    covered, rest = _ranges(loop, how)
    starts, ends = _starts(_at(loop, *covered), how, finals)
    if not how.rest:
        return _There(loop, starts, {}, ends)
    last = _from(_at(loop, *rest), ends)
    ends, rows = last.run(scan, finals, range(len(loop.stacked)))
    return _There(loop, starts, rows, ends)


def _stacking(loop: Loop, carries: Sequence[int]) -> Loop:
    """The loop that stacks these of its states."""
    return replace(loop, stacked=tuple([loop.carries[i].before for i in carries]))


def _ranges(there: Loop, how: Segments) -> tuple[tuple[int, int], tuple[int, int]]:
    """The rows of the iterations in segments, and of the rest."""
    if there.reverse:
        return (how.rest, how.again + how.rest), (0, how.rest)
    return (0, how.again), (how.again, how.again + how.rest)


def _segmented(
    way: Way, how: Segments, new: Mapping[Node, Node], kept: _There, sums: Sums
) -> list[Any]:
    """The parts of the flat result of the way back."""
    there, back = kept.loop, loop_of(way.back, way.back.inputs).on(new)
    place_of = {inner: way.read.index(i) for inner, i in way.rows.items()}
    carries, stacks = range(len(back.carries)), range(len(back.stacked))
    covered, rest = _ranges(there, how)
    finals: Mapping[int, Any] = {}
    last: Mapping[int, Any] = {}
    if how.rest:
        back_at_once = _reading(_at(back, *rest), place_of, kept.rest)
        finals, last = run(back_at_once, carries, stacks, sums)
    going_back = _from(_at(back, *covered), finals)
    inside = _at(there, *covered)
    finals, found = _back_through(inside, going_back, how, place_of, kept.starts, sums)
    values = [finals[i] for i in shown_carries(way.back, back)]
    for place in stacks:
        both = [found[place], last[place]] if how.rest else [found[place]]
        both = both[::-1] if there.reverse else both
        values.append(concatenate(*both, axis=0) if how.rest else both[0])
    return values


def _starts(
    there: Loop, how: Segments, finals: Sequence[int]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """The state with which each segment begins, as rows, and the state after the last one.

    Of carries, only those are rows that the rows of a segment are computed from; and besides, only
    `finals` are in the state, with what they are computed from.
    """
    stacked = range(len(there.stacked))
    kept, needed = (there.reads(some, stacked) for some in ((), finals))
    rows = [i for i, one in enumerate(there.carries) if one.before in kept]
    some = [i for i, one in enumerate(there.carries) if one.before in needed]
    one = _Inside(there, how)
    afters = one.loop.run(scan, some, ())[0]
    carries = [
        replace(c, before=one.befores[i], after=afters.get(i, one.befores[i]))
        for i, c in enumerate(there.carries)
    ]
    outer = one.around(
        f"{there.name}_segments", carries, [one.befores[i] for i in rows], there.reverse
    )
    ends, begun = outer.run(scan, some, range(len(rows)))
    return {i: begun[place] for place, i in enumerate(rows)}, ends


def _back_through(
    there: Loop,
    back: Loop,
    how: Segments,
    place_of: Mapping[Node, int],
    starts: Mapping[int, Any],
    sums: Sums,
) -> tuple[dict[int, Any], dict[int, Any]]:
    """The final carries of the way back through all segments, and what it stacks."""
    forth = _Inside(there, how)
    one = _Inside(back, how, without=place_of, beside=forth)
    begun = [Given(there.carries[i].name, rows, forth.befores[i]) for i, rows in starts.items()]
    states = forth.loop.run(scan, (), range(len(there.stacked)))[1]
    inner = _reading(one.loop, place_of, states)
    afters, stacks = run(inner, range(len(back.carries)), range(len(back.stacked)), sums)
    carries = [
        replace(c, before=one.befores[i], after=afters[i]) for i, c in enumerate(back.carries)
    ]
    outer = one.around(f"{back.name}_segments", carries, [*stacks.values()], back.reverse)
    outer = replace(
        outer,
        constants=tuple(dict.fromkeys((*forth.constants, *outer.constants))),
        slices=(*begun, *dict.fromkeys((*forth.slices, *outer.slices))),
    )
    finals, rows = outer.run(scan, range(len(carries)), range(len(stacks)))
    places = dict(zip(stacks, range(len(stacks)), strict=True))
    shapes = {i: stacked_type(back.stacked[i].type, back.length).shape for i in stacks}
    return finals, {i: reshape(rows[places[i]], shape=shapes[i]) for i in stacks}


class _Inside:
    """A loop as it is done for one segment, inside of a loop over segments.

    `constants` and `slices` are what the outer loop gives it; `befores` stand for its first state.
    What a loop `beside` it is given, too, is given once.
    """

    def __init__(
        self,
        loop: Loop,
        how: Segments,
        without: Collection[Node] = (),
        beside: _Inside | None = None,
    ) -> None:
        self.how = how
        self.given: dict[tuple[Node, bool], Given] = {} if beside is None else dict(beside.given)
        self.constants = tuple([self._given(one, whole=True) for one in loop.constants])
        self.befores = [variable(one.before) for one in loop.carries]
        rest = [one for one in loop.slices if one.inner not in without]
        self.slices = tuple([self._given(one, whole=False) for one in rest])
        rows = iter(self.slices)
        self.loop = replace(
            loop,
            constants=tuple(
                [
                    replace(one, outer=given.inner)
                    for one, given in zip(loop.constants, self.constants, strict=True)
                ]
            ),
            carries=tuple(
                [
                    replace(one, initial=before)
                    for one, before in zip(loop.carries, self.befores, strict=True)
                ]
            ),
            slices=tuple(
                [
                    one if one.inner in without else replace(one, outer=next(rows).inner)
                    for one in loop.slices
                ]
            ),
            length=how.length,
        )

    def _given(self, one: Given, *, whole: bool) -> Given:
        """What the outer loop gives it: all of it, or the rows of a segment."""
        if (one.outer, whole) not in self.given:
            outer, axes = one.outer, ()
            if not whole:
                outer, axes = _folded(outer, self.how), (self.how.length,)
            self.given[one.outer, whole] = Given(one.name, outer, variable(one.inner, *axes))
        return self.given[one.outer, whole]

    def around(
        self, name: str, carries: Sequence[Carry], stacked: Sequence[Node], reverse: bool
    ) -> Loop:
        """The loop over all segments."""
        count = self.how.count
        return Loop(
            name, self.constants, tuple(carries), self.slices, tuple(stacked), count, reverse
        )


def _folded(rows: Node, how: Segments) -> Any:
    """Rows by segments."""
    return reshape(rows, shape=(how.count, how.length, *rows.shape[1:]))


def _at(loop: Loop, start: int, stop: int) -> Loop:
    """The iterations that read these rows."""
    slices = [replace(one, outer=some_rows(one.outer, start, stop)) for one in loop.slices]
    return replace(loop, slices=tuple(slices), length=stop - start)


def _reading(loop: Loop, place_of: Mapping[Node, int], rows: Mapping[int, Any]) -> Loop:
    """The loop that reads these states."""
    slices = [
        replace(one, outer=rows[place_of[one.inner]]) if one.inner in place_of else one
        for one in loop.slices
    ]
    return replace(loop, slices=tuple(slices))


def _from(loop: Loop, state: Mapping[int, Any]) -> Loop:
    """The loop that begins with this state, where it is given."""
    carries = [
        replace(one, initial=state.get(i, one.initial)) for i, one in enumerate(loop.carries)
    ]
    return replace(loop, carries=tuple(carries))

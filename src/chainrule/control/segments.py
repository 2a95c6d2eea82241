"""Runs loops again segment by segment, so that their backward passes read fewer states.

The backward pass of a scan reads the state that each iteration began with.  In segments, only the
states that segments begin with are kept (Chen et al., 2016, "Training Deep Nets with Sublinear
Memory Cost"); before the way back enters a segment, its states are computed again.  The last
iterations, whose states the way back reads first, are kept, and not computed again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from chainrule.control.loops import Carry, Given, Loop
from chainrule.control.packing import packed, stacked_type
from chainrule.control.scan_node import scan
from chainrule.control.scan_rules import loop_of, shown_carries, variable
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.rebuild import resting_on
from chainrule.plan.roles import WORTH_COMPILING
from chainrule.primitives.movement import concatenate, reshape, slice_

LEAST = WORTH_COMPILING  # iterations of any loop


@dataclass(frozen=True)
class Segments:
    """`count` segments of `length` iterations each, and then `rest` iterations that are kept."""

    count: int
    length: int
    rest: int

    @property
    def states(self) -> int:
        """The number of states that are kept at one time."""
        return self.count + max(self.length, self.rest)

    @property
    def again(self) -> int:
        """The number of iterations that are computed again."""
        return self.count * self.length


def segments(iterations: int, states: int, *, even: bool = False) -> Segments | None:
    """Those with which at most so many states are kept, and the fewest iterations done again; None
    where there are none.

    With q segments of s iterations and s kept ones, q + s states make (q + 1) s iterations.  None
    of the loops is so short that compiled code would leave it to NumPy, with other bits.  With
    `even` all iterations are in segments.
    """
    found: list[Segments] = []
    for count in range(LEAST, states - LEAST + 1):
        longest = states - count
        rest = 0 if even else min(longest, iterations - count * LEAST)
        length = -(-(iterations - rest) // count)
        rest = iterations - count * length
        if LEAST <= length <= longest and (rest == 0 or (rest >= LEAST and not even)):
            found.append(Segments(count, length, rest))
    return min(found, key=lambda one: one.again, default=None)


@dataclass(frozen=True, eq=False)
class Way:
    """A loop and the scan `back` that goes back through it.

    `rows` gives for each slice of `back` (by the node that stands for it in its body) the carry of
    the loop whose values before each iteration it reads.
    """

    there: Loop
    back: Node
    rows: Mapping[Node, int]

    @property
    def iterations(self) -> int:
        """How many there are."""
        assert isinstance(self.there.length, int)
        return self.there.length

    @property
    def state_nbytes(self) -> int:
        """The bytes of what an iteration back reads of the loop's state."""
        carries = dict.fromkeys(self.rows.values())
        return sum(int(self.there.carries[i].before.type.nbytes) for i in carries)


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
                ways.append(Way(there, node, some))
        if ways:
            found.append(max(ways, key=lambda way: way.state_nbytes))
    return found


def _before(rows: Node, users: Mapping[Node, list[Node]], reader: Node) -> tuple[Node, int] | None:
    """The scan that stacks the values of a carry before each iteration, and which carry it is;
    None where the rows are something else, or have another reader."""
    chain = [rows]
    while chain[-1].primitive in (reshape, slice_):
        chain.append(chain[-1].inputs[0])
    saved, *views = reversed(chain)
    if saved.primitive is not scan or users[rows] != [reader]:
        return None
    if any(users[one] != [after] for one, after in pairwise(views)):
        return None
    if not isinstance(saved.param("length"), int):
        return None
    there = loop_of(saved, saved.inputs)
    start = sum(there.carries[i].before.type.size for i in shown_carries(saved, there))
    for node in there.stacked:
        size = stacked_type(node.type, there.length).size
        befores = [one.before for one in there.carries]
        if _start(views) == start and rows.type.size == size and node in befores:
            return saved, befores.index(node)
        start += size
    return None


def _start(views: list[Node]) -> Any:
    """Where in a flat array the elements of its views begin."""
    return sum(view.param("start")[0] for view in views if view.primitive is slice_)


def in_segments(
    graph: Graph, choose: Callable[[Way], Segments | None]
) -> tuple[Graph, dict[Node, Node]]:
    """The graph in which the states of loops are computed again, segment by segment, and what each
    of its nodes became; `choose` says how, None for a loop whose states are all kept.

    Values have the same bits: the same bodies are done in the same order.
    """
    chosen = {way.back: (way, how) for way in ways_back(graph) if (how := choose(way))}
    new: dict[Node, Node] = {}
    parts: dict[Node, list[Any]] = {}
    for node in graph.nodes:
        inputs = tuple([new[parent] for parent in node.inputs])
        whole = node.inputs[0] if node.inputs else None
        if node in chosen:
            parts[node] = _segmented(*chosen[node], new)
            new[node] = packed(parts[node], node.dtype)
        elif whole in parts and (part := part_of(node, parts[whole])) is not None:
            new[node] = part
        elif inputs == node.inputs:
            new[node] = node
        else:
            new[node] = node.with_inputs(inputs)
    return resting_on(graph, new), new


def shorter(graph: Graph) -> Iterator[Graph]:
    """The graph with fewer and fewer states of its loops kept, as far as segments go.

    First three quarters of them, then a half, a quarter, ...
    """
    ways = ways_back(graph)
    least = {way: least_states(way.iterations) for way in ways}
    before: dict[Node, Segments | None] = {}
    for part in (4 / 3, *(2.0**power for power in range(1, 64))):
        chosen = {
            way.back: _chosen(way, max(least[way], int(way.iterations / part))) for way in ways
        }
        if chosen != before and any(chosen.values()):
            yield in_segments(graph, lambda way, chosen=chosen: chosen[way.back])[0]
        before = chosen
        if all(way.iterations / part < least[way] for way in ways):
            return


def _chosen(way: Way, states: int) -> Segments | None:
    """Even segments where the way back stacks values: those of the rest are joined to them, which
    takes their bytes twice."""
    stacks = len(way.back.param("body").graph.outputs) > way.back.param("carries")
    even = segments(way.iterations, states + states // 4, even=True) if stacks else None
    return even or segments(way.iterations, states)


def least_states(iterations: int) -> int:
    """The least states with which so many iterations can be gone back through in segments; all of
    them where they are too few for segments."""
    return next((n for n in range(2 * LEAST, iterations) if segments(iterations, n)), iterations)


def part_of(view: Node, parts: Sequence[Any]) -> Any:
    """The part that a slice of the flat result is; None where it is another one."""
    start = 0
    for part in parts:
        if view.primitive is slice_ and (view.param("start")[0], view.shape[0]) == (
            start,
            part.type.size,
        ):
            return reshape(part, shape=view.shape)
        start += part.type.size
    return None


def _segmented(way: Way, how: Segments, new: Mapping[Node, Node]) -> list[Any]:
    """The parts of the flat result of the way back."""
    there, back = _on(way.there, new), _on(loop_of(way.back, way.back.inputs), new)
    read = list(dict.fromkeys(way.rows.values()))
    there = replace(there, stacked=tuple([there.carries[i].before for i in read]))
    place_of = {inner: read.index(i) for inner, i in way.rows.items()}
    carries, stacks = range(len(back.carries)), range(len(back.stacked))
    ranges = (0, how.again), (how.again, how.again + how.rest)
    if there.reverse:
        ranges = (how.rest, how.again + how.rest), (0, how.rest)
    covered, rest = ranges

    starts, ends = _starts(_at(there, *covered), how)
    finals: Mapping[int, Any] = {}
    kept: Mapping[int, Any] = {}
    if how.rest:
        rows = _from(_at(there, *rest), ends).run(scan, (), range(len(read)))[1]
        finals, kept = _reading(_at(back, *rest), place_of, rows).run(scan, carries, stacks)
    going_back = _from(_at(back, *covered), finals)
    finals, found = _back_through(_at(there, *covered), going_back, how, place_of, starts)
    values = [finals[i] for i in shown_carries(way.back, back)]
    for place in stacks:
        both = [found[place], kept[place]] if how.rest else [found[place]]
        both = both[::-1] if there.reverse else both
        values.append(concatenate(*both, axis=0) if how.rest else both[0])
    return values


def _starts(there: Loop, how: Segments) -> tuple[dict[int, Any], dict[int, Any]]:
    """The state with which each segment begins, as rows, and the state after the last one.

    Only the carries that the rows of a segment are computed from are there.
    """
    needed = there.reads((), range(len(there.stacked)))
    some = [i for i, one in enumerate(there.carries) if one.before in needed]
    one = _Inside(there, how)
    afters = one.loop.run(scan, some, ())[0]
    carries = [
        replace(c, before=one.befores[i], after=afters.get(i, one.befores[i]))
        for i, c in enumerate(there.carries)
    ]
    outer = one.around(
        f"{there.name}_segments", carries, [one.befores[i] for i in some], there.reverse
    )
    ends, rows = outer.run(scan, some, range(len(some)))
    return {i: rows[place] for place, i in enumerate(some)}, ends


def _back_through(
    there: Loop, back: Loop, how: Segments, place_of: Mapping[Node, int], starts: Mapping[int, Any]
) -> tuple[dict[int, Any], dict[int, Any]]:
    """The final carries of the way back through all segments, and what it stacks."""
    forth, one = _Inside(there, how), _Inside(back, how, without=place_of)
    begun = [Given(there.carries[i].name, rows, forth.befores[i]) for i, rows in starts.items()]
    states = forth.loop.run(scan, (), range(len(there.stacked)))[1]
    inner = _reading(one.loop, place_of, states)
    afters, stacks = inner.run(scan, range(len(back.carries)), range(len(back.stacked)))
    carries = [
        replace(c, before=one.befores[i], after=afters[i]) for i, c in enumerate(back.carries)
    ]
    outer = one.around(f"{back.name}_segments", carries, [*stacks.values()], back.reverse)
    outer = replace(
        outer,
        constants=(*forth.constants, *outer.constants),
        slices=(*begun, *forth.slices, *outer.slices),
    )
    finals, rows = outer.run(scan, range(len(carries)), range(len(stacks)))
    places = dict(zip(stacks, range(len(stacks)), strict=True))
    shapes = {i: stacked_type(back.stacked[i].type, back.length).shape for i in stacks}
    return finals, {i: reshape(rows[places[i]], shape=shapes[i]) for i in stacks}


class _Inside:
    """A loop as it is done for one segment, inside of a loop over segments.

    `constants` and `slices` are what the outer loop gives it; `befores` stand for its first state.
    """

    def __init__(self, loop: Loop, how: Segments, without: Collection[Node] = ()) -> None:
        self.how = how
        self.constants = tuple([replace(g, inner=variable(g.inner)) for g in loop.constants])
        self.befores = [variable(one.before) for one in loop.carries]
        self.slices = tuple(
            [
                Given(g.name, _folded(g.outer, how), variable(g.inner, how.length))
                for g in loop.slices
                if g.inner not in without
            ]
        )
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
    slices = [replace(one, outer=_rows(one.outer, start, stop)) for one in loop.slices]
    return replace(loop, slices=tuple(slices), length=stop - start)


def _rows(array: Node, start: int, stop: int) -> Any:
    if (start, stop) == (0, array.shape[0]):
        return array
    others = (0,) * (array.ndim - 1)
    shape = (stop - start, *array.shape[1:])
    return slice_(array, start=(start, *others), step=(1,) * array.ndim, shape=shape)


def _reading(loop: Loop, place_of: Mapping[Node, int], rows: Mapping[int, Any]) -> Loop:
    """The loop that reads these states."""
    slices = [
        replace(one, outer=rows[place_of[one.inner]]) if one.inner in place_of else one
        for one in loop.slices
    ]
    return replace(loop, slices=tuple(slices))


def _on(loop: Loop, new: Mapping[Node, Node]) -> Loop:
    """The loop on what its operands became."""
    return replace(
        loop,
        constants=tuple([replace(one, outer=new[one.outer]) for one in loop.constants]),
        carries=tuple([replace(one, initial=new[one.initial]) for one in loop.carries]),
        slices=tuple([replace(one, outer=new[one.outer]) for one in loop.slices]),
    )


def _from(loop: Loop, state: Mapping[int, Any]) -> Loop:
    """The loop that begins with this state, where it is given."""
    carries = [
        replace(one, initial=state.get(i, one.initial)) for i, one in enumerate(loop.carries)
    ]
    return replace(loop, carries=tuple(carries))

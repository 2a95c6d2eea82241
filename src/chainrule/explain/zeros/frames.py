"""Opens loops and choices for the walk: each turn is a frame with the values of its body."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from chainrule.control.cond_node import cond
from chainrule.control.replay import Turn, carried, parts, turns
from chainrule.control.wording import users_name
from chainrule.dataclass import dataclass, field
from chainrule.errors import ChainruleError
from chainrule.execute.reference import apply
from chainrule.explain.zeros.causes import Splitter
from chainrule.graph.body import Body
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

MOST_VISITS = 200_000  # of nodes in turns, by the walk
OPENED = 10  # nodes that are computed count as one visit
MOST_ELEMENTS = 50_000_000  # of all values in them: the walk has a bit mask for each
OPEN = 8  # frames whose values are there at a time; others are computed again

Mask = np.ndarray
Change = Callable[[Mask], Mask]


@dataclass(frozen=True)
class Way:
    """Where a value comes from that is handed on: `back` makes of a mask of its elements that of
    the source's, `forward` the other way; `is_row` if it is read at one time only."""

    source: Place
    back: Change
    forward: Change
    is_row: bool = False


@dataclass(eq=False)
class Frame:
    """One evaluation of a graph: the program, or a turn of a loop or a choice in `holder`.

    `number` counts the turns in the order in which they are done, `row` is that of the slices.
    `ways` say where the inputs of a body come from.
    """

    graph: Graph
    values: Mapping[Node, np.ndarray]
    given: frozenset[Node]
    position: tuple[float, ...] = ()
    holder: Place | None = None
    body: Body | None = None
    row: int = 0
    ways: dict[Node, Way] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.order = {node: place for place, node in enumerate(self.graph.nodes)}
        self.splitter = Splitter(self.values, self.given)

    @property
    def name(self) -> str:
        """The user's function of a body; "" of a lambda."""
        return "" if self.body is None else users_name(self.body)

    @property
    def outwards(self) -> Iterator[Frame]:
        """This frame and those around it, but the program's."""
        frame: Frame | None = self
        while frame is not None and frame.holder is not None:
            yield frame
            frame = frame.holder.frame


@dataclass(frozen=True)
class Place:
    """A node of a frame."""

    frame: Frame
    node: Node

    @property
    def position(self) -> tuple[float, ...]:
        """Grows along the way of data: what a loop computes comes after what it reads, and before
        its result."""
        return (*self.frame.position, self.frame.order[self.node], np.inf)


class _Values(Mapping[Node, np.ndarray]):
    """The values of a body on its inputs; computed when they are asked for, and dropped when others
    are."""

    def __init__(
        self, graph: Graph, inputs: Sequence[np.ndarray], recent: OrderedDict[_Values, None]
    ) -> None:
        self.graph, self.inputs, self.recent = graph, inputs, recent
        self.found: dict[Node, np.ndarray] | None = None

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __getitem__(self, node: Node) -> np.ndarray:
        if self.found is None:
            self.found = self._computed()
            while len(self.recent) >= OPEN:
                self.recent.popitem(last=False)[0].found = None
        self.recent[self] = None
        self.recent.move_to_end(self)
        return self.found[node]

    def _computed(self) -> dict[Node, np.ndarray]:
        names = [item.node for item in self.graph.inputs]
        found = dict(zip(names, self.inputs, strict=True))
        with np.errstate(all="ignore"):
            for node in self.graph.nodes:
                if node not in found:
                    found[node] = apply(node, [found[one] for one in node.inputs], ())
        return found

    def __iter__(self) -> Iterator[Node]:
        return iter(self.graph.nodes)

    def __len__(self) -> int:
        return len(self.graph.nodes)


class Frames:
    """The frames of loops and choices, made when the walk comes to them."""

    def __init__(self, visits: int = MOST_VISITS, elements: int = MOST_ELEMENTS) -> None:
        self.visits, self.elements = visits, elements
        self.made: dict[Place, list[Frame] | None] = {}
        self.recent: OrderedDict[_Values, None] = OrderedDict()

    def ways(self, place: Place) -> list[Way] | None:
        """Where the elements of a loop's or a choice's result come from; None where looking takes
        too long, or the loop cannot be done."""
        if self.visits < 0:
            return None
        if place not in self.made:
            try:
                self.made[place] = self._opened(place)
            except ChainruleError:
                self.made[place] = None
        frames = self.made[place]
        return None if frames is None else list(_out_of(place, frames))

    def _opened(self, place: Place) -> list[Frame] | None:
        frame, node = place.frame, place.node
        operands = [frame.values[one] for one in node.inputs]
        constants = carried(node)[0]
        found: list[Frame] = []
        for turn in turns(node, operands):
            nodes = turn.body.graph.nodes
            self.visits -= -(-len(nodes) // OPENED)
            self.elements -= sum(int(one.type.size) for one in nodes)
            if self.visits < 0 or self.elements < 0:
                return None
            steered = operands[1:] if node.primitive is cond else operands
            inputs = [*steered[:constants], *turn.inputs[constants:]]  # a turn has copies
            found.append(self._frame(place, found, turn, inputs))
        return found

    def _frame(
        self, holder: Place, earlier: list[Frame], turn: Turn, inputs: Sequence[np.ndarray]
    ) -> Frame:
        graph = turn.body.graph
        names = [item.node for item in graph.inputs]
        ways = dict(zip(names, _into(holder, earlier, turn), strict=True))
        known = [one for one, way in ways.items() if _is_given(way.source)]
        return Frame(
            graph,
            _Values(graph, inputs, self.recent),
            depending(graph, known),
            (*holder.position[:-1], len(earlier)),
            holder,
            turn.body,
            turn.row,
            ways,
        )


def depending(graph: Graph, given: Sequence[Node]) -> frozenset[Node]:
    """The nodes that depend on any of the given ones."""
    found = set(given)
    for node in graph.nodes:
        if any(one in found for one in node.inputs):
            found.add(node)
    return frozenset(found)


def _is_given(source: Place) -> bool:
    """Whether a value is the program's, and not a zero with which a derivative begins."""
    return source.node in source.frame.given or not source.node.origin.transform


def _same(mask: Mask) -> Mask:
    return mask


def _into(holder: Place, earlier: Sequence[Frame], turn: Turn) -> Iterator[Way]:
    """Where each input of a body comes from: an operand, a row of one, or the turn before."""
    node, outer = holder.node, holder.frame
    if node.primitive is cond:
        yield from (Way(Place(outer, one), _same, _same) for one in node.inputs[1:])
        return
    constants, carries = carried(node)
    yield from (Way(Place(outer, one), _same, _same) for one in node.inputs[:constants])
    keys = [key for key, _ in node.params]
    operands = node.inputs[constants:]
    if "states" in keys:  # the way back through a loop, which is done before
        yield from _into_both_ways(holder, earlier, turn)
        return
    before = earlier[-1] if earlier else None
    yield from (_carry(holder, before, operands[number], number) for number in range(carries))
    yield from (_row(Place(outer, one), turn.row) for one in operands[carries:])


def _into_both_ways(holder: Place, earlier: Sequence[Frame], turn: Turn) -> Iterator[Way]:
    node = holder.node
    step, states = node.param("step"), node.param("states")
    operands = node.inputs[node.param("constants") :]
    forth = [one for one in earlier if one.graph is step.graph]
    begun = forth[turn.row - 1] if turn.row else None
    yield from (_carry(holder, begun, operands[number], number) for number in range(states))
    if turn.body is step:
        return
    gone = earlier[-1] if len(earlier) > len(forth) else None
    others = operands[states:]
    yield from (_carry(holder, gone, one, number) for number, one in enumerate(others))


def _carry(holder: Place, before: Frame | None, initial: Node, number: int) -> Way:
    if before is None:
        return Way(Place(holder.frame, initial), _same, _same)
    return Way(Place(before, before.graph.outputs[number][1]), _same, _same)


def _row(source: Place, row: int) -> Way:
    def back(mask: Mask) -> Mask:
        found = np.zeros([int(size) for size in source.node.shape], bool)
        found[row] = mask
        return found

    return Way(source, back, lambda mask: mask[row], is_row=True)


def _out_of(holder: Place, frames: Sequence[Frame]) -> Iterator[Way]:
    """The parts of the packed result: what the last turn leaves, and the rows of all turns."""
    node = holder.node
    params = dict(node.params)
    constants, count = carried(node)
    first = constants + params.get("states", 0)
    if "step" in params:  # the turns back give the result
        frames = [one for one in frames if one.graph is not params["step"].graph]
    body = params["if_true"] if node.primitive is cond else params["body"]
    types = [one.type for _, one in body.graph.outputs]
    for number in range(count):
        if types[number].dtype == node.dtype:
            before = frames[-1] if frames else None
            way = _carry(holder, before, node.inputs[first + number], number)
            yield _part(way.source, node, partial(_final, number))
    for number in range(count, len(types)):
        for frame in frames:
            source = Place(frame, frame.graph.outputs[number][1])
            yield _part(source, node, partial(_stacked, number - count, frame.row))


Parts = tuple[list[np.ndarray], list[np.ndarray]]  # what the last turn leaves, rows of all turns


def _final(number: int, both: Parts) -> np.ndarray:
    return both[0][number]


def _stacked(number: int, row: int, both: Parts) -> np.ndarray:
    return both[1][number][row, ...]


def _part(source: Place, node: Node, part: Callable[[Parts], np.ndarray]) -> Way:
    def forward(mask: Mask) -> Mask:
        found = np.zeros([int(size) for size in node.shape], bool)
        part(parts(node, found))[...] = mask  # which are views of it
        return found

    return Way(source, lambda mask: part(parts(node, mask)), forward)

"""Replay a schedule without computing: every value is there, unharmed, when it is read.

The simulator knows the graph and the records, and nothing of how a planner chose them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NoReturn

from chainrule.dataclass import dataclass
from chainrule.graph.node import Node
from chainrule.primitives.indexing import bounds
from chainrule.primitives.primitive import Gather, Given
from chainrule.schedule.lifetimes import Simulation, lifetimes_of
from chainrule.schedule.lives import BEFORE
from chainrule.schedule.names_in_messages import Wording
from chainrule.schedule.outline import arena_sizes, stored_under, stored_values
from chainrule.schedule.records import ALIGNMENT, SCRATCH, Buffer, Compute, Free, Schedule, View
from chainrule.schedule.virtual import lacking, operands_read
from chainrule.testing.simulator.in_place import rearranged_on_the_way
from chainrule.testing.simulator.indices import is_made_of_integers
from chainrule.testing.simulator.layout import Layout, layout_of_view, whole
from chainrule.testing.simulator.occupancy import Occupancy


def simulate(schedule: Schedule) -> Simulation:
    """Replay the schedule; what is found is when each value was there, and the peak.

    Raises ScheduleError at the first instruction that reads a value that is not there; computes
    one from others than the graph says; writes over a live value, outside the arena, off its
    alignment or in the wrong size; frees what is not there; or can fail, and does not say so, or
    does after a given array was overwritten.  At the end it raises for a result that is not there,
    or not in its place.
    """
    replay = _Replay(schedule)
    for instruction in schedule.instructions:
        replay.number += 1
        match instruction:
            case Compute():
                replay.compute(instruction)
            case View():
                replay.view(instruction)
            case Free():
                replay.free(instruction.node)
    replay.number += 1
    return replay.finish()


@dataclass(eq=False)
class _Life:
    """A value in its buffer, from `born` on."""

    node: Node
    buffer: Buffer
    born: int
    ended: int | None = None
    because: str = ""  # of which it ended: "instruction 3 (free h) has freed it"


@dataclass(frozen=True, eq=False)
class _Seen:
    """A value as bytes of the life that owns them: all of them, or a view, since `since`."""

    owner: _Life
    layout: Layout
    since: int


class _Replay:
    """The arenas while instruction `number` runs, and the lives that were lived in them."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.words, self.number = schedule, Wording(schedule), BEFORE
        self.lives: list[_Life] = []
        self.seen: dict[Node, _Seen] = {}  # how each value lies, or last lay, in memory
        self.occupied: defaultdict[str, Occupancy[_Life]] = defaultdict(Occupancy)
        self.first_update: int | None = None  # the instruction that first overwrote a given array
        self.in_range: dict[Node, tuple[int, int]] = {}  # of indices, by all checks so far
        self.nodes = frozenset(schedule.graph.nodes)
        self.stored = stored_values(schedule)
        self.extents = arena_sizes(schedule)
        self.given_at = {(b.arena, b.offset): n for n, b in schedule.given.items() if b.nbytes}
        self.given_arenas = {b.arena for b in schedule.given.values()} - {SCRATCH}
        if schedule.graph.sizes:
            self.fault(None, f"has a graph with named sizes: {', '.join(schedule.graph.sizes)}")
        for node, buffer in schedule.given.items():
            self.put(node, buffer)

    def fault(self, node: Node | None, what: str) -> NoReturn:
        self.words.fault(self.number, node, what)

    # What instructions do.

    def compute(self, kernel: Compute) -> None:
        """Check what the kernel reads and computes, then give its results their bytes."""
        reads: dict[Node, _Life] = {}
        for node in kernel.reads:
            if (real := stored_under(node, self.stored)) is not None:
                reads[real] = self.needed(real, "reads")
        self.check_dependencies(kernel)
        self.check_failure(kernel)
        into = dict(zip(kernel.nodes, kernel.into, strict=True))
        for node, source in kernel.in_place:
            old = reads.get(source)
            if old is not None and old.ended is None and into.get(node) == old.buffer:
                self.take_over(node, old, kernel, reads)
        for node, buffer in into.items():
            if buffer.arena in self.given_arenas:
                self.update(node, buffer, reads)
            self.put(node, buffer)
        if kernel.workspace is not None:
            self.check_place("works in", None, kernel.workspace)
            if kernel.workspace.arena != SCRATCH:
                self.fault(None, f"works in {kernel.workspace}, which is not scratch")

    def view(self, view: View) -> None:
        """Check that the view shows what the graph says, inside the bytes of its base."""
        node, of, name = view.node, view.of, self.words.name
        self.check_absent(node)
        if len(view.strides) != node.ndim:
            self.fault(node, f"has {len(view.strides)} strides for {self.words.typed(node)}")
        owner, base = self.needed(of, "views"), self.seen[of].layout
        layout, nbytes = Layout(base.offset + view.offset, view.strides), owner.buffer.nbytes
        low, high = layout.reach(node)
        if low < 0 or high > nbytes:
            found = f"bytes {low} to {high - 1} of the {nbytes} of {name(owner.node)}"
            self.fault(node, f"shows {name(node)} as {found}")
        right = layout_of_view(node, of, base, nbytes)
        if right is None:
            self.fault(node, f"shows {name(node)} as a view on {name(of)}, which it is not")
        if not layout.agrees(right, node):
            found = f"at byte {view.offset} of {name(of)} with strides {view.strides}"
            place = f"byte {right.offset - base.offset} with strides {right.strides}"
            self.fault(node, f"shows {name(node)} {found}; it lies at {place}")
        self.seen[node] = _Seen(owner, layout, self.number)

    def free(self, node: Node) -> None:
        """End the life of a value that owns its bytes."""
        owner = self.needed(node, "frees")
        if owner.node is not node:
            of = self.words.name(owner.node)
            self.fault(node, f"frees {self.words.name(node)}, which is a view on {of}")
        self.end(owner, f"{self.words.moment(self.number)} has freed it")

    def finish(self) -> Simulation:
        """What was found, once every result has proved to be there."""
        for node in self.schedule.results:
            self.needed(node, "needs")
        for old, new in self.schedule.overwrites.items():
            buffer, wanted = self.needed(new, "needs").buffer, self.schedule.given[old]
            name = self.words.name(new)
            if buffer != wanted:
                self.fault(new, f"finds {name} in {buffer}, but its place is {wanted}")
            if not self.seen[new].layout.agrees(whole(new), new):
                self.fault(new, f"finds {name} in {buffer} as a view, not in C order")
        lifetimes = lifetimes_of(self.schedule)
        read = [(one.node, one.buffer, one.born, one.ended) for one in lifetimes]
        assert read == [(o.node, o.buffer, o.born, o.ended) for o in self.lives]
        return Simulation(self.schedule, lifetimes)

    # How lives begin and end.

    def put(self, node: Node, buffer: Buffer) -> None:
        """A value begins to live in bytes that are free."""
        self.check_absent(node)
        if buffer.nbytes != node.type.nbytes:
            what = f"{self.words.typed(node)}, {node.type.nbytes} bytes"
            self.fault(node, f"puts {what}, into a buffer of {buffer.nbytes} bytes")
        self.check_place(f"puts {self.words.name(node)} into", node, buffer)
        life = _Life(node, buffer, self.number)
        self.lives.append(life)
        self.occupied[buffer.arena].add(life)
        self.seen[node] = _Seen(life, whole(node), self.number)

    def end(self, life: _Life, because: str) -> None:
        """The bytes of a life are free from now on."""
        life.ended, life.because = self.number, because
        self.occupied[life.buffer.arena].remove(life)

    def take_over(self, node: Node, old: _Life, kernel: Compute, reads: dict[Node, _Life]) -> None:
        """A written value takes the bytes of one that the kernel reads, element by element."""
        name = self.words.name
        pair = f"puts {name(node)} in place of {name(old.node)}"
        too_early = "elements would be overwritten before they are read"
        # Of an empty value nothing is overwritten.
        sources = {read for read, owner in reads.items() if owner is old and old.buffer.nbytes}
        for source in sources:
            if source.dtype.itemsize != node.dtype.itemsize:
                itemsizes = f"{source.dtype.itemsize} bytes, not {node.dtype.itemsize}"
                self.fault(node, f"{pair}, whose elements have {itemsizes}")
            if not self.seen[source].layout.agrees(whole(source), source):
                self.fault(node, f"{pair}, which it reads as {name(source)}: {too_early}")
        if culprit := rearranged_on_the_way(kernel.nodes, reads, sources):
            way = f"{name(culprit)} = {culprit.expression}"
            self.fault(node, f"{pair}, which it reads through {way}: {too_early}")
        self.end(old, f"{self.words.moment(self.number)} has put {name(node)} in its place")

    def update(self, node: Node, buffer: Buffer, reads: dict[Node, _Life]) -> None:
        """A result is written over the given value whose array it takes."""
        given, name = self.given_at.get((buffer.arena, buffer.offset)), self.words.name(node)
        taker = None if given is None else self.schedule.overwrites.get(given)
        if buffer.nbytes and taker is not node:
            who = f"only {self.words.name(taker)}" if taker is not None else "nothing"
            self.fault(node, f"puts {name} into {buffer}, which {who} may overwrite")
        old = self.occupied[buffer.arena].overlapping(buffer)
        if old is not None and old.node is given:
            if old in reads.values():
                self.fault(node, f"puts {name} into {buffer}, which it reads, and not in place")
            self.end(old, f"{self.words.moment(self.number)} has put {name} in its place")
        if self.first_update is None:
            self.first_update = self.number

    # What must be true.

    def needed(self, node: Node, verb: str) -> _Life:
        """The life that owns the bytes of a value, which must be there now."""
        seen = self.seen.get(node)
        if seen is None:
            first, why = self.stored.get(node), "which is neither given nor computed"
            if first is not None:
                why = f"which is not there before {self.words.moment(first)}"
            self.fault(node, f"{verb} {self.words.typed(node)}, {why}")
        owner = seen.owner
        if owner.ended is not None:
            why = "but" if owner.node is node else f"a view on {self.words.name(owner.node)}, but"
            now = self.occupied[owner.buffer.arena].overlapping(owner.buffer)
            holds = f"hold {self.words.name(now.node)}" if now is not None else "are free"
            self.fault(
                node,
                f"{verb} {self.words.typed(node)}, {why} {owner.because}; "
                f"{owner.buffer} {holds} now",
            )
        return owner

    def check_absent(self, node: Node) -> None:
        """A value is computed once before it is freed."""
        seen = self.seen.get(node)
        if seen is not None and seen.owner.ended is None:
            place = f"since {self.words.moment(seen.since)}, in {seen.owner.buffer}"
            self.fault(node, f"makes {self.words.name(node)}, which is there {place}")

    def check_place(self, verb: str, node: Node | None, buffer: Buffer) -> None:
        """A buffer is aligned, in its arena, and over no value."""
        if buffer.offset % ALIGNMENT:
            self.fault(node, f"{verb} {buffer}, which do not begin at a multiple of {ALIGNMENT}")
        extent = self.extents.get(buffer.arena)
        if extent is None:
            self.fault(node, f"{verb} {buffer}, which is neither given nor that of a result")
        if not 0 <= buffer.offset <= buffer.end <= extent:
            self.fault(node, f"{verb} {buffer}, which has {extent} bytes")
        other = self.occupied[buffer.arena].overlapping(buffer)
        if other is not None:
            held = f"{self.words.name(other.node)} is in {other.buffer}"
            self.fault(node, f"{verb} {buffer}, but {held}")

    def check_dependencies(self, kernel: Compute) -> None:
        """Every input of what the kernel computes is computed there, too, or read."""
        name = self.words.name
        if not len(kernel.nodes) == len(kernel.into) == len(set(kernel.nodes)):
            pair = f"{len(set(kernel.nodes))} values into {len(kernel.into)} buffers"
            self.fault(None, f"computes {pair}")
        within = {*kernel.nodes, *kernel.inner, *kernel.reads}
        for node in (*kernel.nodes, *kernel.inner):
            if node not in self.nodes:
                self.fault(node, f"computes {name(node)}")
            if isinstance(node.primitive.kernel, Given):
                self.fault(node, f"computes {name(node)}, which can only be given")
            for parent in operands_read(node, kernel.reads):
                if (missing := lacking(parent, within)) is not None:
                    which = f"{name(node)}, but neither reads nor computes {name(missing)}"
                    self.fault(node, f"computes {which}")

    def check_failure(self, kernel: Compute) -> None:
        """What can stop the run says so, and does so before anything given is changed."""
        for node in (*kernel.nodes, *kernel.inner):
            if isinstance(node.primitive.kernel, Gather):
                fresh = [one for one in bounds(node) if not self.is_known(*one)]
                if fresh and not kernel.fails:
                    found = f"computes {self.words.name(node)}, whose indices may be out of range"
                    self.fault(node, f"{found}, and does not say that it can fail")
                for index, low, high in fresh:
                    least, most = self.in_range.get(index, (low, high))
                    self.in_range[index] = max(low, least), min(high, most)
        if kernel.fails and self.first_update is not None:
            when = self.words.moment(self.first_update)
            self.fault(None, f"can fail, but {when} has already overwritten a given array")
        if kernel.fails and any(buffer.arena in self.given_arenas for buffer in kernel.into):
            self.fault(None, "can fail, and overwrites a given array itself")

    def is_known(self, index: Node, low: int, high: int) -> bool:
        """Whether earlier instructions have found that the index is in the range, and it is made of
        integers alone: of floats it may be another when it is computed again."""
        if index not in self.in_range or not is_made_of_integers(index):
            return False
        least, most = self.in_range[index]
        return low <= least and most <= high

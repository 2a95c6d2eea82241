"""Predicts the bytes of each rank: its program is followed, value by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.dataclass import dataclass, field, replace
from chainrule.devices.grid import Grid
from chainrule.devices.instructions import (
    COLLECTIVES,
    FREEING,
    AllGather,
    AllReduce,
    Await,
    Begin,
    Clear,
    Collective,
    Key,
    Program,
    Receive,
    ReduceScatter,
    Run,
)
from chainrule.devices.job import launched
from chainrule.devices.messages import Lent, computed_there
from chainrule.devices.one_program import compiled_nbytes, is_one_program
from chainrule.devices.pieces import Piece
from chainrule.devices.reports.memory_text import text
from chainrule.devices.reports.piece_runs import PieceRuns
from chainrule.devices.reports.values import (
    BLOCKS,
    KINDS,
    MESSAGES,
    SUMS,
    Value,
    values_of,
)
from chainrule.devices.reports.waiting import waiting_nbytes
from chainrule.execute.executor import Overwriting
from chainrule.execute.executors import executor_of
from chainrule.explain.memory.kinds import Kind
from chainrule.graph.cached import cached_property
from chainrule.graph.frozen import NotPickled
from chainrule.graph.in_notebooks import ShownByText
from chainrule.graph.node import Node
from chainrule.plan.roles import is_given
from chainrule.primitives.sources import constant
from chainrule.schedule.in_numpy import outline_in_c_order, without_memory

if TYPE_CHECKING:
    from chainrule.devices.parallel import ParallelStep, Split

SCHEMA = "chainrule.parallel-memory/1"


@dataclass(frozen=True)
class Held:
    """A value in the memory of a rank: `count` arrays of `nbytes` each, one for each micro-batch
    that is under way."""

    name: str
    kind: str
    nbytes: int
    count: int


@dataclass(frozen=True)
class RankMemory:
    """The bytes of one rank.

    `during` has the most bytes there are during each instruction of its program, `after` those
    that stay; `waiting` has the most bytes of messages that others can have sent it by then,
    which it has not received.  `held` is what is there at the peak, the largest first; `at` says
    where that is: the piece, its micro-batch, and the instruction in it.
    """

    rank: int
    during: tuple[int, ...]
    after: tuple[int, ...]
    waiting: tuple[int, ...]
    given_nbytes: int
    peak_instruction: int
    at: str
    held: tuple[Held, ...]

    @property
    def peak_nbytes(self) -> int:
        """The most bytes at once: parameters, data and all that the rank allocates."""
        return max(self.during, default=self.given_nbytes)

    @property
    def most_nbytes(self) -> int:
        """The most bytes at once where all other ranks are as far ahead as they can be, and what
        they have sent waits in this one's memory."""
        both = map(sum, zip(self.during, self.waiting, strict=True))
        return max(both, default=self.given_nbytes)

    @property
    def allocated_nbytes(self) -> int:
        """Of the peak, what the rank itself allocates: what it was given is left out."""
        return self.peak_nbytes - self.given_nbytes

    @property
    def parts(self) -> dict[str, int]:
        """The bytes at the peak by what they are for; their sum is `peak_nbytes`."""
        found = dict.fromkeys(KINDS, 0)
        for one in self.held:
            found[one.kind] += one.nbytes * one.count
        return found


@dataclass(frozen=True, eq=False)
class ParallelMemory(NotPickled, ShownByText):
    """The bytes of each rank of a split step, before a step is taken.

    `analysed` gives `compiled`.
    """

    _called = "a report of memory"
    _instead = "json.dumps(report.json()) holds its numbers, str(report) its text"

    name: str
    sizes: Mapping[str, int]
    executor: str
    stages: int
    ranks: tuple[RankMemory, ...] = field(repr=False)
    ways: int = 1
    analysed: Callable[[], Mapping[str, int]] = field(default=dict, repr=False)

    @property
    def grid(self) -> Grid:
        """How the ranks are numbered."""
        return Grid(self.stages, len(self.ranks) // (self.stages * self.ways), self.ways)

    @cached_property
    def compiled(self) -> Mapping[str, int]:
        """The bytes of each device by what they are, as the compiler of one program on all of them
        says; empty where ranks have programs of their own.  Compiles."""
        return self.analysed()

    @property
    def peak_nbytes(self) -> int:
        """Those of the rank that needs most."""
        return max(one.peak_nbytes for one in self.ranks)

    def json(self) -> dict[str, Any]:
        """The report in dicts, lists, strings and numbers alone."""
        return {
            "schema": SCHEMA,
            "step": self.name,
            "sizes": dict(self.sizes),
            "executor": self.executor,
            "stages": self.stages,
            "ways": self.ways,
            "compiled": dict(self.compiled),
            "ranks": [
                {
                    "rank": one.rank,
                    "stage": self.grid.stage_of(one.rank),
                    "replica": self.grid.replica_of(one.rank),
                    "shard": self.grid.shard_of(one.rank),
                    "peak_nbytes": one.peak_nbytes,
                    "most_nbytes": one.most_nbytes,
                    "given_nbytes": one.given_nbytes,
                    "peak_instruction": one.peak_instruction,
                    "at": one.at,
                    "parts": one.parts,
                    "held": [vars(value) for value in one.held],
                    "during": list(one.during),
                    "after": list(one.after),
                    "waiting": list(one.waiting),
                }
                for one in self.ranks
            ],
        }

    def __str__(self) -> str:
        return text(self)


def memory_of(step: ParallelStep, split: Split, sizes: Mapping[str, int]) -> ParallelMemory:
    """See `ParallelStep.memory`; `sizes` are those of the whole batch."""
    executor = step.parts.whole.executor
    values = values_of(step, split)
    runs = PieceRuns(split.pieces, split.compiled, executor_of(executor).traits)
    lying = _lying_of_data(step, split, values)
    lent = split.lent if _leaves_messages(step) else {}

    def sent_nbytes(sender: int, key: Key) -> int:
        return 0 if (sender, key) in lent else values[key.value].nbytes

    ranks = tuple(
        _Followed(program, split.pieces, values, runs, lying, lent).followed(
            waiting_nbytes(split.programs, program.rank, sent_nbytes)
        )
        for program in split.programs
    )
    name = step.parts.whole.graph.name
    analysed = partial(compiled_nbytes, step, split)
    return ParallelMemory(name, dict(sizes), executor, step.stages, ranks, step.ways, analysed)


def _leaves_messages(step: ParallelStep) -> bool:
    """Whether ranks are processes that leave messages in memory which they share."""
    if launched() is None or is_one_program(step):
        return False
    from chainrule.devices.mpi import share_memory

    return share_memory()


def _lying_of_data(
    step: ParallelStep, split: Split, values: Mapping[int, Value]
) -> dict[int, np.ndarray]:
    """How the parts of a batch lie that is in C order: they are views of it."""
    found = {}
    for name, axis in step.parts.split.items():
        number = split.names.get(name)
        if number is None or number not in values:
            continue
        node = values[number].node
        strides, each = [0] * node.ndim, node.dtype.itemsize
        for at in range(node.ndim - 1, -1, -1):
            strides[at] = each
            each *= node.shape[at] * (step.parts.count if at == axis else 1)
        found[number] = without_memory(node.shape, node.dtype, tuple(strides))
    return found


class _Followed:
    """One rank, from its first instruction to its last."""

    def __init__(
        self,
        program: Program,
        pieces: Sequence[Piece],
        values: Mapping[int, Value],
        runs: PieceRuns,
        lying: Mapping[int, np.ndarray],
        lent: Lent,
    ) -> None:
        self.lent = lent
        self.program, self.pieces, self.values, self.runs = program, pieces, values, runs
        self.there: dict[Key, Value] = {}
        self.lies: dict[Key, np.ndarray] = {}
        self.given: list[Value] = []
        self.received: set[int] = set()
        self.blocks: dict[int, int] = {}
        for key in program.given:
            value = values[key.value]
            self.lies[key] = lying.get(key.value, outline_in_c_order(value.node))
            self.given.append(value)
        for one in program.instructions:
            for key in one.keys if isinstance(one, Clear) else ():  # the rank makes them
                self.there[key] = values[key.value]
                self.lies[key] = outline_in_c_order(values[key.value].node)
        self.given += self._constants()
        both = [key for (owner, key), others in lent.items() if program.rank in (owner, *others)]
        self.places = [replace(values[key.value], kind=MESSAGES) for key in both]
        self.free = computed_there(program, lent)  # places that nothing is computed in so far
        self.left: dict[Node, Key] = {}  # what the latest piece has computed in some

    def _constants(self) -> list[Value]:
        """The arrays that the pieces of this rank hold, each once."""
        found: dict[int, Value] = {}
        used = {one.piece for one in self.program.instructions if isinstance(one, Run)}
        for number in sorted(used):
            graph = self.pieces[number].graph
            for node in graph.nodes:
                if node.primitive is constant:
                    array = node.param("value").array
                    name = graph.name_of.get(node, "constant")
                    value = Value(name, str(Kind.CONSTANT), int(node.type.nbytes), node)
                    found.setdefault(id(array), value)
        return list(found.values())

    def followed(self, waiting: tuple[int, ...]) -> RankMemory:
        """Goes through the program; `_held` is asked wherever there is more than before."""
        during, after = [], []
        peak, held, at = -1, (), ""
        for one in self.program.instructions:
            rows, words = self._step(one)
            most = self._nbytes() + sum(nbytes for *_, nbytes in rows)
            during.append(most)
            if most > peak:
                peak, held, at = most, self._held(rows), words
            self._end(one)
            after.append(self._nbytes())
        given = sum(one.nbytes for one in self.given)
        number = during.index(peak) + 1 if during else 0
        return RankMemory(
            self.program.rank, tuple(during), tuple(after), waiting, given, number, at, held
        )

    def _step(self, one: Any) -> tuple[list[tuple[str, str, int]], str]:
        """What an instruction allocates while it runs, beside what is there; and it in words."""
        match one:
            case Run(piece, part, reads):
                self.left = self._left(one)
                given = tuple(self.lies[key] for key in reads)
                run = self.runs.of(piece, given, frozenset(self.left))
                self.blocks[piece] = run.block_nbytes
                self.outlines, self.in_place = run.outlines, run.in_place
                batch = "" if part is None else f" of micro-batch {part}"
                return list(run.rows), f"{self.pieces[piece].name}{batch}, {run.at}"
            case Receive(key, sender):
                value = self.values[key.value]
                rows = [(value.name, MESSAGES, value.nbytes)]
                return [] if (sender, key) in self.lent else rows, f"from rank {sender}"
            case AllReduce() | AllGather() | ReduceScatter():
                return self._exchange(one)
            case Begin() | Await():
                return [], "adding up replicas"
            case Clear():
                return [], "setting sums to 0"
        return [], "sending"

    def _left(self, one: Run) -> dict[Node, Key]:
        """What a piece computes where other ranks read it."""
        found: dict[Node, Key] = {}
        if isinstance(self.runs.programs[one.piece], Overwriting):
            for node, key in zip(self.pieces[one.piece].gives.values(), one.gives, strict=True):
                if key in self.free and not is_given(node):
                    found[node] = key
        self.free -= {*found.values()}
        return found

    def _exchange(self, one: Collective) -> tuple[list[tuple[str, str, int]], str]:
        """As `_step`: what comes of an exchange is there beside what was given for it."""
        if isinstance(one, AllReduce) and one.in_place:
            return [], "adding up replicas"
        found = [self.values[key.value] for key in one.gives]
        rows = [
            (value.name, SUMS if value.kind == SUMS else MESSAGES, value.nbytes) for value in found
        ]
        if isinstance(one, AllGather):
            return rows, f"gathering with ranks {', '.join(map(str, one.group))}"
        sums = any(self.values[key.value].kind == SUMS for key in one.reads)
        return rows, f"adding up {'replicas' if sums else 'shards'}"

    def _end(self, one: Any) -> None:
        """What is there after an instruction."""
        match one:
            case Run(piece):
                nodes = self.pieces[piece].gives.values()
                for key, node in zip(one.gives, nodes, strict=True):
                    if node in self.in_place and key not in self.there:
                        continue  # in an array of the state
                    self.lies[key] = self.outlines[node]
                    if self.left.get(node) != key:
                        self.there[key] = self.values[key.value]
            case Receive(key, sender) if (sender, key) in self.lent:  # it was there before
                self.lies[key] = outline_in_c_order(self.values[key.value].node)
            case Receive(key):
                self.there[key] = self.values[key.value]
                self.received.add(key.value)
                self.lies.setdefault(key, outline_in_c_order(self.values[key.value].node))
        if isinstance(one, COLLECTIVES):
            for key in one.gives:
                self.there[key] = self.values[key.value]
                self.lies[key] = outline_in_c_order(self.values[key.value].node)
        if isinstance(one, FREEING):
            for key in one.frees:
                self.there.pop(key, None)

    def _nbytes(self) -> int:
        arrays = (*self.given, *self.places, *self.there.values())
        return sum(one.nbytes for one in arrays) + sum(self.blocks.values())

    def _held(self, rows: Sequence[tuple[str, str, int]]) -> tuple[Held, ...]:
        """What is there, those of the same name together, and what an instruction adds."""
        found: Counter[tuple[str, str, int]] = Counter()
        for value in (*self.given, *self.places):
            found[value.name, value.kind, value.nbytes] += 1
        for key, value in self.there.items():
            kind = MESSAGES if key.value in self.received else value.kind
            found[value.name, kind, value.nbytes] += 1
        for row in rows:
            found[row] += 1
        for piece, nbytes in self.blocks.items():
            if nbytes:
                found[self.pieces[piece].name, BLOCKS, nbytes] += 1
        made = [Held(*row, count) for row, count in found.items()]
        return tuple(sorted(made, key=lambda one: (-one.nbytes * one.count, one.name, one.kind)))

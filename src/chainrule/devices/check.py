"""Proves, before anything runs, that programs of ranks fit together.

Programs are plain records, so they can be followed without computing anything: a message that
nobody sends, ranks that wait for each other in a circle, collectives in another order on another
rank, a value that is read before it is there, one that is taken as given and that no step gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

from chainrule.devices.instructions import (
    COLLECTIVES,
    FREEING,
    AllGather,
    AllReduce,
    Await,
    Begin,
    Clear,
    Collective,
    Instruction,
    Key,
    Program,
    Receive,
    ReduceScatter,
    Run,
    Send,
)
from chainrule.errors import InvariantError


def check_programs(programs: Sequence[Program], inputs: Collection[Key] | None = None) -> None:
    """InvariantError, with rank and instruction, for the first fault.

    `inputs` are the values that a step can give to ranks; None takes what they name as given.
    """
    for program in programs:
        for key in program.given:
            if inputs is not None and key not in inputs:
                raise InvariantError(
                    f"rank {program.rank} takes {key} as given, which is no input of the step, and "
                    "which nobody has computed by then"
                )
    _Followed(programs).follow()


class _Followed:
    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = programs
        self.at = [0] * len(programs)
        self.there = [set(one.given) for one in programs]
        self.sent: dict[tuple[int, int], deque[Key]] = {}
        # The sums of each rank that its helper has not yet, and those that it has.
        self.begun: list[deque[AllReduce]] = [deque() for _ in programs]
        self.added: list[list[AllReduce]] = [[] for _ in programs]
        for program in programs:
            self._refuse_other_ranks(program)

    def follow(self) -> None:
        """Each rank goes on as far as it can, until all are at their ends."""
        moved = True
        while moved:
            moved = False
            for rank in range(len(self.programs)):
                while self._can_go_on(rank):
                    self._step(rank)
                    moved = True
            moved = self._collective() or self._helped() or moved
        waiting = [rank for rank in range(len(self.programs)) if self._next(rank) is not None]
        if waiting:
            told = "; ".join(self._told(rank) for rank in waiting[:4])
            raise InvariantError(f"the ranks wait for ever: {told}")
        left = [(key, pair) for pair, keys in self.sent.items() for key in keys]
        if left:
            key, (sender, to) = left[0]
            raise InvariantError(f"rank {sender} sends {key} to rank {to}, which never receives it")
        for rank, begun in enumerate(self.begun):
            if begun or self.added[rank]:
                raise InvariantError(f"rank {rank} begins a sum that it never awaits")
        for program, there in zip(self.programs, self.there, strict=True):
            missing = [key for key in program.results if key not in there]
            if missing:
                raise InvariantError(f"rank {program.rank} never has its result {missing[0]}")

    def _next(self, rank: int) -> Instruction | None:
        instructions = self.programs[rank].instructions
        return instructions[self.at[rank]] if self.at[rank] < len(instructions) else None

    def _can_go_on(self, rank: int) -> bool:
        match self._next(rank):
            case Run() | Send() | Clear() | Begin():
                return True
            case Await(one):
                return one in self.added[rank]
            case Receive(key, sender):
                return key in self.sent.get((sender, rank), ())
        return False

    def _step(self, rank: int) -> None:
        one = self._next(rank)
        there = self.there[rank]
        match one:
            case Run():
                self._need(rank, one.reads)
                there.update(one.gives)
            case Clear():
                there.update(one.keys)
            case Send():
                self._need(rank, (one.key,))
                self.sent.setdefault((rank, one.to), deque()).append(one.key)
            case Receive():
                self.sent[one.sender, rank].remove(one.key)
                if one.key in there:
                    raise InvariantError(f"{self._told(rank)}, which is there already")
                there.add(one.key)
            case Begin(begun):
                self._refuse_stranger(rank, begun)
                self._need(rank, begun.keys)
                there.difference_update(begun.keys)
                self.begun[rank].append(begun)
            case Await(begun):
                self.added[rank].remove(begun)
                there.update(begun.keys)
        self._end(rank, one)

    def _end(self, rank: int, one: Instruction | None) -> None:
        """What is not needed any more goes; the rank goes on."""
        if isinstance(one, FREEING):
            self._need(rank, one.frees)
            self.there[rank].difference_update(one.frees)
        self.at[rank] += 1

    def _collective(self) -> bool:
        """Whether all ranks of a group are at the same collective, and go on."""
        for rank in range(len(self.programs)):
            one = self._next(rank)
            if not isinstance(one, COLLECTIVES):
                continue
            self._refuse_stranger(rank, one)
            differing = [other for other in one.group if self._next(other) != one]
            for other in differing:
                theirs = self._next(other)
                if isinstance(theirs, COLLECTIVES) and rank in theirs.group:
                    raise InvariantError(
                        f"{self._told(rank)}, and {self._told(other)}: the order of collectives "
                        "differs"
                    )
            if differing:  # busy with others as yet
                continue
            for other in one.group:
                self._need(other, one.reads)
                self.there[other].update(one.gives)
                self._end(other, one)
            return True
        return False

    def _helped(self) -> bool:
        """Whether all helpers of a group are at the same sum, which is added up then."""
        for rank, begun in enumerate(self.begun):
            if not begun or any(not self.begun[other] for other in begun[0].group):
                continue
            one = begun[0]
            for other in one.group:
                if self.begun[other][0] != one:
                    raise InvariantError(
                        f"the helpers of ranks {rank} and {other} add other sums, or in another "
                        "order: the order of sums differs"
                    )
            for other in one.group:
                self.added[other].append(self.begun[other].popleft())
            return True
        return False

    def _refuse_stranger(self, rank: int, one: Collective) -> None:
        if rank not in one.group:
            raise InvariantError(f"{self._told(rank)}, a group that it is not in")

    def _need(self, rank: int, keys: Sequence[Key]) -> None:
        missing = [key for key in keys if key not in self.there[rank]]
        if missing:
            raise InvariantError(f"{self._told(rank)} needs {missing[0]}, which is not there")

    def _told(self, rank: int) -> str:
        one = self._next(rank)
        match one:
            case Run():
                what = f"runs piece {one.piece} for part {one.micro_batch}"
            case Send():
                what = f"sends {one.key} to rank {one.to}"
            case Clear():
                what = f"sets {len(one.keys)} sums to 0"
            case Receive():
                what = f"waits for {one.key} from rank {one.sender}"
            case AllReduce(keys, group):
                what = f"adds {len(keys)} values in the group {group}"
            case Begin(AllReduce(keys, group)):
                what = f"begins to add {len(keys)} values in the group {group}"
            case Await(AllReduce(keys, group)):
                what = f"awaits the sums of {len(keys)} values in the group {group}"
            case AllGather():
                what = f"gathers {len(one.reads)} values in the group {one.group}"
            case ReduceScatter():
                what = f"adds parts of {len(one.reads)} values in the group {one.group}"
            case None:
                return f"rank {rank} is at its end"
        return f"rank {rank} {what} (instruction {self.at[rank]})"

    def _refuse_other_ranks(self, program: Program) -> None:
        ranks = range(len(self.programs))
        for one in program.instructions:
            partners: tuple[int, ...] = ()
            match one:
                case Send():
                    partners = (one.to,)
                case Receive():
                    partners = (one.sender,)
                case Begin(begun) | Await(begun):
                    partners = begun.group
                case AllReduce() | AllGather() | ReduceScatter():
                    partners = one.group
            wrong = [other for other in partners if other not in ranks]
            if wrong:
                raise InvariantError(f"rank {program.rank} names rank {wrong[0]}; there is none")

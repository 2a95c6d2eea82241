"""Proves, before anything runs, that programs of ranks fit together.

Programs are plain records, so they can be followed without computing anything: a message that
nobody sends, ranks that wait for each other in a circle, collectives in another order on another
rank, a value that is read before it is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from chainrule.devices.instructions import (
    AllReduce,
    Await,
    Begin,
    Instruction,
    Key,
    Program,
    Receive,
    Run,
    Send,
)
from chainrule.errors import InvariantError


def check_programs(programs: Sequence[Program]) -> None:
    """InvariantError, with rank and instruction, for the first fault."""
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
            case Run() | Send() | Begin():
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
        if isinstance(one, (Run, Send)):
            self._need(rank, one.frees)
            there.difference_update(one.frees)
        self.at[rank] += 1

    def _collective(self) -> bool:
        """Whether all ranks of a group are at the same sum, and go on."""
        for rank in range(len(self.programs)):
            one = self._next(rank)
            if not isinstance(one, AllReduce):
                continue
            self._refuse_stranger(rank, one)
            others = [self._next(other) for other in one.group]
            if not all(isinstance(other, AllReduce) for other in others):
                continue
            if any(other != one for other in others):
                differing = next(
                    r for r, other in zip(one.group, others, strict=True) if other != one
                )
                raise InvariantError(
                    f"{self._told(rank)}, and {self._told(differing)}: the order of sums differs"
                )
            for other in one.group:
                self._need(other, one.keys)
                self.at[other] += 1
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

    def _refuse_stranger(self, rank: int, one: AllReduce) -> None:
        if rank not in one.group:
            raise InvariantError(f"{self._told(rank)}, a group that it is not in")

    def _need(self, rank: int, keys: Sequence[Key]) -> None:
        missing = [key for key in keys if key not in self.there[rank]]
        if missing:
            raise InvariantError(f"{self._told(rank)} needs {missing[0]}, which is not there")

    def _told(self, rank: int) -> str:
        one = self._next(rank)
        words = {
            Run: "runs",
            Send: "sends",
            Receive: "waits for",
            AllReduce: "adds",
            Begin: "begins to add",
            Await: "awaits the sums of",
        }
        match one:
            case Run():
                what = f"piece {one.piece} for part {one.micro_batch}"
            case Send():
                what = f"{one.key} to rank {one.to}"
            case Receive():
                what = f"{one.key} from rank {one.sender}"
            case (
                AllReduce(keys, group)
                | Begin(AllReduce(keys, group))
                | Await(AllReduce(keys, group))
            ):
                what = f"{len(keys)} values in the group {group}"
            case None:
                return f"rank {rank} is at its end"
        return f"rank {rank} {words[type(one)]} {what} (instruction {self.at[rank]})"

    def _refuse_other_ranks(self, program: Program) -> None:
        ranks = range(len(self.programs))
        for one in program.instructions:
            partners: tuple[int, ...] = ()
            match one:
                case Send():
                    partners = (one.to,)
                case Receive():
                    partners = (one.sender,)
                case AllReduce(_, group) | Begin(AllReduce(_, group)) | Await(AllReduce(_, group)):
                    partners = group
            wrong = [other for other in partners if other not in ranks]
            if wrong:
                raise InvariantError(f"rank {program.rank} names rank {wrong[0]}; there is none")

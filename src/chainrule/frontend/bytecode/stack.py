"""What every slot of the value stack holds, before each instruction of a code object.

Each instruction is simulated once, in order. Where that is not enough (an exception handler, an
instruction that `effects` does not know) the stack is forgotten: then names are missing, not wrong.
"""

from __future__ import annotations

import dis
import weakref
from collections.abc import Iterator
from dis import Instruction
from itertools import pairwise
from types import CodeType
from typing import Any

from .effects import NEVER_FALL_THROUGH, STORES, change, effect
from .slots import (
    Index,
    Item,
    Iterating,
    Name,
    Sequence,
    Stack,
    forget,
    meet,
    pop,
    top,
)

GENERATOR = 0x20  # CO_GENERATOR
GENEXPR = "<genexpr>"
UNPACKINGS = ("UNPACK_SEQUENCE", "UNPACK_EX")


class Analysis:
    """The instructions of a code object, by offset, and the stack before each of them."""

    def __init__(self, code: CodeType):
        self.instructions = {i.offset: i for i in dis.get_instructions(code)}
        self.starts: dict[int, int] = {}  # any offset that f_lasti may show -> its instruction
        self.after: dict[int, int] = {}  # an instruction -> the one behind it
        self.with_keywords: set[int] = set()  # CALLs that follow a KW_NAMES (before 3.13)
        self.bound: dict[int, dict[tuple[int, ...], Name]] = {}  # loop -> its variables
        self.routes: dict[object, object] = {}  # what naming.py remembers of this code object
        self.runs_builtins: dict[int, bool] = {}  # the same, of its instructions
        self.returned: Any = None  # the same, of what it returns
        self.is_generator_function = bool(code.co_flags & GENERATOR) and code.co_name != GENEXPR
        self.yields = self._yields_once()  # a yield -> how many come before it, where that is known
        self._index(len(code.co_code))
        self.before = dict(self._flow())

    def _index(self, end: int) -> None:
        offsets = [*self.instructions, end]
        keywords = False
        for offset, following in pairwise(offsets):
            name = self.instructions[offset].opname
            if following != end:
                self.after[offset] = following
            if name == "CALL" and keywords:
                self.with_keywords.add(offset)
            keywords = name == "KW_NAMES" or (keywords and name in ("PRECALL", "EXTENDED_ARG"))
            makes_call = following if name == "PRECALL" else offset  # 3.11 may call in PRECALL
            self.starts.update(dict.fromkeys(range(offset, following, 2), makes_call))

    def _yields_once(self) -> dict[int, int]:
        """The place of each yield among all, if none is in a branch or a loop."""
        names = [one.opname for one in self.instructions.values()]
        straight = not any("JUMP" in name or name in ("FOR_ITER", "SEND") for name in names)
        found = [at for at, one in self.instructions.items() if one.opname == "YIELD_VALUE"]
        return {at: place for place, at in enumerate(found)} if straight else {}

    def _flow(self) -> Iterator[tuple[int, Stack]]:
        waiting: dict[int, Stack] = {}
        for offset in self.instructions:
            stack = waiting.pop(offset, ())
            yield offset, stack
            self._note_loop_variables(offset, stack)
            for following, left in self.step(offset, stack):
                if following > offset:
                    other = waiting.get(following)
                    waiting[following] = left if other is None else meet(left, other)

    def _note_loop_variables(self, offset: int, stack: Stack) -> None:
        kind = STORES.get(self.instructions[offset].opname, "local")
        for depth, name in enumerate(self.names_stored(offset)):
            item = top(stack, depth)
            if isinstance(item, Item):
                self.bound.setdefault(item.loop, {})[item.path] = Name(kind, name)

    def names_stored(self, offset: int) -> tuple[str, ...]:
        """The variables that the instruction binds, to the slots from the top down."""
        instruction = self.instructions[offset]
        if instruction.opname in STORES:
            return (instruction.argval,)
        if instruction.opname == "STORE_FAST_LOAD_FAST":
            return (instruction.argval[0],)
        return instruction.argval if instruction.opname == "STORE_FAST_STORE_FAST" else ()

    def names_stored_outside(self) -> set[str]:
        """The variables that the code binds and that are perhaps another function's."""
        stores = [i for i in self.instructions.values() if i.opname in STORES]
        return {store.argval for store in stores if store.opname != "STORE_FAST"}

    def step(self, offset: int, stack: Stack) -> list[tuple[int, Stack]]:
        """The instructions that may run after the one at `offset`, each with its stack.

        If the next one is among them, it comes first.
        """
        instruction = self.instructions[offset]
        name = instruction.opname
        if name == "FOR_ITER":
            stays, goes = _for_iter(instruction, stack)
        elif name in ("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"):  # until 3.11
            stays = pop(stack, 1)[0]
            goes = (*stays, None)
        else:
            stays = goes = self._left(offset, instruction, stack)
        steps = []
        if name not in NEVER_FALL_THROUGH and offset in self.after:
            steps.append((self.after[offset], stays))
        if ("JUMP" in name or name == "FOR_ITER") and instruction.argval in self.instructions:
            steps.append((instruction.argval, goes))
        return steps

    def _left(self, offset: int, instruction: Instruction, stack: Stack) -> Stack:
        in_comprehension = instruction.opname == "LIST_APPEND" and instruction.arg == 2
        index = self.index(stack[-2:-1], offset) if in_comprehension else None
        known = effect(instruction, stack, offset in self.with_keywords, index)
        if known is None:
            return ()
        popped, pushed = known
        kept, names = pop(stack, popped)[0], self.names_stored(offset)
        if names:
            kept = tuple(forget(slot, names) for slot in kept)
        return kept + pushed

    def index(self, slots: Stack, offset: int) -> Index | None:
        """Which entry the instruction at `offset` makes, if each round of one loop comes to it."""
        loops = [slot for slot in slots if isinstance(slot, Iterating)]
        if len(loops) != 1 or loops[0].loop is None:
            return None
        start = loops[0].loop
        seen: set[int] = set()
        waiting = [self.after[start]]
        while waiting:
            here = waiting.pop()
            if here == start:
                return None  # a round without an entry: the comprehension has a filter
            if here != offset and here not in seen:
                seen.add(here)
                waiting += [following for following, _ in self.step(here, ())]
        rebound = {name for here in seen for name in self.names_stored(here)}
        return Index(start, forget(loops[0].over, rebound))


def _for_iter(instruction: Instruction, stack: Stack) -> tuple[Stack, Stack]:
    """The stack in the loop, and where it has ended."""
    loop, (rest, (iterator,)) = instruction.offset, pop(stack, 1)
    over = iterator.over if isinstance(iterator, Iterating) else iterator
    ended = rest
    if isinstance(top(rest), Sequence):  # the list of a comprehension is empty no longer
        ended = (*rest[:-1], None)
    if change(instruction, jump=True) == 1:  # since 3.12: END_FOR takes it off
        ended = (*ended, None, None)
    return (*rest, Iterating(over, loop), Item(loop)), ended


analyses: dict[int, tuple[weakref.ref[CodeType], Analysis]] = {}  # by the id of a living object


def analysis_of(code: CodeType) -> Analysis:
    """The analysis of `code`, made once in the life of that object."""
    found = analyses.get(id(code))
    if found is None:
        key = id(code)
        gone = weakref.ref(code, lambda _: analyses.pop(key, None))
        found = analyses[key] = gone, Analysis(code)
    return found[1]

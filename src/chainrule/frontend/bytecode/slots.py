"""What a slot of the value stack can be known to hold.

A *stack* is the tuple of its known top slots (the last is the top); below them lies an unknown
bottom, so that `()` knows nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import CodeType

from chainrule.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: object


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, or an attribute or entry reached from one: `h`, `self.h`, `d["h"][k]`."""

    kind: str  # "local", "closure", "global" or "name" (LOAD_NAME: decided when it is read)
    root: str
    steps: tuple[Step, ...] = ()

    def then(self, *steps: Step) -> Name:
        return Name(self.kind, self.root, (*self.steps, *steps))


@dataclass(frozen=True, slots=True)
class Expression:
    """The value of a compound expression. (Of a slot that is None, not even that is known.)"""


@dataclass(frozen=True, slots=True)
class Null:
    """What the calling convention pushes beside a callable that has no `self`."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """A tuple or list display; `entries` are its slots, in order."""

    entries: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function just made from a code object (lambda, comprehension, generator expression)."""

    code: CodeType


@dataclass(frozen=True, slots=True)
class Call:
    """The result of a call without keyword arguments."""

    callee: Name | Function
    arguments: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class Iterating:
    """An iterator over `over`; `loop` is the offset of its FOR_ITER once that has run."""

    over: Slot
    loop: int | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """What the loop at offset `loop` is at, or a part of that, unpacked along `path`."""

    loop: int
    path: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Index:
    """A step: how many entries the comprehension that runs `loop` over `over` has made so far."""

    loop: int
    over: Slot


@dataclass(frozen=True, slots=True)
class Length:
    """A step: how many entries the list has now (where `append` will put the next one)."""


@dataclass(frozen=True, slots=True)
class Somewhere:
    """A step: some entry of what a generator function yields, of which it is not known how many
    came before."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The followed value, or a container that holds it at `path`."""

    path: Path = ()


# A str is an attribute, the others are entries.
Step = str | Constant | Name | Index | Length | Somewhere
Path = tuple[tuple[Step, int | None], ...]  # each a step and its container's length, if known
Slot = (
    Constant
    | Name
    | Expression
    | Null
    | Sequence
    | Function
    | Call
    | Iterating
    | Item
    | Entry
    | None
)
Stack = tuple[Slot, ...]

NULL = Null()
EXPRESSION = Expression()


def pop(stack: Stack, count: int) -> tuple[Stack, Stack]:
    """The stack without its `count` top slots, and these."""
    if count > len(stack):
        stack = (None,) * (count - len(stack)) + stack
    return (stack[:-count], stack[-count:]) if count else (stack, ())


def top(stack: Stack, depth: int = 0) -> Slot:
    """The slot `depth` positions below the top."""
    return stack[-1 - depth] if depth < len(stack) else None


def meet(stack: Stack, other: Stack) -> Stack:
    """What is known where two paths of the program meet."""
    pairs = zip(stack[::-1], other[::-1], strict=False)
    return tuple(_either(one, two) for one, two in pairs)[::-1]


def _either(slot: Slot, other: Slot) -> Slot:
    if slot == other:
        return slot
    values = Constant | Name | Expression | Sequence | Function | Call
    both = isinstance(slot, values) and isinstance(other, values)
    return EXPRESSION if both else None


def forget(slot: Slot, names: Collection[str]) -> Slot:
    """The slot, less what was read from these variables, which now hold something else."""
    match slot:
        case Name(_, root, steps):
            keys = [step.root for step in steps if isinstance(step, Name)]
            return None if root in names or any(key in names for key in keys) else slot
        case Sequence(entries):
            return Sequence(tuple(forget(entry, names) for entry in entries))
        case Call(callee, arguments):
            if forget(callee, names) is None:
                return None
            return Call(callee, tuple(forget(argument, names) for argument in arguments))
        case Iterating(over, loop):
            return Iterating(forget(over, names), loop)
    return slot


def unpack(slot: Slot, count: int) -> Stack:
    """The slots that `a, b, ... = slot` gives to its `count` targets."""
    if isinstance(slot, Item):
        return tuple(Item(slot.loop, (*slot.path, index)) for index in range(count))
    if isinstance(slot, Sequence) and len(slot.entries) == count:
        return slot.entries
    return _unpack_entry(slot, count, lambda index, _: (index, ()))


def unpack_starred(slot: Slot, before: int, after: int) -> Stack:
    """The slots that unpacking gives to targets of which one, between others, is starred."""

    def place(index: int, length: int | None) -> tuple[int, Path] | None:
        if index < before:
            return index, ()
        if after == 0:
            left = None if length is None else length - before
            return before, ((Constant(index - before), left),)
        if length is None:
            return None
        if index >= length - after:
            return index - (length - after) + before + 1, ()
        return before, ((Constant(index - before), length - before - after),)

    return _unpack_entry(slot, before + 1 + after, place)


def _unpack_entry(
    slot: Slot, count: int, place: Callable[[int, int | None], tuple[int, Path] | None]
) -> Stack:
    slots: list[Slot] = [None] * count
    if isinstance(slot, Entry) and slot.path:
        (step, length), *inner = slot.path
        if isinstance(step, Constant) and type(step.value) is int:
            placed = place(step.value, length)
            if placed is not None and placed[0] < count:
                slots[placed[0]] = Entry((*placed[1], *inner))
    return tuple(slots)

"""What becomes of the value that an instruction gives: stored, returned, yielded or consumed.

The value is followed on the simulated stack along every path of its code object, into the
containers that it is put in and out of those that are unpacked.
"""

from __future__ import annotations

from typing import NamedTuple, cast

from .effects import GIVE_ONE_RESULT, STORES, called
from .frames import Unknown, written
from .slots import (
    Constant,
    Entry,
    Index,
    Length,
    Name,
    Path,
    Slot,
    Somewhere,
    Stack,
    Step,
    forget,
    pop,
    top,
)
from .stack import UNPACKINGS, Analysis

MOST_STATES = 10_000  # in one search: a display of a few thousand entries
State = tuple[int, Stack, frozenset[str]]  # instruction, stack, variables bound in the search
Settled = tuple[tuple[int, int], ...]  # of comprehensions, by their loops: the entry being made


class Passed(NamedTuple):
    """The value leaves the frame, by `return` or `yield`, at this path of what leaves."""

    path: Path
    yields: bool


class Unsettled(NamedTuple):
    """The search needs to know this index, since a comprehension is unpacked."""

    position: Index


Route = Unsettled | str | Name | Passed | None  # a str is a Name that needs nothing from the frame


def route_of(analysis: Analysis, offset: int, path: Path, settled: Settled = ()) -> Route:
    """What happens to the value that the instruction at `offset` gives at `path` of its result."""
    key = offset, path, settled
    try:
        return cast(Route, analysis.routes[key])
    except KeyError:
        route = analysis.routes[key] = _plain(_search(analysis, offset, path, dict(settled)))
        return route


def _plain(route: Name | Passed | Unsettled | None) -> Route:
    if not isinstance(route, Name):
        return route
    if any(isinstance(step, Name | Index | Length) for step in route.steps):
        return route
    try:
        return written(None, route)
    except Unknown:
        return None


def _search(
    analysis: Analysis, offset: int, path: Path, settled: dict[int, int]
) -> Name | Passed | Unsettled | None:
    """Follow the value along every path of the program; they must agree."""
    if path and analysis.instructions[offset].opname == "FOR_ITER":
        number = path[0][
            0
        ]  # it gives this entry of what it loops over, in the round of that number
        if isinstance(number, Constant) and type(number.value) is int:
            settled[offset] = number.value
    waiting = _beginning(analysis, offset, path)
    found: set[Name | Passed] = set()
    seen: set[State] = set()
    while waiting:
        state = here, stack, rebound = waiting.pop()
        if state in seen:
            continue
        seen.add(state)
        if len(seen) > MOST_STATES or len(found) > 1:
            return None
        index = _index_unpacked(analysis, here, stack)
        if index is not None:
            return Unsettled(index)
        answer = _event(analysis, here, stack)
        if answer is not None:
            found.add(answer)
            continue
        rebound = rebound.union(analysis.names_stored(here))
        for following, after in analysis.step(here, stack):
            if not any(isinstance(slot, Entry) for slot in after):
                return None  # consumed
            if rebound:
                after = tuple(forget(slot, rebound) for slot in after)
            if settled:
                after = tuple(_settle(slot, settled) for slot in after)
            waiting.append((following, after, rebound))
    return found.pop() if len(found) == 1 else None


def _beginning(analysis: Analysis, offset: int, path: Path) -> list[State]:
    """Where the search starts."""
    name, stack = analysis.instructions[offset].opname, analysis.before[offset]
    if name in UNPACKINGS:
        return [(offset, (*pop(stack, 1)[0], Entry(path)), frozenset())]
    steps = analysis.step(offset, stack)
    if name not in GIVE_ONE_RESULT or not steps:
        return []
    following, after = steps[0]
    method = name == "LOAD_ATTR" and len(after) > max(len(stack), 1)
    if method:  # half of a call
        return []
    if name == "FOR_ITER":
        path = path[1:]  # of the entries of what it loops over, it gives one at a time
    return [(following, (*after[:-1], Entry(path)), frozenset())]


def _index_unpacked(analysis: Analysis, offset: int, stack: Stack) -> Index | None:
    """The index of the value in the comprehension that the instruction unpacks, if it does."""
    unpacked = top(stack)
    unpacks = analysis.instructions[offset].opname in UNPACKINGS
    if unpacks and isinstance(unpacked, Entry) and unpacked.path:
        step = unpacked.path[0][0]
        return step if isinstance(step, Index) else None
    return None


def _settle(slot: Slot, settled: dict[int, int]) -> Slot:
    """The slot, with numbers in place of the entries that are settled."""
    if not isinstance(slot, Entry):
        return slot
    return Entry(
        tuple(
            (Constant(settled[step.loop]), length)
            if isinstance(step, Index) and step.loop in settled
            else (step, length)
            for step, length in slot.path
        )
    )


def _event(analysis: Analysis, offset: int, stack: Stack) -> Name | Passed | None:
    """The end of the search, if the instruction at `offset` is one."""
    instruction = analysis.instructions[offset]
    match instruction.opname:
        case "RETURN_VALUE" | "YIELD_VALUE" as leave:
            value = top(stack)
            if not isinstance(value, Entry):
                return None
            if leave == "RETURN_VALUE":
                is_taken = not analysis.is_generator_function  # else by StopIteration alone
                return Passed(value.path, yields=False) if is_taken else None
            step = _place_among_yields(analysis, offset, stack)
            if step is not None:
                return Passed(((step, None), *value.path), yields=True)
        case "STORE_ATTR":
            value, owner = pop(stack, 2)[1]
            if isinstance(value, Entry) and isinstance(owner, Name):
                return _inside(owner.then(instruction.argval), value)
        case "STORE_SUBSCR":
            value, owner, key = pop(stack, 3)[1]
            if isinstance(owner, Name) and isinstance(key, Constant | Name):
                return _inside(owner.then(key), value) if isinstance(value, Entry) else None
        case "CALL" if instruction.arg == 1 and offset not in analysis.with_keywords:
            callee, value = _callee_of_append(stack), top(stack)
            if isinstance(value, Entry) and callee is not None:
                return _inside(callee.then(Length()), value)
        case name:
            for depth, variable in enumerate(analysis.names_stored(offset)):
                value = top(stack, depth)
                if isinstance(value, Entry):
                    return _inside(Name(STORES.get(name, "local"), variable), value)
    return None


def _place_among_yields(analysis: Analysis, offset: int, stack: Stack) -> Step | None:
    """Which of the values that its generator yields the instruction at `offset` gives."""
    if analysis.is_generator_function:
        return Constant(analysis.yields[offset]) if offset in analysis.yields else Somewhere()
    index = analysis.index(stack, offset)
    return index if index is not None and index.over == Name("local", ".0") else None


def _callee_of_append(stack: Stack) -> Name | None:
    """`hs`, where the call of one argument is that of `hs.append`."""
    match called(pop(stack, 3)[1][:2])[0]:
        case Name(kind, root, (*steps, "append")):
            return Name(kind, root, tuple(steps))
    return None


def _inside(name: Name, value: Entry) -> Name:
    return name.then(*(step for step, _ in value.path))

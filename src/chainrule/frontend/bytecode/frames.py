"""Evaluates names that appear in bytecode: variables, attributes, items and loops of a frame.

Nothing of the user's is called: no property, no `__getattr__`, no `__getitem__`.
"""

from __future__ import annotations

import builtins
import inspect
from types import FrameType, MemberDescriptorType, ModuleType
from typing import Any

from .slots import (
    Call,
    Constant,
    Function,
    Index,
    Iterating,
    Length,
    Name,
    Sequence,
    Slot,
    forget,
)
from .stack import UNPACKINGS, analysis_of

SEARCHED = (list, tuple, dict, set, frozenset, str, type({}.keys()), type({}.values()))
SEARCHED += (type({}.items()),)
LONGEST_SEARCHED = 4_096  # entries among which a loop's item is looked for
Parts = dict[tuple[int, ...], Any]  # where in a loop's item -> what its variable holds


class Unknown(Exception):
    """Something is not there, or not safe to read."""


def read(frame: FrameType | None, slot: Slot) -> Any:
    """The object that a constant or a name stands for."""
    if isinstance(slot, Constant):
        return slot.value
    if frame is None or not isinstance(slot, Name):
        raise Unknown(slot)
    found = variable(frame, slot)
    for step in slot.steps:
        if isinstance(step, str):
            found = _attribute(found, step)
        elif isinstance(step, Constant | Name) and type(found) in (list, tuple, dict):
            try:
                found = found[read(frame, step)]
            except (LookupError, TypeError) as missing:
                raise Unknown(step) from missing
        else:
            raise Unknown(step)
    return found


def variable(frame: FrameType, name: Name) -> Any:
    """What the variable at the root of `name` holds."""
    scopes = [frame.f_globals, vars(builtins)]
    if name.kind != "global":
        scopes = [frame.f_locals, *scopes] if name.kind == "name" else [frame.f_locals]
    for scope in scopes:
        if name.root in scope:
            return scope[name.root]
    raise Unknown(name)


def _attribute(owner: object, name: str) -> Any:
    if isinstance(owner, ModuleType):
        found = vars(owner).get(name, Unknown)
    else:
        found = inspect.getattr_static(owner, name, Unknown)
    if isinstance(found, MemberDescriptorType):  # a slot
        found = found.__get__(owner, type(owner))
    if found is Unknown or isinstance(found, property):
        raise Unknown(name)
    return found


def written(frame: FrameType | None, name: Name) -> str:
    """The name as text, with variable keys replaced by what they hold: `d.h`, `hs[1]`.

    Without a frame only constant keys are known.
    """
    text, owner = name.root, Name(name.kind, name.root)
    for step in name.steps:
        match step:
            case str():
                text += f".{step}"
            case Length():
                holder = read(frame, owner)
                if type(holder) is not list:
                    raise Unknown(owner)
                text += f"[{len(holder)}]"
            case Index():
                if frame is None:
                    raise Unknown(step)
                text += f"[{position(frame, step)}]"
            case Constant() | Name():
                text += _key(read(frame, step))
        owner = owner.then(step)
    return text


def _key(key: object) -> str:
    if type(key) is int and key >= 0:
        return f"[{key}]"
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    if type(key) is str and key.isprintable() and not set(key) & set("\\\"'"):
        return f'["{key}"]'
    raise Unknown(key)


def position(frame: FrameType, index: Index) -> int:
    """How many entries the comprehension that runs in `frame` has made before this one."""
    analysis = analysis_of(frame.f_code)
    bound = analysis.bound.get(index.loop, {})
    parts: Parts = {path: read(frame, name) for path, name in bound.items()}
    over = index.over
    if over == Name("local", ".0"):  # the iterator was made by the frame that called this one
        frame, over = _maker_of_iterator(frame)
        over = forget(over, analysis.names_stored_outside())  # by a walrus
    found = _positions(frame, over, parts)
    if len(found) != 1:
        raise Unknown(index)
    return found.pop()


def _maker_of_iterator(frame: FrameType) -> tuple[FrameType, Slot]:
    maker = frame.f_back
    if maker is None:
        raise Unknown
    analysis = analysis_of(maker.f_code)
    offset = analysis.starts[maker.f_lasti]
    stack = analysis.before[offset]
    if analysis.instructions[offset].opname not in UNPACKINGS:
        [(_, stack), *_] = analysis.step(offset, stack)
    waiting = list(stack[-2:])  # the result of a call, or an iterator below its item
    while waiting:
        match waiting.pop():
            case Iterating(source):
                waiting.append(source)
            case Call(Function(code), (over,)) if code is frame.f_code:
                return maker, over
            case Call(_, arguments):
                waiting += arguments
    raise Unknown


def _positions(frame: FrameType, over: Slot, parts: Parts) -> set[int]:
    """Where in what is looped over the parts of the item are found (by identity)."""
    match over:
        case Iterating(inner):
            return _positions(frame, inner, parts)
        case Sequence(entries):
            return _places(tuple(read(frame, entry) for entry in entries), parts)
        case Call(Name(root="range") as made, arguments) if read(frame, made) is range:
            return _places(range(*(read(frame, one) for one in arguments)), parts)
        case Call(Name(root="enumerate") as made, (_, *start)) if read(frame, made) is enumerate:
            first = read(frame, start[0]) if start else 0
            return {parts[(0,)] - first}
        case Call(Name(root="zip") as made, sources) if read(frame, made) is zip:
            return _positions_of_zip(frame, sources, parts)
        case Call(Name(root="reversed") as made, (source,)) if read(frame, made) is reversed:
            entries = read(frame, source)
            if type(entries) not in (list, tuple, range):
                raise Unknown(source)
            return {len(entries) - 1 - place for place in _places(entries, parts)}
        case Call(Name(kind, root, (*steps, ("keys" | "values" | "items") as view)), ()):
            owner = read(frame, Name(kind, root, tuple(steps)))
            if type(owner) is not dict:
                raise Unknown(over)
            return _places(getattr(owner, view)(), parts)
        case Constant() | Name():
            return _places(read(frame, over), parts)
    raise Unknown(over)


def _positions_of_zip(frame: FrameType, sources: tuple[Slot, ...], parts: Parts) -> set[int]:
    found: set[int] | None = None
    for which, source in enumerate(sources):
        inner = {path[1:]: value for path, value in parts.items() if path[:1] == (which,)}
        if inner:
            try:
                places = _positions(frame, source, inner)
            except Unknown:
                continue
            found = places if found is None else found & places
    if found is None:
        raise Unknown(sources)
    return found


def _places(entries: Any, parts: Parts) -> set[int]:
    if type(entries) is range and type(parts.get(())) is int:
        return {entries.index(parts[()])}
    if type(entries) not in SEARCHED or len(entries) > LONGEST_SEARCHED or not parts:
        raise Unknown(entries)
    return {place for place, entry in enumerate(entries) if _holds(entry, parts)}


def _holds(entry: Any, parts: Parts) -> bool:
    for path, value in parts.items():
        part = entry
        for index in path:
            if type(part) not in (tuple, list) or index >= len(part):
                return False
            part = part[index]
        if part is not value:
            return False
    return True

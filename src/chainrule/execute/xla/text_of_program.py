"""Reads XLA's text of a compiled program: its instructions, and for which nodes each is made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

ORIGIN = re.compile(r'op_name="([^"]*)"')
NUMBER = re.compile(r"(?<![^/(])n(\d+)(?=/|$)")  # the scope of a node
NAME = re.compile(r"%([\w.\-]+)")


class Made(NamedTuple):
    """An instruction: its name, type, opcode, operands, and the numbers of the nodes that it is
    made for: first the one that holds the body in which the next one is."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    nodes: tuple[int, ...]


def scope_of(number: int) -> str:
    """The name under which the operations of a node are traced."""
    return f"n{number}"


def instructions(text: str) -> Iterator[Made]:
    """The instructions of all computations."""
    return _read(text.splitlines())


def entry_instructions(text: str) -> Iterator[Made]:
    """The instructions of the entry computation, in order."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("ENTRY "):
            break
    own = []
    for line in lines:
        if line.startswith("}"):
            break
        own.append(line)
    return _read(own)


def _read(lines: Iterable[str]) -> Iterator[Made]:
    for line in lines:
        name, equals, rest = line.strip().removeprefix("ROOT ").partition(" = ")
        if not equals:
            continue
        end = _closed(rest) if rest.startswith("(") else rest.find(" ")
        kind, rest = rest[:end], rest[end:].lstrip()
        opcode, opened, rest = rest.partition("(")
        if not opened:
            continue
        end = _closed("(" + rest) - 2
        operands = tuple(NAME.findall(rest[:end]))
        yield Made(name.lstrip("%"), kind, opcode, operands, _nodes(rest[end:]))


def _nodes(text: str) -> tuple[int, ...]:
    """The numbers in what XLA says of an instruction's origin; of several that it has joined, of
    the first: `(n3/psum:n5/psum)`."""
    found = ORIGIN.search(text)
    if found is None:
        return ()
    return tuple(map(int, NUMBER.findall(found[1].partition(":")[0])))


def _closed(text: str) -> int:
    """Where the bracket ends with which a text begins."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return place + 1
    return len(text)

"""What a compiled program has in memory when it has most: read off XLA's text of it.

Each value of the entry computation has bytes from the instruction that makes it to the last that
reads it, in the order that XLA has chosen.  Its buffers may still share what these count twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import NamedTuple

NUMBER = re.compile(r"/n(\d+)(?:/|\")")  # the scope of a node, in what XLA says of its origin
ARRAY = re.compile(r"([a-z]\w*)\[([\d,]*)\]")
BITS = re.compile(r"\d+")
VIEWS = {"bitcast", "get-tuple-element", "tuple", "opt-barrier", "optimization-barrier", "domain"}
GIVEN = {"parameter", "constant"}


class Made(NamedTuple):
    """An instruction: its name, type, opcode, operands, and the number of the node that it is
    made for."""

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    node: int | None


def scope_of(number: int) -> str:
    """The name under which the operations of a node are traced."""
    return f"n{number}"


def fullest(text: str) -> dict[int | None, int]:
    """The bytes of values at the moment when those that are neither given nor results have most,
    by the numbers of their nodes; None for what is of none.  Nothing where XLA's text is not
    understood."""
    made = list(_instructions(text))
    owners: dict[str, tuple[str, ...]] = {}
    last: dict[str, int] = {}
    nbytes: dict[str, int] = {}
    for place, one in enumerate(made):
        read = [owner for name in one.operands for owner in owners.get(name, ())]
        last.update(dict.fromkeys(read, place))
        if one.opcode in VIEWS or (one.opcode == "copy" and not read):  # of what is overwritten
            owners[one.name] = tuple(dict.fromkeys(read))
        elif one.opcode not in GIVEN:
            owners[one.name] = (one.name,)
            nbytes[one.name] = _nbytes(one.type)
            last[one.name] = place
    results = set(owners.get(made[-1].name, ())) if made else set[str]()
    alive: dict[str, int | None] = {}
    now, most, found = 0, 0, dict[str, int | None]()
    ends: dict[int, list[str]] = {}
    for name, place in last.items():
        ends.setdefault(place, []).append(name)
    for place, one in enumerate(made):
        if one.name in nbytes and one.name not in results:
            alive[one.name] = one.node
            now += nbytes[one.name]
        if now > most:
            most, found = now, dict(alive)
        for name in ends.get(place, ()):
            if alive.pop(name, "none") != "none":
                now -= nbytes[name]
    by_node: dict[int | None, int] = {}
    for name, node in found.items():
        by_node[node] = by_node.get(node, 0) + nbytes[name]
    return by_node


def _instructions(text: str) -> Iterator[Made]:
    """The instructions of the entry computation, in order."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("ENTRY "):
            break
    for line in lines:
        if line.startswith("}"):
            return
        name, equals, rest = line.strip().removeprefix("ROOT ").partition(" = ")
        if not equals:
            continue
        end = _closed(rest) if rest.startswith("(") else rest.find(" ")
        kind, rest = rest[:end], rest[end:].lstrip()
        opcode, opened, rest = rest.partition("(")
        if not opened:
            continue
        end = _closed("(" + rest) - 2
        operands = re.findall(r"%([\w.\-]+)", rest[:end])
        number = NUMBER.findall(rest[end:])
        yield Made(
            name.lstrip("%"), kind, opcode, tuple(operands), int(number[-1]) if number else None
        )


def _closed(text: str) -> int:
    """Where the bracket ends with which a text begins."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return place + 1
    return len(text)


def _nbytes(kind: str) -> int:
    """The bytes of an array, or of all in a tuple."""
    found = 0
    for name, sizes in ARRAY.findall(kind):
        bits = BITS.search(name)
        width = 1 if name == "pred" or bits is None else max(int(bits.group()) // 8, 1)
        found += width * prod(int(one) for one in sizes.split(",") if one)
    return found

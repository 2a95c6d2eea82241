"""What a compiled program has in memory when it has most: read off XLA's text of it.

Each value of the entry computation has bytes from the instruction that makes it to the last that
reads it, in the order that XLA has chosen.  Its buffers may still share what these count twice.
"""

from __future__ import annotations

import re
from math import prod

from chainrule.execute.xla.text_of_program import entry_instructions

ARRAY = re.compile(r"([a-z]\w*)\[([\d,]*)\]")
BITS = re.compile(r"\d+")
VIEWS = {"bitcast", "get-tuple-element", "tuple", "opt-barrier", "optimization-barrier", "domain"}
GIVEN = {"parameter", "constant"}


def fullest(text: str) -> dict[int | None, int]:
    """The bytes of values at the moment when those that are neither given nor results have most,
    by the numbers of their nodes; None for what is of none.  Nothing where XLA's text is not
    understood."""
    made = list(entry_instructions(text))
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
            alive[one.name] = one.nodes[0] if one.nodes else None
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


def _nbytes(kind: str) -> int:
    """The bytes of an array, or of all in a tuple."""
    found = 0
    for name, sizes in ARRAY.findall(kind):
        bits = BITS.search(name)
        width = 1 if name == "pred" or bits is None else max(int(bits.group()) // 8, 1)
        found += width * prod(int(one) for one in sizes.split(",") if one)
    return found

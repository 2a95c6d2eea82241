"""Says why elements are 0."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from chainrule.control.cond_node import cond
from chainrule.control.wording import in_words
from chainrule.explain.nonfinite.phrases import Names, composite, computed, phrase
from chainrule.explain.zeros.causes import Why
from chainrule.graph.node import Node
from chainrule.graph.words import printable
from chainrule.primitives.indexing import gather
from chainrule.primitives.primitive import MOVING
from chainrule.primitives.sources import input_

if TYPE_CHECKING:
    from chainrule.explain.zeros.frames import Frame, Frames

MOST_RUNS = 6  # of times


def because(node: Node, why: Why, names: Names) -> str:
    """A clause: `h = maximum(z, 0) passes nothing back`, `x is 0`."""
    if why is Why.GIVEN:
        return f"{phrase(node, names)} is 0" if node.primitive is input_ else "a constant is 0"
    if why is Why.INDEPENDENT:
        return "nothing depends on it"
    if why is Why.INSIDE:
        return f"{in_words(node)} gives 0; to look at each of its values would take too long"
    if why is Why.UNDERFLOW:
        return f"{_value(node, names)} is too small for {node.dtype}"
    if why is Why.CANCELLED:
        return f"the terms of {_value(node, names)} cancel, or round to 0"
    if why is Why.APART:
        return f"of each product in {_value(node, names)}, a factor is 0"
    forward = node.origin.node
    if node.origin.transform and forward is not None:
        verb = "does not read these elements" if is_unread(node, why) else "passes nothing back"
        return f"{_value(forward, names)} {verb}"
    return f"{_value(node, names)} is 0"


def within(turns: Collection[Frame], frames: Frames) -> str:
    """Where something is: `at t = 1 to 3 (of 12) of the loop over cell`; "" in no turn."""
    chains: dict[tuple[str, ...], list[list[Frame]]] = {}
    for turn in turns:
        chain = [*turn.outwards]
        chains.setdefault(tuple([one.name for one in chain]), []).append(chain)
    told = [
        " ".join(_turns(level, frames) for level in zip(*some, strict=True))
        for _, some in sorted(chains.items())
    ]
    return " and ".join(told)


def _turns(level: Sequence[Frame], frames: Frames) -> str:
    holder = level[0].holder
    assert holder is not None
    name = printable(level[0].name)
    if holder.node.primitive is cond:
        return f"in the branch {name}" if name else "in the branch of a choice"
    rows = {one.row for one in level}
    count = 1 + max(one.row for one in frames.made[holder] or level)
    loop = f"the loop over {name}" if name else "a loop"
    if len(rows) == count:
        return f"at each t of {loop}"
    return f"at t = {_ranges(rows)} (of {count:,}) of {loop}"


def _ranges(rows: Collection[int]) -> str:
    """`1 to 3, 7`: counted from 1."""
    runs: list[list[int]] = []
    for row in sorted(rows):
        if runs and row == runs[-1][1] + 1:
            runs[-1][1] = row
        else:
            runs.append([row, row])
    told = [f"{a + 1:,}" if a == b else f"{a + 1:,} to {b + 1:,}" for a, b in runs]
    return ", ".join([*told[:MOST_RUNS], *(["..."] if len(told) > MOST_RUNS else [])])


def is_unread(node: Node, why: Why) -> bool:
    """Whether an end of the walk is that the forward pass only does not read the elements."""
    forward = node.origin.node
    if why is not Why.OPERATION or not node.origin.transform or forward is None:
        return False
    return forward.primitive is gather or isinstance(forward.primitive.kernel, MOVING)


def _value(node: Node, names: Names) -> str:
    """`h = maximum(z, 0)`; without a name, how it is computed."""
    made = (composite(node, names) or computed(node, names)) if node.inputs else ""
    if node not in names:
        return made or phrase(node, names)
    name = printable(names[node])
    return f"{name} = {made}" if made not in ("", name) else name

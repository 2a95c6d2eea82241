"""`Value`, one named value of a memory report."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.explain.memory.kinds import Kind


@dataclass(frozen=True)
class Value:
    """One named value: its type and bytes, and when it is in memory.

    Instructions are counted from 1; 0 is before the first.  `stored` is False for a value that is
    used where it comes about and never written: it takes no bytes, and `nbytes` is what its array
    would have.  `in_place` says that its bytes are those of another value, for which they are
    counted: of a parameter before its update.  `kept_because` says which later value needs it; ""
    for one that is needed at once.  `again_at`: the instructions that compute it again.
    """

    name: str
    type: str
    nbytes: int
    kind: Kind
    stored: bool
    in_place: bool
    made_at: int
    last_needed_at: int
    kept_because: str
    again_at: tuple[int, ...] = ()

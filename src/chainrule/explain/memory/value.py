"""`Value`, one named value of a memory report."""

from __future__ import annotations

from chainrule.dataclass import dataclass
from chainrule.explain.memory.kinds import Kind
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.explain.memory.why import reason, seen_in, whole_name
from chainrule.graph.node import Node


@dataclass(frozen=True)
class Value:
    """One named value: its type and bytes, and when it is in memory.

    Instructions are counted from 1; 0 is before the first.  `stored` is False for a value that is
    used where it comes about and never written: it takes no bytes, and `nbytes` is what its array
    would have.  `in_place` says that its bytes are those of another value, for which they are
    counted: of a parameter before its update.  `kept_because` says which later value needs it; ""
    for one that is needed at once.  `again_at`: the instructions that compute it again.
    `view_of`: the stored value whose memory it is a view of, with that one's times; "" for others.
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
    view_of: str = ""


def value_of(run: RunMemory, name: str, node: Node) -> Value:
    """What a run does with the value that has this name."""
    base = seen_in(run, node)
    lives, made = run.lives_of.get(base or node, ()), run.made_at(base or node)
    stored, kind = bool(lives) and base is None, run.kinds[node]
    return Value(
        name=name,
        type=str(node.type),
        nbytes=int(node.type.nbytes),
        kind=run.kinds[base] if base is not None and kind is Kind.TEMPORARY else kind,
        stored=stored,
        in_place=stored and lives[-1].in_place,
        made_at=lives[0].first if lives and lives[0].first else made,
        last_needed_at=lives[-1].last_read if lives else made,
        kept_because=reason(run, node),
        again_at=tuple(life.first for life in lives[1:]),
        view_of="" if base is None else whole_name(run, base),
    )

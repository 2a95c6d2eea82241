"""What a plan computes again: from what, at which cost, and which bytes are free meanwhile."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from chainrule.dataclass import dataclass
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.explain.memory.why import first_named
from chainrule.graph.node import Node
from chainrule.schedule.usage import Life

if TYPE_CHECKING:
    from chainrule.plan.speeds import Speeds

SMALL = 64  # bytes of a source that is not worth telling


@dataclass(frozen=True)
class Repeat:
    """Instruction `number` of a plan computes `values` again, from `sources`.

    Both are names; an array without one is called after the named value that it is a part of.
    `nanoseconds` is about how long the instruction takes; where the values come about on the way to
    others, for which the instruction is there, it is 0 and there are no sources.  Meanwhile, from
    instruction `free_from` on, `nbytes` are free.  `nodes` and `reads` are the nodes of `values`
    and `sources`, in the graph of the plan.
    """

    number: int
    values: tuple[str, ...]
    sources: tuple[str, ...]
    nanoseconds: float
    nbytes: int
    free_from: int
    nodes: tuple[Node, ...]
    reads: tuple[Node, ...]

    def json(self) -> dict[str, Any]:
        """As a dict that `json.dumps` takes."""
        return {
            "instruction": self.number,
            "values": list(self.values),
            "sources": list(self.sources),
            "nanoseconds": self.nanoseconds,
            "nbytes": self.nbytes,
            "free_from": self.free_from,
        }


def repeats_of(run: RunMemory, speeds: Speeds | None = None) -> tuple[Repeat, ...]:
    """What the run computes again, instruction by instruction; times as `Tradeoff` tells them."""
    begun: dict[int, list[tuple[Life, Life]]] = {}
    for lives in run.lives_of.values():
        for before, life in pairwise(lives):
            begun.setdefault(life.first, []).append((before, life))
    durations = run.durations(speeds)
    done = set[Node]()
    found = []
    for number, one in enumerate(run.computes, 1):
        is_again = done.issuperset(one.nodes)
        done.update(one.nodes)
        if number not in begun:
            continue
        nodes = tuple(life.node for _, life in begun[number])
        reads = tuple(node for node in one.reads if is_again and int(node.type.nbytes) >= SMALL)
        found.append(
            Repeat(
                number,
                called(run, nodes),
                called(run, reads),
                durations[number - 1] if is_again and durations else 0.0,
                sum(life.nbytes for _, life in begun[number] if not life.in_place),
                min(before.last for before, _ in begun[number]) + 1,
                nodes,
                reads,
            )
        )
    return tuple(found)


def called(run: RunMemory, nodes: Collection[Node]) -> tuple[str, ...]:
    """The names of nodes, each once; `a part of z` for those without one."""
    names = run.graph.name_of
    found: dict[str, None] = {}
    for node in nodes:
        name = names.get(node)
        if name is None:
            whole = first_named(run, node)
            name = f"a part of {whole}" if whole else run.names[node]
        found[name] = None
    return tuple(found)

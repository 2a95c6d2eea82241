"""What lies in the result of a loop: values with a name, and rows kept of its iterations.

A loop gives all that it computes in one array.  Beside its final states and what it stacks for the
program, that are the rows that its backward pass reads instead of computing them again.
"""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.control.packing import stacked_type
from chainrule.control.scan_node import scan
from chainrule.control.scan_rules import loop_of, shown_carries
from chainrule.control.wording import in_words
from chainrule.dataclass import dataclass
from chainrule.explain.memory.kinds import Kind
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.graph.body import holds_bodies
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.node import Node
from chainrule.primitives.movement import slice_
from chainrule.schedule.virtual import shows_its_input

NAMES = 2  # that are told of many


@dataclass(frozen=True)
class Block:
    """The result of a loop: `what` it is, in words, and the bytes of its parts.

    `named` are those of values with a name, `kept_nbytes` the rows of its iterations that have
    none, `other_nbytes` all else.  `is_saved`: what comes after the forward pass reads them.
    """

    what: str
    nbytes: int
    named: Mapping[str, int]
    kept_nbytes: int
    is_saved: bool

    @property
    def other_nbytes(self) -> int:
        """What is neither."""
        return self.nbytes - sum(self.named.values()) - self.kept_nbytes

    @property
    def title(self) -> str:
        """`the loop over cell: h and what is kept of its iterations`."""
        found = _some(list(self.named))
        if self.kept_nbytes:
            found.append("what is kept of its iterations")
        if not found:
            return self.what
        return f"{self.what}: {_listed(found)}"

    @property
    def parts(self) -> str:
        """`h 1 KiB, kept of its iterations for the backward pass 72 KiB`."""
        known = list(self.named.items())
        found = [f"{name} {in_bytes(nbytes)}" for name, nbytes in known[:NAMES]]
        if len(known) > NAMES:
            rest = sum(nbytes for _, nbytes in known[NAMES:])
            found.append(f"{len(known) - NAMES} more {in_bytes(rest)}")
        if self.kept_nbytes:
            purpose = " for the backward pass" if self.is_saved else ""
            found.append(f"kept of its iterations{purpose} {in_bytes(self.kept_nbytes)}")
        if self.other_nbytes and found:
            found.append(f"other results {in_bytes(self.other_nbytes)}")
        return ", ".join(found)


def block_of(run: RunMemory, node: Node) -> Block | None:
    """What lies in the result of a loop or a choice; None for other nodes."""
    if not holds_bodies(node):
        return None
    total, item = int(node.type.size), node.dtype.itemsize
    rows = _rows_from(node)
    largest: dict[tuple[int, int], tuple[str, int]] = {}  # by place, what has most of it
    pending = [(node, (0, total), True)]
    while pending:
        one, span, is_flat = pending.pop()
        for view in run.users.get(one, ()):
            if not shows_its_input(view.primitive) or view.dtype != node.dtype:
                continue
            inner, flat = _inside(view, span) if is_flat else (span, False)
            name, size = run.graph.name_of.get(view), min(int(view.type.size), inner[1])
            if name and size > largest.get(inner, ("", 0))[1]:
                largest[inner] = name, size
            pending.append((view, inner, flat))
    spans = _apart(largest)
    named = {largest[span][0]: largest[span][1] * item for span in spans}
    taken = sum(largest[span][1] for span in spans if span[0] >= rows)
    kept = (total - rows - taken) * item
    return Block(in_words(node), total * item, named, kept, run.kinds[node] is Kind.SAVED)


def _rows_from(node: Node) -> int:
    """Where in its result the rows of the iterations begin; at the end where it has none."""
    if node.primitive is not scan:
        return int(node.type.size)
    loop = loop_of(node, node.inputs)
    rows = sum(int(stacked_type(one.type, loop.length).size) for one in loop.stacked)
    carries = sum(int(loop.carries[i].before.type.size) for i in shown_carries(node, loop))
    assert carries + rows == node.type.size, "a loop gives its states, then its rows"
    return carries


def _inside(view: Node, span: tuple[int, int]) -> tuple[tuple[int, int], bool]:
    """Where a view of a flat part lies, as the first element and how many; whether it is flat."""
    is_flat = view.primitive is slice_ and view.ndim == 1 and view.param("step") == (1,)
    if not is_flat:
        return span, False
    return (span[0] + int(view.param("start")[0]), int(view.type.size)), True


def _apart(spans: Mapping[tuple[int, int], object]) -> list[tuple[int, int]]:
    """Those spans that lie in no other, in their order; parts never overlap otherwise."""
    found: list[tuple[int, int]] = []
    for start, size in sorted(spans, key=lambda one: (one[0], -one[1])):
        if not found or start >= found[-1][0] + found[-1][1]:
            found.append((start, size))
    return found


def _some(names: list[str]) -> list[str]:
    rest = len(names) - NAMES
    return [*names[:NAMES], *([f"{rest} more"] if rest > 0 else [])]


def _listed(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last

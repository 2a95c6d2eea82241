"""Which works may stop a run: those that are the first to check an index.

Nothing given is overwritten while an index may still be found out of range.  But the gradient of a
gather scatters at the indices that the gather has checked, and cannot fail where that did not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from chainrule.graph.node import Node
from chainrule.primitives.indexing import bounds
from chainrule.primitives.primitive import Gather


class Check(NamedTuple):
    """That all of the indices are from `low` to `high`."""

    indices: Node
    low: int
    high: int


class Checking(Protocol):
    """What may stop a run: always (`fails`), or by its checks."""

    @property
    def fails(self) -> bool: ...

    @property
    def checks(self) -> Sequence[Check]: ...


def checks_of(nodes: Iterable[Node]) -> tuple[Check, ...]:
    """What is checked where these nodes are computed."""
    gathers = (node for node in nodes if isinstance(node.primitive.kernel, Gather))
    return tuple(dict.fromkeys(Check(*one) for node in gathers for one in bounds(node)))


class Checked:
    """The checks that were made, and by whom: numbers of works or of nodes."""

    def __init__(self) -> None:
        self._made: defaultdict[Node, list[tuple[Check, int]]] = defaultdict(list)
        self._is_exact: dict[Node, bool] = {}

    def add(self, check: Check, number: int) -> None:
        """The check was made, and did not fail."""
        if self._exact(check.indices):
            self._made[check.indices].append((check, number))

    def by(self, check: Check) -> int | None:
        """The number of the work that made a check which implies this one; None if none did."""
        found = self._made.get(check.indices, ())
        return next(
            (n for one, n in found if check.low <= one.low and one.high <= check.high), None
        )

    def _exact(self, index: Node) -> bool:
        """Whether all that compute the index get the same numbers: it is made of integers only.
        What is made of floats may be rounded otherwise in another kernel."""
        pending = [index]
        while pending:
            node = pending[-1]
            missing = [one for one in node.inputs if one not in self._is_exact]
            if node.dtype.kind in "iub" and missing:
                pending += missing
                continue
            pending.pop()
            exact = all(self._is_exact.get(one, False) for one in node.inputs)
            self._is_exact[node] = exact and node.dtype.kind in "iub"
        return self._is_exact[index]


def reliance(works: Iterable[Checking]) -> tuple[list[bool], list[list[int]]]:
    """For each work of a sequence, whether it may stop the run; and the numbers of those whose
    checks say that it cannot, so that it must come after them."""
    stops: list[bool] = []
    relies: list[list[int]] = []
    checked = Checked()
    for number, work in enumerate(works):
        makers = [checked.by(check) for check in work.checks]
        stops.append(work.fails or None in makers)
        relies.append([one for one in dict.fromkeys(makers) if one is not None])
        for check, maker in zip(work.checks, makers, strict=True):
            if maker is None:
                checked.add(check, number)
    return stops, relies

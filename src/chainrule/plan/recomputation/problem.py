"""The numbers of a program that is to fit into a budget of bytes, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import index
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass, replace
from chainrule.errors import InputError
from chainrule.plan.recomputation.arrays import Arrays, flags, rows_of

# Of all bytes together, and of all costs: the search counts in 64 bits.
MOST_NBYTES, MOST_COST = 1 << 62, 1 << 56

BESIDE_BUDGET = ("plain_cost", "needed_nbytes", "least_nbytes", "earlier", "later", "arrays")

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Problem:
    """Nodes 0 to n - 1: the bytes of their values, their costs, and who reads whom.

    `inputs[v]` are the nodes that v reads, `readers[v]` those that read v, each once and in
    ascending order.  `workspace[v]` are bytes that v needs only while it executes.  Values of
    `kept` stay to the end, nodes of `once` execute exactly once, and for each pair (u, v) of
    `before` no execution of u comes after the first of v.  `order` is a sequence that executes
    every node once and obeys all of this, but perhaps not the budget.  Of nodes of `fixed`, the
    search does not move the first execution: they execute together.
    """

    nbytes: Numbers
    cost: Numbers
    workspace: Numbers
    inputs: tuple[Numbers, ...]
    readers: tuple[Numbers, ...]
    order: Numbers
    budget_nbytes: int
    kept: frozenset[int]
    once: frozenset[int]
    before: tuple[tuple[int, int], ...]
    fixed: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nbytes)

    def within(self, nbytes: int) -> Problem:
        """The same with another budget; what is known of the other numbers is shared."""
        made = replace(self, budget_nbytes=nbytes)
        _ = self.plain_cost, self.least_nbytes, self.arrays
        vars(made).update({name: vars(self)[name] for name in BESIDE_BUDGET})
        return made

    @cached_property
    def plain_cost(self) -> int:
        """The cost of executing every node once."""
        return sum(self.cost)

    @cached_property
    def needed_nbytes(self) -> Numbers:
        """For each node, the bytes of what it reads, of its value, and of its workspace."""
        return tuple(
            self.nbytes[v] + self.workspace[v] + sum(self.nbytes[u] for u in self.inputs[v])
            for v in range(self.size)
        )

    @cached_property
    def least_nbytes(self) -> int:
        """Bytes below which no sequence can be: what one node needs, or all that is kept."""
        kept = sum(self.nbytes[v] for v in self.kept)
        return max((*self.needed_nbytes, kept), default=0)

    @cached_property
    def earlier(self) -> tuple[Numbers, ...]:
        """For each v, the nodes u of the pairs (u, v) in `before`."""
        return grouped(self.size, ((v, u) for u, v in self.before))

    @cached_property
    def later(self) -> tuple[Numbers, ...]:
        """For each u, the nodes v of the pairs (u, v) in `before`."""
        return grouped(self.size, self.before)

    @cached_property
    def arrays(self) -> Arrays:
        """The same numbers for NumPy and machine code."""
        return Arrays(
            nbytes=np.array(self.nbytes, np.int64),
            cost=np.array(self.cost, np.int64),
            workspace=np.array(self.workspace, np.int64),
            inputs=rows_of(self.inputs),
            readers=rows_of(self.readers),
            earlier=rows_of(self.earlier),
            later=rows_of(self.later),
            before=np.array(self.before, np.int64).reshape(-1, 2).T,
            kept=flags(self.size, self.kept),
            once=flags(self.size, self.once),
            fixed=flags(self.size, self.fixed),
        )


def problem(
    nbytes: Sequence[int],
    cost: Sequence[int],
    reads: Iterable[tuple[int, int]],
    order: Sequence[int],
    budget_nbytes: int,
    *,
    workspace: Sequence[int] | None = None,
    kept: Iterable[int] | None = None,
    once: Iterable[int] = (),
    before: Iterable[tuple[int, int]] = (),
    fixed: Iterable[int] = (),
) -> Problem:
    """The problem with these numbers; InputError says which of them is wrong."""
    sizes = counts("nbytes", nbytes, MOST_NBYTES)
    size = len(sizes)
    costs = counts("cost", cost, MOST_COST)
    extra = (0,) * size if workspace is None else counts("workspace", workspace, MOST_NBYTES)
    for name, found in (("cost", costs), ("workspace", extra)):
        if len(found) != size:
            raise InputError(
                f"nbytes has {size} numbers and {name} has {len(found)}",
                hint="one number for each node in both",
            )
    pairs = node_pairs("reads", reads, size)
    inputs, readers = grouped(size, ((v, u) for u, v in pairs)), grouped(size, pairs)
    first = tuple(node_number("order", one, size) for one in listed("order", order))
    behind = node_pairs("before", before, size)
    _check_order(first, inputs, behind, size)
    budget = _integer("budget_nbytes", budget_nbytes)
    if budget < 0:
        raise InputError(f"budget_nbytes is {budget}", hint="a number of bytes, 0 or more")
    unread = (v for v in range(size) if not readers[v])
    return Problem(
        nbytes=sizes,
        cost=costs,
        workspace=extra,
        inputs=inputs,
        readers=readers,
        order=first,
        budget_nbytes=budget,
        kept=frozenset(unread if kept is None else (node_number("kept", v, size) for v in kept)),
        once=frozenset(node_number("once", v, size) for v in once),
        before=behind,
        fixed=frozenset(node_number("fixed", v, size) for v in fixed),
    )


def _integer(name: str, value: object) -> int:
    try:
        return index(value)  # pyrefly: ignore[bad-argument-type]
    except TypeError:
        raise InputError(
            f"{name} has {value!r}, which is no integer",
            hint="integers; count costs in a smaller unit, such as nanoseconds",
        ) from None


def listed(name: str, values: Any) -> tuple[Any, ...]:
    """The values one after another; InputError for what has none."""
    try:
        return tuple(values)
    except TypeError:
        raise InputError(f"{name} is {values!r}", hint=f"{name}=[...], a list") from None


def counts(name: str, values: Sequence[int], most: int) -> Numbers:
    """The values, each an integer that is not negative."""
    found = tuple(_integer(name, one) for one in listed(name, values))
    for node, value in enumerate(found):
        if value < 0:
            raise InputError(f"{name} of node {node} is {value}", hint="integers, 0 or more")
    if sum(found) >= most:
        raise InputError(
            f"{name} has {sum(found):,} in all, and at most {most - 1:,} can be counted",
            hint="count in a larger unit",
        )
    return found


def node_number(name: str, value: object, size: int) -> int:
    node = _integer(name, value)
    if not 0 <= node < size:
        raise InputError(
            f"{name} has node {node}, and nbytes has {size} numbers",
            hint=f"nodes are numbered from 0 to {size - 1}" if size else "there are no nodes",
        )
    return node


def node_pairs(
    name: str, pairs: Iterable[tuple[int, int]], size: int
) -> tuple[tuple[int, int], ...]:
    found: dict[tuple[int, int], None] = {}
    for one in listed(name, pairs):
        try:
            u, v = one
        except (TypeError, ValueError):
            raise InputError(f"{name} has {one!r}", hint="pairs of nodes, (u, v)") from None
        found[node_number(name, u, size), node_number(name, v, size)] = None
    return tuple(found)


def grouped(size: int, pairs: Iterable[tuple[int, int]]) -> tuple[Numbers, ...]:
    """For each node, in ascending order, the second of the pairs whose first it is."""
    found: list[list[int]] = [[] for _ in range(size)]
    for one, other in pairs:
        found[one].append(other)
    return tuple(tuple(sorted(one)) for one in found)


def _check_order(
    order: Numbers, inputs: tuple[Numbers, ...], before: tuple[tuple[int, int], ...], size: int
) -> None:
    """InputError unless the order executes each node once, after what it reads."""
    place = {node: at for at, node in enumerate(order)}
    hint = "each node once, after all that it reads"
    if len(place) != len(order):
        twice = next(node for at, node in enumerate(order) if place[node] != at)
        raise InputError(f"order has node {twice} twice", hint=hint)
    if len(order) != size:
        missing = next(node for node in range(size) if node not in place)
        raise InputError(f"order lacks node {missing}", hint=hint)
    for v, read in enumerate(inputs):
        for u in read:
            if place[u] >= place[v]:
                what = (
                    f"node {v} reads itself"
                    if u == v
                    else f"node {v} reads node {u}, which comes after it in order"
                )
                raise InputError(what, hint=f"a topological order: {hint}; reads may have no cycle")
    for u, v in before:
        if place[u] >= place[v]:
            raise InputError(
                f"before has ({u}, {v}), and node {u} does not come before node {v} in order",
                hint="an order that obeys all pairs of before",
            )

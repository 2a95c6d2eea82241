"""What each sweep over the columns of a row computes, and what it keeps for the sweeps after it.

A value of an earlier sweep that is needed again is read again if the nest has written it, computed
again if that is cheap, and otherwise kept in a buffer of one row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from chainrule.graph.node import Node
from chainrule.plan.loops.loop_work import Instance, Kind, LoopNest, Store
from chainrule.primitives.arithmetic import divide, integer_power
from chainrule.primitives.primitive import Map

CHEAP = 6  # operations for each point that cost less than a load and a store
# Operations that one call of a function counts for.
COSTS = {"sqrt": 4, "pow": 24, "where": 1, "cast": 1, "fabs": 1, "fmax_nan": 2, "fmin_nan": 2}
FUNCTION = 12
# By a number of the row: one division for the row, and for each column less than a buffer costs.
QUOTIENT = 2


@dataclass(eq=False)
class Sweep:
    """One pass over the columns of a row.

    `before` are computed once for the row when the pass begins; `computes` in every column, in
    order; of these `saves` are put into the row's buffer; `restores` are taken from it, `rereads`
    from the array that an earlier sweep has written.  `folds` are the reductions that end with it.
    `work` is how many values it computes in a column, by which code decides how many vectors its
    reductions take at once; in a part of a nest, what it is in the whole one.
    """

    before: list[Instance] = field(default_factory=list)
    row_stores: list[Store] = field(default_factory=list)
    computes: list[Instance] = field(default_factory=list)
    restores: list[Instance] = field(default_factory=list)
    rereads: dict[Instance, Store] = field(default_factory=dict)
    saves: list[Instance] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    folds: list[Instance] = field(default_factory=list)
    work: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the columns need not be gone over."""
        return not self.stores and not self.folds


def expression_cost(node: Node) -> int:
    """About how many operations one element of an elementwise node costs."""
    kernel = node.primitive.kernel
    assert isinstance(kernel, Map)
    if node.primitive is integer_power:
        return 2 * abs(node.param("exponent")).bit_length()
    return _expression_cost(kernel.expression)


@lru_cache(maxsize=1024)  # a graph has few, and each is asked for many times
def _expression_cost(expression: str) -> int:
    total = sum(expression.count(sign) for sign in "+-*&|=<>") + 4 * expression.count("/")
    name, bracket, _ = expression.partition("(")
    return total + COSTS.get(name, FUNCTION) if bracket else total


def is_row_quotient(one: Instance) -> bool:
    """Whether columns are divided by a number that all of the row share."""
    return one.kind is Kind.MAP and one.node.primitive is divide and not one.operands[1].inner


def cost(one: Instance) -> int:
    """About how many operations one point of an instance costs, without its operands."""
    return expression_cost(one.node) if one.kind is Kind.MAP else 1


def sweeps(nest: LoopNest) -> list[Sweep]:
    """The sweeps of a nest, in order; one more than needed holds what comes after the last.

    Each value is stored as soon as it can be computed.
    """
    return _sweeps(nest, {})


def sweeps_storing_last(nest: LoopNest) -> list[Sweep]:
    """The same, but values of columns are stored in the last sweep, all of them."""
    last = max(nest.sweeps - 1, 0)
    moved = (one for one in nest.stores if one.inner and not reduces_columns(nest, one))
    return _sweeps(nest, dict.fromkeys(moved, last))


def reduces_columns(nest: LoopNest, store: Store) -> bool:
    """Whether it is a reduction to which each row adds one value, that of all its columns."""
    return store.fold and not store.indices and not any(store.place[1 + len(nest.rows) :])


def _sweeps(nest: LoopNest, later: dict[Store, int]) -> list[Sweep]:
    """The sweeps, with some stores in later ones than those that compute the values first."""
    count = nest.sweeps
    found = [Sweep() for _ in range(count + 1)]
    for one in nest.instances:
        if not one.inner and not one.uniform:
            found[one.sweep].before.append(one)
        if one.kind is Kind.FOLD:
            found[one.sweep - 1].folds.append(one)
    written: dict[Instance, Store] = {}
    for store in nest.stores:
        sweep = found[later.get(store, store.value.sweep)]
        (sweep.stores if store.inner else sweep.row_stores).append(store)
        if store.inner and not store.fold and store not in later:
            written.setdefault(store.value, store)
    order = {one: place for place, one in enumerate(nest.instances)}
    earlier: dict[Instance, int] = {}
    for number, sweep in enumerate(found):
        roots = [x for s in sweep.stores for x in (s.value, *s.indices)]
        roots += [fold.operands[0] for fold in sweep.folds]
        _fill(sweep, roots, earlier, written, order)
        for one in sweep.restores:
            home = found[earlier[one]]
            if one not in home.saves:
                home.saves.append(one)
        for one in sweep.computes:
            earlier.setdefault(one, number)
    return found


def _fill(
    sweep: Sweep,
    roots: list[Instance],
    earlier: dict[Instance, int],
    written: dict[Instance, Store],
    order: dict[Instance, int],
) -> None:
    """What the sweep computes for its roots, and what it has from earlier ones."""
    seen: set[Instance] = set()
    pending = [one for one in roots if one.inner]
    while pending:
        one = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        if one in earlier and one.kind is not Kind.LOAD:
            if one in written and written[one] not in sweep.stores:
                sweep.rereads[one] = written[one]
                continue
            if _whole_cost(one) > CHEAP:
                sweep.restores.append(one)
                continue
        sweep.computes.append(one)
        pending += [x for x in one.operands if x.inner]
    sweep.computes.sort(key=order.__getitem__)
    sweep.work = len(sweep.computes)
    sweep.restores.sort(key=order.__getitem__)


def _whole_cost(one: Instance) -> int:
    """The cost of a value and of all that it is computed from in the same column."""
    seen: set[Instance] = set()
    pending, total = [one], 0
    while pending and total <= CHEAP:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            total += QUOTIENT if is_row_quotient(node) else cost(node)
            pending += [x for x in node.operands if x.inner]
    return total

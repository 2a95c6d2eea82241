"""The axes that a loop nest really has: neighbours merged where every address allows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from chainrule.dataclass import dataclass, replace
from chainrule.plan.loops.loop_work import Instance, Kind, LoopNest
from chainrule.primitives.affine import Affine, Domain

STRIP = 4096  # points in one row where a nest runs through memory from end to end


@dataclass(frozen=True)
class Strip:
    """One long axis cut into rows of `length` points; the last row may be shorter."""

    total: int
    length: int


def merged(nest: LoopNest) -> tuple[LoopNest, Strip | None]:
    """The nest with as few axes as its addresses allow.

    Where no value belongs to a row as a whole, rows and columns are one: then all but the last
    axis are rows, and one single long axis is cut into rows of a `Strip`.
    """
    axes, places = nest.rows + nest.columns, [*_places(nest)]
    groups = _groups(axes, places, None)
    written = {store.node for store in nest.stores}
    free = all(
        one.kind not in (Kind.FOLD, Kind.LOOKUP) and one.source not in written
        for one in nest.instances
    )
    free = free and _counts_once(nest, groups)
    if not free:
        groups = _groups(axes, places, len(nest.rows))
    sizes = [prod(axes[axis] for axis in group) for group in groups]
    rows = len(sizes) - 1 if free else sum(group[-1] < len(nest.rows) for group in groups)
    rows = max(rows, 0)

    def shortened(place: Affine) -> Affine:
        return (place[0], *(place[group[-1] + 1] for group in groups)) if place else place

    strip = None
    if free and len(sizes) == 1 and sizes[0] > STRIP:
        strip = Strip(sizes[0], _strip_length(sizes[0]))
        sizes = [-(-strip.total // strip.length), strip.length]
        rows = 1
        length = strip.length
        inner = shortened

        def shortened(place: Affine) -> Affine:
            found = inner(place)
            return (found[0], found[1] * length, found[1]) if found else found

    return _mapped(nest, tuple(sizes[:rows]), tuple(sizes[rows:]), free, shortened), strip


def _counts_once(nest: LoopNest, groups: list[list[int]]) -> bool:
    """Whether every value that is reduced has its own row, where all axes but the last are rows."""
    rows = [group[-1] + 1 for group in groups[:-1]]
    return all(one.reach[axis] for one in nest.stores if one.fold for axis in rows)


def _places(nest: LoopNest) -> Iterable[Affine]:
    yield from (one.place for one in nest.instances if one.place)
    yield from (one.place for one in nest.stores)
    yield from (one.reach for one in nest.stores)


def _groups(axes: Domain, places: list[Affine], fixed: int | None) -> list[list[int]]:
    """Neighbouring axes that are one for all places; `fixed` is where no two are merged."""
    groups: list[list[int]] = []
    for axis, size in enumerate(axes):
        joins = groups and axis != fixed
        if joins and all(place[axis] == place[axis + 1] * size for place in places):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def _strip_length(total: int) -> int:
    """A length near STRIP that divides the whole, if there is one."""
    for length in range(STRIP, STRIP // 4, -16):
        if total % length == 0:
            return length
    return STRIP


def _mapped(
    nest: LoopNest, rows: Domain, columns: Domain, free: bool, shortened: Callable[[Affine], Affine]
) -> LoopNest:
    """The nest over other axes."""
    new: dict[Instance, Instance] = {}
    axes = len(rows)
    for one in nest.instances:
        place, operands, inner = shortened(one.place), [new[x] for x in one.operands], one.inner
        if free and not one.uniform:
            inner = any(place[axes + 1 :]) or any(x.inner for x in operands)
        new[one] = one.elsewhere(place, tuple(operands), inner)
    stores = []
    for one in nest.stores:
        reach = shortened(one.reach)
        inner = any(reach[axes + 1 :])
        indices = tuple(new[index] for index in one.indices)
        made_store = replace(
            one,
            value=new[one.value],
            place=shortened(one.place),
            reach=reach,
            inner=inner,
            indices=indices,
        )
        stores.append(made_store)
    return LoopNest(rows, columns, stores, list(new.values()), walk=nest.walk)

"""Frames around the calls of the user's functions that are not folded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chainrule.explain.drawing.bands import Flat, operator_key, value_key
from chainrule.explain.drawing.figure import Group, Item
from chainrule.explain.drawing.lanes import Lanes
from chainrule.explain.drawing.looks import Looks
from chainrule.explain.drawing.outline import Branch, units_in
from chainrule.explain.drawing.units import Unit

Links = Sequence[tuple[str, str]]


def frames(
    band: Flat,
    open_branches: Sequence[Branch],
    items: Mapping[str, Item],
    links: Links,
    box_of: Mapping[str, str],
    looks: Looks,
    lanes: Lanes | None = None,
) -> tuple[Group, ...]:
    """A group for each open branch, with the boxes that are in no deeper one.

    A source or a copy that is read in one call only is inside its frame; other sources are in
    their lane.
    """
    if not open_branches:
        return ()
    innermost = _innermost(band, open_branches, box_of)
    _sources(innermost, items, links, _parents(open_branches))
    if lanes is not None:
        frame_of = {branch.scope: branch for branch in open_branches}
        for entry in band.entries:
            if entry.unit is None and entry.key in items and entry.key not in innermost:
                lane = frame_of.get(lanes.scopes[lanes.lane((entry.node,))])
                if lane is not None:
                    innermost[entry.key] = lane
    members: dict[Branch, list[str]] = {branch: [] for branch in open_branches}
    for key in items:
        if key in innermost:
            members[innermost[key]].append(key)
    parents = _parents(open_branches)
    inner: dict[Branch, list[Group]] = {branch: [] for branch in open_branches}
    top: list[Group] = []
    for branch in reversed(open_branches):  # the calls inside come after the one they are in
        groups = tuple(reversed(inner[branch]))
        if not members[branch] and not groups:
            continue
        group = Group(branch.key, tuple(members[branch]), groups, looks.frame(branch))
        parent = parents[branch]
        (top if parent is None else inner[parent]).append(group)
    return tuple(reversed(top))


def _innermost(
    band: Flat, open_branches: Sequence[Branch], box_of: Mapping[str, str]
) -> dict[str, Branch]:
    """The innermost open branch of every box that comes from units."""
    of_unit: dict[Unit, Branch] = {}
    for branch in open_branches:
        for unit in units_in(branch):
            of_unit[unit] = branch
    found: dict[str, Branch] = {}
    for unit in band.units:
        if unit in of_unit:
            keys = [operator_key(unit), value_key(unit.name)] if unit.name else [operator_key(unit)]
            for key in keys:
                found[box_of.get(key, key)] = of_unit[unit]
    return found


def _parents(open_branches: Sequence[Branch]) -> dict[Branch, Branch | None]:
    """The open branch around each one."""
    opened = set(open_branches)
    found: dict[Branch, Branch | None] = {branch: None for branch in open_branches}
    for branch in open_branches:
        for element in branch.elements:
            if isinstance(element, Branch) and element in opened:
                found[element] = branch
    return found


def _sources(
    innermost: dict[str, Branch],
    items: Mapping[str, Item],
    links: Links,
    parents: Mapping[Branch, Branch | None],
) -> None:
    """Put what is read in one call only into that call."""
    readers: dict[str, list[str]] = {}
    made = {target for _, target in links}
    for source, target in links:
        readers.setdefault(source, []).append(target)
    homes = dict(innermost)
    for key, item in items.items():
        if key in made or key in innermost or not item.beside:
            continue
        paths = [_path(homes.get(reader), parents) for reader in readers.get(key, ())]
        common = [ones[0] for ones in zip(*paths, strict=False) if len(set(ones)) == 1]
        if common:
            innermost[key] = common[-1]


def _path(branch: Branch | None, parents: Mapping[Branch, Branch | None]) -> list[Branch]:
    found = []
    while branch is not None:
        found.append(branch)
        branch = parents[branch]
    return found[::-1]

"""Drawings of figures as the page gets them, laid out by its JavaScript in one run of node."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from layout_faults import groups_in, members
from report_layout_copies import shown_again

from chainrule.explain.drawing.figure import (
    SIDE,
    Arrow,
    Band,
    Figure,
    Form,
    Group,
    Item,
    Kept,
    Link,
    Placement,
    Rectangle,
)
from chainrule.explain.drawing.layout.alone import BACKWARD, FORWARD
from chainrule.explain.drawing.scene import Wishes, scene_of
from chainrule.explain.report import layout_data
from chainrule.explain.report.layout_nested import Boxes, Layouts, Pair, nested_data
from chainrule.explain.report.layout_nested import Kept as KeptItem
from chainrule.graph.graph import Graph

PAGE = Path(layout_data.__file__).parent / "page"
RUN = Path(__file__).parent / "report_layout_run.mjs"
FOLDED_WIDTH = 118.0  # of folded scopes in drawings of figures
WORDS = {"role": "", "tip": "", "label": {"size": 14.0, "width": 0.0, "lines": []}}

needs_node = pytest.mark.skipif(
    shutil.which("node") is None, reason="needs node: apt-get install nodejs"
)
States = Sequence[Collection[str]]


@dataclass(frozen=True)
class Laid:
    """One state of a drawing as the page lays it out."""

    placement: Placement
    nbytes: Mapping[tuple[str, str], int | None]  # of dashed arrows
    boxes: Mapping[str, Mapping[str, Any]]
    shown: Mapping[str, tuple[str, list[str]]]  # the box of each item, the scopes around it


def laid_out(cases: Sequence[tuple[Any, States]]) -> list[list[Laid]]:
    """Every drawing in each of the states in which the given scopes are open."""
    told = [[drawing, [sorted(open_) for open_ in states]] for drawing, states in cases]
    done = subprocess.run(
        ["node", RUN, (PAGE / "layout.js").as_uri()],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [[_laid(one) for one in states] for states in json.loads(done.stdout)]


def _laid(told: Mapping[str, Any]) -> Laid:
    def box(one: Mapping[str, Any]) -> Rectangle:
        return Rectangle(*(one.get(side, 0.0) for side in ("x", "y", "width", "height", "below")))

    arrows = [
        Arrow(one["source"], one["target"], tuple(map(tuple, one["points"])), one["kept"])
        for one in told["arrows"]
    ]
    copies = [
        Kept(one["source"], one["target"], Item(one["key"], Form.COPY)) for one in told["copies"]
    ]
    assert len({one["key"] for one in told["boxes"]}) == len(told["boxes"])
    placement = Placement(
        {one["key"]: box(one) for one in told["boxes"]},
        {one["key"]: box(one) for one in told["frames"] if not one["mirrored"]},
        tuple(arrows),
        tuple(copies),
        tuple((top, low) for top, low in told["spans"]),
        told["width"],
        told["height"],
        {one["key"]: box(one) for one in told["frames"] if one["mirrored"]},
    )
    nbytes = {(one["source"], one["target"]): one["nbytes"] for one in told["arrows"]}
    boxes = {one["key"]: one for one in told["boxes"]}
    shown = {key: (box, path) for key, box, path in told["shown"]}
    return Laid(placement, nbytes, boxes, shown)


def figure_data(figure: Figure) -> dict[str, Any]:
    """A figure as data of the page; what is kept is 1, 2, 4, ... bytes each."""
    layouts = Layouts()
    items: list[dict[str, Any]] = []
    bands = []
    for place, band in enumerate((figure.forward, *figure.further)):
        scopes = _scopes(band, figure if place == 0 and figure.backward.items else None, layouts)
        bands.append({"first": len(items), "count": len(band.items), "scopes": scopes})
        items += [_item(item) for item in band.items]
    backward = None
    if figure.backward.items:
        number = {item.key: at for at, item in enumerate(figure.forward.items)}
        own = {item.key: at for at, item in enumerate(figure.backward.items)}
        backward = {
            "band": 0,
            "first": len(items),
            "under": [number[figure.under[item.key]] for item in figure.backward.items],
            "kept": [
                [number[one.source], own[one.target], [at]] for at, one in enumerate(figure.kept)
            ],
        }
        items += [_item(item) for item in figure.backward.items]
    return {
        "items": items,
        "bands": bands,
        "backward": backward,
        "saved": [2**at for at in range(len(figure.kept))],
        "layouts": layouts.all,
        "colours": {"outlines": {}},
    }


def _item(item: Item) -> dict[str, Any]:
    return {
        "key": item.key,
        "form": item.form,
        "width": item.width,
        "height": item.height,
        "below": item.below,
        **WORDS,
    }


def _scopes(band: Band, mirrored: Figure | None, layouts: Layouts) -> list[dict[str, Any]]:
    """The scopes of a band, with their boxes."""
    number = {item.key: at for at, item in enumerate(band.items)}
    below: dict[int, Item] = {}
    kept: list[KeptItem] = []
    links: dict[Pair, int] = {
        (number[one.source], number[one.target]): FORWARD for one in band.links
    }
    if mirrored:
        under = {key: number[one] for key, one in mirrored.under.items()}
        below = {under[item.key]: item for item in mirrored.backward.items}
        for one in mirrored.backward.links:
            pair = under[one.target], under[one.source]
            links[pair] = links.get(pair, 0) | BACKWARD
        kept = [
            KeptItem(number[one.source], under[one.target], one.copy.width, one.copy.height)
            for one in mirrored.kept
        ]
    shown = {band.items[one].key for one in below}
    box = Item("", Form.FOLDED, FOLDED_WIDTH, SIDE)
    folded = {
        one.key: (box, box if shown & members(one) else None) for one in groups_in(band.groups)
    }
    scopes = nested_data(Boxes(band.items, below, folded, kept), links, band.groups, layouts)
    told = {"form": "folded", "width": FOLDED_WIDTH, "height": SIDE} | WORDS
    for scope in scopes[1:]:
        has_mirror = folded[scope["key"]][1] is not None
        scope |= {"title": scope["key"], "box": told, "mirror": told if has_mirror else None}
    return scopes


def group_keys(groups: Sequence[Group]) -> list[str]:
    """The keys of all groups that have items, outer ones first."""
    return [one.key for one in groups_in(groups) if any(inner.items for inner in groups_in([one]))]


def all_scopes(drawing: Mapping[str, Any]) -> list[str]:
    """The keys of all scopes of a drawing."""
    return [scope["key"] for band in drawing["bands"] for scope in band["scopes"][1:]]


def figure_of(graph: Graph, drawing: Mapping[str, Any]) -> Figure:
    """What the static drawing lays out of a graph, in the scopes of the page."""
    figure = scene_of(graph, Wishes(fold="none")).figure
    forward, *further = (
        replace(band, groups=_groups(drawing, told))
        for band, told in zip((figure.forward, *figure.further), drawing["bands"], strict=True)
    )
    return shown_again(replace(figure, forward=forward, further=tuple(further)), drawing)


def _groups(drawing: Mapping[str, Any], band: Mapping[str, Any]) -> tuple[Group, ...]:
    made: dict[int, Group] = {}
    for number in range(len(band["scopes"]) - 1, -1, -1):
        scope = band["scopes"][number]
        kinds = drawing["layouts"][scope["layout"]]["kinds"]
        things = list(zip(kinds, scope["things"], strict=True))
        items = [drawing["items"][band["first"] + thing] for kind, thing in things if kind == 1]
        inner = sorted(thing for kind, thing in things if kind == 2)
        made[number] = Group(
            scope["key"],
            tuple(item["key"] for item in items),
            tuple(made[one] for one in inner),
            as_one=scope.get("kind") == "parameters",
        )
    return made[0].groups


def folded_figure(figure: Figure, opened: Collection[str], boxes: Mapping[str, Any]) -> Figure:
    """What is to be seen of a figure when only some groups are open: folded ones are items, equal
    links are there once.  Written without regard to how the page does it."""
    home: dict[str, str] = {}  # of items inside folded groups, the outermost of these
    frames: dict[str, str] = {}  # of items in open groups from which arrows come as from one
    for band in (figure.forward, *figure.further):
        pending = [(group, "") for group in band.groups]
        while pending:
            group, outer = pending.pop()
            outer = outer or ("" if group.key in opened else group.key)
            if outer:
                home |= dict.fromkeys(group.items, outer)
            elif group.as_one:
                frames |= dict.fromkeys(group.items, group.key)
            pending += [(inner, outer) for inner in group.groups]
    below = {one: f"backward of {home[up]}" for one, up in figure.under.items() if up in home}
    seen = home | below
    framed = {one: f"backward of {frames[up]}" for one, up in figure.under.items() if up in frames}
    shown = [
        _folded(band, seen, frames, opened, boxes) for band in (figure.forward, *figure.further)
    ]
    kept = tuple(
        Kept(one.source, one.target, Item(f"saved {one.source} for {one.target}", Form.COPY))
        for one in figure.kept
        if one.target not in below
    )
    under = {seen.get(key, key): seen.get(up, up) for key, up in figure.under.items()}
    backward = _folded(figure.backward, seen, framed, opened, boxes, mirrored=True)
    return Figure(shown[0], backward, under, kept, tuple(shown[1:]))


def _folded(
    band: Band,
    seen: Mapping[str, str],
    frames: Mapping[str, str],
    opened: Collection[str],
    boxes: Mapping[str, Any],
    *,
    mirrored: bool = False,
) -> Band:
    """A band of which only `seen` is drawn; arrows begin at `frames`, or end there if mirrored."""
    items: dict[str, Item] = {}
    for item in band.items:
        key = seen.get(item.key, item.key)
        width, height = boxes[key]["width"], boxes[key]["height"]
        form = item.form if key == item.key else Form.FOLDED
        items[key] = Item(key, form, width, height, item.beside and key == item.key)
    links: dict[Link, None] = {}
    for one in band.links:
        source, target = (seen.get(key, key) for key in (one.source, one.target))
        begins, goes = (frames.get(key) for key in (one.source, one.target))
        if begins != goes:  # what is linked inside a frame has an arrow there
            source, target = (source, goes or target) if mirrored else (begins or source, target)
        if source != target:
            links[Link(source, target)] = None
    groups = tuple(_open_groups(band.groups, opened))
    return Band(tuple(items.values()), tuple(links), groups)


def _open_groups(groups: Sequence[Group], opened: Collection[str]) -> list[Group]:
    """The groups that are open, with the keys of folded ones among their items."""
    found = []
    for group in groups:
        if not any(inner.items for inner in groups_in([group])):
            continue
        if group.key in opened:
            folded = tuple(one for one in group_keys(group.groups) if one not in opened)
            direct = {one.key for one in group.groups}
            items = group.items + tuple(one for one in folded if one in direct)
            inner = tuple(_open_groups(group.groups, opened))
            found.append(replace(group, items=items, groups=inner))
    return found

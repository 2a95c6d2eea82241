"""Scopes for parameters that the same operators read: one box on the page, until it is unfolded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chainrule.explain.drawing.bands import Entry, Flat, Role
from chainrule.explain.drawing.bundles import FEWEST, Bundle, mirrored
from chainrule.explain.drawing.figure import Form
from chainrule.explain.drawing.looks import Look, Looks
from chainrule.explain.drawing.mirrored import Mirror
from chainrule.explain.report.layout_homes import Homes
from chainrule.explain.report.layout_looks import label_data
from chainrule.explain.report.outline_groups import Kind, PageScope
from chainrule.graph.node import Node


def parameter_bundles(band: Flat) -> list[Bundle]:
    """Many parameters that the same operators read, and nothing else does."""
    readers: dict[str, dict[str, None]] = {}
    for source, target in band.links:
        readers.setdefault(source, {})[target] = None
    together: dict[tuple[str, ...], list[Entry]] = {}
    for one in band.entries:
        is_parameter = one.role is Role.PARAMETER and one.form is Form.SQUARE
        if is_parameter and one.beside and one.key in readers:
            together.setdefault(tuple(readers[one.key]), []).append(one)
    return [
        Bundle(f"parameters of {targets[0]}", "parameters", tuple(entries))
        for targets, entries in together.items()
        if len(entries) >= FEWEST
    ]


def parameter_scopes(band: Flat, homes: Homes) -> dict[PageScope, Bundle]:
    """Puts the bundles of parameters in scopes of their own, which are added to the homes."""
    found: dict[PageScope, Bundle] = {}
    for bundle in parameter_bundles(band):
        keys = [one.key for one in bundle.entries]
        around = {homes.of[key] for key in keys}
        if len(around) == 1:
            scope = PageScope(bundle.key, Kind.PARAMETERS, bundle.title)
            homes.add(scope, around.pop(), keys)
            found[scope] = bundle
    return found


def merged_copies(
    mirror: Mirror, several: Iterable[Bundle], looks: Looks
) -> tuple[Mirror, dict[tuple[str, str], Look]]:
    """The mirror in which many parameters that one circle reads are read as one copy; and what
    such a copy looks like, by its first parameter and the circle."""
    bundle_of = {entry.key: one for one in several for entry in one.entries}
    read: dict[tuple[Bundle, str], list[str]] = {}
    for source, target in mirror.saved:
        if source in bundle_of:
            read.setdefault((bundle_of[source], target), []).append(source)
    first: dict[tuple[str, str], str] = {}
    found: dict[tuple[str, str], Look] = {}
    for (bundle, target), sources in read.items():
        if len(sources) >= FEWEST:
            inside = tuple([one for one in bundle.entries if one.key in sources])
            some = Bundle(f"saved {bundle.key} for {target}", bundle.noun, inside)
            looks.bundle(some)
            found[sources[0], target] = looks.of[some.key]
            first |= {(source, target): sources[0] for source in sources}
    saved: dict[tuple[str, str], dict[Node, None]] = {}
    for (source, target), nodes in mirror.saved.items():
        kept = first.get((source, target), source)
        saved.setdefault((kept, target), {}).update(nodes)
    return Mirror(mirror.band, mirror.under, saved), found


def parameters_box(bundle: Bundle, mirror: Mirror | None, looks: Looks) -> dict[str, Any]:
    """The `box` of folded parameters; if they have gradients, the `mirror` below it, and the title
    `below` of its frame."""
    below = None if mirror is None else mirrored(bundle, mirror)
    found = {"box": _box(bundle, looks)}
    return found if below is None else found | {"mirror": _box(below, looks), "below": below.title}


def _box(bundle: Bundle, looks: Looks) -> Mapping[str, Any]:
    item = looks.bundle(bundle)
    look = looks.of[item.key]
    return {
        "form": item.form,
        "height": item.height,
        "caption": "",
        "tip": look.tip,
        "role": look.role,
        "label": label_data(look.label),
        "width": item.width,
    }

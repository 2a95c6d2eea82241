"""A figure in which values that are read far away are shown again, as the page has it.

What is shown again is taken from the page's data; what that means for arrows is said here anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from layout_faults import groups_in

from chainrule.explain.drawing.figure import Band, Figure, Form, Item, Kept, Link

HEIGHT = 34.0  # of copies
TOGETHER = 4  # parameters drawn as one that one operator needs again have one copy
Pair = tuple[str, str]


def shown_again(figure: Figure, drawing: Mapping[str, Any]) -> Figure:
    """The figure with the page's copies instead of long arrows."""
    told = {item["key"]: item for item in drawing["items"]}
    bands = [figure.forward, *figure.further]
    boxes: dict[Pair, str] = {}
    for band in bands:
        boxes |= _boxes(band, told)
    below = {}  # of links of the backward band
    for (source, circle), key in boxes.items():
        for gradient in [one for one, above in figure.under.items() if above == source]:
            below[circle.replace("operator", "backward", 1), gradient] = f"gradients below {key}"
    kept: dict[Pair, Any] = {}
    first = _first_of_many(figure)
    for one in figure.kept:
        circle = one.target.replace("backward", "operator", 1)
        source = boxes.get((one.source, circle), first.get((one.source, one.target), one.source))
        copy = one.copy
        if source != one.source:
            key = f"saved {source} for {one.target}"
            copy = Item(key, Form.COPY, HEIGHT, HEIGHT, True)
        kept.setdefault((source, one.target), Kept(source, one.target, copy))
    orders = [_keys(drawing, band) for band in drawing["bands"]]
    new = [
        _changed(band, order, told, lambda one: (boxes.get(one, one[0]), one[1]))
        for band, order in zip(bands, orders, strict=True)
    ]
    backward, under = figure.backward, dict(figure.under)
    if drawing["backward"]:
        order = _keys(drawing, drawing["backward"])
        backward = _changed(backward, order, told, lambda one: (one[0], below.get(one, one[1])))
        under |= {key: key.removeprefix("gradients below ") for key in order if key not in under}
    return replace(
        figure,
        forward=new[0],
        backward=backward,
        under=under,
        kept=tuple(kept.values()),
        further=tuple(new[1:]),
    )


def _first_of_many(figure: Figure) -> dict[Pair, str]:
    """Of many parameters that are drawn as one and read by one operator, the first."""
    groups = groups_in(figure.forward.groups)
    home = {key: group.key for group in groups if group.as_one for key in group.items}
    together: dict[Pair, list[Pair]] = {}
    for one in figure.kept:
        if one.source in home:
            read = together.setdefault((home[one.source], one.target), [])
            read.append((one.source, one.target))
    many = [pairs for pairs in together.values() if len(pairs) >= TOGETHER]
    return {pair: pairs[0][0] for pairs in many for pair in pairs}


def _keys(drawing: Mapping[str, Any], band: Mapping[str, Any]) -> list[str]:
    items = drawing["items"][band["first"] : band["first"] + band["count"]]
    return [item["key"] for item in items]


def _boxes(band: Band, told: Mapping[str, Any]) -> dict[Pair, str]:
    """The box that stands for the source of a link: that of all parameters and copies that an
    operator reads, or that of one value in the innermost group of its first reader."""
    home = {key: group.key for group in groups_in(band.groups) for key in group.items}
    found: dict[Pair, str] = {}
    for link in band.links:
        name = link.target.removeprefix("operator ")
        is_many = link.source not in told or told[link.source]["role"] == "parameter"
        if is_many and f"copies for {name}" in told:
            found[link.source, link.target] = f"copies for {name}"
    for key in told:
        if key.startswith("copy of "):
            source, name = key.removeprefix("copy of ").split(" for ")
            for link in band.links:
                together = home.get(link.target) == home.get(f"operator {name}")
                if link.source == source and together and f"operator {name}" in home:
                    found[source, link.target] = key
    return found


def _changed(band: Band, order: Iterable[str], told: Mapping[str, Any], change: Any) -> Band:
    items = {item.key: item for item in band.items}
    new = [
        items.get(key) or Item(key, Form.COPY, told[key]["width"], HEIGHT, "below" not in key)
        for key in order
    ]
    links = dict.fromkeys(change((one.source, one.target)) for one in band.links)
    return replace(band, items=tuple(new), links=tuple(Link(*one) for one in links))

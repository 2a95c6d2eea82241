"""A referee for layouts: looks at rectangles and points alone, and says what is wrong with them."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import hypot

from chainrule.explain.drawing.figure import (
    Arrow,
    Band,
    Figure,
    Form,
    Group,
    Item,
    Placement,
    Rectangle,
)

Point = tuple[float, float]
LEAST_GAP = 6.0  # between boxes
TITLE = 18.0  # the height of a title inside its frame
NEAR = 0.03  # pixels: rounding
SHARED = 1.0  # pixels: arrows that lie on each other for longer share a stretch


def faults(figure: Figure, placement: Placement, *, descending: bool = False) -> list[str]:
    """What is wrong with a placement, in words; nothing if all is well.

    Where arrows may be `descending`, they need not go up from one open scope to the next.
    """
    shown = [] if figure.hide_forward else [figure.forward]
    bands = [*shown, figure.backward, *figure.further]
    return [
        *_missing(figure, placement, bands),
        *_outside(placement),
        *_overlaps(placement),
        *_frames(figure, placement),
        *_ends(figure, placement, bands, descending),
        *_crossed(placement),
        *_backward_steps(figure, placement, descending),
        *_shared(figure, placement),
    ]


def groups_in(groups: Iterable[Group]) -> Iterator[Group]:
    """All groups, outer ones first."""
    pending = list(groups)
    while pending:
        group = pending.pop()
        yield group
        pending += group.groups


def members(group: Group) -> set[str]:
    """The items of a group and of all groups inside."""
    return {key for one in groups_in([group]) for key in one.items}


def _missing(figure: Figure, placement: Placement, bands: list[Band]) -> Iterator[str]:
    copies = [kept.copy.key for kept in placement.copies]
    expected = Counter([item.key for band in bands for item in band.items] + copies)
    found = Counter(placement.boxes.keys())
    if expected != found:
        yield f"boxes: {expected - found} missing, {found - expected} too many"
    links = Counter((link.source, link.target, False) for band in bands for link in band.links)
    for kept in figure.kept:
        own = kept in placement.copies
        links[kept.copy.key if own else kept.source, kept.target, True] += 1
    drawn = Counter((arrow.source, arrow.target, arrow.kept) for arrow in placement.arrows)
    if links != drawn:
        yield f"arrows: {links - drawn} missing, {drawn - links} too many"
    groups = {group.key for band in bands for group in groups_in(band.groups)}
    if groups != placement.groups.keys():
        yield f"groups: {groups ^ placement.groups.keys()}"
    spans = placement.spans
    if len(spans) != sum(bool(band.items) for band in bands):
        yield f"spans: {len(spans)}"
    if any(upper[1] > lower[0] for upper, lower in itertools.pairwise(spans)):
        yield f"bands overlap: {spans}"


def _outside(placement: Placement) -> Iterator[str]:
    places = {**placement.boxes, **placement.groups}
    for key, box in (*places.items(), *placement.mirrored_groups.items()):
        right, low = box.x + box.width, box.y + box.height
        if not (0 <= box.x and right <= placement.width and 0 <= box.y and low <= placement.height):
            yield f"{key} is outside the picture"
    for arrow in placement.arrows:
        for x, y in arrow.points:
            if not (0 <= x <= placement.width and 0 <= y <= placement.height):
                yield f"{arrow.source} -> {arrow.target} leaves the picture"


def apart(one: Rectangle, other: Rectangle) -> float:
    """The greater of the gaps across and along; negative where rectangles overlap."""
    across = max(one.x - other.x - other.width, other.x - one.x - one.width)
    along = max(one.y - other.y - other.height, other.y - one.y - one.height)
    return max(across, along)


def _overlaps(placement: Placement) -> Iterator[str]:
    sorted_boxes = sorted(placement.boxes.items(), key=lambda pair: pair[1].x)
    lefts = [box.x for _, box in sorted_boxes]
    for place, (key, box) in enumerate(sorted_boxes):
        last = bisect_left(lefts, box.x + box.width + LEAST_GAP)
        for other, other_box in sorted_boxes[place + 1 : last]:
            if (gap := apart(_whole(box), _whole(other_box))) < LEAST_GAP - NEAR:
                yield f"{key} and {other} are {gap:.1f} px apart"


def _contains(outer: Rectangle, inner: Rectangle, gap: float) -> bool:
    return (
        outer.x + gap <= inner.x
        and inner.x + inner.width <= outer.x + outer.width - gap
        and outer.y + gap <= inner.y
        and inner.y + inner.height <= outer.y + outer.height - gap
    )


def frame_contents(
    figure: Figure, placement: Placement
) -> Iterator[tuple[str, Rectangle, set[str]]]:
    """Each frame that is drawn, with the keys of what belongs into it: boxes, and the frames from
    which arrows come as from one box."""
    shown = [] if figure.hide_forward else [figure.forward]
    for band in (*shown, *figure.further):
        for group in groups_in(band.groups):
            framed = {one.key for one in groups_in([group]) if one.as_one}
            yield group.key, placement.groups[group.key], members(group) | framed
    home: dict[str, set[str]] = {}
    for upper in (item.key for item in figure.backward.items):
        home.setdefault(figure.under[upper], set()).add(upper)
    for kept in placement.copies:
        home[figure.under[kept.target]].add(kept.copy.key)
    for group in groups_in(figure.forward.groups):
        if group.key in placement.mirrored_groups:
            inside = {key for one in members(group) for key in home.get(one, ())}
            inside |= {below(one.key) for one in groups_in([group]) if one.as_one}
            yield group.key, placement.mirrored_groups[group.key], inside


def below(key: str) -> str:
    """The key of the frame of the backward band below another."""
    return f"backward of {key}"


def _frames(figure: Figure, placement: Placement) -> Iterator[str]:
    labels = {group.key: group.label_width for group in groups_in(figure.forward.groups)}
    drawn = list(frame_contents(figure, placement))
    for key, frame, inside in drawn:
        if frame.width < labels.get(key, 0.0):
            yield f"the title of {key} does not fit"
        for one, box in placement.boxes.items():
            if one in inside and box.y < frame.y + TITLE:
                yield f"{one} stands on the title of {key}"
            if one in inside and not _contains(frame, _whole(box), LEAST_GAP):
                yield f"{one} is not in the frame of {key}"
            if one not in inside and apart(frame, _whole(box)) < LEAST_GAP - NEAR:
                yield f"{one} is in or at the frame of {key}"
    for key, frame, inside in drawn:
        for other, other_frame, other_inside in drawn:
            if inside and other_inside and not inside & other_inside:
                if apart(frame, other_frame) < LEAST_GAP - NEAR:
                    yield f"the frames {key} and {other} overlap"
    for key, frame, inside in drawn:
        for arrow in placement.arrows:
            entering = (arrow.source in inside) + (arrow.target in inside)
            crossed = _border_crossings(arrow, frame)
            if crossed > (0, 1, 0)[entering]:
                yield f"{arrow.source} -> {arrow.target} crosses the frame of {key} {crossed} times"


def _border_crossings(arrow: Arrow, frame: Rectangle) -> int:
    def inside(point: Point) -> bool:
        x, y = point
        return (
            frame.x - NEAR < x < frame.x + frame.width + NEAR
            and frame.y - NEAR < y < frame.y + frame.height + NEAR
        )

    states = [inside(point) for point in arrow.points]
    changes = sum(one != other for one, other in itertools.pairwise(states))
    through = sum(
        not one and not other and crosses(start, end, frame)
        for (one, other), (start, end) in zip(
            itertools.pairwise(states), pieces(arrow), strict=True
        )
    )
    return changes + 2 * through


def pieces(arrow: Arrow) -> list[tuple[Point, Point]]:
    """The straight pieces of an arrow."""
    return list(zip(arrow.points, arrow.points[1:], strict=False))


def crosses(start: Point, end: Point, box: Rectangle) -> bool:
    """Whether a straight piece has points inside a box (by bisection into thin samples of it)."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    bounds = [0.0, 1.0]
    for position, way, low, high in (
        (start[0], dx, box.x + NEAR, box.x + box.width - NEAR),
        (start[1], dy, box.y + NEAR, box.y + box.height - NEAR),
    ):
        if not way:
            if not low < position < high:
                return False
        else:
            near, far = sorted(((low - position) / way, (high - position) / way))
            bounds = [max(bounds[0], near), min(bounds[1], far)]
    return bounds[0] < bounds[1]


def _ends(
    figure: Figure, placement: Placement, bands: list[Band], descending: bool
) -> Iterator[str]:
    items = {item.key: item for band in (*bands, figure.forward) for item in band.items}
    items |= {kept.copy.key: kept.copy for kept in placement.copies}
    mirrored = {below(key): one for key, one in placement.mirrored_groups.items()}
    frames = {**placement.groups, **mirrored}
    boxes = {**frames, **placement.boxes}
    items = {key: Item(key, Form.FOLDED) for key in frames} | items
    for arrow in placement.arrows:
        name = f"{arrow.source} -> {arrow.target}"
        if len(arrow.points) < 2:
            yield f"{name} has no length"
            continue
        first, second, *_ = arrow.points
        *_, before, last = arrow.points
        source = boxes[arrow.source]
        if not (_at_border(items[arrow.source], source, first) or _below_words(source, first)):
            yield f"{name} does not start at the border"
        if not _at_border(items[arrow.target], boxes[arrow.target], last):
            yield f"{name} does not end at the border"
        if arrow.kept and descending:
            continue  # what they join comes apart as scopes are opened
        for key, border, other in ((arrow.source, first, second), (arrow.target, last, before)):
            centre = boxes[key].centre
            flat = (boxes[key].width - boxes[key].height) / 2
            middles = (centre, (centre[0] - flat, centre[1]), (centre[0] + flat, centre[1]))
            if items[key].form is Form.CIRCLE and not any(
                _in_line(middle, border, other) for middle in middles
            ):
                yield f"{name} does not point to the middle of {key}"


def _whole(box: Rectangle) -> Rectangle:
    """A box with the words below it."""
    return replace(box, height=box.height + box.below)


def _below_words(box: Rectangle, point: Point) -> bool:
    across = abs(point[0] - box.centre[0]) <= box.width / 2
    return box.below > 0 and across and abs(point[1] - box.y - box.height - box.below) < NEAR


def _at_border(item: Item, box: Rectangle, point: Point) -> bool:
    x, y = box.centre
    across, along = abs(point[0] - x), abs(point[1] - y)
    if item.form is Form.CIRCLE:
        across = max(across - (box.width - box.height) / 2, 0.0)  # beside its straight top
        return abs(hypot(across, along) - box.height / 2) < NEAR
    nearest = max(across - box.width / 2, along - box.height / 2)
    return abs(nearest) < NEAR


def _in_line(centre: Point, border: Point, other: Point) -> bool:
    ax, ay = border[0] - centre[0], border[1] - centre[1]
    bx, by = other[0] - border[0], other[1] - border[1]
    return abs(ax * by - ay * bx) < NEAR * hypot(ax, ay) * hypot(bx, by) and ax * bx + ay * by > 0


def _crossed(placement: Placement) -> Iterator[str]:
    by_left = sorted(placement.boxes.items(), key=lambda pair: pair[1].x)
    lefts = [box.x for _, box in by_left]
    widest = max((box.width for _, box in by_left), default=0.0)
    for arrow in placement.arrows:
        for start, end in pieces(arrow):
            low, high = sorted((start[0], end[0]))
            near = slice(bisect_left(lefts, low - widest), bisect_right(lefts, high))
            for key, box in by_left[near]:
                if key in (arrow.source, arrow.target):
                    own = crosses(start, end, _shrunk(box))
                    if own:
                        yield f"{arrow.source} -> {arrow.target} runs inside {key}"
                elif crosses(start, end, _whole(box)):
                    yield f"{arrow.source} -> {arrow.target} crosses {key}"


def _shrunk(box: Rectangle) -> Rectangle:
    """The inner part of a box: circles leave its corners free."""
    dx, dy = box.width * 0.16, box.height * 0.16
    return Rectangle(box.x + dx, box.y + dy, box.width - 2 * dx, box.height - 2 * dy)


def _backward_steps(figure: Figure, placement: Placement, descending: bool) -> Iterator[str]:
    """Forward arrows go right and up; only those from items beside the flow are free."""
    bands = [figure.forward, *figure.further]
    beside = {item.key for band in bands for item in band.items if item.beside}
    forward = {(link.source, link.target) for band in bands for link in band.links}
    for arrow in placement.arrows:
        if (arrow.source, arrow.target) not in forward or arrow.source in beside:
            continue
        for (x0, y0), (x1, y1) in pieces(arrow):
            if x1 < x0 - NEAR or (y1 > y0 + NEAR and not descending):
                yield f"{arrow.source} -> {arrow.target} goes left or down"


def _shared(figure: Figure, placement: Placement) -> Iterator[str]:
    """Collinear pieces of different arrows; in the backward band those to one target may join."""
    backward = {(link.source, link.target) for link in figure.backward.links}
    lines: dict[tuple[float, float, float], list[tuple[float, float, str, str]]] = {}
    for arrow in placement.arrows:
        owner = arrow.target if (arrow.source, arrow.target) in backward else arrow.source
        for line, low, high in _on_lines(arrow):
            lines.setdefault(line, []).append(
                (low, high, owner, f"{arrow.source} -> {arrow.target}")
            )
    for several in lines.values():
        several.sort()
        reach: Mapping[str, tuple[float, str]] = {}
        for low, high, owner, name in several:
            for other, (end, other_name) in reach.items():
                if other != owner and min(end, high) - low > SHARED:
                    yield f"{name} lies on {other_name}"
            if owner not in reach or reach[owner][0] < high:
                reach = {**reach, owner: (high, name)}


def _on_lines(arrow: Arrow) -> Iterator[tuple[tuple[float, float, float], float, float]]:
    """Each piece as (its line, from, to); lines are rounded to a twentieth of a pixel."""
    for (x0, y0), (x1, y1) in pieces(arrow):
        length = hypot(x1 - x0, y1 - y0)
        if length < NEAR:
            continue
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        if ux < -1e-9 or (abs(ux) <= 1e-9 and uy < 0):
            ux, uy = -ux, -uy
        distance = round(20 * (ux * y0 - uy * x0)) / 20
        low, high = sorted((ux * x0 + uy * y0, ux * x1 + uy * y1))
        yield (round(ux, 4) + 0.0, round(uy, 4) + 0.0, distance), low, high

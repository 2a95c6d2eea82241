"""A band as lines of text, frames around their boxes: how Graphviz and Mermaid are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from chainrule.explain.drawing.figure import Band, Group


def lines_of(
    band: Band, begin: Callable[[Group, int], Iterable[str]], box: Callable[[str], str], end: str
) -> Iterator[str]:
    """`begin` gives the first lines of a frame, of which it is told the number, counted from 1;
    `end` is its last line; `box` gives the line of a box, by its key.

    First every frame with its boxes, the frames in it after these; then the boxes in none.
    """
    inside: set[str] = set()
    stack: list[Group | None] = list(reversed(band.groups))
    count = 0
    while stack:
        group = stack.pop()
        if group is None:
            yield f"    {end}"
            continue
        count += 1
        for place, line in enumerate(begin(group, count)):
            yield f"      {line}" if place else f"    {line}"
        inside.update(group.items)
        for key in group.items:
            yield f"      {box(key)}"
        stack.append(None)
        stack.extend(reversed(group.groups))
    for item in band.items:
        if item.key not in inside:
            yield f"    {box(item.key)}"

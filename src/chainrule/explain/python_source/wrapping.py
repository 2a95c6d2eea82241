"""Breaks long lines of source inside brackets, as a formatter does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

WIDTH = 100
INDENT = "    "


def wrapped(line: str, indent: str = INDENT) -> Iterator[str]:
    """The statement with its indentation, on as many lines as it needs."""
    pending = [(indent, line)]
    while pending:
        indent, line = pending.pop()
        inside = None if len(indent + line) <= WIDTH else _widest_bracket(line)
        if inside is None:
            yield indent + line
            continue
        start, end = inside
        yield indent + line[:start]
        parts = _parts(line[start:end])
        pending.append((indent, line[end:]))
        pending += [(indent + INDENT, part) for part in reversed(parts)]


def bracketed(head: str, parts: list[str], tail: str, indent: str = "") -> Iterator[str]:
    """`head`, the parts with commas between them, and `tail`, in one line or one for each part."""
    line = f"{indent}{head}{', '.join(parts)}{tail}"
    if len(line) <= WIDTH:
        yield line
        return
    yield indent + head
    yield from (f"{indent}{INDENT}{part}," for part in parts)
    yield indent + tail


def _levels(text: str) -> Iterator[tuple[int, str, int]]:
    """Each character outside of strings, with how many brackets are open before it."""
    depth, quote = 0, ""
    for place, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and text[place - 1] != "\\" else quote
            continue
        if letter in "'\"":
            quote = letter
            continue
        depth -= letter in ")]"
        yield place, letter, depth
        depth += letter in "(["


def _widest_bracket(line: str) -> tuple[int, int] | None:
    """Start and end of the longest text within an outermost pair of brackets; None if empty."""
    best, opened = None, 0
    for place, letter, depth in _levels(line):
        if depth == 0 and letter in "([":
            opened = place + 1
        if depth == 0 and letter in ")]" and place - opened > (best[1] - best[0] if best else 0):
            best = opened, place
    return best


def _parts(text: str) -> list[str]:
    """The text split after its outermost commas, each part with its comma."""
    cuts = [place + 1 for place, letter, depth in _levels(text) if depth == 0 and letter == ","]
    edges = [0, *cuts, len(text)]
    parts = [text[a:b].strip() for a, b in pairwise(edges)]
    parts = [part for part in parts if part]
    return [*parts[:-1], f"{parts[-1]},"] if len(parts) > 1 and parts[-1][-1] != "," else parts

"""Reads the navigation of the site from docs/index.md: headings are tabs, links are pages."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from staging import DOCS, place_of

HEADING = re.compile(r"^## (?P<title>.+)$")
ITEM = re.compile(r"^(?P<indent> *)\* ")
LINK = re.compile(r"\[(?P<title>[^\]]+)\]\((?P<target>[^)#:\s]+\.md)\)")


@dataclass(frozen=True)
class Entry:
    """A page (`place` relative to the pages of the site) or a section with its entries."""

    title: str
    place: str = ""
    entries: tuple[Entry, ...] = ()

    def as_toml(self) -> str:
        """As zensical.toml writes it; the page of a section with entries comes first in it."""
        title = json.dumps(self.title, ensure_ascii=False)
        if not self.entries:
            return f"{{ {title} = {json.dumps(self.place)} }}"
        inner = [entry.as_toml() for entry in self.entries]
        if self.place:
            inner.insert(0, json.dumps(self.place))
        return f"{{ {title} = [{', '.join(inner)}] }}"


# Pages that only the site has, in the section where they are listed last.
OF_THE_SITE = {
    "Start here": Entry("Playground", "playground.md"),
    "Look inside": Entry("Reports", "reports.md"),
    "Look up": Entry("All pages", "all-pages.md"),
}


def sections() -> list[Entry]:
    """The sections of docs/index.md, in order."""
    found: list[tuple[str, list[tuple[int, Entry]]]] = []
    for line in (DOCS / "index.md").read_text(encoding="utf-8").splitlines():
        heading, item = HEADING.match(line), ITEM.match(line)
        if heading:
            found.append((heading["title"], []))
        elif item:
            depth = len(item["indent"])
            for match in LINK.finditer(line):
                found[-1][1].append((depth, _entry(match["title"], match["target"])))
    return [Entry(title, entries=(*_nested(items), *_added(title))) for title, items in found]


def _added(section: str) -> list[Entry]:
    return [OF_THE_SITE[section]] if section in OF_THE_SITE else []


def _entry(title: str, target: str) -> Entry:
    source = Path(os.path.normpath(DOCS / target))
    title = "Introduction" if title == "README" else title
    return Entry(title[:1].upper() + title[1:], place_of(source).as_posix())


def _nested(items: list[tuple[int, Entry]]) -> tuple[Entry, ...]:
    """Indented items as entries of the one above them."""
    result: list[Entry] = []
    for depth, entry in items:
        if depth == 0:
            result.append(entry)
        else:
            above = result.pop()
            result.append(Entry(above.title, above.place, (*above.entries, entry)))
    return tuple(result)

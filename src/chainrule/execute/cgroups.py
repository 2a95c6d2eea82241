"""The control groups of this process: folders of small files that limit it (Linux)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def groups(membership: str, controller: str) -> Iterator[tuple[int, Path]]:
    """The version (1 or 2) and path of each group that can limit `controller`, inner ones first.

    `membership` is the text of `/proc/self/cgroup`.  A container often sees its own group at the
    root, whatever that says.
    """
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        here = Path(path.lstrip("/"))
        for group in (here, *here.parents):
            yield (1 if controllers else 2), group


def text_of(file: Path) -> str:
    """What stands in the file; nothing where it cannot be read."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""

"""`free_name` makes a name that nothing else has from the one that is wanted."""

from __future__ import annotations

from collections.abc import Container


def free_name(wish: str, *taken: Container[str]) -> str:
    """`wish`, or `wish_1`, `wish_2`, ... where one of `taken` has that."""
    name, count = wish, 0
    while any([name in one for one in taken]):
        count += 1
        name = f"{wish}_{count}"
    return name

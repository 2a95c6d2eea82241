"""Lets the compiler say which plans fit, where ranks are devices of one program that are here.

It counts what the program needs of each device, and may compute values again so that it needs less:
that is more than the values of the graph, or fewer bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chainrule.devices.one_program import compiled_nbytes, memory_of_each
from chainrule.errors import MemoryLimitError

if TYPE_CHECKING:
    from chainrule.devices.planning.choose import Followed, Search
    from chainrule.devices.planning.pins import Way

MOST = 3  # plans that are compiled where none fits as values are counted


def first_to_fit(search: Search, ranked: Sequence[Way]) -> list[Way]:
    """The plans from the first one on that fits as it is compiled, or that nobody can compile here;
    MemoryLimitError, of the one that needs least, where none does."""
    refused: list[MemoryLimitError] = []
    for at, way in enumerate(ranked):
        try:
            _fits(search, search.follow(way))
        except MemoryLimitError as error:
            refused.append(error)
        else:
            return list(ranked[at:])
    raise min(refused, key=_needed)


def least_to_fit(search: Search) -> Followed | None:
    """Of the plans that need least one that fits as it is compiled, though none fits as values are
    counted; None where nobody can compile them here."""
    refused: list[MemoryLimitError] = []
    for way in search.smallest[:MOST]:
        one = search.follow(way)
        try:
            if _fits(search, one):
                return one
        except MemoryLimitError as error:
            refused.append(error)
    if refused:
        raise min(refused, key=_needed)
    return None


def _fits(search: Search, one: Followed) -> bool:
    """Whether it is compiled, and fits: MemoryLimitError where it does not."""
    if memory_of_each(one.split) is None:
        return False
    return bool(compiled_nbytes(one.split, one.split.split_at(search.sizes)))


def _needed(error: MemoryLimitError) -> float:
    return error.needed_nbytes or float("inf")

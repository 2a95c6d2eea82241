"""Blocks of memory that begin with a page.

A processor that compares addresses by their place in a page lets a load wait for a store before it
that went to the same place of another page (docs/decisions/0062, 0068).  Arrays of one program that
begin a few vectors apart by that place make it take up to 1.8 times as long, and malloc puts them
anywhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from chainrule.schedule.records import ALIGNMENT

PAGE = 1 << 12
LARGE = 1 << 16  # bytes from which blocks of memory begin with a page


def address_of(array: np.ndarray) -> int:
    """Where the first element is."""
    return array.__array_interface__["data"][0]


def alignment_of(nbytes: int) -> int:
    """What a block of so many bytes begins at a multiple of, for which as many more are allocated:
    a page where it is large, or else a cache line."""
    return PAGE if nbytes >= LARGE else ALIGNMENT


def block(nbytes: int, make: Callable[..., np.ndarray] = np.empty) -> np.ndarray:
    """So many bytes of an array that `make` gives, from a multiple of `alignment_of` on."""
    alignment = alignment_of(nbytes)
    memory = make(nbytes + alignment, np.uint8)
    start = -address_of(memory) % alignment
    return memory[start : start + nbytes]

"""The sequences that fit a program into less memory, kept for later processes as code is.

A search takes seconds, and the same numbers give the same sequences.  What a file says is checked
as a sequence of this program: a wrong one could only cost more time, never other results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from chainrule.dataclass import dataclass, fields
from chainrule.disk import cache
from chainrule.machine_code.target import native_refusal
from chainrule.plan.recomputation.ladder import EFFORT, ladder
from chainrule.plan.recomputation.problem import Problem
from chainrule.plan.recomputation.sequence import fault

NUMBER = np.dtype("<i4")
MOST_EXECUTIONS = 1 << 22  # in all sequences together: some seconds to check


@dataclass(frozen=True)
class Stored:
    """Sequences of nodes, one after another, with their lengths."""

    lengths: tuple[int, ...]
    numbers: bytes


def sequences(
    asked: Problem, effort: int = EFFORT, highest: int | None = None
) -> Sequence[tuple[int, ...]]:
    """What `ladder` finds for a program, from the user's cache folder if it is there."""
    check = partial(_is_sensible, asked)
    # What machine code has found serves where there is none, and asking first saves loading LLVM.
    stored = cache.load(_key(asked, effort, "machine code", highest), Stored, check)
    if stored is None:
        by = "Python" if native_refusal() else "machine code"
        key = _key(asked, effort, by, highest)
        stored = cache.load(key, Stored, check) if by == "Python" else None
        if stored is None:
            found = ladder(asked, effort=effort, highest=highest)
            stored = _stored([one.sequence for one in found])
            if sum(stored.lengths) <= MOST_EXECUTIONS:
                cache.store(key, stored)
    return list(_parted(stored))


def _key(asked: Problem, effort: int, by: str, highest: int | None = None) -> str:
    """All numbers of the program but its budget, of which the ladder does not ask."""
    found = hashlib.sha256(f"ladder|{effort}|{highest}|{by}".encode())
    for field in fields(asked):
        value = getattr(asked, field.name)
        if field.name != "budget_nbytes":
            value = tuple(sorted(value)) if isinstance(value, frozenset) else value
            found.update(f"|{field.name}|{value}".encode())
    return found.hexdigest()


def _stored(found: Sequence[tuple[int, ...]]) -> Stored:
    numbers = [np.array(one, NUMBER).tobytes() for one in found]
    return Stored(tuple(map(len, found)), b"".join(numbers))


def _parted(stored: Stored) -> Iterator[tuple[int, ...]]:
    numbers, begin = np.frombuffer(stored.numbers, NUMBER), 0
    for length in stored.lengths:
        yield tuple(numbers[begin : begin + length].tolist())
        begin += length


def _is_sensible(asked: Problem, stored: Stored) -> bool:
    """Whether all of them are sequences of this program; the first costs least, as it has each node
    once."""
    lengths = stored.lengths
    if not lengths or min(lengths) < asked.size or sum(lengths) > MOST_EXECUTIONS:
        return False
    if sum(lengths) * NUMBER.itemsize != len(stored.numbers) or lengths[0] != asked.size:
        return False
    numbers = np.frombuffer(stored.numbers, NUMBER)
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < asked.size:
        return False
    return all(fault(asked, one) is None for one in _parted(stored))

"""Measures this machine, in a fifth of a second, and keeps that with compiled code.

Other processes may disturb all of it.  So the first TIMES processes measure, and the least counts.
Predicted times are those of the machine that predicts them.  What a plan does is chosen by the
records of `plan.speeds`: bits of results must not depend on how busy a machine was.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from chainrule.dataclass import dataclass, fields, replace
from chainrule.disk import cache
from chainrule.errors import ChainruleError, InputError
from chainrule.execute.native.products.blas import load_blas
from chainrule.machine_code.forks import making
from chainrule.machine_code.target import Target, host_target, native_refusal
from chainrule.plan.speeds import LOOPS, PRODUCTS, InNumPy, Level, Speeds, speeds_of

VARIABLE = "CHAINRULE_CALIBRATION"
FORMAT = 9  # of how it is measured
TIMES = 3
UNIT = 1e-6  # numbers are kept as integers of so much: up to 70 ms and 70 TB a second
OTHERS = "instruction", "sharing", "blas", "crowding", "exchanging", "others"
MOST = 1e6  # of any number that is kept, but for the bytes of levels

_known: dict[str, Speeds] = {}


@dataclass(frozen=True)
class Stored:
    """What was measured, in UNITs: the numbers in the order of `_numbers`, and of each level of
    memory its bytes (of the last, which has no end, -1), its speed and how it starts; and how often
    it was measured."""

    numbers: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]
    times: int
    data: bytes = b""


def speeds_here(vector_nbytes: int, threads: int) -> Speeds:
    """The speeds by which times of plans for vectors of this size are predicted on this machine.

    Measured when they are asked for first, by the first TIMES processes that do, and read from the
    user's cache folder after that: they are kept for each processor, set of instructions, BLAS and
    number of threads.  Those of the record where nothing can be measured: without native code, for
    a plan for another kind of processor, and with CHAINRULE_CALIBRATION=0.
    """
    known = speeds_of(vector_nbytes)
    if not _is_on() or native_refusal() is not None:
        return known
    target = host_target()
    if speeds_of(target.vector_nbytes).vector_nbytes != known.vector_nbytes:
        return known
    key = _key(target, threads)
    if key not in _known:
        found = cache.load(key, Stored, _is_sensible)
        if found is None or found.times < TIMES:
            _known[key] = _measured(key, known, threads, found)
        else:
            _known[key] = _speeds(found, known)
    return _known[key]


def _is_on() -> bool:
    asked = os.environ.get(VARIABLE, "1")
    if asked not in ("0", "1"):
        raise InputError(
            f"{VARIABLE} is {asked!r}",
            hint="0: times are those of a known processor, 1: of this one, measured once",
        )
    return asked == "1"


def _key(target: Target, threads: int) -> str:
    blas = load_blas()
    parts = (
        FORMAT,
        _processor(),
        target,
        threads,
        os.cpu_count(),
        blas.name,
        blas.version,
        blas.core,
    )
    return "calibration|" + "|".join(map(str, parts))


def _processor() -> str:
    """What Linux calls it; LLVM's name is that of a whole generation."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            return next((line.strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        return ""


def _measured(key: str, known: Speeds, threads: int, before: Stored | None) -> Speeds:
    """What is measured now, or was before, and kept; the record where there is no memory for it."""
    from chainrule.explain.cost.measured_speeds import QUICK, UNKNOWN, measured

    with making:  # one at a time, and no fork meanwhile
        if key in _known:
            return _known[key]
        otherwise = known if before is None else _speeds(before, known)
        try:
            found = measured(QUICK, threads)
        except ChainruleError:
            return otherwise
    if found.crowding == UNKNOWN:  # a later process may find its threads cores of their own
        return replace(found, crowding=known.crowding) if before is None else otherwise
    stored = _record(found)
    if not _is_sensible(stored):
        return otherwise
    if before is not None:
        stored = _quicker(before, stored)
    cache.store(key, stored)
    return _speeds(stored, known)  # the same in this process and in later ones


def _quicker(before: Stored, now: Stored) -> Stored:
    """The least times of both; of BLAS, that beside tiles."""
    names = [name for _, name in _numbers()]
    pairs = list(zip(before.numbers, now.numbers, strict=True))
    least = [min(pair) for pair in pairs]
    tiles, blas = names.index("multiply_add"), names.index("blas")
    least[blas] = min(a * b for a, b in zip(pairs[tiles], pairs[blas], strict=True)) // least[tiles]
    levels = [
        (nbytes, max(first, second), start)
        for (nbytes, first, start), (_, second, _) in zip(before.levels, now.levels, strict=True)
    ]
    return Stored(tuple(least), tuple(levels), before.times + 1)


def _numbers() -> Iterator[tuple[str, str]]:
    """The names of what was measured, and where each lies."""
    yield from (("speeds", name) for name in (*PRODUCTS, *LOOPS, *OTHERS))
    yield from (("numpy", one.name) for one in fields(InNumPy()))


def _record(found: Speeds) -> Stored:
    of = {"speeds": found, "numpy": found.numpy}
    numbers = tuple(round(getattr(of[where], name) / UNIT) for where, name in _numbers())
    last = len(found.memory) - 1
    levels = tuple(
        (
            -1 if place == last else round(one.nbytes),
            round(one.nbytes_each_nanosecond / UNIT),
            round(one.starting / UNIT),
        )
        for place, one in enumerate(found.memory)
    )
    return Stored(numbers, levels, 1)


def _is_sensible(stored: Stored) -> bool:
    """Whether it could have been measured: positive numbers, and levels one larger than the other
    and none quicker."""
    if len(stored.numbers) != len(list(_numbers())) or not 1 < len(stored.levels) < 10:
        return False
    if stored.times < 1:
        return False
    if any(len(one) != 3 for one in stored.levels):
        return False
    sizes, speeds, starts = zip(*stored.levels, strict=True)
    numbers = *stored.numbers, *speeds, *starts
    if min(numbers) < 0 or min(speeds) == 0 or max(numbers) > MOST / UNIT:
        return False
    rising = [*sizes[:-1]] == sorted({*sizes[:-1]}) and sizes[0] > 0 and sizes[-1] == -1
    return rising and [*speeds] == sorted(speeds, reverse=True)


def _speeds(stored: Stored, known: Speeds) -> Speeds:
    values = dict(zip(_numbers(), stored.numbers, strict=True))
    of: dict[str, Any] = {
        where: {name: values[here, name] * UNIT for here, name in values if here == where}
        for where in ("speeds", "numpy")
    }
    levels = tuple(
        Level(known.memory[-1].nbytes if nbytes < 0 else nbytes, speed * UNIT, start * UNIT)
        for nbytes, speed, start in stored.levels
    )
    numpy = replace(known.numpy, **of["numpy"])
    return replace(known, memory=levels, numpy=numpy, **of["speeds"])

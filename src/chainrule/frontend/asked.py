"""What a traced program asks of the system: entropy, clocks, files; found only where it names them.

A function that names none of these runs as ever.  One that does runs under `sys.setprofile`, which
says what was called, and from which line, and patches nothing; where a profiler runs already,
nothing is told.
"""

from __future__ import annotations

import builtins
import datetime
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any

import numpy as np

from chainrule.graph.graph import Graph
from chainrule.graph.origin import Origin
from chainrule.primitives.sources import constant, full


@dataclass(frozen=True)
class Source:
    """Something outside of the program: what asking it while tracing means, what to do instead."""

    what: str
    hint: str
    through: frozenset[str] = frozenset()  # packages that ask in the name of who calls them
    shown_by: tuple[Any, ...] = ()  # nodes, one of which is in a graph that has what was read


KEYS = (
    "cr.random draws in every run, with a key that is an argument: cr.random.fold_in(key, step)\n"
    "is another one in each step; or draw before the call, and pass the array"
)
RANDOM = Source(
    "random numbers are drawn while {} is traced: they are constants of the graph, the same in "
    "every run",
    KEYS,
    frozenset({"numpy", "random", "secrets", "uuid"}),
)
CLOCK = Source(
    "the clock is read while {} is traced: the time is a constant of the graph, the same in every "
    "run",
    "read it before the call, and pass the number as an argument",
    shown_by=(full,),
)
FILE = Source(
    "a file is read while {} is traced: what it had is a constant of the graph, also when the "
    "file changes",
    "read it before the call, and pass the array as an argument",
    frozenset({"numpy", "pathlib", "scipy", "pandas"}),
    shown_by=(full, constant),
)

CLOCKS = [
    getattr(time, name + end)
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time")
    for end in ("", "_ns")
    if hasattr(time, name + end)
]
CALLS: dict[Any, Source] = {
    os.urandom: RANDOM,
    **dict.fromkeys(CLOCKS, CLOCK),
    builtins.open: FILE,
    np.fromfile: FILE,
}
if hasattr(os, "getrandom"):
    CALLS[os.getrandom] = RANDOM
TODAY = frozenset({"now", "utcnow", "today"})  # of datetime and date
JAX_KEYS = frozenset({"key", "PRNGKey", "split", "fold_in", "key_data", "wrap_key_data", "clone"})
NAMES = frozenset(
    {*TODAY, *(one.__name__ for one in CLOCKS)}
    | {"urandom", "getrandom", "uuid1", "uuid4", "default_rng", "RandomState", "SystemRandom"}
    | {"secrets", "token_bytes", "token_hex", "randbelow", "randbits", "jax", "SeedSequence"}
    | {"open", "load", "loadtxt", "genfromtxt", "fromfile", "memmap", "read_text", "read_bytes"}
)


class Asked:
    """The first call for each source, by the line of the program from which it came."""

    def __init__(self, codes: Iterable[CodeType]) -> None:
        self.codes = frozenset(codes)
        self.found: dict[Source, Origin] = {}

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        source = None
        if event == "c_call" and type(called) is BuiltinFunctionType:
            source = CALLS.get(called)
            if source is None and called.__name__ in TODAY:
                own = called.__self__
                source = CLOCK if isinstance(own, type) and issubclass(own, datetime.date) else None
        elif event == "call" and str(frame.f_globals.get("__name__")).startswith("jax._src.random"):
            source = None if frame.f_code.co_name in JAX_KEYS else RANDOM
            frame = frame.f_back or frame  # what JAX calls by itself is not told
        if source is None or source in self.found:
            return
        origin = self._line(frame, source)
        if origin is not None:
            self.found[source] = origin

    def _line(self, frame: FrameType, source: Source) -> Origin | None:
        """The line of the program; None where a library asks for purposes of its own."""
        one: FrameType | None = frame
        while one is not None and one.f_code not in self.codes:
            if str(one.f_globals.get("__name__")).partition(".")[0] not in source.through:
                return None
            one = one.f_back
        return None if one is None else Origin(one.f_code, one.f_lasti)


@contextmanager
def watching(codes: Mapping[CodeType, Mapping[str, Any]]) -> Iterator[Asked]:
    """While it lasts, notes what is asked of the system in this thread."""
    asked = Asked(codes)
    if sys.getprofile() is not None or not any(_names_one(one, codes[one]) for one in codes):
        yield asked
        return
    sys.setprofile(asked)
    try:
        yield asked
    finally:
        sys.setprofile(None)


def _names_one(code: CodeType, space: Mapping[str, Any]) -> bool:
    """Whether the code names a source, also by another name (`from time import time as now`)."""
    if not (NAMES.isdisjoint(code.co_names) and NAMES.isdisjoint(code.co_freevars)):
        return True
    return any(type(one) is BuiltinFunctionType and one in CALLS for one in space.values())


def is_in(graph: Graph, source: Source, codes: Mapping[CodeType, Mapping[str, Any]]) -> bool:
    """Whether the graph may have what the source gave: a number, or an array, that stands neither
    in the code nor in its variables.  A clock that is read for a log leaves none."""
    literals = [0.0, 1.0, *(number for code in codes for number in _numbers(code.co_consts))]
    for node in graph.nodes:
        if node.primitive is constant and (constant in source.shown_by or not node.ndim):
            name = graph.name_of.get(node, "")
            if not any(name in space for space in codes.values()):
                return True
        elif node.primitive is full and not isinstance(node.param("value"), bool):
            value = float(node.param("value"))
            if not any(abs(abs(value) - one) <= 1e-3 * one for one in literals):
                return True
    return not source.shown_by


def _numbers(values: Iterable[Any]) -> Iterator[float]:
    for one in values:
        if isinstance(one, tuple):
            yield from _numbers(one)
        elif isinstance(one, (int, float)):
            yield abs(float(one)) if abs(one) < 1e300 else np.inf

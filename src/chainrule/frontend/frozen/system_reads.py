"""Detects what a traced program asks of the system: entropy, clocks, files.

A function whose names lead to none of these runs as ever.  One that names a module of clocks, a
method of files, an open file or their like runs under `sys.setprofile`, which says what was called,
and from which line, and patches nothing; where a profiler runs already, nothing is told.
"""

from __future__ import annotations

import builtins
import datetime
import io
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from chainrule.graph.body import bodies_of
from chainrule.graph.node import Node
from chainrule.graph.origin import Origin
from chainrule.primitives.sources import constant, full

Made = list[Callable[[], tuple[Iterable[Node], Mapping[Node, str]]]]  # nodes with their names


class Source:
    """Something outside of the program: what asking it while tracing means, what to do instead.

    Packages in `through` ask in the name of who calls them; of the nodes in `shown_by` one is in a
    graph that has what was read.
    """

    def __init__(
        self, what: str, hint: str, through: Iterable[str] = (), shown_by: tuple[Any, ...] = ()
    ) -> None:
        self.what, self.hint = what, hint
        self.through, self.shown_by = frozenset(through), shown_by


KEYS = (
    "cr.random draws in every run, with a key that is an argument: cr.random.fold_in(key, step)\n"
    "is another one in each step; or draw before the call, and pass the array"
)
RANDOM = Source(
    "random numbers are drawn while {} is traced: they are constants of the graph, {}",
    KEYS,
    ("numpy", "random", "secrets", "uuid"),
)
CLOCK = Source(
    "the clock is read while {} is traced: the time is a constant of the graph, {}",
    "read it before the call, and pass the number as an argument",
    shown_by=(full,),
)
FILE = Source(
    "a file is read while {} is traced: what it had is a constant of the graph, also when the "
    "file changes",
    "read it before the call, and pass the array as an argument",
    ("numpy", "pathlib", "scipy", "pandas", "json", "csv", "codecs"),
    shown_by=(full, constant),
)
STATE = Source(
    "a time or a size of a file is read while {} is traced: it is a constant of the graph, {}",
    "read it before the call, and pass the number as an argument",
    ("genericpath", "posixpath", "ntpath", "pathlib", "os"),
    shown_by=(full,),
)

NO_CLOCKS = {"sleep", "mktime", "strptime", "tzset", "get_clock_info", "clock_getres"}
CLOCKS = [
    one
    for name, one in vars(time).items()
    if isinstance(one, BuiltinFunctionType) and name not in NO_CLOCKS | {"clock_settime"}
]
STATS = [os.stat, os.lstat, os.fstat]
READS = [getattr(os, name, None) for name in ("read", "pread", "readv", "preadv")]
ENTROPY = [os.urandom, getattr(os, "getrandom", None)]
CALLS: dict[Any, Source] = {
    **dict.fromkeys(ENTROPY, RANDOM),
    **dict.fromkeys(CLOCKS, CLOCK),
    **dict.fromkeys(STATS, STATE),
    **dict.fromkeys([builtins.open, np.fromfile, *READS], FILE),
}
CALLS.pop(None, None)
TODAY = frozenset({"now", "utcnow", "today"})  # of datetime and date
JAX_KEYS = frozenset({"key", "PRNGKey", "split", "fold_in", "key_data", "wrap_key_data", "clone"})
# What asks, or leads to what asks: modules and classes, under any name, and names of attributes.
MODULES = {"time", "datetime", "secrets", "uuid"}
CLASSES = (datetime.date, random.Random, np.random.BitGenerator, io.IOBase)
UNSEEDED = random.Random.seed.__code__
NAMES = frozenset(
    {*TODAY, "urandom", "getrandom", "jax", "SeedSequence", "default_rng", "RandomState"}
    | {"Random", "SystemRandom", "seed", "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"}
    | {"time", "datetime", "secrets", "uuid", "open", "load", "loadtxt", "genfromtxt", "fromfile"}
    | {"memmap", "read_text", "read_bytes", "read_csv", "read", "pread"}
    | {"stat", "lstat", "fstat", "getmtime", "getatime", "getctime", "getsize"}
)


class Asked:
    """The first call for each source, by the line of the program from which it came.

    Within its `with` statement it notes what is asked of the system in this thread, if the codes
    may ask; they come with the variables that they read.
    """

    def __init__(self, codes: Mapping[CodeType, Mapping[str, Any]]) -> None:
        self.codes = codes
        self.watches = sys.getprofile() is None and any(_may_ask(*one) for one in codes.items())
        self.found: dict[Source, Origin] = {}
        self.opened: Origin | None = None  # where a file was opened, perhaps to write

    def __enter__(self) -> Asked:
        if self.watches:
            sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self.watches:
            sys.setprofile(None)

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        source = None
        if event == "c_call":
            source = CALLS.get(called) if type(called) is BuiltinFunctionType else None
            own = getattr(called, "__self__", None)
            if isinstance(own, io.IOBase):
                source = self._of_file(own, called.__name__)
            elif isinstance(own, type) and called.__name__ in TODAY:
                source = CLOCK if issubclass(own, datetime.date) else None
        elif event == "call" and frame.f_code is UNSEEDED:
            source = RANDOM if frame.f_locals["a"] is None else None
        elif event == "call" and str(frame.f_globals.get("__name__")).startswith("jax._src.random"):
            source = None if frame.f_code.co_name in JAX_KEYS else RANDOM
            frame = frame.f_back or frame  # what JAX calls by itself is not told
        if source is None or source in self.found:
            return
        origin = self._line(frame, source)
        if called is builtins.open:
            self.opened = self.opened or origin
        elif source is FILE and self.opened is not None:
            self.found[FILE] = self.opened
        elif origin is not None:
            self.found[source] = origin

    def _of_file(self, file: io.IOBase, method: str) -> Source | None:
        """FILE where it is read; one that is written forgets that it was opened."""
        if file.closed or method in ("readable", "write", "flush", "isatty", "fileno"):
            return None
        if file.readable():
            return FILE if self.opened is not None or method.startswith("read") else None
        self.opened = None
        return None

    def _line(self, frame: FrameType, source: Source) -> Origin | None:
        """The line of the program; None where a library asks for purposes of its own."""
        one: FrameType | None = frame
        while one is not None and one.f_code not in self.codes:
            if str(one.f_globals.get("__name__")).partition(".")[0] not in source.through:
                return None
            one = one.f_back
        return None if one is None else Origin(one.f_code, one.f_lasti)


def _may_ask(code: CodeType, space: Mapping[str, Any]) -> bool:
    """Whether the code names a source, also by another name (`from time import time as now`)."""
    if not (NAMES.isdisjoint(code.co_names) and NAMES.isdisjoint(code.co_freevars)):
        return True
    for one in space.values():
        kind = type(one)
        if kind is ModuleType:
            is_one = one.__name__ in MODULES
        elif kind is BuiltinFunctionType:
            is_one = one in CALLS
        else:
            is_one = issubclass(one if kind is type else kind, CLASSES)
        if is_one:
            return True
    return False


def is_in(
    made: Made, source: Source, codes: Mapping[CodeType, Mapping[str, Any]], origin: Origin
) -> bool:
    """Whether the graph may have what the source gave there: a number, or an array, that stands
    neither in the code nor in its variables; and the code does more with it than to show it."""
    from chainrule.frontend.bytecode.use_of_result import (
        is_only_shown,  # loaded where something was asked
    )

    if is_only_shown(origin, is_number=bool(source.shown_by)):
        return False
    literals = [0.0, 1.0, *(number for code in codes for number in _numbers(code.co_consts))]
    for node, name in _with_bodies(made):
        if node.primitive is constant and (constant in source.shown_by or not node.ndim):
            if not any(name in space for space in codes.values()):
                return True
        elif node.primitive is full and not isinstance(node.param("value"), bool):
            value = float(node.param("value"))
            if not any(abs(abs(value) - one) <= 1e-3 * one for one in literals):
                return True
    return not source.shown_by


def _with_bodies(made: Made) -> Iterator[tuple[Node, str]]:
    """Every node, also in the bodies of loops and branches, with its name."""
    pending = [one() for one in made]
    while pending:
        nodes, names = pending.pop()
        for node in nodes:
            yield node, names.get(node, "")
            pending += [(body.graph.nodes, body.graph.name_of) for body in bodies_of(node)]


def _numbers(values: Iterable[Any]) -> Iterator[float]:
    for one in values:
        if isinstance(one, tuple):
            yield from _numbers(one)
        elif isinstance(one, (int, float)):
            yield abs(float(one)) if abs(one) < 1e300 else np.inf

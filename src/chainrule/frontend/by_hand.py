"""Names, scopes and places that a program says itself, as importers do (docs/importers.md)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType
from typing import TypeVar

import numpy as np

from chainrule.errors import ChainruleError, InputError, programs_around
from chainrule.frontend.naming import user_frame
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.graph.origin import Origin
from chainrule.graph.structure import flatten

T = TypeVar("T")


def named(value: T, name: str) -> T:
    """The same value, called `name` in the graph that is being traced.

    The name may be any text of one line.  Within `cr.scope("layer1")` a value named `h` is called
    `layer1.h`; where a name is taken, `h_1`, `h_2`.  A value that has a name keeps it as a second
    one (an input as the first).  Parts of containers are called `h[0]`, `h.key`.  A NumPy array
    becomes a constant of the graph with this name.  Outside of `cr.trace` nothing happens.

    Raises InputError for a name that is empty, no text, or of several lines.
    """
    if not isinstance(name, str) or not name.isprintable() or not name.strip():
        raise InputError(
            f"cr.named takes the name of a value, got {name!r}", hint='cr.named(value, "h")'
        )
    leaves, structure = flatten(value, name)
    program = next(programs_around(sys._getframe(1)), None)
    parts = zip(leaves, structure.leaf_names, strict=True)
    return structure.unflatten([_named(leaf, part, program) for leaf, part in parts])


def _named(leaf: object, name: str, program: Trace | None) -> object:
    if type(leaf) is np.ndarray and program is not None:
        leaf = Traced(program.constant(leaf), program)
    if isinstance(leaf, Traced):
        leaf.program.refuse_leaked(leaf.node)
        leaf.program.name_by_hand(leaf.node, name)
    return leaf


@contextmanager
def scope(name: str = "", *, file: str = "", line: int = 1, function: str = "") -> Iterator[None]:
    """While it is open, what is traced belongs to the scope `name`, and comes from this place.

    A dotted name (`layer1.0.conv1`) opens one scope in another, and the same name continues the
    scope that was opened before; scopes within each other have their paths joined.  `file`, `line`
    and `function` are what messages, drawings and reports show as the source; without `file` that
    is the place of the scope around, or the line of the `with` statement.

    Values get no names from the code that runs, only from `cr.named`.  Errors of chainrule that
    know no line get this one.  Outside of `cr.trace` nothing happens.
    """
    frame = user_frame(sys._getframe(2))  # above contextlib's
    program = next(programs_around(sys._getframe(2)), None)
    if program is None:
        yield
        return
    outer, around = program.place, program.site
    inside = program.scope_at(name, frame)
    if file:
        place = Origin(_code(file, line, function), -1, inside)
    elif outer is not None:
        place = Origin(outer.code, outer.lasti, inside)
    else:
        place = Origin(frame.f_code, frame.f_lasti, inside) if frame is not None else Origin()
    program.place, program.site = place, None
    try:
        yield
    except ChainruleError as error:
        error.where = error.where or place.describe()
        raise
    finally:
        program.place, program.site = outer, around


@lru_cache(maxsize=65536)
def _code(file: str, line: int, function: str) -> CodeType:
    """A code object that nobody runs, for its place."""
    name = function or "<module>"
    return _nothing.__code__.replace(
        co_filename=file, co_firstlineno=max(line, 1), co_name=name, co_qualname=name
    )


def _nothing() -> None:
    pass

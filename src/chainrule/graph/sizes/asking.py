"""Tells who compares sizes: the user's function while it is traced, or chainrule itself.

Chainrule's own modules mean the same polynomial when they write `a == b`, and so does a user
outside of a traced function.  Within one the answer must hold for the numbers of a later run.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Set
from types import FrameType
from typing import Any, NamedTuple, Protocol

from chainrule.errors import ChainruleError, SizeTextWarning, programs_around
from chainrule.graph.origin import Origin

_LIBRARIES = sys.stdlib_module_names | {"numpy", "scipy"}  # that compare for who calls them
_CHAINRULE = __name__.partition(".")[0]
# What keeps an argument, though its own result is thrown away.
KEEPING = {"append", "appendleft", "add", "insert", "extend", "update", "setdefault", "setattr"}
is_ours: dict[object, bool] = {}  # by the name of a module; whether it is chainrule's


class Program(Protocol):
    """What is being traced."""

    sizes: Set[str]
    warned: list[tuple[Warning, type[Warning], str, int]]  # to be said if the function returns

    def assume_not_zero(self, expression: Any, text: str, origin: Origin) -> None:
        """Note the condition that the expression is not 0, which this line needs."""
        ...


class Asking(NamedTuple):
    """The user's frame that asks, and the programs that are traced around it, innermost first."""

    frame: FrameType
    programs: tuple[Program, ...]
    is_elsewhere: bool = False  # whether another thread traces them, which this one may belong to

    @property
    def origin(self) -> Origin:
        """The user's line."""
        return Origin(self.frame.f_code, self.frame.f_lasti)


def asking(frame: FrameType | None) -> Asking | None:
    """Which of the user's programs asks in this frame, or through libraries that it has called;
    None where chainrule does, or where nothing is traced."""
    first, user = frame, None
    while frame is not None and user is None:
        module = frame.f_globals.get("__name__")
        ours = is_ours.get(module)
        if ours is None:
            ours = is_ours[module] = str(module).partition(".")[
                0
            ] == _CHAINRULE and not frame.f_globals.get("__user_program__", False)
        if ours:
            if frame is first or not _runs_program(frame):
                return None
            user = first  # a module of the user's that is called as a library is
        elif not is_library(frame):
            user = frame
        else:
            frame = frame.f_back
    programs = tuple(programs_around(frame))
    if user is None or programs:
        return Asking(user, programs) if user is not None else None
    others = _programs_elsewhere()
    return Asking(user, others, is_elsewhere=True) if others else None


def _programs_elsewhere() -> tuple[Program, ...]:
    """What other threads trace; nothing in the main thread, which no traced function starts."""
    own = threading.get_ident()
    if own == threading.main_thread().ident:
        return ()
    frames = [frame for thread, frame in sys._current_frames().items() if thread != own]
    return tuple(program for frame in frames for program in programs_around(frame))


def is_library(frame: FrameType) -> bool:
    """Whether this is code of Python's library, NumPy or SciPy, which works for who calls it."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES


def _runs_program(frame: FrameType) -> bool:
    return frame.f_globals.get("__runs_programs__") is frame.f_code


def goes_on(frame: FrameType) -> bool:
    """Whether the program keeps or compares what the running instruction gives; not where its
    statement throws that away (`print(n)`) or raises it, unless it hands it to what keeps things
    (`names.append(str(n))`)."""
    called: set[str] = set()  # in the statement so far
    for instruction in dis.get_instructions(frame.f_code):
        name = instruction.opname
        if instruction.offset <= frame.f_lasti:
            if name == "POP_TOP" or name.startswith(("STORE", "RETURN", "POP_JUMP")):
                called.clear()
            elif name in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME"):
                called.add(instruction.argval)
            continue
        if name == "POP_TOP" and not KEEPING.isdisjoint(called):
            break
        if name in ("POP_TOP", "RAISE_VARARGS"):
            return False
        if name.startswith(("STORE", "RETURN", "COMPARE", "CONTAINS", "POP_JUMP")):
            break
    return True


def note_text(found: Asking, text: str) -> None:
    """A SizeTextWarning at the user's line, where the program goes on with the text of a size and
    so may decide by it."""
    frame, code = found.frame, found.frame.f_code
    if found.is_elsewhere or not goes_on(frame):
        return
    origin = found.origin
    said = ChainruleError(
        f"the text of the size {text} is made while tracing, and is the same in every run",
        where=origin.describe(),
        hint="decide by sizes and not by their text: how they compare becomes a condition",
    )
    line = origin.location.line if origin.location is not None else code.co_firstlineno
    warning = SizeTextWarning(str(said)), SizeTextWarning, code.co_filename, line
    found.programs[0].warned.append(warning)

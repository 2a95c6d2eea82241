"""Who compares sizes: the user's function while it is traced, or chainrule itself.

Chainrule's own modules mean the same polynomial when they write `a == b`, and so does a user
outside of a traced function.  Within one the answer must hold for the numbers of a later run.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator, Set
from types import FrameType
from typing import Any, NamedTuple, Protocol

from chainrule.errors import ChainruleError, SizeTextWarning
from chainrule.graph.origin import Origin

_LIBRARIES = sys.stdlib_module_names | {"numpy", "scipy"}  # that compare for who calls them
_CHAINRULE = __name__.partition(".")[0]
is_ours: dict[object, bool] = {}  # by the name of a module; whether it is chainrule's


class Program(Protocol):
    """What is being traced; the frame that runs its function has it as the local `program`, in a
    module whose `__runs_programs__` is the code of that frame."""

    sizes: Set[str]
    warned: list[tuple[Warning, type[Warning], str, int]]  # to be said if the function returns

    def assume_not_zero(self, expression: Any, text: str, frame: FrameType) -> None:
        """Note the condition that the expression is not 0, which the line of the frame needs."""
        ...


class Asking(NamedTuple):
    """The user's frame that asks, and the programs that are traced around it, innermost first."""

    frame: FrameType
    programs: tuple[Program, ...]


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
    programs = tuple(_programs(frame))
    return Asking(user, programs) if user is not None and programs else None


def is_library(frame: FrameType) -> bool:
    """Whether this is code of Python's library, NumPy or SciPy, which works for who calls it."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES


def _runs_program(frame: FrameType) -> bool:
    return frame.f_globals.get("__runs_programs__") is frame.f_code


def goes_on(frame: FrameType) -> bool:
    """Whether the program keeps or compares what the running instruction gives; not where its
    statement throws that away (`print(n)`) or raises it."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset <= frame.f_lasti:
            continue
        name = instruction.opname
        if name in ("POP_TOP", "RAISE_VARARGS"):
            return False
        if name.startswith(("STORE", "RETURN", "COMPARE", "CONTAINS", "POP_JUMP")):
            break
    return True


def note_text(found: Asking, text: str) -> None:
    """A SizeTextWarning at the user's line, where the program goes on with the text of a size and
    so may decide by it."""
    frame, code = found.frame, found.frame.f_code
    if not goes_on(frame):
        return
    origin = Origin(code, frame.f_lasti)
    said = ChainruleError(
        f"the text of the size {text} is made while tracing, and is the same in every run",
        where=origin.describe(),
        hint="decide by sizes and not by their text: how they compare becomes a condition",
    )
    line = origin.location.line if origin.location is not None else code.co_firstlineno
    warning = SizeTextWarning(str(said)), SizeTextWarning, code.co_filename, line
    found.programs[0].warned.append(warning)


def _programs(frame: FrameType | None) -> Iterator[Program]:
    while frame is not None:
        if _runs_program(frame):
            yield frame.f_locals["program"]
        frame = frame.f_back

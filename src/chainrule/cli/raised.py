"""Reports an exception from a user's file, with the user's lines that were running."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

from chainrule.dataclass import dataclass

MOST_CHARACTERS = 1000  # of what the exception says


@dataclass(frozen=True)
class Running:
    """A line that was running: `model.py:12`, the function that it is in, its text."""

    place: str
    function: str
    text: str

    def __str__(self) -> str:
        below = f"\n    {self.text}" if self.text else ""
        return f"{self.place}, in {self.function}{below}"


def described(error: BaseException) -> str:
    """`ValueError: what it says`."""
    text = "".join(traceback.format_exception_only(error)).strip()
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " …"


def own_lines(error: BaseException, file: Path) -> list[Running]:
    """The lines of the file, and of those below its folder, on the way to the error.

    Each is there once, the innermost last; what is installed is not the user's own.
    """
    folder = file.resolve().parent
    installed = Path(__file__).parents[1], Path(sysconfig.get_path("stdlib"))
    found: dict[Running, None] = {}
    for frame in traceback.extract_tb(error.__traceback__):
        at = Path(frame.filename)
        if "site-packages" in at.parts or any(map(at.is_relative_to, installed)):
            continue
        if at.is_relative_to(folder):
            place = f"{file.parent / at.relative_to(folder)}:{frame.lineno}"
            one = Running(place, frame.name, frame.line or "")
            found.pop(one, None)  # of a recursion, the last time
            found[one] = None
    return [*found]

"""Shows the progress of a training: a bar in a terminal, otherwise a line per epoch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from chainrule.dataclass import dataclass
from chainrule.graph.bytes_text import in_bytes
from chainrule.train.loop.epoch import Epoch


@dataclass(frozen=True)
class Reading:
    """Where training is at this moment; None for what is not known."""

    epoch: int
    steps: int
    rows: int
    objective: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Plan:
    """What is known beforehand: how many epochs, steps in all, and bytes, and where it begins."""

    epochs: int
    steps: int | None
    nbytes: int | None


class Progress(Protocol):
    """How training is shown."""

    def say(self, text: str) -> None:
        """Show a line."""
        ...

    def close(self) -> None:
        """Stop showing."""
        ...


class Silent:
    """Shows nothing."""

    def say(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class Lines:
    """Prints lines, for logs and files."""

    def say(self, text: str) -> None:
        print(text, flush=True)

    def close(self) -> None:
        pass


def is_watched() -> bool:
    """Whether the output goes to a terminal at which somebody may sit."""
    if sys.stdout is None:  # closed before Python started, or a program without a console
        return False
    return sys.stdout.isatty() and os.environ.get("CI", "").lower() not in ("true", "1")


def progress_of(shown: bool, plan: Callable[[], Plan], look: Callable[[], Reading]) -> Progress:
    """A bar in a terminal, lines elsewhere, nothing where nothing is to be shown.

    `plan` is asked once, and `look` now and then, by the bar alone.
    """
    if not shown:
        return Silent()
    if not is_watched():
        return Lines()
    from rich.errors import LiveError

    from chainrule.train.loop.progress_bar import Bar

    try:
        return Bar(plan(), look)
    except LiveError:  # another bar is there, and rich (before 14.1) draws one
        return Lines()


def line_of(epoch: Epoch, epochs: int) -> str:
    """The line of an epoch, below others of the same training."""
    number = f"epoch {epoch.number:{len(str(epochs))}}/{epochs}"
    return str(epoch).replace(f"epoch {epoch.number}", number, 1)


def memory_text(planned: int | None) -> str:
    """What a step allocates by its plan, and what the whole process has in memory."""
    used = used_nbytes()
    parts = [f"{in_bytes(planned)} planned"] if planned is not None else []
    parts += [f"{in_bytes(used)} used"] if used is not None else []
    return "memory " + ", ".join(parts) if parts else ""


def used_nbytes() -> int | None:
    """The bytes of this process in memory; where only their maximum is known, that."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024

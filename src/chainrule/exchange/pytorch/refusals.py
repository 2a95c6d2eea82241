"""Collects what a program has that graphs do not, and refuses all of it at once."""

from __future__ import annotations

from chainrule.errors import UnsupportedError
from chainrule.exchange.pytorch.sources import Frame
from chainrule.source import Location, underlined

_PLACES = 3  # lines of a module that a message shows


class Refusals:
    """What is unknown in the module `name`, each with the lines that use it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: dict[str, list[Frame]] = {}

    def add(self, what: str, frame: Frame) -> None:
        self.found.setdefault(what, []).append(frame)

    def raise_all(self) -> None:
        """UnsupportedError for all that is unknown, with lines of the module and counts."""
        if not self.found:
            return
        lines: list[str] = []
        for what, all_frames in self.found.items():
            frames = list(dict.fromkeys(all_frames))
            shown = [_shown(one) for one in frames[:_PLACES] if one.file]
            more = [f"and {len(frames) - _PLACES} further lines"] if len(frames) > _PLACES else []
            times = f" ({len(all_frames)} times)" if len(all_frames) > 1 else ""
            lines.append(f"  {what}{times}" + "".join(f"\n    {one}" for one in (*shown, *more)))
        count = len(self.found)
        raise UnsupportedError(
            f"from_torch: {self.name} uses {count} operator{'s' if count > 1 else ''} of PyTorch "
            "without a counterpart here:\n" + "\n".join(lines),
            hint="write these parts with other functions, or export the module without them and "
            "write them with NumPy",
        )


def _shown(frame: Frame) -> str:
    """File, line and source of a line of the module."""
    text = underlined(Location(frame.file, frame.function, frame.line, None, None, None))
    return f"{frame.file}:{frame.line}, in {frame.function}: {text}".removesuffix(": ")

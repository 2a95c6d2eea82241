"""Shows an object in a notebook by the text that `print` gives, not by its long `repr`."""

from __future__ import annotations

from typing import Any


class ShownByText:
    """The base of what is read as text: reports, plans, tables.

    IPython calls `_repr_pretty_` for the plain text of a cell's last value, in Jupyter, VS Code and
    terminals.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        """IPython takes the first class that has either this method or a `__repr__`."""
        super().__init_subclass__(**options)
        cls._repr_pretty_ = ShownByText._repr_pretty_

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        text = f"<{type(self).__name__}: …>" if cycle else str(self)
        for place, line in enumerate(text.split("\n")):
            if place:
                printer.break_()
            printer.text(line)

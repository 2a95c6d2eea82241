"""The kernels of a plan in modules of a fair size: one is compiled while the next is written."""

from __future__ import annotations

from collections.abc import Callable

from chainrule.execute.native.plan_to_ir.emit import Module

SIZE = 24_000  # characters of a module that is full
INTERNAL = "define internal "


class Modules:
    """Each function is in one module; others that call it declare it.

    `send` is given the text of each module that is full.
    """

    def __init__(self, send: Callable[[str], None]) -> None:
        self.send = send
        self._known: dict[str, str] = {}  # functions
        self._begin()

    def _begin(self) -> None:
        self._module, self._own, self._size = Module(), set[str](), 0

    def put(self, scratch: Module) -> None:
        """The functions of a module; those that it has internally, other modules may have, too."""
        if self._size >= SIZE:
            self._send()
        for text in scratch.functions:
            name, declaration = declared(text)
            known = self._known.get(name)
            if known is None:
                self._known[name] = text
                self._own.add(name)
                self._module.functions.append(text.replace(INTERNAL, "define ", 1))
                self._size += len(text)
                continue
            assert known == text, f"two functions are called {name}"
            if name not in self._own:
                self._module.declare(declaration)
        self._module.declarations.update(scratch.declarations)

    def close(self, last: Module) -> str:
        """The text of the last module: its own functions, which call the others, and what is left
        of these if that is all there is."""
        if len(self._own) < len(self._known):
            self._send()
        for name in self._own:
            last.declarations.pop(declared(self._known[name])[1], None)
        last.declarations.update(self._module.declarations)
        last.functions[:0] = self._module.functions
        return last.text()

    def _send(self) -> None:
        self.send(self._module.text())
        self._begin()


def declared(function: str) -> tuple[str, str]:
    """The name of a function, and the line that declares it."""
    head = function[: function.index(") ")].removeprefix(INTERNAL).removeprefix("define ")
    result, rest = head.split(" @", 1)
    name, parameters = rest.split("(", 1)
    types = ", ".join(one.rpartition(" ")[0] for one in parameters.split(", ") if one)
    return name, f"declare {result} @{name}({types})"

"""The functions of a plan in modules of a fair size: one is compiled while the next is written."""

from __future__ import annotations

from collections.abc import Callable

from chainrule.execute.native.plan_to_ir.emit import AT_LEVEL_0, Module

SIZE = 24_000  # characters of a module that is full
INTERNAL = "define internal "
LEVELS = 2, 0  # of LLVM: for kernels, and for functions whose time is in what they call

Send = Callable[[str, int], None]


class Modules:
    """Each function is in one module, of its level; others that call it declare it.

    `send` is given the text of each module that is full, and its level.
    """

    def __init__(self, send: Send) -> None:
        self.send = send
        self._known: dict[str, str] = {}  # functions
        self._open = {level: _Open() for level in LEVELS}

    def put(self, scratch: Module) -> None:
        """The functions of a module; those that it has internally, other modules may have, too."""
        levels = {_level(text) for text in scratch.functions}
        for level in levels:
            if self._open[level].size >= SIZE:
                self._send(level)
        for text in scratch.functions:
            name, declaration = declared(text)
            if name not in self._known:
                self._known[name] = text
                self._open[_level(text)].add(name, declaration, text)
            assert self._known[name] == text, f"two functions are called {name}"
            for level in levels:
                self._open[level].module.declare(declaration)
        for level in levels:
            self._open[level].module.declarations.update(scratch.declarations)

    def close(self) -> None:
        """Send what is left."""
        for level, module in self._open.items():
            if module.own:
                self._send(level)

    def _send(self, level: int) -> None:
        self.send(self._open[level].text(), level)
        self._open[level] = _Open()


class _Open:
    """A module that is being filled."""

    def __init__(self) -> None:
        self.module, self.size = Module(), 0
        self.own: dict[str, str] = {}  # functions, and the lines that declare them elsewhere

    def add(self, name: str, declaration: str, text: str) -> None:
        self.own[name] = declaration
        self.module.functions.append(text.replace(INTERNAL, "define ", 1))
        self.size += len(text)

    def text(self) -> str:
        """The whole module, which declares what others have."""
        for declaration in self.own.values():
            self.module.declarations.pop(declaration, None)
        return self.module.text()


def _level(function: str) -> int:
    return 0 if AT_LEVEL_0 in function[: function.index("\n")] else 2


def declared(function: str) -> tuple[str, str]:
    """The name of a function, and the line that declares it."""
    head = function[: function.index(") ")].removeprefix(INTERNAL).removeprefix("define ")
    result, rest = head.split(" @", 1)
    name, parameters = rest.split("(", 1)
    types = ", ".join(one.rpartition(" ")[0] for one in parameters.split(", ") if one)
    return name, f"declare {result} @{name}({types})"

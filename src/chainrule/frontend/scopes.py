"""Finds which call of a helper function of the user's is running, as a scope of the graph."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType

from chainrule.frontend.naming import Namer, Place, Target, places_returned, user_frame
from chainrule.graph.origin import Scope

_Named = tuple["Scope | None", str]  # a name, and the scope that it is in
_WRAPPER = 0x04 | 0x08  # CO_VARARGS | CO_VARKEYWORDS: def wrapper(*args, **kwargs)
_NO_SCOPE = frozenset({"<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"})


class Scopes:
    """The scopes of one traced program, by the frames of its calls.

    `is_entry` says of a frame whether it calls the function that is traced.  `returning` are the
    calls whose caller will store what they return: with their scope, and where it will, by the
    place in what is returned.
    """

    def __init__(self, is_entry: Callable[[FrameType], bool], namer: Namer) -> None:
        self.is_entry, self.namer = is_entry, namer
        self.outside: set[FrameType] = set()  # frames of the user's that called `trace`
        self.returning: list[tuple[FrameType, Scope | None, dict[Place, Target]]] = []
        self._of: dict[FrameType, Scope | None] = {}
        self._roots: set[FrameType] = set()
        self.calls: dict[_Named, int] = {}
        self.opened: dict[_Named, Scope] = {}  # by name, with `cr.scope`

    def of(self, frame: FrameType) -> Scope | None:
        """The scope that a user's frame stands for: one for each call of a helper function.

        None for the function that is traced, and for what is outside of it.
        """
        if frame in self._of:
            return self._of[frame]
        if frame in self.outside:
            return None
        chain: list[FrameType] = []
        current: FrameType | None = frame
        scope: Scope | None = None
        at_root = True
        while current is not None and not self.is_entry(current):
            if current in self._of:
                scope = self._of[current]
                at_root = current in self._roots and _is_wrapper(current)
                break
            if user_frame(current) is current:
                chain.append(current)
            current = current.f_back
        if current is None:
            self.outside.add(frame)
            return None
        for call in reversed(chain):
            wrapper = _is_wrapper(call)
            if at_root:
                self._roots.add(call)
            elif not wrapper and call.f_code.co_name not in _NO_SCOPE:
                scope = Scope(self._unique(scope, call.f_code.co_name), scope)
                self._expect_return(call, scope)
            self._of[call] = scope
            if wrapper and not at_root:
                self._expect_return(call, scope)
            at_root = at_root and wrapper
        return scope

    def open(self, parent: Scope | None, name: str) -> Scope:
        """The scope that was opened under this name in `parent`, or a new one."""
        found = self.opened.get((parent, name))
        if found is None:
            found = self.opened[parent, name] = Scope(self._unique(parent, name), parent)
        return found

    def count_anew(self) -> tuple[dict[_Named, int], dict[_Named, Scope]]:
        """Begin a body, whose scopes are counted apart; gives what was counted before it."""
        before = self.calls, self.opened
        self.calls, self.opened = {}, {}
        return before

    def _unique(self, parent: Scope | None, name: str) -> str:
        count = self.calls.get((parent, name), 0)
        self.calls[parent, name] = count + 1
        return f"{name}_{count}" if count else name

    def _expect_return(self, call: FrameType, scope: Scope | None) -> None:
        caller = call.f_back
        if caller is None or user_frame(caller) is not caller:
            return
        found = {place: self.namer.target(caller, place) for place in places_returned(call.f_code)}
        targets = {place: one for place, one in found.items() if one and one.name != "_"}
        if targets:
            self.returning.append((call, scope, targets))


def _is_wrapper(frame: FrameType) -> bool:
    return frame.f_code.co_flags & _WRAPPER == _WRAPPER

"""Finds what the code around a call does with its result: whether it only shows it, as a log does.

A small analysis of the syntax tree of one function.  A value is followed through variables and
through expressions that have nothing else in them but numbers and text; it is used where it meets
another variable, is returned, or is handed to a function together with another variable.
"""

from __future__ import annotations

import ast
import linecache
from typing import Any

from chainrule.graph.origin import Origin

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SHOWING = {"print", "debug", "info", "warning", "warn", "error", "exception", "critical", "log"}
SHOWING |= {"write", "writelines", "sleep"}
IN_PLACE = {"shuffle", "fill", "readinto", "set_state", "setstate", "advance"}
NOTHING, FOLLOWED, OTHER = range(3)  # numbers and text; the value; another variable


def is_only_shown(origin: Origin, *, is_number: bool) -> bool:
    """Whether the code at this place does nothing with the value but show it; False without source.

    Of a number (of a clock, a file) also comparisons and text say nothing more, nor where it is
    kept; of random bits they may choose, or seed.
    """
    where = origin.location
    if where is None or where.column is None or where.end_column is None:
        return False
    try:
        tree = ast.parse("".join(linecache.getlines(where.filename)))
    except SyntaxError:
        return False
    begin, end = (where.line, where.column), (where.end_line, where.end_column)
    calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call)]
    exact = [one for one in calls if _span(one)[0] <= begin and end <= _span(one)[1]]
    around = [one for one in ast.walk(tree) if isinstance(one, FUNCTIONS) and _holds(one, begin)]
    if not exact or not around:
        return False
    whole = (begin, end) in (_span(exact[-1]), _span(exact[-1].func))  # and not an argument of it
    following = _Following(exact[-1], is_number, whole)
    following.through(around[-1])
    return not following.is_used


def _span(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _holds(node: ast.AST, place: tuple[int, int]) -> bool:
    first, last = _span(node)
    return first <= place < last


def _writes(call: ast.Call) -> bool:
    """Whether a call whose result nobody takes changes an argument, or what it is a method of."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return (
        name in IN_PLACE
        or "seed" in name
        or name.endswith("_")
        or any(one.arg in ("out", None) for one in call.keywords)
    )


class _Following:
    """The variables that have the value, of the call `source`."""

    def __init__(self, source: ast.Call, is_number: bool, is_source: bool = True) -> None:
        self.source, self.is_number, self.is_source = source, is_number, is_source
        self.is_used = False
        self.names: set[str] = set()
        self.local: set[str] = set()

    def through(self, function: Any) -> None:
        """Follow it until no more variables have it."""
        if isinstance(function, ast.Lambda):
            if self.of(function.body) == FOLLOWED:
                self.is_used = True
            return
        known = -1
        self.local = {
            one.id
            for one in ast.walk(function)
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
        } | {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
        while known != len(self.names):
            known = len(self.names)
            for statement in function.body:
                self.statement(statement)

    def statement(self, one: ast.AST) -> None:
        match one:
            case ast.Assign(targets, value):
                self.store(targets, self.of(value))
            case ast.AnnAssign(target, _, value) if value is not None:
                self.store([target], self.of(value))
            case ast.AugAssign(target, _, value):
                if self.of(value) == FOLLOWED and self.of(target) == OTHER:
                    self.is_used = True
                self.store([target], self.of(value))
            case ast.For(target, over, body, rest) | ast.AsyncFor(target, over, body, rest):
                self.decided(over)
                self.store([target], self.of(over))
                self.all([*body, *rest])
            case ast.With(items, body) | ast.AsyncWith(items, body):
                for item in items:
                    found = self.of(item.context_expr)
                    if item.optional_vars is not None:
                        self.store([item.optional_vars], found)
                self.all(body)
            case ast.Return(value) if value is not None and self.of(value) == FOLLOWED:
                self.is_used = True
            case ast.Expr(value):
                self.discarded(value)
            case ast.If(test, body, rest) | ast.While(test, body, rest):
                self.decided(test)
                self.all([*body, *rest])
            case ast.Match(subject):
                self.decided(subject)
                self.all(ast.iter_child_nodes(one))
            case ast.expr():
                self.of(one)
            case _:
                self.all(ast.iter_child_nodes(one))

    def all(self, several: Any) -> None:
        for one in several:
            self.statement(one)

    def decided(self, value: ast.expr) -> None:
        """What runs, or how often, is decided by the value."""
        if self.of(value) == FOLLOWED and not self.is_number:
            self.is_used = True

    def store(self, targets: list[Any], found: int) -> None:
        """The targets take it."""
        if found != FOLLOWED:
            return
        for target in targets:
            for one in ast.walk(target):
                if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                    self.names.add(one.id)
                elif isinstance(one, (ast.Attribute, ast.Subscript)) and not self.is_number:
                    self.is_used = True

    def discarded(self, value: ast.expr) -> None:
        """A call whose result nobody takes."""
        if isinstance(value, ast.Call) and value is not self.source:
            called = value.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in SHOWING or self.is_number:
                for part in [*value.args, *(one.value for one in value.keywords)]:
                    self.of(part, is_shown=True)
                return
        elif value is self.source and self.is_source and not _writes(self.source):
            return
        if self.of(value) == FOLLOWED and not self.is_number:
            self.is_used = True  # a seed, or put into a list

    def of(self, one: ast.AST | None, is_shown: bool = False) -> int:
        """What an expression has in it; where the value meets another variable, it is used."""
        if one is self.source:
            return FOLLOWED
        match one:
            case None | ast.Constant():
                return NOTHING
            case ast.Name(name):
                found = FOLLOWED if name in self.names else OTHER if name in self.local else NOTHING
                return found
            case ast.Lambda(_, body):
                return self.of(body, is_shown)
        parts = [self.of(part, is_shown) for part in ast.iter_child_nodes(one)]
        if FOLLOWED not in parts:
            return OTHER if OTHER in parts else NOTHING
        if self.is_number and isinstance(one, (ast.Compare, ast.JoinedStr, ast.FormattedValue)):
            return NOTHING
        if OTHER in parts and not is_shown:
            self.is_used = True
        return FOLLOWED

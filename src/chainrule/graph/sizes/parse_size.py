"""Parses a size from the text that `str` writes: `2*n + 1`, `n//2`, `min(n, 5)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache, reduce
from operator import add, floordiv, mod, mul, sub
from typing import Any, NoReturn

from chainrule.graph.sizes.sizes import Size, maximum, minimum, size

_LONGEST_TEXT = 1000
_TOKENS = re.compile(r"(?:\s|[0-9]+\b|[A-Za-z_][A-Za-z_0-9]*|[-+*/%(),])*", re.ASCII)
_EXTREMES = {"min": minimum, "max": maximum}
_SYMBOLS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}


@lru_cache(maxsize=4096)
def parse(text: str) -> int | Size:
    """The size written as `str` writes it: integers, names, + - * // %, (), min(,), max(,)."""

    def fail(problem: str, column: int) -> NoReturn:
        raise ValueError(f"{text[:_LONGEST_TEXT]!r} is not a size: {problem} at position {column}")

    if len(text) > _LONGEST_TEXT:
        fail(f"more than {_LONGEST_TEXT} characters", _LONGEST_TEXT)
    end = re.match(_TOKENS, text)
    if end and end.end() < len(text):
        fail(f"unexpected {text[end.end()]!r}", end.end())
    try:
        tree = ast.parse(f"({' '.join(text.splitlines())})", mode="eval").body
    except SyntaxError as error:
        fail(error.msg, max((error.offset or 2) - 2, 0))
    except (MemoryError, RecursionError):
        fail("too deeply nested", 0)
    values: dict[ast.AST, int | Size] = {}
    for node in reversed(list(ast.walk(tree))):  # arguments come before what they are used in
        problem = None
        try:
            match node:
                case ast.Constant(value=int() as value) if value is not True and value is not False:
                    values[node] = value
                case ast.Name(id=name) if name not in _EXTREMES:
                    values[node] = size(name)
                case ast.UnaryOp(op=ast.USub(), operand=x):
                    values[node] = -values[x]
                case ast.BinOp(left=x, op=op, right=y) if type(op) in _SYMBOLS:
                    values[node] = _SYMBOLS[type(op)](values[x], values[y])
                case ast.Call(func=ast.Name(id=name), args=[_, _, *_] as given, keywords=[]):
                    values[node] = reduce(_EXTREMES[name], [values[x] for x in given])
                case ast.BinOp(op=ast.Pow()):
                    problem = "** is written as a product, n*n,"
                case ast.expr() if not isinstance(node, ast.Name):
                    problem = f"unexpected {type(node).__name__.lower()}"
        except KeyError:  # a function without arguments, or the call of something else
            problem = "only min and max are functions, of two or more sizes,"
        except (ZeroDivisionError, ValueError) as error:
            problem = str(error)
        if problem:
            fail(problem, max(getattr(node, "col_offset", 1) - 1, 0))
    return values[tree] if tree in values else fail("a function needs arguments,", 0)

"""Parses the user's expression that is running, and resolves its names."""

from __future__ import annotations

import ast
import builtins
import linecache
from dis import opname
from types import FrameType
from typing import Any

from chainrule.graph.sizes.sizes import Size
from chainrule.source import source_location


def is_calling(frame: FrameType, place: int) -> bool:
    """Whether the instruction at this place is a call; while a function of Python runs, the frame
    is at the last entry of the call's cache."""
    code = frame.f_code.co_code
    while opname[code[place]] == "CACHE" and place > 0:
        place -= 2
    return opname[code[place]].startswith("CALL")


def value_of(node: ast.AST, frame: FrameType) -> Any:
    """What a name, or an attribute of one, stands for in the frame."""
    match node:
        case ast.Name(name):
            for space in (frame.f_locals, frame.f_globals, vars(builtins)):
                if name in space:
                    return space[name]
        case ast.Attribute(value, name):
            return getattr(value_of(value, frame), name, None)
    return None


def around(frame: FrameType, place: int) -> list[Any]:
    """The nodes of the syntax tree that the instruction at this place is within, the innermost
    first."""
    where = source_location(frame.f_code, place)
    if where.column is None or where.end_line is None or where.end_column is None:
        return []
    begin, end = (where.line, where.column), (where.end_line, where.end_column)
    tree = ast.parse("".join(linecache.getlines(where.filename)))
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.expr, ast.stmt))
        and (node.lineno, node.col_offset) <= begin
        and end <= (node.end_lineno or 0, node.end_col_offset or 0)
    ][::-1]


def sizes_in(node: ast.AST, frame: FrameType) -> list[Size]:
    """The named sizes that an argument of a call is, or has: `n`, `x.shape`, `(0, x.shape[0])`."""
    match node:
        case ast.Tuple(parts) | ast.List(parts):
            return [one for part in parts for one in sizes_in(part, frame)]
        case ast.Name():
            found = value_of(node, frame)
        case ast.Attribute(attr="shape" | "size"):
            found = value_of(node, frame)
        case ast.Subscript(ast.Attribute(attr="shape") as shape, index):
            try:
                found = value_of(shape, frame)[ast.literal_eval(index)]
            except (TypeError, ValueError, IndexError):
                return []
        case ast.BinOp(left, _, right):
            return sizes_in(left, frame) + sizes_in(right, frame)
        case _:
            return []
    parts = found if type(found) in (tuple, list) else [found]
    return [one for one in parts if type(one) is Size]

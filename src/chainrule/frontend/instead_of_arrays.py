"""What to write where NumPy asks a traced array for an array: `table[i]`, `out[i] = x`,
`np.array([x, y])`, `np.sum([x, y])`, `np.full(3, x)`, `np.r_[x, y]`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

Value = Callable[[ast.AST], Any]  # what an expression stands for, as far as names tell

MAKERS = ("array", "asarray", "asanyarray", "ascontiguousarray")
UPDATES = {ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide"}


def of_element(around: list[Any], value: Value) -> str:
    """Where the innermost expression reads an element of an array, or writes one."""
    if not around or not isinstance(around[0], ast.Subscript):
        return ""
    part = around[0]
    base, keys = ast.unparse(part.value), _keys(part.slice)
    key = ", ".join(keys) + "," * (isinstance(part.slice, ast.Tuple) and len(keys) == 1)
    if isinstance(part.ctx, ast.Store):
        return _of_writing(base, key, around[1:])
    of = value(part.value)
    bounds = [one for one in _parts(part.slice) if isinstance(one, ast.Slice)]
    if _holds_traced(of) or any(_mentions_traced(one, value) for one in bounds):
        return ""  # a part whose length depends on values
    if bounds and (of is np.c_ or of is np.r_):  # np.r_[0:3] is no part
        return ""
    if of is np.c_:
        return f"write np.column_stack([{key}])"
    if of is np.r_:
        return f"write np.concatenate([{', '.join(f'np.atleast_1d({one})' for one in keys)}])"
    return f"write cr.at({base})[{key}].get()"


def _parts(key: ast.AST) -> list[Any]:
    return list(key.elts) if isinstance(key, ast.Tuple) else [key]


def _keys(key: ast.AST) -> list[str]:
    return [ast.unparse(one) for one in _parts(key)]


def _of_writing(base: str, key: str, outer: list[Any]) -> str:
    statement = next((one for one in outer if isinstance(one, ast.stmt)), None)
    match statement:
        case ast.Assign(targets=[_], value=written):
            return f"write {base} = cr.at({base})[{key}].set({ast.unparse(written)})"
        case ast.AugAssign(op=op, value=written) if type(op) in UPDATES:
            how = UPDATES[type(op)]
            return f"write {base} = cr.at({base})[{key}].{how}({ast.unparse(written)})"
    return f"write {base} = cr.at({base})[{key}].set(...)"


def of_numpy_call(call: ast.Call, function: Any, value: Value) -> str:
    """Where a function of NumPy's is called that does not see the traced arrays it is given."""
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    is_numpys = isinstance(function, np.ufunc) or module.partition(".")[0] == "numpy"
    if not is_numpys:
        return ""
    options = {one.arg: ast.unparse(one.value) for one in call.keywords}
    given = [ast.unparse(one) for one in call.args]
    if name in MAKERS and given:
        dtype = given[1] if len(given) > 1 else options.get("dtype", "")
        return f"write cr.array({given[0]}{', ' * bool(dtype)}{dtype})"
    if name == "full":
        names = ("shape", "fill_value", "dtype")
        options = {**dict(zip(names, given, strict=False)), **options}
        dtype = options.get("dtype")
        cast = f".astype({dtype})" if dtype and dtype != "None" else ""
        return f"write np.broadcast_to({options.get('fill_value')}, {options.get('shape')}){cast}"
    if name == "take" and len(given) == 2 and options in ({}, {"axis": "0"}):
        base = given[0] if options else f"np.ravel({given[0]})"
        return f"write cr.at({base})[{given[1]}].get()"
    lists = [_is_list(one, value) for one in call.args]
    if not any(lists):
        return ""
    wrapped = [f"cr.array({x})" if found else x for found, x in zip(lists, given, strict=True)]
    wrapped += [f"{key}={x}" if key else f"**{x}" for key, x in options.items()]
    return f"write {ast.unparse(call.func)}({', '.join(wrapped)})"


def _is_list(node: ast.AST, value: Value) -> bool:
    """Whether it is a list in which traced arrays stand."""
    if isinstance(node, ast.Name):
        return isinstance(value(node), (list, tuple)) and _holds_traced(value(node))
    if not isinstance(node, (ast.List, ast.Tuple, ast.ListComp)):
        return False
    return _mentions_traced(node, value)


def _mentions_traced(node: ast.AST, value: Value) -> bool:
    inside = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
    return any(_holds_traced(value(one)) for one in inside)


def _holds_traced(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_traced, value))
    return hasattr(value, "node") and hasattr(value, "program")

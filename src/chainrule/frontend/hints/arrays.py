"""Replacements where NumPy asks a traced array for an array: `table[i]`, `out[i] = x`,
`np.array([x, y])`, `np.sum([x, y])`, `np.full(3, x)`, `np.r_[x, y]`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np

Value = Callable[[ast.AST], Any]  # what an expression stands for, as far as names tell

MAKERS = ("array", "asarray", "asanyarray", "ascontiguousarray")
UPDATES: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}
# By the names of functions that take a shape or a length: which arguments those are.
SHAPES = {
    **dict.fromkeys(("zeros", "ones", "empty", "full"), (0, "shape")),
    **dict.fromkeys(("range", "arange"), (0, 1, 2, "start", "stop", "step")),
    **dict.fromkeys(("identity", "indices"), (0, "n", "dimensions")),
    **dict.fromkeys(("eye", "tri"), (0, 1, "N", "M")),
    **dict.fromkeys(("linspace", "logspace", "geomspace"), (2, "num")),
    **dict.fromkeys(("zeros_like", "ones_like", "empty_like", "full_like"), ("shape",)),
    **dict.fromkeys(("reshape", "broadcast_to"), (1, "shape", "newshape")),
    "resize": (1, "new_shape"),
    "tile": (1, "reps"),
}


def known_shape(value: str) -> str:
    """The hint where a value is given for a shape or a length."""
    return (
        f"{value} is a value, and a shape has to be known while tracing: pass an int argument\n"
        "(give it a default, as k=3, or call cr.trace(f, x, 3)), or take a size of an array, "
        "x.shape[0]"
    )


def of_element(around: list[Any], value: Value) -> str:
    """Where the innermost expression reads an element of an array, or writes one."""
    if not around or not isinstance(around[0], ast.Subscript):
        return ""
    part = around[0]
    base, key, keys = ast.unparse(part.value), _key(part.slice), _keys(part.slice)
    if isinstance(part.ctx, ast.Store):
        return of_writing(around, value)
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


def _is_mask(key: ast.AST, value: Value) -> bool:
    masks = (ast.Compare, ast.BitAnd, ast.BitOr, ast.Invert)
    return str(getattr(value(key), "dtype", "")) == "bool" or any(
        isinstance(one, masks) for one in ast.walk(key)
    )


def _parts(key: ast.AST) -> list[Any]:
    return list(key.elts) if isinstance(key, ast.Tuple) else [key]


def _keys(key: ast.AST) -> list[str]:
    return [ast.unparse(one) for one in _parts(key)]


def _key(key: ast.AST) -> str:
    keys = _keys(key)
    return ", ".join(keys) + "," * (isinstance(key, ast.Tuple) and len(keys) == 1)


def of_writing(around: list[Any], value: Value) -> str:
    """Where the innermost expression is assigned to: `out[i] = x`, `out[mask] *= 2`."""
    if not around or not isinstance(around[0], ast.Subscript):
        return ""
    part = around[0]
    if not isinstance(part.ctx, ast.Store):
        return ""
    base = ast.unparse(part.value)
    at = f"{base}.at" if _holds_traced(value(part.value)) else f"cr.at({base})"
    place = f"write {base} = {at}[{_key(part.slice)}]"
    match next((one for one in around[1:] if isinstance(one, ast.stmt)), None):
        case ast.Assign(targets=[target], value=written) if target is part:
            return f"{place}.set({ast.unparse(written)})"
        case ast.AugAssign(op=op, value=written) if type(op) in UPDATES:
            return f"{place}.{UPDATES[type(op)]}({ast.unparse(written)})"
        case ast.AugAssign(op=op, value=written) if _is_mask(part.slice, value):
            changed = ast.unparse(ast.BinOp(part.value, op, written))
            return f"write {base} = np.where({_key(part.slice)}, {changed}, {base})"
        case ast.AugAssign(op=op, value=written):
            changed = ast.unparse(ast.BinOp(ast.Name("old"), op, written))
            return f"{place}.apply(lambda old: {changed})"
    return f"{place}.set(...)"


def of_numpy_call(call: ast.Call, function: Any, value: Value) -> str:
    """Where a function of NumPy's is called that does not see the traced arrays it is given."""
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    is_numpys = isinstance(function, np.ufunc) or module.partition(".")[0] == "numpy"
    if not is_numpys and function is not range:
        return ""
    shape = _value_of_shape(call, name, value)
    if function is range:
        loop = "cr.fori_loop(start, stop, body, value) repeats a number of times that is a value"
        return loop if shape else ""
    if shape:
        return known_shape(shape)
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


def _value_of_shape(call: ast.Call, name: str, value: Value) -> str:
    """What of a shape or a length that a function is given is traced; "" where nothing is."""
    given: list[tuple[int | str | None, ast.expr]] = list(enumerate(call.args))
    given += [(one.arg, one.value) for one in call.keywords]
    places = SHAPES.get(name, ())
    for place, one in given:
        for part in _parts(one) if place in places else ():
            if _has_value(part, value):
                return ast.unparse(part)
    return ""


def _has_value(node: ast.AST, value: Value) -> bool:
    """Whether a traced array's number stands there: its shape does not, nor an int argument."""
    match node:
        case ast.Attribute(attr="shape" | "size" | "ndim") | ast.Call(func=ast.Name("len")):
            return False
        case ast.Name():
            found = value(node)
            found = found if isinstance(found, (list, tuple)) else [found]
            return any(_holds_traced(x) and x.program.known_int(x) is None for x in found)
    return any(_has_value(one, value) for one in ast.iter_child_nodes(node))


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

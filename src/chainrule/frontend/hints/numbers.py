"""Replacements where Python asks a traced array for its number: `math.exp(x)`, `if x > 0:`.

The expression that is running is looked up in the user's source; without source nothing is said.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

from chainrule.frontend.bytecode.running import around, is_calling, value_of
from chainrule.frontend.hints.arrays import of_element, of_numpy_call, of_writing
from chainrule.frontend.hints.replacements import primitive_of
from chainrule.frontend.hints.untraced import REFUSED
from chainrule.frontend.naming import user_frame
from chainrule.graph.node import Node
from chainrule.primitives.sources import input_

LONGEST = 60  # characters of an expression that is written out
CHOICE = (
    "np.where(condition, a, b) chooses elementwise, cr.cond(condition, f, g, x) between functions;"
    "\na choice that holds for the whole trace takes a plain Python bool argument"
)
ALONG = (
    "cr.scan(step, start, x) calls step(carry, row) with each row of x;\n"
    "x.shape[0] is their number, which may be a named size"
)
# Functions of math under other names than np's.
MATH = {
    "acos": "np.arccos",
    "acosh": "np.arccosh",
    "asin": "np.arcsin",
    "asinh": "np.arcsinh",
    "atan": "np.arctan",
    "atan2": "np.arctan2",
    "atanh": "np.arctanh",
    "erf": "cr.erf",
    "erfc": "cr.erfc",
    "fsum": "np.sum",
    "lgamma": "cr.gammaln",
    "pow": "np.power",
}
# What to do for those that NumPy has not, or has with another meaning.
MATH_ALONE = {
    "gamma": primitive_of("scipy.special.gamma"),
    "remainder": "write x - y * np.rint(x / y)",
}
SCIPY = {
    "scipy.linalg.solve_triangular": "np.linalg.solve",
    "scipy.special.log_softmax": "cr.log_softmax",
    "scipy.special.logsumexp": "cr.logsumexp",
    "scipy.special.softmax": "cr.softmax",
}
NOT_AS_SCIPY = {
    "linalg.cholesky": ", which is lower triangular",
    "linalg.qr": ", whose factors are reduced",
}
GENERATORS = (np.random.Generator, np.random.RandomState)


def argument_without_number(value: Any) -> tuple[str, str]:
    """The int argument on which a traced integer depends and that has no number while tracing, and
    how to give it one; "" and "" of every other value."""
    pending = [value.node] if isinstance(getattr(value, "node", None), Node) else []
    if not pending or value.program.known_int(value) is not None or pending[0].ndim:
        return "", ""
    found: list[str] = []
    while pending:
        node = pending.pop()
        pending += node.inputs
        if node.dtype.kind != "i" or node.ndim:
            return "", ""
        name = value.program.name_of.get(node, "")
        if node.primitive is input_ and node not in value.program.scalars:
            if node.param("index") < 0 or not name.isidentifier():  # of a loop's step; of a part
                return "", ""
            found.append(name)
    if not found:
        return "", ""
    name = found[0]
    return (
        name,
        f"give it a default ({name}: int = 3), or trace with a number: {name}=3 in cr.trace",
    )


def instead_of_asking(frame: FrameType | None) -> str:
    """What the user could write where code that `frame` runs asks for a number; "" where it is
    not known."""
    return _from_source(_advice, frame)


def instead_of_writing(frame: FrameType | None) -> str:
    """What the user could write where code that `frame` runs assigns to elements; "" where it
    does not."""
    return _from_source(
        lambda one: of_writing(around(one, one.f_lasti), partial(value_of, frame=one)), frame
    )


def instead_of_iterating(frame: FrameType | None) -> str:
    """What the user could write where code that `frame` runs goes along an axis of a named size;
    "" where it asks for the length alone."""
    return _from_source(_instead_of_iterating, frame)


def _instead_of_iterating(frame: FrameType) -> str:
    nodes = around(frame, frame.f_lasti)
    call = nodes[0] if nodes and is_calling(frame, frame.f_lasti) else None
    if not nodes or not isinstance(call, ast.Call):
        return ALONG if nodes else ""
    function = value_of(call.func, frame)
    return "" if function is len else _of_call(call, function) or ALONG


def _from_source(advice: Callable[[FrameType], str], frame: FrameType | None) -> str:
    frame = user_frame(frame)
    if frame is None:
        return ""
    try:
        return advice(frame)
    except Exception:  # source that surprises us must not hide the refusal
        return ""


def _advice(frame: FrameType) -> str:
    nodes = around(frame, frame.f_lasti)
    if not nodes:
        return ""

    value = partial(value_of, frame=frame)
    if is_calling(frame, frame.f_lasti):
        call = nodes[0]
        if not isinstance(call, ast.Call):
            return ""
        function = value(call.func)
        return _of_call(call, function) or of_numpy_call(call, function, value)
    element = of_element(nodes, value)
    if element:
        return element
    found = []
    for inner, node in zip([None, *nodes], nodes, strict=False):
        match node:
            case ast.BoolOp(op, values):
                word = "and" if isinstance(op, ast.And) else "or"
                shown = _shown(*values[:2]) if len(values) == 2 else "..."
                found.append(f"np.logical_{word}({shown}) is elementwise")
            case ast.UnaryOp(ast.Not(), operand):
                found.append(f"np.logical_not({_shown(operand)}) is elementwise")
            case ast.Compare(left, ops, [middle, *_]) if len(ops) > 1:
                first = ast.Compare(left, ops[:1], [middle])
                rest = ast.Compare(middle, ops[1:], node.comparators[1:])
                found.append(f"np.logical_and({_shown(first, rest)}) is elementwise")
            case ast.While():
                found.append("cr.while_loop(condition, body, value) repeats while it holds")
                break
            case ast.Assert():
                found.append("return it, and look at its number after graph.run")
                break
            case ast.If() | ast.IfExp() if inner is node.test:
                found.append(CHOICE)
                break
            case ast.stmt():
                break
    return ";\n".join(found)


def _of_call(call: ast.Call, function: Any) -> str:
    """Instead of calling this function."""
    own = getattr(function, "__self__", None)
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None) or ""
    given = [*call.args, *call.keywords]
    if module == "math":
        return _of_math(call, name)
    if own is builtins and isinstance(call.args[0], ast.GeneratorExp):
        return ""
    if own is builtins and name in ("max", "min"):
        if len(call.args) == 1:
            return f"write np.{name}({_shown(*given)})"
        return f"write np.{name}imum({_shown(*given) if len(given) == 2 else 'a, b'})"
    if own is builtins and name == "sum" and len(given) == 1:
        return f"write np.sum({_shown(*given)}, axis=0)"
    if own is builtins and name in ("any", "all", "sorted"):
        return f"write np.{'sort' if name == 'sorted' else name}({_shown(*given)})"
    if isinstance(own, GENERATORS):
        return f"cr.random draws within a program: see cr.random.{name}(key, ...) and its like"
    if module.partition(".")[0] == "scipy":
        return _of_scipy(call, module, name)
    return ""


def _of_math(call: ast.Call, name: str) -> str:
    if name in MATH_ALONE:
        return MATH_ALONE[name]
    if name == "log" and len(call.args) == 2:
        return "write np.log(x) / np.log(base)"
    if name not in MATH and (not hasattr(np, name) or name in REFUSED):
        return ""
    return f"write {MATH.get(name, f'np.{name}')}({_shown(*call.args)})"


def _of_scipy(call: ast.Call, module: str, name: str) -> str:
    parts = [part for part in module.split(".") if not part.startswith("_")]
    public = ".".join([*parts, name])
    found = SCIPY.get(public)
    short = public.removeprefix("scipy.")
    if found is None and parts[1:] == ["linalg"] and short not in REFUSED:
        found = f"np.{short}" if hasattr(np.linalg, name) else None
    if found is None:
        return primitive_of(_shown(call.func))
    return f"write {found}({_shown(*call.args)})" + NOT_AS_SCIPY.get(short, "")


def _shown(*parts: ast.AST) -> str:
    text = ", ".join(ast.unparse(part) for part in parts)
    return text if len(text) <= LONGEST else "..."

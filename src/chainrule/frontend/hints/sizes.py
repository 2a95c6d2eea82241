"""Replacements for calls that need the number of a named size: `np.arange(n)`, `range(n)`."""

from __future__ import annotations

import ast
import re
from types import FrameType

from chainrule.frontend.bytecode.running import around, is_calling, value_of

RELATION = re.compile(r" (?:/|<=|>=|<|>) ")  # in a question about sizes, such as n < 5
COUNTED = (
    "with a traced array x, np.arange({n}) is\n"
    "t = np.cumsum(np.ones_like(x, shape=({n},), dtype=np.int64)) - 1"
)
LINES = COUNTED + ";\nnp.linspace(a, b, {n}) is a + (b - a) * t / cr.maximum({n} - 1, 1)"
DIAGONAL = COUNTED + ";\nnp.eye({n}) is np.where(t[:, None] == t, 1.0, 0.0)"
TRIANGLE = (
    COUNTED + ";\nnp.tri({n}) is np.where(t[:, None] >= t, 1.0, 0.0); "
    "np.tril and np.triu take named sizes"
)
LOOP = (
    "cr.fori_loop(0, {n}, body, value) repeats body(i, value) so often;\n"
    "cr.scan(step, start, x) calls step(carry, row) with each row of x"
)
LIKE = "for an array of that size: np.{name}_like(x, {value}shape=({{n}}, 3)), with a traced x"
INDICES = (
    COUNTED + ";\nof np.indices(({n}, 3)) the first is t[:, None] + np.zeros((1, 3), int), "
    "and of the last axis the same with t[None, :]"
)
# By the names of functions of NumPy and of Python.
OF_COUNTS = {
    "arange": COUNTED,
    "linspace": LINES,
    **dict.fromkeys(("eye", "identity"), DIAGONAL),
    **dict.fromkeys(("tri", "tril_indices", "triu_indices"), TRIANGLE),
    "range": LOOP,
    "indices": INDICES,
    **{
        name: LIKE.format(name=name, value="value, " if name == "full" else "")
        for name in ("zeros", "ones", "empty", "full")
    },
}


def instead_of_size(frame: FrameType, place: int, question: str) -> str:
    """What the user could write in place of the call that asked this; "" where it is not known."""
    try:
        nodes = around(frame, place)
        if not nodes or not isinstance(nodes[0], ast.Call) or not is_calling(frame, place):
            return ""
        call = nodes[0]
        function = value_of(call.func, frame)
        if function in (max, min):
            given = ", ".join(map(ast.unparse, call.args))
            shown = f"*{given}" if len(call.args) == 1 else given
            return f"write cr.{function.__name__}imum({shown})"
        hint = OF_COUNTS.get(getattr(function, "__name__", ""), "")
    except Exception:  # source that surprises us must not hide the refusal
        return ""
    return hint.format(n=RELATION.split(question)[0])

"""Comparisons, boolean algebra, selection and change of dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.graph.types import ArrayType, array_type
from chainrule.primitives.families import BOOL, comparison, elementwise, same_type
from chainrule.primitives.notation import ATOM, LOGICAL, NOT, RELATION, Form, Latex
from chainrule.primitives.primitive import Flat, Linear, Sample
from chainrule.primitives.python import Python, Writing, Written, calls, dtype_text
from chainrule.primitives.sources import full_like

equal = comparison("equal", "Whether x = y.", lambda xp, x, y: xp.equal(x, y), "=", "x == y")
not_equal = comparison(
    "not_equal", "Whether x differs from y.", lambda xp, x, y: xp.not_equal(x, y), r"\neq", "x != y"
)
less = comparison("less", "Whether x < y.", lambda xp, x, y: xp.less(x, y), "<", "x < y")
less_equal = comparison(
    "less_equal", "Whether x <= y.", lambda xp, x, y: xp.less_equal(x, y), r"\leq", "x <= y"
)
greater = comparison("greater", "Whether x > y.", lambda xp, x, y: xp.greater(x, y), ">", "x > y")
greater_equal = comparison(
    "greater_equal", "Whether x >= y.", lambda xp, x, y: xp.greater_equal(x, y), r"\geq", "x >= y"
)


def _booleans(*types: ArrayType, **params: Any) -> ArrayType:
    type_ = same_type(*types)
    if type_.dtype != BOOL:
        raise TypeError(f"logic is of booleans, got {type_}")
    return type_


def _boolean(name: str, doc: str, evaluate: Any, symbol: str, kernel: str) -> Any:
    return elementwise(
        name,
        doc,
        evaluate,
        Flat(),
        kernel=kernel,
        latex=Latex(f"{{x}} {symbol} {{y}}", LOGICAL, (RELATION, RELATION)),
        inputs=("x", "y"),
        result_type=_booleans,
        domains=("bool", "bool"),
    )


logical_and = _boolean(
    "logical_and",
    "x and y, of booleans.",
    lambda xp, x, y: xp.logical_and(x, y),
    r"\wedge",
    "x & y",
)
logical_or = _boolean(
    "logical_or", "x or y, of booleans.", lambda xp, x, y: xp.logical_or(x, y), r"\vee", "x | y"
)
logical_not = elementwise(
    "logical_not",
    "not x, of booleans.",
    lambda xp, x: xp.logical_not(x),
    Flat(),
    kernel="~x",
    latex=Latex(r"\neg {x}", NOT, (NOT,)),
    result_type=_booleans,
    domains=("bool",),
)


def _where_type(condition: ArrayType, x: ArrayType, y: ArrayType) -> ArrayType:
    if condition.dtype != BOOL or condition.shape != x.shape:
        raise TypeError(f"where needs booleans of shape {x.shape}, got {condition}")
    return same_type(x, y)


where = elementwise(
    "where",
    "x where the condition holds, else y.",
    lambda xp, condition, x, y: xp.where(condition, x, y),
    Linear(
        (
            None,
            lambda g, out, condition, x, y: where(condition, g, full_like(g, 0)),
            lambda g, out, condition, x, y: where(condition, full_like(g, 0), g),
        )
    ),
    kernel="where(condition, x, y)",
    latex=Latex(r"\operatorname{{where}}({condition}, {x}, {y})", ATOM, (0, 0, 0), Form.CASES),
    inputs=("condition", "x", "y"),
    result_type=_where_type,
    python=calls("where", ("condition", "x", "y"), "chosen"),
    domains=("bool", (-2.0, 2.0), (-2.0, 2.0)),
)


def _cast_type(x: ArrayType, *, dtype: np.dtype, weak: bool) -> ArrayType:
    return array_type(dtype, x.shape, weak and not x.shape)  # a batch of numbers is an array


def _cast_python(out: Any, writing: Writing, x: Written) -> Written:
    dtype = dtype_text(out.type.dtype)
    if out.ndim:
        return Written(f"{x.within(ATOM)}.astype({dtype})")
    if out.type.is_float:
        return Written(f"{dtype}({x.text})")
    return Written(f"np.asarray({x.text}).astype({dtype})")  # also of NaN, without an error


cast = elementwise(
    "cast",
    "x in another dtype, converted as NumPy's astype does.",
    lambda xp, x, *, dtype, weak: x.astype(dtype),
    Linear((lambda g, out, x: cast(g, dtype=x.type.dtype, weak=x.type.weak),)),
    kernel="cast(x)",
    latex=Latex("{x}", ATOM, (ATOM,), Form.CONVERSION),
    result_type=_cast_type,
    weight=0,
    more=tuple(
        Sample(((3,),), (domain,), (("dtype", np.dtype(name)), ("weak", False)), smooth=False)
        for domain, name in (((-2.0, 2.0), "float32"), ((-2.0, 2.0), "int64"), ("bool", "float64"))
    ),
    dtype=np.dtype(np.float64),
    weak=False,
    python=Python(_cast_python),
)

LOGIC = (
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    logical_and,
    logical_or,
    logical_not,
    where,
    cast,
)

"""Left and right shifts of integers."""

from __future__ import annotations

from typing import Any

from chainrule.primitives.bits import bitwise_and
from chainrule.primitives.families import elementwise
from chainrule.primitives.notation import ATOM, PRODUCT, Latex
from chainrule.primitives.primitive import Flat, Primitive, Sample


def _shift(name: str, doc: str, evaluate: Any, latex: Latex) -> Primitive:
    return elementwise(
        name,
        doc,
        evaluate,
        Flat(),
        kernel=f"{name}(x, y)",
        latex=latex,
        inputs=("x", "y"),
        result_type=bitwise_and.result_type,
        domains=("int:16", "int:16"),
        more=(Sample(((9,), (9,)), ("uint32", "uint32")),),
    )


left_shift = _shift(
    "left_shift",
    "The bits of x, y places further to the left; 0 where they are all gone.",
    lambda xp, x, y: xp.left_shift(x, y),
    Latex(r"{x} \cdot 2^{{{y}}}", PRODUCT, (PRODUCT, 0)),
)
right_shift = _shift(
    "right_shift",
    "The bits of x, y places further to the right, the sign repeated; 0 or -1 where all are gone.",
    lambda xp, x, y: xp.right_shift(x, y),
    Latex(r"\operatorname{{floor}}({x} / 2^{{{y}}})", ATOM, (PRODUCT, 0)),
)

SHIFTS = (left_shift, right_shift)

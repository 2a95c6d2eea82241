"""Bitwise operations on integers."""

from __future__ import annotations

from typing import Any

from chainrule.graph.types import ArrayType
from chainrule.primitives.families import elementwise, same_type
from chainrule.primitives.notation import LOGICAL, RELATION, Latex
from chainrule.primitives.primitive import Flat, Primitive, Sample

WHOLE = "int:16"


def _integers(*types: ArrayType, **params: Any) -> ArrayType:
    type_ = same_type(*types)
    if type_.dtype.kind not in "iu":
        raise TypeError(f"bits are those of integers, got {type_}")
    return type_


def _bitwise(
    name: str, doc: str, evaluate: Any, symbol: str, kernel: str, inputs: tuple[str, ...]
) -> Primitive:
    return elementwise(
        name,
        doc,
        evaluate,
        Flat(),
        kernel=kernel,
        latex=Latex(symbol, LOGICAL, (RELATION,) * len(inputs)),
        inputs=inputs,
        result_type=_integers,
        domains=(WHOLE,) * len(inputs),
        more=(Sample(((9,),) * len(inputs), ("uint32",) * len(inputs)),),
    )


bitwise_and = _bitwise(
    "bitwise_and",
    "The bits that both integers have.",
    lambda xp, x, y: xp.bitwise_and(x, y),
    r"{x} \wedge {y}",
    "x & y",
    ("x", "y"),
)
bitwise_or = _bitwise(
    "bitwise_or",
    "The bits that one of the integers has.",
    lambda xp, x, y: xp.bitwise_or(x, y),
    r"{x} \vee {y}",
    "x | y",
    ("x", "y"),
)
bitwise_xor = _bitwise(
    "bitwise_xor",
    "The bits in which two integers differ.",
    lambda xp, x, y: xp.bitwise_xor(x, y),
    r"{x} \oplus {y}",
    "x & ~y | ~x & y",  # in the words that kernels have; LLVM makes it one instruction
    ("x", "y"),
)
bitwise_not = _bitwise(
    "bitwise_not",
    "The bits that the integer has not.",
    lambda xp, x: xp.invert(x),
    r"\neg {x}",
    "~x",
    ("x",),
)

BITS = (bitwise_and, bitwise_or, bitwise_xor, bitwise_not)

"""A primitive is complete or cannot be made, and the message says what is missing."""

from __future__ import annotations

import dataclasses

import pytest

from chainrule.primitives.arithmetic import divide, exp, multiply
from chainrule.primitives.movement import concatenate
from chainrule.primitives.primitive import (
    Explicit,
    Flat,
    Linear,
    Multilinear,
    Partials,
    Primitive,
    Sample,
)
from chainrule.primitives.sources import full


def parts(primitive):
    return {f.name: getattr(primitive, f.name) for f in dataclasses.fields(primitive)}


OPTIONAL = {
    "as_stored",
    "variadic",
    "scratch",
    "library_bytes",
    "independent",
    "c_order",
    "defined",
    "kink",
    "python",
}


@pytest.mark.parametrize("part", sorted(set(parts(exp)) - OPTIONAL))
def test_no_part_can_be_left_out(part):
    rest = {name: value for name, value in parts(exp).items() if name != part}
    with pytest.raises(TypeError, match=f"missing 1 required .*argument: '{part}'"):
        Primitive(**rest)


@pytest.mark.parametrize(
    ("primitive", "part", "value", "text"),
    [
        (exp, "name", "two words", "a primitive's name must be an identifier, got 'two words'"),
        (exp, "doc", "", "exp: the doc must be one line"),
        (exp, "doc", "one\ntwo", "exp: the doc must be one line"),
        (exp, "result_type", None, "exp: result_type must be callable"),
        (exp, "evaluate", None, "exp: evaluate must be callable"),
        (exp, "flops", 1, "exp: flops must be callable"),
        (exp, "batch", None, "exp: a primitive with inputs needs a batching rule"),
        (exp, "kernel", "exp(x)", "exp: 'exp(x)' is not a Kernel"),
        (exp, "latex", "e^x", "exp: 'e^x' is not a Latex"),
        (exp, "samples", (), "exp: tests need at least one sample"),
        (full, "samples", (), "full: tests need at least one sample"),
        (exp, "samples", (Sample((), ()),), "exp: a sample needs a shape and a domain for each"),
        (
            concatenate,
            "samples",
            (Sample(((2,),), ((0.0, 1.0),)),),
            "concatenate: a sample needs a shape and a domain for each input",
        ),
        (exp, "samples", (Sample(((),), ()),), "exp: a sample needs a shape and a domain for each"),
        (exp, "derivative", None, "exp: None is not a Derivative"),
        (exp, "derivative", Partials(()), "exp: one derivative rule for each of ('x',) is needed"),
        (exp, "derivative", Partials((1,)), "exp: derivative rules are functions, or None"),
        (multiply, "derivative", Multilinear((abs,)), "multiply: one derivative rule for each of"),
        (multiply, "derivative", Linear((abs,)), "multiply: one derivative rule for each of"),
        (
            divide,
            "derivative",
            Explicit((abs, abs), (abs,)),
            "divide: one derivative rule for each of ('x', 'y') is needed",
        ),
    ],
)
def test_an_incomplete_part_is_refused(primitive, part, value, text):
    with pytest.raises(TypeError) as caught:
        Primitive(**{**parts(primitive), part: value})
    assert text in str(caught.value)


def test_the_same_parts_make_a_primitive():
    copy = Primitive(**parts(exp))
    assert repr(copy) == "<primitive exp>"
    assert Primitive(**{**parts(multiply), "derivative": Flat()}).name == "multiply"

"""The instructions that predictions of time count are those that are emitted."""

from __future__ import annotations

import inspect

import pytest

import chainrule as cr
from chainrule.execute.native.libm.mathematics import FUNCTIONS
from chainrule.execute.native.plan_to_ir.conversions import to_bfloat16
from chainrule.execute.native.plan_to_ir.emit import Code, Module, Operand
from chainrule.plan import weights

TYPES = {64: ("<16 x float>", "<8 x double>"), 32: ("<8 x float>", "<4 x double>")}


def emitted(name: str, type_: str, vector_nbytes: int) -> int:
    """The instructions of a function, without divisions and square roots."""
    code, function = Code(Module("", vector_nbytes)), FUNCTIONS[name]
    count = len(inspect.signature(function).parameters) - 1
    function(code, *[Operand(f"%x{place}", type_) for place in range(count)])
    return counted(code)


def counted(code: Code) -> int:
    lines = [line for line in code.lines if not (line.endswith(":") or "load" in line)]
    return sum(not any(one in line for one in ("fdiv", "llvm.sqrt", "bitcast")) for line in lines)


@pytest.mark.parametrize("vector_nbytes", TYPES)
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - set(weights.TAKEN) - {"sqrt"}))
def test_the_weight_of_a_function_is_what_is_emitted(name, vector_nbytes):
    wide = vector_nbytes == 64
    for double, type_ in enumerate(TYPES[vector_nbytes]):
        found = weights.function_weight(name, bool(double), wide)
        assert found == emitted(name, type_, vector_nbytes)


@pytest.mark.parametrize("vector_nbytes", TYPES)
def test_the_weight_of_rounding_to_bfloat16_is_what_is_emitted(vector_nbytes):
    code = Code(Module(""))
    to_bfloat16(code, Operand("%x", TYPES[vector_nbytes][0]))
    graph = cr.trace(lambda x: x.astype(cr.bfloat16), x=cr.float32[3])
    (node,) = (one for one in graph.nodes if one.dtype == cr.bfloat16.dtype)
    assert weights.expression_weight(node, vector_nbytes) == (counted(code), 0)

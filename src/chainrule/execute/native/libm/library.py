"""Functions of C's libm, called lane by lane from a function of the module."""

from __future__ import annotations

from collections.abc import Sequence

from chainrule.execute.native.plan_to_ir.emit import Code, Module, Operand, element, lanes, mangled


def each(code: Code, name: str, *operands: Operand) -> Operand:
    """libm's `name` (C's name for double) of the operands, which have one type.

    Vectors go through an internal function of the module, made at the first use: a loop over the
    lanes.  It is marked as seldom called, so that the registers of its callers are not arranged
    for it.
    """
    type_ = operands[0].type
    symbol = name + ("f" if element(type_) == "float" else "")
    if not lanes(type_):
        return code.call(symbol, type_, *operands)
    helper = f"each_{name}_{mangled(type_)}"
    head = f"define internal {type_} @{helper}("
    if not any(function.startswith(head) for function in code.module.functions):
        _make(code.module, helper, symbol, [operand.type for operand in operands])
    arguments = ", ".join(f"{one.type} {one.text}" for one in operands)
    return code.emit(f"call {type_} @{helper}({arguments})", type_)


def _make(module: Module, helper: str, symbol: str, types: Sequence[str]) -> None:
    code = Code(module)
    vectors = [Operand(f"%x{k}", type_) for k, type_ in enumerate(types)]
    places = [code.emit(f"alloca {one.type}, align 64", "ptr") for one in vectors]
    for vector, place in zip(vectors, places, strict=True):
        code.store(vector, place)
    one = element(types[0])

    def call(index: Operand, _: list[Operand]) -> list[Operand]:
        addresses = [code.address(place, index, one) for place in places]
        result = code.call(symbol, one, *(code.load(address, one) for address in addresses))
        code.store(result, addresses[0])
        return []

    start, stop = Operand("0", "i64"), Operand(str(lanes(types[0])), "i64")
    code.loop(start, stop, 1, [], call)
    result = code.load(places[0], types[0])
    code.do(f"ret {result.type} {result.text}")
    code.function(helper, vectors, f"internal {types[0]}", "cold nounwind")

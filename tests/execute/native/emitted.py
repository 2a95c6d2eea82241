"""Emitters as functions of NumPy arrays, for tests: compiled for a target, vector or scalar."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from chainrule.execute.native.plan_to_ir.conversions import type_of
from chainrule.execute.native.plan_to_ir.emit import (
    Code,
    Module,
    Operand,
    element,
    like,
    with_lanes,
)
from chainrule.machine_code.target import (
    Target,
    compile_object,
    host_target,
    load_objects,
)

# What text of these widths is compiled for.  LLVM parts vectors that the processor does not have.
TARGETS = {
    "avx512": host_target(),
    "avx2": host_target(without=("avx512",)),
    "sse2": host_target(without=("avx2",)),
}
WIDTHS = {"avx512": 64, "avx2": 32, "sse2": 16}
HERE = [name for name, target in TARGETS.items() if target.vector_nbytes == WIDTHS[name]]
VECTORS = [name for name in HERE if name != "sse2"] or HERE  # of those, what graphs are run for


# What emits, the dtypes of inputs and result, and the lanes of a vector (0: scalars).
Emission = tuple[Callable[..., Operand], Sequence[np.dtype], np.dtype, int]


def function(
    emit: Callable[..., Operand],
    inputs: Sequence[np.dtype],
    output: np.dtype,
    count: int,
    target: Target,
) -> Callable[..., np.ndarray]:
    """`emit(code, *operands)` over whole arrays, in vectors of `count` lanes (0: scalars)."""
    (found,) = functions([(emit, inputs, output, count)], target)
    return found


def functions(emissions: Sequence[Emission], target: Target) -> list[Callable[..., np.ndarray]]:
    """Several of them, compiled at once: of what one takes, most is for the module."""
    module = Module(named_nbytes=target.named_nbytes)
    for number, emission in enumerate(emissions):
        write(module, f"f{number}", emission, target)
    library = load_objects([compile_object(module.text(), target)], {})
    return [called(library, f"f{number}", one) for number, one in enumerate(emissions)]


def write(module: Module, name: str, emission: Emission, target: Target) -> None:
    emit, inputs, output, count = emission
    step = max(count, 1)
    code = Code(module)
    pointers = [Operand(f"%p{k}", "ptr") for k in range(len(inputs) + 1)]
    stop = Operand("%n", "i64")

    def body(index: Operand, _: list[Operand]) -> list[Operand]:
        operands = []
        for pointer, dtype in zip(pointers[1:], inputs, strict=True):
            type_ = with_lanes(type_of(dtype), count)
            kept = like("i8", type_) if dtype.kind == "b" else type_
            address = code.address(pointer, index, element(kept))
            operands.append(code.convert("trunc", code.load(address, kept), type_))
        result = emit(code, *operands)
        assert result.type == with_lanes(type_of(output), count), (result, output)
        if output.kind == "b":
            result = code.convert("zext", result, like("i8", result.type))
        address = code.address(pointers[0], index, f"i{8 * output.itemsize}")
        code.store(result, address, output.itemsize)
        return []

    code.loop(Operand("0", "i64"), stop, step, [], body)
    code.do("ret void")
    code.function(name, [*pointers, stop], attributes=target.function_attributes)


def called(library: Any, name: str, emission: Emission) -> Callable[..., np.ndarray]:
    _, inputs, output, count = emission
    step, address = max(count, 1), library.address(name)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(inputs) + 1), ctypes.c_int64)(address)

    def run(*arrays: np.ndarray) -> np.ndarray:
        size = arrays[0].size
        padded = [
            np.concatenate([np.ravel(a), np.zeros(-size % step, a.dtype)]).astype(dtype)
            for a, dtype in zip(arrays, inputs, strict=True)
        ]
        result = np.empty(padded[0].size, output)
        call(result.ctypes.data, *(a.ctypes.data for a in padded), result.size)
        assert library is not None  # keeps the code in memory
        return result[:size].reshape(arrays[0].shape)

    return run

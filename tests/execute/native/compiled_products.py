"""Products in tiles as functions of NumPy arrays, for tests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from chainrule.execute.native.plan_to_ir.emit import Module
from chainrule.execute.native.products.tile_code import emit_tiled_product
from chainrule.execute.native.products.windowed_code import emit_windowed_product
from chainrule.execute.native.products.winograd_code import emit_winograd
from chainrule.machine_code.target import Target, compile_object, load_objects
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.tiles import Tiles
from chainrule.plan.products.winograd import Winograd

GUARD = -77.0


def compiled_product(
    gemm: Gemm, tiles: Tiles, dtype: str, parts: int = 1, *, target: Target
) -> Callable[..., None]:
    """The product as a function of arrays, factors and the shares to do (default: all).

    It fails where more of the workspace is written than the tiles ask for.
    """
    module, kind = Module(), np.dtype(dtype)
    emit = emit_windowed_product if gemm.inner else emit_tiled_product
    emit(module, "f", gemm, tiles, kind, parts)
    library = load_objects([compile_object(module.text(), target)], {})
    number = ctypes.c_float if kind == np.float32 else ctypes.c_double
    types = [*[ctypes.c_void_p] * 3, number, number, ctypes.c_void_p, *[ctypes.c_int64] * 2]
    call = ctypes.CFUNCTYPE(None, *types)(library.address("f"))
    size = tiles.packed_nbytes(kind.itemsize) // kind.itemsize
    memory = np.full(size + 64, np.nan, dtype)  # padding that was never written is NaN
    memory[size:] = GUARD

    def run(x, y, out, alpha=1.0, beta=0.0, shares=range(parts)) -> None:
        for part in shares:
            pointers = (one.ctypes.data for one in (x, y, out))
            call(*pointers, alpha, beta, memory.ctypes.data, part, parts)
        assert (memory[size:] == GUARD).all()
        assert library is not None  # keeps the code in memory

    return run


def compiled_winograd(one: Winograd, threads: int = 1, *, target: Target) -> Callable[..., None]:
    """The same of a product by Winograd's method, all phases and shares of them."""
    module, phases = Module(), one.phases(threads)
    for number, (phase, parts) in enumerate(phases):
        emit_winograd(module, f"f{number}", one, phase, parts)
    library = load_objects([compile_object(module.text(), target)], {})
    real, whole, pointer = ctypes.c_float, ctypes.c_int64, ctypes.c_void_p
    kind = ctypes.CFUNCTYPE(None, *[pointer] * 3, real, real, pointer, pointer, whole, whole)
    calls = [kind(library.address(f"f{number}")) for number in range(len(phases))]
    rooms = []
    for nbytes in (one.shared_nbytes, one.own_nbytes):
        room = np.full(nbytes // 4 + 16, np.nan, "f")  # what was never written is NaN
        room[-16:] = GUARD
        rooms.append(room)

    def run(x, y, out, alpha=1.0, beta=0.0) -> None:
        arrays = [array.ctypes.data for array in (x, y, out)]
        work = [room.ctypes.data for room in rooms]
        for call, (_, parts) in zip(calls, phases, strict=True):
            for part in range(parts):
                call(*arrays, alpha, beta, *work, part, parts)
        assert all((room[-16:] == GUARD).all() for room in rooms)
        assert library is not None  # keeps the code in memory

    return run

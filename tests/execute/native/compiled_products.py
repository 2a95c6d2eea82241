"""Products in tiles as functions of NumPy arrays, for tests."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from chainrule.execute.native.plan_to_ir.emit import Module
from chainrule.execute.native.products.tile_code import emit_tiled_product
from chainrule.execute.native.products.windowed_code import emit_windowed_product
from chainrule.machine_code.target import Target, compile_object, load_objects
from chainrule.plan.products.contraction import Gemm
from chainrule.plan.products.tiles import Tiles

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

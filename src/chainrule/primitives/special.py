"""Special functions that NumPy has not: evaluated by SciPy, which is loaded when they are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import exp
from chainrule.primitives.families import SHAPES, batch_pointwise, same_type
from chainrule.primitives.primitive import (
    ATOM,
    Latex,
    Library,
    Partials,
    Primitive,
    Sample,
    every_axis,
)
from chainrule.primitives.python import calls_own

FLOATS = (np.float32, np.float64)  # in which SciPy computes

SOURCE = '''
def erfinv(x):
    """The inverse of the error function, by SciPy."""
    from scipy import special

    return np.asarray(special.erfinv(x), x.dtype)
'''


def _wide(dtype: np.dtype) -> np.dtype:
    if dtype in FLOATS:
        return dtype
    return np.dtype(np.float32 if dtype == np.float16 else np.float64)


def _erfinv(xp: Any, x: Any) -> Any:
    if xp is not np:
        from jax.scipy.special import erfinv as jax_erfinv  # only JAX shares this evaluation

        return jax_erfinv(x)
    from scipy.special import erfinv as of_scipy

    dtype = x.dtype
    x = np.asarray(x).astype(_wide(dtype), copy=False)
    return np.asarray(of_scipy(x)).astype(dtype, copy=False)


def _erfinv_scratch(out: Node, x: np.ndarray) -> int:
    wide = _wide(x.dtype)
    return 0 if wide == x.dtype else 2 * x.size * wide.itemsize


erfinv = Primitive(
    name="erfinv",
    doc="The number whose error function is x, for x from -1 to 1 (-inf and inf there).",
    inputs=("x",),
    result_type=same_type,
    evaluate=_erfinv,
    derivative=Partials((lambda out, x: (math.sqrt(math.pi) / 2) * exp(out * out),)),
    batch=batch_pointwise,
    kernel=Library("erfinv"),
    flops=lambda out: 20 * out.type.size,
    latex=Latex(r"\operatorname{{erf}}^{{-1}}({x})", ATOM, (0,)),
    samples=tuple(Sample((shape,), ((-0.9, 0.9),)) for shape in SHAPES),
    scratch=_erfinv_scratch,
    independent=every_axis,
    python=calls_own(SOURCE),
)

SPECIAL = (erfinv,)

"""A loop whose cell reads nine parameters, for graphs and pages of loops."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr

SHAPES: dict[str, tuple[int, ...]] = {
    **{
        f"{kind}{gate}": shape
        for gate in "zrh"
        for kind, shape in (("W", (3, 4)), ("U", (4, 4)), ("b", (4,)))
    },
    "V": (4, 2),
}


def objective(
    x: Any, Wz: Any, Uz: Any, bz: Any, Wr: Any, Ur: Any, br: Any, Wh: Any, Uh: Any, bh: Any, V: Any
) -> Any:
    """Of x (iterations, rows, 3) and parameters of these SHAPES."""

    def cell(h: Any, x_t: Any) -> Any:
        z = cr.sigmoid(x_t @ Wz + h @ Uz + bz)
        r = cr.sigmoid(x_t @ Wr + h @ Ur + br)
        h = (1 - z) * h + z * np.tanh(x_t @ Wh + (r * h) @ Uh + bh)
        return h, None

    h, _ = cr.scan(cell, np.zeros_like(x, shape=(x.shape[1], 4)), x)
    J = np.sum(np.tanh(h @ V) ** 2)
    return J

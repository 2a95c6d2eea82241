# One head of attention: softmax(q kᵀ / √16) v.
import numpy as np

import chainrule as cr
from chainrule import float32

n, t = cr.sizes("n t")
matrix = float32[16, 16]


def objective(
    x: float32[n, t, 16],
    y: float32[n, t, 16],
    Wq: matrix,
    Wk: matrix,
    Wv: matrix,
):
    q = x @ Wq
    k = x @ Wk
    v = x @ Wv
    scores = q @ k.swapaxes(1, 2) / np.sqrt(16)
    a = cr.softmax(scores, axis=-1)
    o = a @ v
    J = cr.squared_error(o, y)
    return J


forward = cr.trace(objective)
graph = cr.backward(forward, wrt=("Wq", "Wk", "Wv"))

# A recurrent network over 5 moments:
# the loop is one node that holds a graph.
import numpy as np

import chainrule as cr
from chainrule import float32

n, d, m = cr.sizes("n d m")


def objective(
    x: float32[5, n, d],
    y: float32[n, m],
    W: float32[d, m],
    U: float32[m, m],
):
    def cell(h, x_t):
        h = np.tanh(x_t @ W + h @ U)
        return h, h

    last, _ = cr.scan(cell, np.zeros_like(y), x)
    J = cr.squared_error(last, y)
    return J


forward = cr.trace(objective)
graph = cr.backward(forward, wrt=("W", "U"))

# Exercise 2 of the chapter: a bias in the
# hidden layer, which the penalty leaves out.
import numpy as np

import chainrule as cr
from chainrule import float32, int64

n, d, m, q = cr.sizes("n d m q")


def objective(
    x: float32[n, d],
    y: int64[n],
    W1: float32[d, m],
    b: float32[m],
    W2: float32[m, q],
    λ=1e-3,
):
    z = x @ W1 + b
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = λ / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


forward = cr.trace(objective)
graph = cr.backward(forward, wrt=("W1", "b", "W2"))

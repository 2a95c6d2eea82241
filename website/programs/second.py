# Exercise 4 of the chapter: the graph of a
# gradient, differentiated once more along v.
import numpy as np

import chainrule as cr
from chainrule import float64

n, d = cr.sizes("n d")


def objective(
    x: float64[n, d],
    y: float64[n],
    w: float64[d],
):
    p = cr.sigmoid(x @ w)
    J = np.mean((p - y) ** 2)
    return J


gradient = cr.backward(cr.trace(objective), wrt="w")
graph = cr.backward(
    gradient,
    of="dJ/dw",
    wrt="w",
    seed="v",
)

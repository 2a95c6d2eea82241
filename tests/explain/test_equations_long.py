"""A sum of very many terms is one row, however many there are."""

from __future__ import annotations

import numpy as np

import chainrule as cr
from chainrule import float64


def test_a_weight_that_very_many_steps_share() -> None:
    def shared(x: float64["n d"], W: float64["d d"]):
        h = x
        for _ in range(350):
            h = np.tanh(h @ W)
        J = np.mean(h)
        return J

    found = cr.backward(cr.trace(shared), wrt="W").equations()["dJ/dW"]
    assert str(found).count("prod(") == found.latex().count(r"\operatorname{prod}") == 350

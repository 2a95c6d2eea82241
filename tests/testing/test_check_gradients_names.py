"""An array of the caller may have the name of a number of the checker."""

from __future__ import annotations

import numpy as np

from chainrule.testing import check_gradients

scale = np.arange(5)


def test_an_array_of_integers_that_is_called_as_a_number_of_the_checker():
    x = np.linspace(-1, 1, 15).reshape(5, 3)
    check_gradients(lambda beta, scale: np.sum(scale * (x @ beta)), np.ones(3), scale)

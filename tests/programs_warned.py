"""Programs that run and are warned of; their docstrings are the whole texts."""

# ruff: noqa: E501  (a docstring is the message, line by line)

import warnings

import numpy as np
from provoking import provokes

import chainrule as cr
from chainrule import errors


@provokes(errors.BroadcastWarning)
def a_column_of_predictions_with_a_row_of_targets():
    """
    pred (float64[4, 1]) with y (float64[4]) is float64[4, 4]: each element of the one meets every element of the other, and J sums up all of these pairs
      where: FILE:LINE, in a_column_of_predictions_with_a_row_of_targets.<locals>.objective
        J = cr.squared_error(pred, y)
            ^^^^^^^^^^^^^^^^^^^^^^^^^
      try: write y[:, None] or pred[:, 0], if row i belongs to row i;
           if all pairs are meant, say so in this expression: x[:, None]
    """

    def objective(x, w, y):
        pred = x @ w
        J = cr.squared_error(pred, y)
        return J

    graph = cr.trace(objective, np.ones((4, 2)), np.ones((2, 1)), np.ones(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.backward(graph, wrt="w")

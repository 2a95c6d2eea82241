"""Programs that ask what traced arrays cannot give; their docstrings are the whole messages."""

# ruff: noqa: E501  (a docstring is the message, line by line)

import numpy as np
from provoking import LABELS, X, provokes

import chainrule as cr
from chainrule import errors

KEPT = []


@provokes(errors.DataDependentError)
def a_condition_on_numbers():
    """
    the truth value of bool[]: its numbers do not exist while the program is traced
      where: FILE:LINE, in a_condition_on_numbers.<locals>.objective
        if loss > 0:
           ^^^^^^^^
      try: np.where(condition, a, b) chooses elementwise, cr.cond(condition, f, g, x) between functions;
           a choice that holds for the whole trace takes a plain Python bool argument
    """

    def objective(x):
        loss = np.sum(x)
        if loss > 0:
            return loss
        return -loss

    cr.trace(objective, X)


@provokes(errors.DataDependentError)
def a_float_of_a_traced_array():
    """
    float() of loss (float64[]): its numbers do not exist while the program is traced
      where: FILE:LINE, in a_float_of_a_traced_array.<locals>.objective
        print(float(loss))
              ^^^^^^^^^^^
      try: keep it an array; return it, and read it after graph.run
    """

    def objective(x):
        loss = np.sum(x)
        print(float(loss))
        return loss

    cr.trace(objective, X)


@provokes(errors.DataDependentError)
def an_array_of_traced_arrays():
    """
    a NumPy array of x (float64[2, 3]): its numbers do not exist while the program is traced
      where: FILE:LINE, in an_array_of_traced_arrays.<locals>.objective
        return np.array([x, x])
               ^^^^^^^^^^^^^^^^
      try: write cr.array([x, x])
    """

    def objective(x):
        return np.array([x, x])

    cr.trace(objective, X)


@provokes(errors.MutationError)
def an_assignment_to_an_element():
    """
    item assignment to h (float64[2, 3]): traced arrays are values, not storage
      where: FILE:LINE, in an_assignment_to_an_element.<locals>.objective
        h[0] = 1
        ^^^^
      try: write h = h.at[0].set(1)
    """

    def objective(x):
        h = np.exp(x)
        h[0] = 1
        return h

    cr.trace(objective, X)


@provokes(errors.MutationError)
def an_addition_in_place():
    """
    np.add.at changes an array in place; traced arrays are values
      where: FILE:LINE, in an_addition_in_place.<locals>.objective
        np.add.at(x, y, 1)
        ^^^^^^^^^^^^^^^^^^
      try: build the result anew: x = x.at[places].add(values)
    """

    def objective(x, y):
        np.add.at(x, y, 1)
        return x

    cr.trace(objective, X, LABELS)


@provokes(errors.MutationError)
def an_array_to_write_into():
    """
    np.exp cannot write into out=: traced arrays are values
      where: FILE:LINE, in an_array_to_write_into.<locals>.objective
        return np.exp(x, out=X)
               ^^^^^^^^^^^^^^^^
      try: leave out= out and bind the result to a name
    """

    def objective(x):
        return np.exp(x, out=X)

    cr.trace(objective, X)


@provokes(errors.MutationError)
def an_array_that_is_added_to():
    """
    np.add of a traced array cannot write into the NumPy array on its left: the numbers do not exist while the program is traced
      where: FILE:LINE, in an_array_that_is_added_to.<locals>.objective
        total += x
        ^^^^^^^^^^
      try: bind the result to a name: a = a + b in place of a += b;
           of an element, a = cr.at(a)[key].add(b) in place of a[key] += b
    """

    def objective(x):
        total = np.zeros((2, 3))
        total += x
        return total

    cr.trace(objective, X)


@provokes(errors.MutationError)
def an_element_that_is_assigned():
    """
    a traced array cannot be written into an element of a NumPy array: its numbers do not exist while the program is traced
      where: FILE:LINE, in an_element_that_is_assigned.<locals>.objective
        buffer[0] = x[0, 0]
        ^^^^^^^^^
      try: write buffer = cr.at(buffer)[0].set(x[0, 0])
    """

    def objective(x):
        buffer = np.zeros(2)
        buffer[0] = x[0, 0]
        return buffer

    cr.trace(objective, X)


@provokes(errors.UnsupportedError)
def a_function_that_is_not_traced():
    """
    np.histogram is not traced
      where: FILE:LINE, in a_function_that_is_not_traced.<locals>.objective
        return np.histogram(x)
               ^^^^^^^^^^^^^^^
      try: count with np.bincount(np.digitize(x, edges), minlength=len(edges) + 1)
    """

    def objective(x):
        return np.histogram(x)

    cr.trace(objective, X)


@provokes(errors.UnsupportedError)
def a_function_that_nothing_replaces():
    """
    np.linalg.eig is not traced
      where: FILE:LINE, in a_function_that_nothing_replaces.<locals>.objective
        return np.linalg.eig(x.T @ x)
               ^^^^^^^^^^^^^^^^^^^^^^
      try: it has complex results;
           write it with functions that are traced, or compute it before the call;
           the page "NumPy on traced arrays" (docs/numpy.md in the repository) lists them
    """

    def objective(x):
        return np.linalg.eig(x.T @ x)

    cr.trace(objective, X)


@provokes(errors.UnsupportedError)
def a_mask_that_is_not_known():
    """
    a traced boolean mask as an index would give an array whose shape depends on its values
      where: FILE:LINE, in a_mask_that_is_not_known.<locals>.objective
        return np.sum(x[x > 0])
                      ^^^^^^^^
      try: keep the shape and choose with np.where(mask, x, 0)
    """

    def objective(x):
        return np.sum(x[x > 0])

    cr.trace(objective, X)


@provokes(errors.MissingMethodError)
def a_method_that_is_not_traced():
    """
    .searchsorted of x (float64[2, 3]) is not traced
      where: FILE:LINE, in a_method_that_is_not_traced.<locals>.objective
        return x.searchsorted(2)
               ^^^^^^^^^^^^^^
      try: call np.searchsorted(...)
    """

    def objective(x):
        return x.searchsorted(2)

    cr.trace(objective, X)


@provokes(errors.ForeignValueError)
def an_array_of_another_trace():
    """
    h: float64[2, 3] is used after the call that traced it has ended
      where: FILE:LINE, in an_array_of_another_trace.<locals>.objective
        return x + KEPT[-1]
               ^^^^^^^^^^^^
      try: pass the array as an argument of the traced function; do not store traced arrays outside of it
    """

    def leaking(x):
        h = np.sin(x)
        KEPT.append(h)
        return h

    def objective(x):
        return x + KEPT[-1]

    cr.trace(leaking, X)
    cr.trace(objective, X)

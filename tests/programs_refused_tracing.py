"""Programs that are refused while they are traced; their docstrings are the whole messages."""

# ruff: noqa: E501  (a docstring is the message, line by line)

import numpy as np
from provoking import LABELS, W, X, provokes

import chainrule as cr
from chainrule import errors, float64
from chainrule.graph.sizes import UndecidableSize

KEPT = []


@provokes(errors.ShapeError)
def a_product_of_wrong_shapes():
    """
    x: float64[2, 3] @ W: float64[4, 5]: the inner sizes differ, 3 and 4
      where: FILE:LINE, in a_product_of_wrong_shapes.<locals>.objective
        z = x @ W
            ^^^^^
      try: the last axis of the left array must equal the second-last of the right one; perhaps one of them needs .T
    """

    def objective(x, W):
        z = x @ W
        return np.sum(z)

    cr.trace(objective, X, W)


@provokes(errors.ShapeError)
def a_sum_of_wrong_shapes():
    """
    add: the shapes of x: float64[n, 3] and (multiply): float64[m, 3] do not broadcast: axis -2 is n and m
      where: FILE:LINE, in a_sum_of_wrong_shapes.<locals>.objective
        z = x + 2 * b
            ^^^^^^^^^
      try: axes are compared from the last one; one of the two must be equal or a literal 1
           a named size is never 1 and equals only itself: declare n and m as one size if they are the same
    """

    def objective(x: float64["n 3"], b: float64["m 3"]):
        z = x + 2 * b
        return np.sum(z)

    cr.trace(objective)


@provokes(errors.DTypeError)
def an_operation_without_meaning_for_a_dtype():
    """
    np.subtract is not defined for mask: bool[2, 3] and True
      where: FILE:LINE, in an_operation_without_meaning_for_a_dtype.<locals>.objective
        kept = mask - True
               ^^^^^^^^^^^
      try: convert with .astype(...) first
    """

    def objective(x, mask):
        kept = mask - True
        return kept * x

    cr.trace(objective, X, X > 0)


@provokes(errors.TypeSpecError)
def a_missing_type():
    """
    the argument W of objective has no array type
      where: FILE:LINE, in objective
      try: annotate it (W: chainrule.float32["n 784"]), or give an example or a type: cr.trace(objective, W=np.zeros((2, 784)))
    """

    def objective(x: float64["n 3"], W):
        return x @ W

    cr.trace(objective)


@provokes(errors.TypeSpecError)
def a_type_that_is_none():
    """
    an axis is a size, and 2.5 is none
      try: write axes as float32[n, 784] with n = cr.size("n"), or as float32["n 784"]
    """

    float64["n", 2.5]


@provokes(errors.DataDependentError)
def a_condition_on_numbers():
    """
    the truth value of bool[]: its numbers do not exist while the program is traced
      where: FILE:LINE, in a_condition_on_numbers.<locals>.objective
        if loss > 0:
           ^^^^^^^^
      try: choose elementwise with np.where(condition, a, b);
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
      try: call NumPy functions on it directly; stack several with np.stack([...])
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
      try: build the new array: np.where(mask, new, x), or np.concatenate([...])
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
      try: build the result anew, for instance with np.where or a matrix product
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
      try: leave out= away and bind the result to a name
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
      try: bind the result to a name: a = a + b in place of a += b
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
      try: build the array of its parts: np.stack([...]) or np.concatenate([...])
    """

    def objective(x):
        buffer = np.zeros(2)
        buffer[0] = x[0, 0]
        return buffer

    cr.trace(objective, X)


@provokes(errors.UnsupportedError)
def a_function_that_is_not_traced():
    """
    np.nansum is not traced
      where: FILE:LINE, in a_function_that_is_not_traced.<locals>.objective
        return np.nansum(x)
               ^^^^^^^^^^^^
      try: write np.sum(np.where(x == x, x, 0.0))
    """

    def objective(x):
        return np.nansum(x)

    cr.trace(objective, X)


@provokes(errors.UnsupportedError)
def a_function_that_nothing_replaces():
    """
    np.linalg.inv is not traced
      where: FILE:LINE, in a_function_that_nothing_replaces.<locals>.objective
        return np.linalg.inv(x.T @ x)
               ^^^^^^^^^^^^^^^^^^^^^^
      try: write it with functions that are traced, or compute it before the call;
           the page "NumPy on traced arrays" (docs/numpy.md in the repository) lists them
    """

    def objective(x):
        return np.linalg.inv(x.T @ x)

    cr.trace(objective, X)


@provokes(errors.UnsupportedError)
def an_array_of_a_named_size():
    """
    NumPy makes no array of the size n, which is not known while tracing
      where: FILE:LINE, in an_array_of_a_named_size.<locals>.objective
        return x + np.zeros(x.shape[0])
                   ^^^^^^^^^^^^^^^^^^^^
      try: np.zeros_like, np.ones_like and np.full_like take a traced array's shape; a number broadcasts by itself
    """

    def objective(x: float64["n"]):
        return x + np.zeros(x.shape[0])

    cr.trace(objective)


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
    .std of x (float64[2, 3]) is not traced
      where: FILE:LINE, in a_method_that_is_not_traced.<locals>.objective
        return x.std()
               ^^^^^
      try: call np.std(...)
    """

    def objective(x):
        return x.std()

    cr.trace(objective, X)


@provokes(errors.ForeignValueError)
def an_array_of_another_trace():
    """
    h: float64[2, 3] belongs to another call of trace
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


@provokes(errors.IndexOutOfRangeError)
def an_index_outside():
    """
    index 2 is out of range for axis 0 of x: float64[2, 3]
      where: FILE:LINE, in an_index_outside.<locals>.objective
        return x[2]
               ^^^^
      try: the axis has 2 elements
    """

    def objective(x):
        return x[2]

    cr.trace(objective, X)


@provokes(UndecidableSize)
def a_condition_on_a_named_size():
    """
    whether n > 3 is not known while tracing
      where: FILE:LINE, in a_condition_on_a_named_size.<locals>.objective
        return x if x.shape[0] > 3 else -x
                    ^^^^^^^^^^^^^^
      try: use cr.minimum or cr.maximum in place of a condition
           to fix n while tracing, write a number for it in the type, or give example arrays;
           a graph that is there takes it by graph.bind(n=256)
    """

    def objective(x: float64["n"]):
        return x if x.shape[0] > 3 else -x

    cr.trace(objective)


@provokes(UndecidableSize)
def a_named_size_as_a_number():
    """
    the size n is not known while tracing
      where: FILE:LINE, in a_named_size_as_a_number.<locals>.objective
        return sum(x[i] for i in range(x.shape[0]))
                                 ^^^^^^^^^^^^^^^^^
      try: to fix n while tracing, write a number for it in the type, or give example arrays;
           a graph that is there takes it by graph.bind(n=256)
    """

    def objective(x: float64["n"]):
        return sum(x[i] for i in range(x.shape[0]))

    cr.trace(objective)


@provokes(UndecidableSize)
def a_range_of_a_named_size():
    """
    a function asks for n: a size is an integer that is not known while tracing
      where: FILE:LINE, in a_range_of_a_named_size.<locals>.objective
        return x[np.arange(x.shape[0])]
                 ^^^^^^^^^^^^^^^^^^^^^
      try: to fix n while tracing, write a number for it in the type, or give example arrays;
           a graph that is there takes it by graph.bind(n=256)
    """

    def objective(x: float64["n"]):
        return x[np.arange(x.shape[0])]

    cr.trace(objective)


@provokes(errors.SizeError)
def examples_that_contradict_each_other():
    """
    axis 0 of the argument W of objective is annotated d, which is 3 (d from axis 1 of x), got 4
      where: FILE:LINE, in objective
      try: give arrays that agree, or two sizes two names in the annotations
    """

    def objective(x: float64["n d"], W: float64["d k"]):
        return np.sum(x) * np.sum(W)

    cr.grad(objective)(X, W)


@provokes(errors.InputError)
def a_call_without_an_argument():
    """
    objective was called without W
      where: FILE:LINE, in objective
      try: give all its arguments: objective(x, W)
    """

    def objective(x: float64["n d"], W: float64["d k"]):
        return np.sum(x) * np.sum(W)

    cr.grad(objective)(X)


@provokes(errors.ShapeError)
def a_product_of_wrong_shapes_that_is_differentiated():
    """
    x: float64[2, 3] @ W: float64[4, 5]: the inner sizes differ, 3 and 4
      where: FILE:LINE, in a_product_of_wrong_shapes_that_is_differentiated.<locals>.objective
        return np.sum(x @ W)
                      ^^^^^
      try: the last axis of the left array must equal the second-last of the right one; perhaps one of them needs .T
    """

    def objective(x, W):
        return np.sum(x @ W)

    cr.grad(objective, wrt="W")(X, W)


@provokes(errors.NotDifferentiableError)
def a_gradient_at_a_python_int():
    """
    the argument w is the Python int 3: only floating-point values have gradients
      where: FILE:LINE, in objective
      try: write 3.0, or choose other arguments with wrt=
    """

    def objective(w):
        return w**2

    cr.grad(objective)(3)

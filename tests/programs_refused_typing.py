"""Programs whose types, shapes or sizes do not fit; their docstrings are the whole messages."""

# ruff: noqa: E501  (a docstring is the message, line by line)

import numpy as np
from provoking import W, X, provokes

import chainrule as cr
from chainrule import errors, float64


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


@provokes(errors.UnsupportedError)
def a_permutation_of_a_named_size():
    """
    NumPy draws from numbers whose count is a size that is not known while tracing
      where: FILE:LINE, in a_permutation_of_a_named_size.<locals>.objective
        return x[np.random.permutation(x.shape[0])]
                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      try: x[np.argsort(cr.random.bits(key, x.shape[:1]))] has the rows of x in a random order,
           with a key that is an argument; or trace with an array of a known length
    """

    def objective(x: float64["n"]):
        return x[np.random.permutation(x.shape[0])]

    cr.trace(objective)


@provokes(errors.ShapeError)
def arrays_to_join_that_are_no_list():
    """
    np.concatenate takes the arrays as one list; its second argument, the axis, is an array
      where: FILE:LINE, in arrays_to_join_that_are_no_list.<locals>.objective
        return np.concatenate(x, x)
               ^^^^^^^^^^^^^^^^^^^^
      try: np.concatenate([x, y])
    """

    def objective(x):
        return np.concatenate(x, x)

    cr.trace(objective, X)


@provokes(errors.ShapeError)
def an_array_to_join_that_is_no_list():
    """
    np.concatenate of numbers, which have no axis
      where: FILE:LINE, in an_array_to_join_that_is_no_list.<locals>.objective
        return np.concatenate(x[0])
               ^^^^^^^^^^^^^^^^^^^^
      try: give a list of arrays: np.concatenate([x, y]); np.stack makes an array of numbers
    """

    def objective(x):
        return np.concatenate(x[0])

    cr.trace(objective, X)


@provokes(errors.UnsupportedError)
def an_array_of_a_named_size():
    """
    NumPy cannot make an array of the size n, which is not known while tracing
      where: FILE:LINE, in an_array_of_a_named_size.<locals>.objective
        return x + np.zeros(x.shape[0])
                   ^^^^^^^^^^^^^^^^^^^^
      try: np.zeros_like, np.ones_like and np.full_like take a traced array's shape; a number broadcasts by itself
    """

    def objective(x: float64["n"]):
        return x + np.zeros(x.shape[0])

    cr.trace(objective)


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


@provokes(errors.UndecidableSize)
def a_condition_on_a_named_size():
    """
    whether n > 3 is not known while tracing
      where: FILE:LINE, in a_condition_on_a_named_size.<locals>.objective
        return x if x.shape[0] > 3 else -x
                    ^^^^^^^^^^^^^^
      try: cr.cond(cr.size_value(n, like=x) > 3, f, g, x) chooses when the graph runs,
           with a traced array x; cr.minimum and cr.maximum compute with sizes
           to fix n while tracing, write a number for it in the type, or give example arrays
    """

    def objective(x: float64["n"]):
        return x if x.shape[0] > 3 else -x

    cr.trace(objective)


@provokes(errors.UndecidableSize)
def a_named_size_as_a_number():
    """
    the size n is not known while tracing
      where: FILE:LINE, in a_named_size_as_a_number.<locals>.objective
        return sum(x[i] for i in range(x.shape[0]))
                                 ^^^^^^^^^^^^^^^^^
      try: cr.fori_loop(0, n, body, value) repeats body(i, value) so often;
           cr.scan(step, start, x) calls step(carry, row) with each row of x
           to fix n while tracing, write a number for it in the type, or give example arrays
    """

    def objective(x: float64["n"]):
        return sum(x[i] for i in range(x.shape[0]))

    cr.trace(objective)


@provokes(errors.UndecidableSize)
def a_range_of_a_named_size():
    """
    a function asks for n: a size is an integer that is not known while tracing
      where: FILE:LINE, in a_range_of_a_named_size.<locals>.objective
        return x[np.arange(x.shape[0])]
                 ^^^^^^^^^^^^^^^^^^^^^
      try: with a traced array x, np.arange(n) is
           t = np.cumsum(np.ones_like(x, shape=(n,), dtype=np.int64)) - 1
           to fix n while tracing, write a number for it in the type, or give example arrays
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

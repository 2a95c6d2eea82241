"""Graphs that are refused when they are bound, run, read or differentiated, with the messages."""

# ruff: noqa: E501  (a docstring is the message, line by line)

from pathlib import Path
from unittest.mock import patch

import numpy as np
from provoking import LABELS, W, X, provokes

import chainrule as cr
from chainrule import errors, float64, int64
from chainrule.data.digits import read_digits
from chainrule.execute import free_memory
from chainrule.execute.free_memory import FreeMemory
from chainrule.graph.invariants import check
from chainrule.schedule.records import Buffer, Compute, Schedule
from chainrule.testing import check_gradients, simulate


@provokes(errors.ShapeError)
def a_gradient_of_what_is_no_scalar():
    """
    z is float64[2, 3], not a scalar: its gradient needs a seed
      where: FILE:LINE, in a_gradient_of_what_is_no_scalar.<locals>.objective
        z = x * 2
            ^^^^^
      try: reduce it (np.sum, np.mean), or pass seed=: an array of shape [2, 3], or the name of a new input
    """

    def objective(x):
        z = x * 2
        return z

    cr.backward(cr.trace(objective, X))


@provokes(errors.InputError)
def an_input_that_was_not_given():
    """
    the input W of objective was not given; expected float64[3, 2]
      where: FILE:LINE, in an_input_that_was_not_given.<locals>.objective
        def objective(x: float64["n 3"], W: float64["3 2"]):
      try: graph.run(..., W=...)
    """

    def objective(x: float64["n 3"], W: float64["3 2"]):
        return x @ W

    cr.trace(objective).run(x=X)


@provokes(errors.InputError)
def an_input_of_another_shape():
    """
    the input x of objective must be float64[n, 4], got float64[2, 3] (axis 1)
      where: FILE:LINE, in an_input_of_another_shape.<locals>.objective
        def objective(x: float64["n 4"]):
      try: check the order of the axes and which array is passed under which name
    """

    def objective(x: float64["n 4"]):
        return np.sum(x)

    cr.trace(objective).run(x=X)


@provokes(errors.InputError)
def an_input_of_another_dtype():
    """
    the input x of objective must be float64[n, 3], got float32[2, 3]
      where: FILE:LINE, in an_input_of_another_dtype.<locals>.objective
        def objective(x: float64["n 3"]):
      try: convert it: x.astype(np.float64)
    """

    def objective(x: float64["n 3"]):
        return np.sum(x)

    cr.trace(objective).run(x=X.astype(np.float32))


@provokes(errors.InputError)
def another_number_than_the_program_was_traced_with():
    """
    objective was traced with depth = 2, which the program used as a Python number; got 3
      where: FILE:LINE, in another_number_than_the_program_was_traced_with.<locals>.objective
        for _ in range(depth):
                 ^^^^^^^^^^^^
      try: trace it again with depth=3
    """

    def objective(x, depth=2):
        for _ in range(depth):
            x = np.sin(x)
        return x

    cr.trace(objective, X).run(x=X, depth=3)


@provokes(errors.SizeError)
def sizes_that_disagree():
    """
    axis 0 of the input W of objective must be d = 3 (d from x (axis 1)), got 4
      where: FILE:LINE, in sizes_that_disagree.<locals>.objective
        def objective(x: float64["n d"], W: float64["d k"]):
      try: give arrays that agree on d: axis 0 of W, axis 1 of x
    """

    def objective(x: float64["n d"], W: float64["d k"]):
        return x @ W

    cr.trace(objective).run(x=X, W=W)


@provokes(errors.SizeError)
def an_array_that_is_transposed():
    """
    axis 0 of the input y of objective must be n = 3 (n from x (axis 0)), got 2
      where: FILE:LINE, in an_array_that_is_transposed.<locals>.objective
        def objective(x: float64["n d"], y: float64["n"]):
      try: perhaps x is transposed, [3, 2]: pass x.T
    """

    def objective(x: float64["n d"], y: float64["n"]):
        return np.sum(x) * np.sum(y)

    cr.trace(objective).run(x=X.T, y=np.ones(2))


@provokes(errors.SizeError)
def a_batch_that_is_empty():
    """
    axis 0 of the input x of objective must be n, at least 1, got 0
      where: FILE:LINE, in a_batch_that_is_empty.<locals>.objective
        def objective(x: float64["n 3"]):
      try: leave an empty x out; a size that may be 0 is a literal 0 in the type
    """

    def objective(x: float64["n 3"]):
        return np.sum(x)

    cr.trace(objective).run(x=X[:0])


@provokes(errors.InputError)
def a_function_that_returns_nothing():
    """
    objective returns nothing to differentiate
      where: FILE:LINE, in a_function_that_returns_nothing.<locals>.objective
        def objective(x):
      try: return the objective: add `return J` at its end
    """

    def objective(x):
        J = np.sum(x * x)  # noqa: F841

    cr.backward(cr.trace(objective, X), wrt="x")


@provokes(errors.SizeError)
def a_size_that_breaks_a_condition():
    """
    reshape of x: float64[n] to [n//2, 2] needs equal numbers of elements; not so for n=5
      where: FILE:LINE, in a_size_that_breaks_a_condition.<locals>.objective
        pairs = x.reshape(x.shape[0] // 2, 2)
                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      try: choose sizes for which it holds
    """

    def objective(x: float64["n"]):
        pairs = x.reshape(x.shape[0] // 2, 2)
        return pairs

    cr.trace(objective).bind(n=5)


@provokes(errors.NameLookupError)
def a_value_that_does_not_exist():
    """
    the graph objective has no value called 'hiden'
      try: one of: hidden
    """

    def objective(x):
        hidden = np.tanh(x)
        return np.sum(hidden)

    cr.trace(objective, X)["hiden"]


@provokes(errors.NameLookupError)
def a_gradient_that_was_not_computed():
    """
    the graph objective has no value called 'dJ/dx'
      try: ask for it where the gradient is made: cr.backward(..., wrt=[..., 'x']).
           one of: dJ/dW
    """

    def objective(x, W):
        J = np.sum(x) * np.sum(W)
        return J

    cr.backward(cr.trace(objective, X, W), wrt="W").run(x=X, W=W)["dJ/dx"]


@provokes(errors.NameLookupError)
def a_name_that_is_assigned_less_often():
    """
    the graph objective has no value called 'h_2'
      try: h is assigned 2 times: h, h_1
           one of: h_1, h
    """

    def objective(x):
        h = np.sin(x)
        h = np.cos(h)
        return np.sum(h)

    cr.trace(objective, X)["h_2"]


@provokes(errors.NotDifferentiableError)
def a_gradient_with_respect_to_integers():
    """
    y is int64[n]: only floating-point values have gradients
      where: FILE:LINE, in a_gradient_with_respect_to_integers.<locals>.objective
        def objective(x: float64["n 3"], y: int64["n"]):
      try: convert it before the call (y.astype(np.float64)), or leave it out of wrt=
    """

    def objective(x: float64["n 3"], y: int64["n"]):
        return cr.cross_entropy(x, y)

    cr.backward(cr.trace(objective), wrt=("x", "y"))


@provokes(errors.IndexOutOfRangeError)
def a_label_that_is_no_class():
    """
    cross_entropy(x, y): index 7 (at position 2 of the indices) is out of range for an axis of length 5: it must be from 0 to 4
      where: FILE:LINE, in a_label_that_is_no_class.<locals>.objective
        L = cr.cross_entropy(x, y)
            ^^^^^^^^^^^^^^^^^^^^^^
      try: check the indices (labels, tokens) against the size of what they index
    """

    def objective(x: float64["n 5"], y: int64["n"]):
        L = cr.cross_entropy(x, y)
        return L

    cr.trace(objective).run(x=np.ones((3, 5)), y=LABELS)


@provokes(errors.EvaluationError)
def a_value_that_numpy_refuses():
    """
    power(base, exponent) failed: Integers to negative integer powers are not allowed.
      where: FILE:LINE, in a_value_that_numpy_refuses.<locals>.objective
        return base**exponent
               ^^^^^^^^^^^^^^
      try: check the values of its inputs, and their dtypes
    """

    def objective(base: int64["n"], exponent: int64["n"]):
        return base**exponent

    cr.trace(objective).run(base=LABELS, exponent=-LABELS)


@provokes(errors.StepLimitError)
def a_loop_that_does_not_end_in_time():
    """
    while_loop(halved) has not ended after max_steps=3 iterations: its condition still holds
      where: FILE:LINE, in a_loop_that_does_not_end_in_time.<locals>.objective
        return cr.while_loop(lambda v: v > 1, halved, x, max_steps=3)
               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      try: give a larger max_steps, if it would end then
           (without max_steps= it goes on until it ends, but has no reverse mode)
    """

    def halved(v):
        return v / 2

    def objective(x):
        return cr.while_loop(lambda v: v > 1, halved, x, max_steps=3)

    cr.grad(objective)(100.0)


@provokes(errors.GradientCheckError)
def a_derivative_that_is_wrong():
    """
    objective with respect to x: the derivative is not what finite differences give (reverse mode, order 1)
      analytic: -1.3133489854036813
      numeric:  -2.6266979707822835 (± 3.2e-10)
      in the outputs' combination, along direction 0 of seed=0
      try: check_gradients(..., seed=0) repeats this;
           check the derivative rule of the primitives involved, one at a time;
           if they are right: is the point at a kink, or is f random, or rounded to float32?
    """

    def objective(x):
        return np.sum(cr.stop_gradient(x) * x)

    check_gradients(objective, X, order=1, modes=("reverse",), seed=0)


@provokes(errors.DataFileError)
def a_data_file_that_is_damaged():
    """
    the digits in no_such_file.npz cannot be read: FileNotFoundError: [Errno 2] No such file or directory: 'no_such_file.npz'
      try: install the package again: pip install --force-reinstall --no-deps chainrule
    """

    read_digits(Path("no_such_file.npz"))


@provokes(errors.InvariantError)
def a_graph_that_is_none():
    """
    the graph sin breaks the invariant inputs_come_first: Every node comes after its inputs, and every node is there once.
      try: this is an error in a transform; please report it with the program
    """

    graph = cr.trace(np.sin, x=float64["n"])
    check(graph.replace(nodes=graph.nodes[::-1]))


@provokes(errors.ScheduleError)
def a_schedule_that_reads_what_is_not_there():
    """
    instruction 0 (exp) reads h: float64[2, 3], which is neither given nor computed
      where: FILE:LINE, in a_schedule_that_reads_what_is_not_there.<locals>.program
        h = np.tanh(x)
            ^^^^^^^^^^
      try: this is an error in a planner; please report it with the program
    """

    def program(x):
        h = np.tanh(x)
        return np.exp(h)

    graph = cr.trace(program, X)
    result = graph.outputs[0][1]
    kernel = Compute((result,), (Buffer("result", 0, 48),), reads=(graph["h"],), label="exp")
    simulate(Schedule(graph, (kernel,), {}, (result,)))


@provokes(errors.ChainruleError)
def the_base_of_all():
    """
    what
      where: place
        line
      try: one
           two
    """

    raise errors.ChainruleError("what", where="place\nline", hint="one\ntwo")


@provokes(errors.MemoryLimitError)
def a_run_that_does_not_fit():
    """
    a run needs 8,000,000,000 bytes beside its arguments, and 1,000,000 are free (pretended)
      try: CHAINRULE_MEMORY_CHECK=0 in the environment runs it all the same
    """
    pretended = FreeMemory(1_000_000, "pretended")
    with patch.object(free_memory, "free_memory", return_value=pretended):
        free_memory.refuse_beyond_free(8_000_000_000)

"""Every exception says what happened, in which line of the user's, and what to try.

Each case below is a user's program; its docstring is the whole text of the error that it provokes,
with the file and the number of the line left open.
"""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule import errors, float64, int64
from chainrule.data.digits import read_digits
from chainrule.graph.invariants import check
from chainrule.graph.sizes import UndecidableSize
from chainrule.testing import check_gradients

CASES = []
X, W, LABELS = np.ones((2, 3)), np.ones((4, 5)), np.array([0, 1, 7])
KEPT = []


def provokes(kind):
    def add(case):
        CASES.append(pytest.param(kind, case, id=case.__name__))
        return case

    return add


def every_kind():
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind)]
    return {kind for kind in kinds if issubclass(kind, Exception)} | {UndecidableSize}


def full_text(case):
    """The docstring with the file, and the number of the line that it quotes or names, put in."""
    text = inspect.cleandoc(case.__doc__)
    found = re.search(
        r"where: FILE:LINE, in (.*)\n    (?! try)(.*)\n|where: FILE:LINE, in (.*)\n", text
    )
    if found:
        wanted = (found[2] or f"def {found[3].rpartition('.')[2]}").strip()
        lines, first = inspect.getsourcelines(case)
        place = [line.strip().startswith(wanted) for line in lines].index(True)
        if found[2]:  # the docstring itself quotes the line: the code comes later
            code = "".join(lines).rindex(wanted)
            place = "".join(lines)[:code].count("\n")
        text = text.replace("FILE:LINE", f"{__file__}:{first + place}")
    return text


def bytes_of_inputs():
    return [array.tobytes() for array in (X, W, LABELS)]


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
      try: named sizes are at least 1 and the same everywhere
    """

    def objective(x: float64["n d"], W: float64["d k"]):
        return x @ W

    cr.trace(objective).run(x=X, W=W)


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


@provokes(errors.UnsupportedError)
def a_function_that_is_not_traced():
    """
    np.nansum is not traced
      where: FILE:LINE, in a_function_that_is_not_traced.<locals>.objective
        return np.nansum(x)
               ^^^^^^^^^^^^
      try: perhaps one of: sum, einsum
           write it with the functions listed in docs/numpy.md
    """

    def objective(x):
        return np.nansum(x)

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
    gather(..., ..., y): index 7 (at position 2 of the indices) is out of range for an axis of length 5: it must be from 0 to 4
      where: FILE:LINE, in a_label_that_is_no_class.<locals>.objective
        L = cr.cross_entropy(x, y)
            ^^^^^^^^^^^^^^^^^^^^^^
      try: check the indices (labels, tokens) against the size of what they index
    """

    def objective(x: float64["n 5"], y: int64["n"]):
        L = cr.cross_entropy(x, y)
        return L

    cr.trace(objective).run(x=np.ones((3, 5)), y=LABELS)


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


@provokes(UndecidableSize)
def a_condition_on_a_named_size():
    """
    whether n > 3 is not known while tracing; use cr.minimum or cr.maximum instead of a condition, or give the sizes by graph.bind(n=256)
    """

    def objective(x: float64["n"]):
        return x if x.shape[0] > 3 else -x

    cr.trace(objective)


@provokes(UndecidableSize)
def a_named_size_as_a_number():
    """
    the size n is not known while tracing; give it by graph.bind(n=256) or trace with example arrays
    """

    def objective(x: float64["n"]):
        return sum(x[i] for i in range(x.shape[0]))

    cr.trace(objective)


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


def test_every_exception_is_provoked_here():
    assert {case.values[0] for case in CASES} == every_kind()


@pytest.mark.parametrize(("kind", "case"), CASES)
def test_the_text_says_what_where_and_what_to_try(kind, case):
    before = bytes_of_inputs()
    with pytest.raises(kind) as caught:
        case()
    assert type(caught.value) is kind
    assert str(caught.value) == full_text(case)
    assert bytes_of_inputs() == before


@pytest.mark.parametrize("kind", every_kind(), ids=lambda kind: kind.__name__)
def test_every_exception_says_what_it_is_for(kind):
    assert inspect.getdoc(kind)


def test_wrong_arguments_are_found_before_anything_runs(monkeypatch):
    def run_too_early(*args, **kwargs):
        raise AssertionError("evaluated before the arguments were checked")

    monkeypatch.setattr("chainrule.run.run.evaluate", run_too_early)
    found = []
    for case in CASES:
        kind, provoke = case.values
        if kind in (errors.InputError, errors.SizeError):
            with pytest.raises(kind):
                provoke()
            found.append(provoke)
    assert len(found) >= 6

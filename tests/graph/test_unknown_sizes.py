"""What has no answer before a size is known is asked back, with how the size becomes a number."""

import operator
import pickle

import numpy as np
import pytest
from random_sizes import m, n

from chainrule.errors import UndecidableSize

CHOICE = (
    "cr.cond({}, f, g, x) chooses when the graph runs,\n"
    "       with a traced array x; cr.minimum and cr.maximum compute with sizes"
)


def to_fix(names):
    """The end of each hint: how a size becomes a number."""
    binding = ", ".join(f"{name}=256" for name in names)
    return (
        f"to fix {', '.join(names)} while tracing, write a number for it in the type, or give "
        f"example arrays;\n       a graph that is there takes it by graph.bind({binding})"
    )


@pytest.mark.parametrize(
    ("ask", "question", "hint"),
    [
        (
            lambda: n < m,
            "n < m",
            CHOICE.format("cr.size_value(n, like=x) < cr.size_value(m, like=x)"),
        ),
        (lambda: 5 > n, "n < 5", CHOICE.format("cr.size_value(n, like=x) < 5")),
        (
            lambda: 2 * n >= m + 3,
            "2*n >= m + 3",
            CHOICE.format("cr.size_value(2*n, like=x) >= cr.size_value(m + 3, like=x)"),
        ),
        (lambda: bool(n - m), "-m + n != 0", "compare inside of a traced function"),
    ],
)
def test_an_undecidable_condition_is_explained(ask, question, hint):
    with pytest.raises(UndecidableSize) as caught:
        ask()
    assert caught.value.question == question
    assert str(caught.value) == (
        f"whether {question} is not known while tracing\n"
        f"  try: {hint}\n"
        f"       {to_fix(caught.value.names)}"
    )


def test_a_provable_condition_is_a_bool():
    assert (n < n + 1) is True
    assert (n <= 0) is False
    assert (0 < n * m) is True
    assert (n >= n) is True
    assert bool(n * m) is True
    assert bool(-n) is True


@pytest.mark.parametrize("use", [range, int, operator.index, [1, 2].__getitem__])
def test_a_size_used_as_a_number_is_explained(use):
    with pytest.raises(UndecidableSize) as caught:
        use(n)
    assert str(caught.value) == (
        "the size n is not known while tracing\n"
        "  try: for an array of that size: np.zeros_like(x, shape=(n, 3)), with a traced x\n"
        f"       {to_fix(('n',))}"
    )
    assert caught.value.question == "n"
    assert caught.value.names == ("n",)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("use", "question"),
    [
        (float, "float of n"),
        (lambda n: n / 2, "n / 2"),
        (lambda n: 1.0 / n, "1.0 / n"),
        (lambda n: n**0.5, "n ** 0.5"),
        (np.sqrt, "np.sqrt of n"),
    ],
)
def test_arithmetic_that_integers_lack_points_to_size_value(use, question):
    with pytest.raises(UndecidableSize) as caught:
        use(n)
    assert str(caught.value) == (
        f"{question}: a size is an integer that is not known while tracing\n"
        "  try: as a number of the program it is cr.size_value(n, like=x), with a traced array x\n"
        f"       {to_fix(('n',))}"
    )

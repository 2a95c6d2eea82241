"""Sizes agree with Python's integers wherever their names are given values."""

import copy
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.graph.size_text import parse
from chainrule.graph.sizes import (
    Size,
    UndecidableSize,
    definitely_equal,
    divide_exactly,
    evaluate,
    is_nonnegative,
    is_positive,
    maximum,
    minimum,
    names,
    product,
    size,
    sizes,
    solve,
)

n, m, d = sizes("n m d")
OPERATIONS = {
    operator.add: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    operator.floordiv: operator.floordiv,
    operator.mod: operator.mod,
    minimum: min,
    maximum: max,
}
operations = st.sampled_from(list(OPERATIONS))
environments = st.fixed_dictionaries({name: st.integers(1, 12) for name in "nmd"})


def combine(operands):
    def apply(operation, a, b):
        try:
            return operation(a, b)
        except ZeroDivisionError:
            return a

    return st.builds(apply, operations, operands, operands)


leaves = st.one_of(st.sampled_from([n, m, d]), st.integers(-6, 6))
values = st.recursive(leaves, combine, max_leaves=8)


def value_of(a, env):
    """The value of a, or None where it divides by zero."""
    try:
        return evaluate(a, env)
    except ZeroDivisionError:
        return None


@given(operations, values, values, environments)
def test_an_operation_on_sizes_agrees_with_the_operation_on_their_values(operation, a, b, env):
    left, right = value_of(a, env), value_of(b, env)
    if left is None or right is None:
        return
    try:
        expected = OPERATIONS[operation](left, right)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            evaluate(operation(a, b), env)
        return
    result = evaluate(operation(a, b), env)
    assert type(result) is int
    assert result == expected


@given(values)
def test_the_text_of_a_size_is_parsed_to_the_same_size(a):
    if len(str(a)) <= 1000:
        assert parse(str(a)) == a


@given(values, environments)
def test_the_text_of_a_size_means_the_same_to_python(a, env):
    expected = value_of(a, env)
    if expected is not None:
        assert eval(str(a), {"min": min, "max": max}, dict(env)) == expected


@given(values, environments)
def test_a_proof_never_contradicts_a_value(a, env):
    value = value_of(a, env)
    if value is None:
        return
    assert is_nonnegative(a) in (None, value >= 0)
    assert is_positive(a) in (None, value >= 1)


@given(values, values, environments)
def test_a_comparison_that_is_decided_is_right(a, b, env):
    left, right = value_of(a, env), value_of(b, env)
    if left is None or right is None:
        return
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        try:
            assert compare(a, b) is compare(left, right)
        except UndecidableSize as error:
            assert set(error.names) <= names(a) | names(b)


@given(values, environments)
def test_values_can_be_given_one_name_at_a_time(a, env):
    expected = value_of(a, env)
    if expected is None:
        return
    for name, value in env.items():
        a = evaluate(a, {name: value})
    assert a == expected


@given(values, values, values, environments)
def test_a_name_can_be_replaced_by_a_size(a, b, c, env):
    positive = {"n": maximum(b, 1), "m": maximum(c, 1)}
    inner = {name: value_of(replacement, env) for name, replacement in positive.items()}
    if None in inner.values():
        return
    expected = value_of(a, {**env, **inner})
    if expected is not None:
        assert evaluate(evaluate(a, positive), env) == expected


@given(values, values, environments)
def test_an_exact_quotient_times_the_divisor_is_the_dividend(a, b, env):
    if b == 0:
        assert divide_exactly(a, b) is None
        return
    assert divide_exactly(a * b, b) == a
    quotient = divide_exactly(a, b)
    assert quotient is None or quotient * b == a


@given(values, values, values)
def test_equal_polynomials_are_equal_objects_with_equal_hashes(a, b, c):
    for left, right in [
        ((a + b) * c, c * b + a * c),
        (a + b - b, a),
        (a - b, -(b - a)),
        (minimum(a, b), minimum(b, a)),
        (maximum(a, b) * 1 + 0, maximum(b, a)),
    ]:
        assert definitely_equal(left, right)
        assert hash(left) == hash(right)


@given(values)
def test_a_size_is_never_constant(a):
    assert type(a) in (int, Size)
    assert type(a) is int or names(a)


@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(1, 30), st.integers(1, 5))
def test_solve_inverts_evaluate(slope, offset, value, other):
    pattern = n * m * slope + offset
    total = evaluate(pattern, {"n": value, "m": other})
    assert isinstance(total, int)
    assert solve(pattern, total, {"m": other}) == ({"n": value} if slope else {})


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        (n * 2, n + n),
        (n - n, 0),
        (n * 6 // 3, 2 * n),
        (n * m // n, m),
        ((n * d + d) // d, n + 1),
        ((n * n - 1) // (n + 1), n - 1),
        (6 * n % 3, 0),
        (n * m % m, 0),
        ((n * m + d - d) % (m * n), 0),
        (n // (n + 1), 0),
        (n % (n + 1), n),
        (n % 1, 0),
        (3 * n * m // (2 * n), 3 * m // 2),
        ((2 * n + 1) // 4, n // 2),
        ((n - 2) // 2 + 1, n // 2),
        (n // 2 // 2, n // 4),
        ((n // 2 + 1) // 2, (n + 2) // 4),
        ((n + 7) // -1, -n - 7),
        (minimum(n, n + 2), n),
        (maximum(n - 1, 0), n - 1),
        (minimum(n, minimum(m, d)), minimum(minimum(n, m), d)),
        (minimum(n, maximum(n, m)), n),
        (minimum(n // 2, n), n // 2),
        (maximum(n % 4, 4), 4),
        (product((n, 2, m)), 2 * n * m),
        (product(()), 1),
        ((n + 1) ** 2, n * n + 2 * n + 1),
        (n**0, 1),
    ],
)
def test_what_is_provable_simplifies(a, expected):
    assert type(a) is type(expected)
    assert a == expected


@pytest.mark.parametrize("a", [n // 2 * 2, n % 2, minimum(n, 5), (n * m) // d, (n - m) // (n - m)])
def test_what_is_not_provable_stays(a):
    assert isinstance(a, Size)


@pytest.mark.parametrize(
    "a",
    [
        n - n // 2,
        n - n // m,
        n - n // m * m,
        n - minimum(n, m),
        maximum(n, m) - m,
        (n // 2) * (m // 2),
        2 - n % 3,
        n - n % m,
        5 - minimum(n, 5),
        n * m - n - m + 1,
        minimum(n, m) - 1,
        (n + m) // 2 - 1,
        2 * (n // 2) - n + 1,
        product(sizes("a b c d e f g h i j k l o p q r")) - 1,
    ],
)
def test_what_slices_and_pools_need_is_proved(a):
    assert is_nonnegative(a) is True
    assert is_nonnegative(-a - 1) is False
    assert is_positive(a + 1) is True
    assert is_positive(-a) is False


@pytest.mark.parametrize("a", [n - 2, n - m, n // 2 - 1, n % 2 - 1, 2 * (n // 2) - n])
def test_what_depends_on_the_names_is_unknown(a):
    assert is_nonnegative(a) is None


@pytest.mark.parametrize(
    ("a", "text"),
    [
        (1 + n * 2, "2*n + 1"),
        (d * n, "d*n"),
        (n // 2, "n//2"),
        (minimum(5, n), "min(n, 5)"),
        ((1 + n) // 2, "(n + 1)//2"),
        (-n, "-n"),
        (1 - n // 2, "-(n//2) + 1"),
        (n - m % 2, "n - m%2"),
        (2 * (n // 2), "2*(n//2)"),
        (n * n * m - 3, "m*n*n - 3"),
        (n // (m % 2), "n//(m%2)"),
        (7 // n, "7//n"),
        (minimum(n, m) // 2, "min(m, n)//2"),
    ],
)
def test_the_text_of_a_size_is_readable(a, text):
    assert str(a) == repr(a) == text
    assert parse(text) == a


def test_a_text_may_have_no_blanks_and_many_arguments():
    assert parse("2*n+1") == 2 * n + 1
    assert parse("min(n,m,5)") == minimum(minimum(n, m), 5)
    assert parse(" -n //2 ") == -n // 2
    assert parse("784") == 784
    assert parse("-" * 501 + "n") == -n


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "unexpected tuple at position 0"),
        ("n +", "invalid syntax at position 3"),
        ("n m", "invalid syntax. Perhaps you forgot a comma? at position 0"),
        ("2n", "unexpected '2' at position 0"),
        ("n*2.5", "unexpected '.' at position 3"),
        ("n**2", "** is written as a product, n*n, at position 0"),
        ("n/2", "unexpected binop at position 0"),
        ("+n", "unexpected unaryop at position 0"),
        ("n, m", "unexpected tuple at position 0"),
        ("abs(n, m)", "only min and max are functions, of two or more sizes, at position 0"),
        ("1 + max(n)", "unexpected call at position 4"),
        ("2*min", "only min and max are functions, of two or more sizes, at position 0"),
        ("min", "a function needs arguments, at position 0"),
        ("n if n else m", "unexpected ifexp at position 0"),
        ("n)(m", "unexpected call at position 0"),
        ("True", "unexpected constant at position 0"),
        ("m + n//0", "(n)//0 divides a size by zero at position 4"),
        ("n" * 1001, "more than 1000 characters at position 1000"),
        ("(" * 400 + "n" + ")" * 400, "too many nested parentheses"),
        ("(a+b+c+d)*" * 90 + "n", "a size may have at most 10000 factors"),
    ],
)
def test_a_wrong_text_is_explained(text, problem):
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert str(caught.value).startswith(f"{text[:1000]!r} is not a size: ")
    assert problem in str(caught.value)


@given(st.text("nm_1 +-*/%(),.if'", max_size=30))
def test_any_text_is_a_size_or_a_value_error(text):
    try:
        assert type(parse(text)) in (int, Size)
    except ValueError:
        pass


@pytest.mark.parametrize("name", ["", "2n", "n-1", "lambda", "naïve", "min"])
def test_a_wrong_name_is_explained(name):
    with pytest.raises(ValueError, match=f"'{name}' is not a name for a size"):
        size(name)


def test_sizes_are_declared_like_sympy_symbols():
    assert sizes("n, d") == sizes("n d") == sizes("n,d") == (n, d)
    assert sizes("n") is size("n")
    with pytest.raises(ValueError, match="' ' names no size"):
        sizes(" ")


def to_fix(names):
    """The end of each hint: how a size becomes a number."""
    binding = ", ".join(f"{name}=256" for name in names)
    return (
        f"to fix {', '.join(names)} while tracing, write a number for it in the type, or give "
        f"example arrays;\n       a graph that is there takes it by graph.bind({binding})"
    )


@pytest.mark.parametrize(
    ("ask", "question"),
    [
        (lambda: n < m, "n < m"),
        (lambda: 5 > n, "n < 5"),
        (lambda: 2 * n >= m + 3, "2*n >= m + 3"),
        (lambda: bool(n - m), "-m + n != 0"),
    ],
)
def test_an_undecidable_condition_is_explained(ask, question):
    with pytest.raises(UndecidableSize) as caught:
        ask()
    assert caught.value.question == question
    assert str(caught.value) == (
        f"whether {question} is not known while tracing\n"
        "  try: use cr.minimum or cr.maximum in place of a condition\n"
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
    assert str(caught.value) == f"the size n is not known while tracing\n  try: {to_fix(('n',))}"
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


def test_a_size_is_not_several():
    with pytest.raises(
        TypeError, match=r"^n is one size and not several: write n = cr.size\('n'\)$"
    ):
        (_,) = n


def test_a_division_by_zero_names_its_formula():
    with pytest.raises(ZeroDivisionError, match=r"^n//\(m - 1\) divides by zero: m - 1 is 0$"):
        evaluate(n // (m - 1) + 1, {"m": 1})
    with pytest.raises(ZeroDivisionError, match=r"^\(n\)//0 divides a size by zero$"):
        _ = n // 0


def test_only_equations_linear_in_one_name_are_solved():
    assert solve(2 * n + 1, 7, {}) == {"n": 3}
    assert solve(2 * n + 1, 8, {}) is None
    assert solve(n + 5, 5, {}) is None
    assert solve(n * m, 6, {}) is None
    assert solve(n * n, 9, {}) is None
    assert solve(n // 2, 3, {}) is None
    assert solve(n * m, 6, {"n": 2}) == {"m": 3}
    assert solve(n, 4, {"n": 4}) == {}
    assert solve(n, 4, {"n": 5}) is None
    assert solve(784, 784, {}) == {}


def test_arithmetic_with_one_and_zero_returns_the_size_itself():
    a = 2 * n + 1
    for same in (a * 1, 1 * a, a + 0, 0 + a, a - 0, a // 1):
        assert same is a


def test_a_size_cannot_be_changed():
    with pytest.raises(AttributeError, match="the size n cannot be changed"):
        n.terms = ()
    with pytest.raises(AttributeError):
        n.other = 1


def test_a_size_survives_copying_and_pickling():
    a = (n + m) // 2 + minimum(n, 5)
    assert pickle.loads(pickle.dumps(a)) == a
    assert copy.deepcopy(a) == a


def test_numpy_integers_are_integers_and_other_operands_are_refused():
    assert np.int64(3) * n == n * np.int64(3) == 3 * n
    assert n != 1.5 and n != "n" and n != 1
    for other in (1.5, "n", None, np.ones(3)):
        with pytest.raises(TypeError):
            _ = n * other
        with pytest.raises(TypeError):
            _ = other * n
    with pytest.raises(TypeError):
        _ = 2**n


def test_an_operand_with_its_own_operators_is_asked():
    class Traced:
        def __rmul__(self, other):
            return "traced"

        def __index__(self):
            raise AssertionError("a size asked a traced array for its value")

    assert n * Traced() == "traced"


@pytest.mark.parametrize(
    "make",
    [
        lambda: n**65,
        lambda: n**-1,
        lambda: product(tuple(size(f"a{i}") + 1 for i in range(40))),
        lambda: sum((n**i * m**j for i in range(60) for j in range(60)), 0),
        lambda: ((n**64) ** 64) ** 64,
    ],
)
def test_a_degenerate_size_is_refused(make):
    with pytest.raises(ValueError, match=r"at most|the exponent"):
        make()


def test_a_deep_nest_is_refused():
    a = n
    with pytest.raises(ValueError, match="nest at most 40 deep"):
        for i in range(100):
            a = minimum(a // m, size(f"a{i}")) - 1


def test_names_are_found_inside_every_operation():
    assert names(n * (m // 2) + minimum(d, 5) % size("k")) == {"n", "m", "d", "k"}
    assert names(5) == frozenset()

"""Sizes agree with Python's integers wherever their names are given values."""

import copy
import operator
import pickle
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from random_sizes import OPERATIONS, d, environments, m, n, operations, value_of, values

from chainrule.errors import UndecidableSize
from chainrule.graph.sizes.size_values import evaluate, solve
from chainrule.graph.sizes.sizes import (
    Size,
    definitely_equal,
    divide_exactly,
    is_nonnegative,
    is_positive,
    maximum,
    minimum,
    names,
    product,
    size,
    sizes,
)


@given(operations, values, values, environments)
def test_an_operation_on_sizes_agrees_with_the_operation_on_their_values(operation, a, b, env):
    left, right = value_of(a, env), value_of(b, env)
    assume(left is not None and right is not None)
    try:
        expected = OPERATIONS[operation](left, right)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            evaluate(operation(a, b), env)
        return
    result = evaluate(operation(a, b), env)
    assert type(result) is int
    assert result == expected


@given(values, environments)
def test_a_proof_never_contradicts_a_value(a, env):
    value = value_of(a, env)
    assume(value is not None)
    assert is_nonnegative(a) in (None, value >= 0)
    assert is_positive(a) in (None, value >= 1)


@given(values, values, environments)
def test_a_comparison_that_is_decided_is_right(a, b, env):
    left, right = value_of(a, env), value_of(b, env)
    assume(left is not None and right is not None)
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        try:
            assert compare(a, b) is compare(left, right)
        except UndecidableSize as error:
            assert set(error.names) <= names(a) | names(b)


@given(values, environments)
def test_values_can_be_given_one_name_at_a_time(a, env):
    expected = value_of(a, env)
    assume(expected is not None)
    for name, value in env.items():
        a = evaluate(a, {name: value})
    assert a == expected


@given(values, values, values, environments)
def test_a_name_can_be_replaced_by_a_size(a, b, c, env):
    positive = {"n": maximum(b, 1), "m": maximum(c, 1)}
    inner = {name: value_of(replacement, env) for name, replacement in positive.items()}
    expected = None if None in inner.values() else value_of(a, {**env, **inner})
    assume(expected is not None)
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


def test_a_size_is_not_several():
    with pytest.raises(TypeError, match="cannot unpack non-iterable Size"):
        (_,) = n
    assert not isinstance(n, Iterable)
    assert not hasattr(n, "__iter__")


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

"""A size is written as Python would, and read back; names and texts that are none are explained."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_sizes import d, environments, m, n, value_of, values

from chainrule.graph.sizes.parse_size import parse
from chainrule.graph.sizes.sizes import Size, minimum, size, sizes


@given(values)
def test_the_text_of_a_size_is_parsed_to_the_same_size(a):
    if len(str(a)) <= 1000:
        assert parse(str(a)) == a


@given(values, environments)
def test_the_text_of_a_size_means_the_same_to_python(a, env):
    expected = value_of(a, env)
    if expected is not None:
        assert eval(str(a), {"min": min, "max": max}, dict(env)) == expected


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

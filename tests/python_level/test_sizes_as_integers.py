"""A named size answers what Python asks of an integer as its numbers do, or says what to write."""

from __future__ import annotations

import concurrent.futures
import copy
import fractions
import functools
import itertools
import json
import math
import numbers
import operator
import pickle
import struct
import threading
import warnings
from collections.abc import Callable, Iterable, Sized
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import SizeError, SizeTextWarning, UndecidableSize


def by_match(n: Any) -> Any:
    match n:
        case int(count):
            return count
    return 100


def by_class(n: Any) -> Any:
    match (n, 3):
        case (bool(), _):
            return 7
        case (float() | str(), _):
            return 8
        case (int(), int()):
            return 1
    return 100


@functools.singledispatch
def dispatched(n: Any) -> Any:
    return 100


@dispatched.register
def _(n: int) -> Any:
    return n + 1


# What a program makes of n = x.shape[0]: the same number as of the integer.
ANSWERS: dict[str, Callable[[Any], Any]] = {
    "isinstance": lambda n: 1 if isinstance(n, int) else 0,
    "isinstance of several": lambda n: 1 if isinstance(n, (float, int)) else 0,
    "isinstance of Integral": lambda n: 1 if isinstance(n, numbers.Integral) else 0,
    "isinstance of Number": lambda n: 1 if isinstance(n, numbers.Number) else 0,
    "no float": lambda n: 1 if isinstance(n, (float, bool, np.integer, str)) else 0,
    "each of a shape": lambda n: sum(isinstance(one, int) for one in (n, 3)),
    "match": by_match,
    "match in a sequence": by_class,
    "singledispatch": dispatched,
    "its class": lambda n: 1 if n.__class__ is int else 0,
    "not iterable": lambda n: 2 if isinstance(n, Iterable) or hasattr(n, "__iter__") else 3,
    "not sized": lambda n: 2 if isinstance(n, Sized) or np.iterable(n) else 3,
    "the lowest bit": lambda n: n & 1,
    "the lowest bits": lambda n: 7 & n,
    "bits compared": lambda n: 5 if n & 1 else 6,
    "shifted": lambda n: (n << 2) + (n >> 1),
    "inverted": lambda n: ~n,
    "positive": lambda n: +n - abs(n) + abs(-n),
    "abs": lambda n: abs(-3 * n),
    "round": lambda n: round(n) + round(n, 1) + math.floor(n) + math.ceil(n) + math.trunc(n),
    "parts": lambda n: n.real + n.imag + n.numerator + n.denominator + n.conjugate(),
    "is_integer": lambda n: 2 if n.as_integer_ratio() == (n, 1) else 3,
    "divmod": lambda n: divmod(7, n)[0] * 10 + divmod(n, 2)[1],
    "pow": lambda n: pow(n, 2),
    "copies": lambda n: copy.copy(n) + copy.deepcopy([n])[0],
    "np.ndim": lambda n: 3 if np.ndim(n) == 0 and np.isscalar(n) else 4,
    "a fraction": lambda n: 1 if fractions.Fraction(n) == 2 else 2,
}


def program_of(use: Callable[[Any], Any]) -> Callable[..., Any]:
    def program(x: float64["n 3"]) -> Any:
        return np.sum(x) * use(x.shape[0])

    return program


@pytest.mark.parametrize("name", ANSWERS)
def test_a_size_answers_as_its_number_does(name: str) -> None:
    program = program_of(ANSWERS[name])
    graph = cr.trace(program)
    agreed = 0
    for n in range(1, 7):
        x = np.arange(1.0, 3 * n + 1).reshape(n, 3)
        try:
            assert graph.run(x=x).outputs == program(x), n
            agreed += 1
        except SizeError:
            assert cr.trace(program, x=x).run(x=x).outputs == program(x)
    assert agreed > 2


def test_a_size_outside_of_a_program_is_no_int() -> None:
    n = cr.size("n")
    assert not isinstance(n, int)
    assert isinstance(n, cr.Size)
    assert [
        one for one in cr.trace(np.tanh, float64["n 3"])["out"].shape if isinstance(one, int)
    ] == [3]
    assert pickle.loads(pickle.dumps(n)) == n


def test_a_program_asks_for_a_size_by_its_class() -> None:
    def program(x: float64["n 3"]) -> Any:
        return np.sum(x) * (2 if isinstance(x.shape[0], cr.Size) else 1)

    assert cr.trace(program).run(x=np.ones((2, 3))).outputs == 12


# What is refused, and words of what the message says to try.
REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "%d": (lambda n, x: "%d rows" % n == "2 rows", "%s in place of %d"),  # noqa: UP031
    "%05d": (lambda n, x: "%05d" % n, "%s in place of %d"),  # noqa: UP031
    "%x": (lambda n, x: "%x" % n, "%s in place of %d"),  # noqa: UP031
    "a format of digits": (lambda n, x: f"{n:b}", "writes its name"),
    "a format of floats": (lambda n, x: f"{n:.2f}", "writes its name"),
    "bytes": (lambda n, x: bytes(n), "np.zeros_like(x, shape=(n, 3))"),
    "bytearray": (lambda n, x: bytearray(n), "np.zeros_like(x, shape=(n, 3))"),
    "repeated": (lambda n, x: [0] * n, "np.zeros_like(x, shape=(n, 3))"),
    "repeated on the right": (lambda n, x: n * (1,), "np.zeros_like(x, shape=(n, 3))"),
    "range": (lambda n, x: list(range(n)), "cr.fori_loop(0, n, body, value)"),
    "islice": (lambda n, x: list(itertools.islice("abc", n)), "to fix n while tracing"),
    "an index": (lambda n, x: [1, 2, 3][n], "to fix n while tracing"),
    "an index of an array": (lambda n, x: np.ones(3)[n], "to fix n while tracing"),
    "bits": (lambda n, x: n | 1, "n % 2**k"),
    "bits of both": (lambda n, x: 6 ^ n, "n % 2**k"),
    "a mask of bits": (lambda n, x: n & 6, "n & (2**k - 1)"),
    "a power": (lambda n, x: 2**n, "n % 2**k"),
    "a shift by it": (lambda n, x: 1 << n, "n % 2**k"),
    "bit_length": (lambda n, x: n.bit_length(), "n % 2**k"),
    "bit_count": (lambda n, x: n.bit_count(), "n % 2**k"),
    "to_bytes": (lambda n, x: n.to_bytes(4, "big"), "n % 2**k"),
    "json": (lambda n, x: json.dumps(x.shape), "str(n) is its name"),
    "json with an indent": (lambda n, x: json.dumps(x.shape, indent=1), "str(n) is its name"),
    "struct": (lambda n, x: struct.pack("i", n), "to fix n while tracing"),
    "times a float": (lambda n, x: n * 2.5, "cr.size_value(n, like=x)"),
    "plus a float": (lambda n, x: 0.5 + n, "cr.size_value(n, like=x)"),
    "a product of matrices": (lambda n, x: n @ n, "cr.size_value(n, like=x)"),
    "a subscript": (lambda n, x: n[0], "cr.size_value(n, like=x)"),
    "a length": (lambda n, x: len(n), "cr.size_value(n, like=x)"),
    "a method of arrays": (lambda n, x: n.astype(float), "cr.size_value(n, like=x)"),
    "operator.index": (lambda n, x: operator.index(n), "to fix n while tracing"),
    "np.full": (lambda n, x: np.full(x.shape, 3.0), "np.full_like(x, value, shape=(n, 3))"),
    "np.ones": (lambda n, x: np.ones((n, 2)), "np.ones_like(x, shape=(n, 3))"),
    "np.empty": (lambda n, x: np.empty(x.shape), "np.empty_like(x, shape=(n, 3))"),
    "np.indices": (lambda n, x: np.indices(x.shape), "t[:, None] + np.zeros((1, 3), int)"),
    "np.arange": (lambda n, x: list(np.arange(n)), "np.cumsum("),
    "pickle": (lambda n, x: pickle.dumps(x.shape), "in the traced function itself"),
    "np.result_type": (lambda n, x: np.result_type(n), "to fix n while tracing"),
    "np.iinfo": (lambda n, x: np.iinfo(n), "to fix n while tracing"),
    "np.nditer": (lambda n, x: np.nditer(x.shape), "to fix n while tracing"),
    "np.pad": (lambda n, x: np.pad(np.ones(3), (0, n)), "np.pad takes sizes where the array"),
    "np.split": (lambda n, x: np.split(np.ones(6), n), "to fix n while tracing"),
    "np.unravel_index": (lambda n, x: np.unravel_index(x.shape[0], (3,)), "to fix n while"),
    "np.histogram": (lambda n, x: np.histogram(np.ones(3), bins=n + 1), "to fix n while tracing"),
    "iter": (lambda n, x: iter(n), "cr.size_value(n, like=x)"),
    "unpacked": (lambda n, x: [*n], "cr.size_value(n, like=x)"),
    "round to tens": (lambda n, x: round(n, -1), "cr.size_value(n, like=x)"),
}  # fmt: skip


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_size_cannot_answer_is_refused_with_the_line_and_a_way(name: str) -> None:
    use, words = REFUSED[name]

    def program(x: float64["n 3"]) -> Any:
        use(x.shape[0], x)
        return np.sum(x)

    with pytest.raises(UndecidableSize) as caught:
        cr.trace(program)
    assert "test_sizes_as_integers.py" in caught.value.where
    assert words in caught.value.hint, caught.value
    assert "Size" not in caught.value.what


def test_an_error_that_the_program_itself_raises_keeps_its_words() -> None:
    class Size:
        pass

    def program(x: float64["n 3"]) -> Any:
        raise TypeError(f"{Size.__name__} and Traced")

    with pytest.raises(TypeError, match=r"^Size and Traced$"):
        cr.trace(program)


def test_text_of_a_width_is_the_name_and_is_warned_of_where_the_program_goes_on() -> None:
    said: list[str] = []

    def shown(x: float64["n 3"]) -> Any:
        texts = [f"{x.shape[0]:03d}", f"{x.shape[0]:>4}", f"{x.shape[0]:<3,d}|"]
        said.extend(texts)
        return np.sum(x)

    with pytest.warns(SizeTextWarning):
        cr.trace(shown)
    assert said == ["  n", "   n", "n  |"]


def test_printing_a_width_is_no_reason_to_warn(capsys: pytest.CaptureFixture[str]) -> None:
    def program(x: float64["n 3"]) -> Any:
        print(f"{x.shape[0]:4d} rows")
        return np.sum(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cr.trace(program)
    assert capsys.readouterr().out == "   n rows\n"


def test_text_that_is_put_into_a_list_is_warned_of() -> None:
    def program(x: float64["n 3"]) -> Any:
        texts, known = [], set()
        texts.append(str(x.shape[0]))
        known.add(f"{x.shape[0]}")
        print(f"{x.shape[0]} rows")
        return np.sum(x) * len(texts[0]) * len(known)

    with pytest.warns(SizeTextWarning) as told:
        cr.trace(program)
    assert len(told) == 2


def in_a_thread(ask: Callable[[], Any]) -> Any:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(ask())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def in_a_pool(ask: Callable[[], Any]) -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(ask).result()


THREADS = {"a thread": in_a_thread, "a pool": in_a_pool}
COMPARED = {
    "==": lambda n: n == 2,
    "!=": lambda n: n != 2,
    "in": lambda n: n in (2, 3),
    "a shape": lambda n: (n, 3) == (2, 3),
    "truth": lambda n: bool(n - 2),
    "a key": lambda n: n in {2: 1},
    "NumPy": lambda n: np.equal(n, 2),
}


@pytest.mark.parametrize("where", THREADS)
@pytest.mark.parametrize("how", COMPARED)
def test_a_comparison_in_a_thread_that_the_program_starts_is_refused(where: str, how: str) -> None:
    def program(x: float64["n 3"]) -> Any:
        return np.sum(x * x if THREADS[where](lambda: COMPARED[how](x.shape[0])) else x)

    with pytest.raises(UndecidableSize) as caught:
        cr.trace(program)
    assert "test_sizes_as_integers.py" in caught.value.where


def test_sizes_compare_as_polynomials_in_threads_while_nothing_is_traced() -> None:
    n = cr.size("n")
    assert in_a_thread(lambda: n == n + 0 and n != 2)
    assert in_a_pool(lambda: {n: 3}[n]) == 3


def test_a_function_traced_in_a_thread_records_its_own_conditions() -> None:
    def program(x: float64["n 3"]) -> Any:
        return np.sum(x) if x.shape[0] == 2 else np.sum(x * x)

    graph = in_a_thread(lambda: cr.trace(program))
    assert [str(one.expression) for one in graph.conditions] == ["n - 2"]


def classes(x: Any, y: Any, k: Any = 2, rate: Any = 0.5) -> Any:
    """A number that says what isinstance finds of arguments and of what is computed of them."""
    found = [isinstance(x, np.ndarray), isinstance(x, (int, float)), isinstance(x * 2, np.ndarray)]
    found += [isinstance(k, int), isinstance(k, float), isinstance(k + 1, numbers.Integral)]
    found += [isinstance(rate, float), isinstance(rate, int), isinstance(k * rate, float)]
    found += [isinstance(np.sin(y), np.ndarray), isinstance([x], list), isinstance(x, list)]
    match k:
        case float():
            found.append(True)
        case int(count):
            found.append(count is k)
    return np.sum(x) * 0 + sum(2.0**place for place, one in enumerate(found) if one)


def test_isinstance_finds_arrays_ints_and_floats_as_in_a_run() -> None:
    x = np.ones((2, 3))
    expected = classes(x, x)
    for graph in (cr.trace(classes, x, x), cr.trace(classes, float64["n 3"], float64["n 3"])):
        assert graph.run(x=x, y=x).outputs == expected
    assert cr.compile(classes)(x, x) == expected

    def of_row(row: Any) -> Any:
        return np.sum(row) if isinstance(row, np.ndarray) else 0 * np.sum(row)

    assert cr.vmap(of_row)(x).tolist() == [3, 3]


def test_isinstance_of_a_traced_array_outside_of_its_function_finds_no_array() -> None:
    kept: list[Any] = []
    cr.trace(lambda x: kept.append(x) or x, np.ones(3))
    assert not isinstance(kept[0], np.ndarray)

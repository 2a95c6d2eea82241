"""A hint that is a recipe gives NumPy's numbers when it is followed, and every recipe is followed.

What a message writes out of the user's own source is put in the place of what was refused; the
recipes that messages have at hand are found in the source of the library, each in a table here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from programs_followed import plain, refusal, traced

import chainrule as cr

PACKAGE = Path(cr.__file__).parent
WRITTEN = [
    "T[i]",
    "T[i, 1]",
    "T[i, 1:]",
    "T[1, i]",
    "T[k]",
    "T[k][:, None]",
    "T[k, 0]",
    "T[:, i]",
    "T[i,]",
    "[1.0, 4.0, 9.0][i]",
    "np.take(T, i)",
    "np.take(T, k)",
    "np.take(T, k, axis=0)",
    "np.full(3, x[0])",
    "np.full((2, 3), x)",
    "np.full((2, 3), fill_value=x[1], dtype=np.float32)",
    "np.full(shape=(2,), fill_value=x[1])",
    "np.array([x[0], 1.0, x[2]])",
    "np.array([[x[0], 1.0], [x[1], x[2]]])",
    "np.array([x, x], dtype=np.float32)",
    "np.array(x)",
    "np.asarray(x)",
    "np.asarray([x[0], 2], np.float64)",
    "np.r_[x, 1.0, x]",
    "np.r_[x[0], 1]",
    "np.r_[A, A]",
    "np.c_[x, x]",
    "np.c_[A, A]",
    "np.sum([x[0], x[1]])",
    "np.sum([x, x], axis=0)",
    "np.mean((x, x))",
    "np.max([x[0], x[1]])",
    "np.exp([x[0], x[1]])",
    "np.dot([x[0], x[1]], [1.0, 2.0])",
    "np.linalg.norm([x[0], x[1]])",
    "np.linalg.det([[x[0], x[1]], [1.0, 2.0]])",
    "np.transpose([x, x])",
    "np.reshape([x[0], x[1]], (2, 1))",
    "np.cumsum([x[0], x[1]])",
    "np.outer([x[0], 1], x)",
    "np.interp([x[0], x[1]], [0.0, 1, 2], [3.0, 4, 5])",
    "np.sum([v**2 for v in x])",
    "values = [x[0], x[1]]\nnp.prod(values)",
]


@pytest.mark.parametrize("source", WRITTEN)
def test_what_a_message_writes_gives_numpys_numbers(source: str, tmp_path: Path) -> None:
    hint = refusal(source, tmp_path).hint
    assert hint.startswith("write "), hint
    *before, last = source.splitlines()
    last = ast.unparse(ast.parse(last))
    refused = next(one for one in ast.walk(ast.parse(last)) if followed_at(one, hint))
    replaced = last.replace(ast.unparse(refused), hint.removeprefix("write "))
    assert replaced != last
    got = traced("\n".join([*before, replaced]), tmp_path)
    wanted = plain(source, tmp_path)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-15)
    again = plain("\n".join([*before, replaced]), tmp_path)  # the same source, on NumPy's arrays
    np.testing.assert_array_equal(again, wanted)


def followed_at(node: ast.AST, hint: str) -> bool:
    """Whether this is the expression that the hint replaces: the innermost that reads or calls."""
    kinds = (ast.Subscript, ast.Call)
    inner = [one for one in ast.walk(node) if isinstance(one, kinds)]
    if not isinstance(node, kinds):
        return False
    return isinstance(node, ast.Call) or not any(
        isinstance(one, ast.Subscript) and ast.unparse(one.value) in ("T", "np.r_", "np.c_")
        for one in inner[1:]
    )


ASSIGNED = [
    "out[0] = x[1]",
    "out[:2] = A[0]",
    "out[1:] = x[:2] * 2",
    "out[i] = x[0]",
    "out[i] = 7.0",
    "out[k[:1]] = x[2]",
]


@pytest.mark.parametrize("statement", ASSIGNED)
def test_an_assignment_is_followed_by_one_that_works_on_both(
    statement: str, tmp_path: Path
) -> None:
    program = "out = np.zeros(3)\n{}\nout"
    hint = refusal(program.format(statement), tmp_path).hint
    assert hint.startswith("write out = cr.at(out)["), hint
    instead = program.format(hint.removeprefix("write "))
    wanted = plain(program.format(statement), tmp_path)
    np.testing.assert_array_equal(traced(instead, tmp_path), wanted)
    np.testing.assert_array_equal(plain(instead, tmp_path), wanted)


CHANGED = [
    "out[1:] += x[:-1]",
    "out[i] -= x[0]",
    "out[x < 0] = 0",
    "out[m] *= 3",
    "out[0] /= x[1]",
    "out[m] **= 2",
    "out[1:] //= 0.3",
    "out[m] %= 0.4",
    "out[~(x < 1)] %= 0.4",
]


@pytest.mark.parametrize("statement", CHANGED)
def test_a_change_of_a_traced_array_is_followed_by_one_that_works(
    statement: str, tmp_path: Path
) -> None:
    program = "out = x * 1.5\n{}\nout"
    hint = refusal(program.format(statement), tmp_path).hint
    assert hint.startswith("write out = " + ("np.where" if "%" in statement else "out.at[")), hint
    instead = program.format(hint.removeprefix("write "))
    wanted = plain(program.format(statement), tmp_path)
    np.testing.assert_allclose(traced(instead, tmp_path), wanted, rtol=1e-15)


def test_an_array_under_a_key_is_written_anew_under_it(tmp_path: Path) -> None:
    program = "d = {{'a': x * 2}}\n{}\nd['a']"
    hint = refusal(program.format("d['a'][0] += 3"), tmp_path).hint
    assert hint == "write d['a'] = cr.at(d['a'])[0].add(3)"
    wanted = plain(program.format("d['a'][0] += 3"), tmp_path)
    np.testing.assert_array_equal(traced(program.format(hint[6:]), tmp_path), wanted)


# By words of a hint: a program that is refused with it, what follows it, and what NumPy gives.
RECIPES = {
    "a = cr.at(a)[key].add(b)": (
        "out = np.zeros(3)\nout[1:] += x[:2]\nout",
        "out = np.zeros(3)\nout = cr.at(out)[1:].add(x[:2])\nout",
        "np.array([0, 0.5, -1.5])",
    ),
    "x = x.at[key].set(value), or np.where(mask, value, x)": (
        "x.__setitem__(0, 3.0)\nx",
        "x = x.at[0].set(3.0)\nx",
        "np.array([3.0, -1.5, 2.0])",
    ),
    "cr.at(x)[key].set(value) does the same": (
        "x.__setitem__(m, 3.0)\nx",
        "np.where(m, 3.0, cr.at(x)[m].set(3.0))",
        "np.array([3.0, -1.5, 3.0])",
    ),
    "build the array anew: x = x.at[": (
        "x.at[0] = 3.0\nx",
        "x = x.at[0].set(3.0)\nx",
        "np.array([3.0, -1.5, 2.0])",
    ),
    "build the result anew: x = x.at[places].add(values)": (
        "np.add.at(x, [0, 0], 1.0)\nx",
        "x = x.at[[0, 0]].add(1.0)\nx",
        "np.array([2.5, -1.5, 2.0])",
    ),
    "or of its parts: np.stack([...]), np.concatenate([...])": (
        "np.fromiter([x[0], x[1]], float)",
        "np.stack([x[0], x[1]])",
        "np.array([0.5, -1.5])",
    ),
    "re**2 + im**2 its power": (
        "np.abs(np.fft.rfft(x)) ** 2",
        "re, im = cr.fft.rfft(x)\nre**2 + im**2",
        "np.abs(np.fft.rfft(x)) ** 2",
    ),
    "re, im = cr.fft.rfft(x) is np.fft.rfft(x).real and .imag": (
        "np.fft.rfft(x).imag",
        "re, im = cr.fft.rfft(x)\nim",
        "np.fft.rfft(x).imag",
    ),
    "cr.fft.irfft((re, im), n) is x": (
        "np.fft.irfft(np.fft.rfft(x), 3)",
        "n = 3\nre, im = cr.fft.rfft(x)\ncr.fft.irfft((re, im), n)",
        "x",
    ),
    "np.convolve and np.correlate are traced": (
        "np.fft.irfft(np.fft.rfft(x, 5) * np.fft.rfft(x, 5), 5)",
        "np.convolve(x, x)",
        "np.convolve(x, x)",
    ),
    "keep the shape and choose with np.where(mask, x, 0)": (
        "np.sum(x[m])",
        "np.sum(np.where(m, x, 0))",
        "np.sum(x[m])",
    ),
    "choose among arrays with np.where(mask, value, x)": (
        "x.at[m].set(x[::-1])",
        "np.where(m, x[::-1], x)",
        "np.where(m, x[::-1], x)",
    ),
    "compare first (x > 0), or convert with .astype(bool)": (
        "x & m",
        "(x > 0) & m",
        "(x > 0) & m",
    ),
    "convert it with .astype(np.int64)": (
        "x[m * 1.0]",
        "x[(m * 1.0).astype(np.int64)]",
        "x[[1, 0, 1]]",
    ),
    "choose with np.where(condition, x, 0)": (
        "np.where(m)[0]",
        "np.where(m, x, 0)",
        "np.where(m, x, 0)",
    ),
    "count with np.bincount(np.digitize(x, edges), minlength=len(edges) + 1)": (
        "np.histogram(x, [0.0, 1.0, 3.0])[0]",
        "edges = np.array([0.0, 1.0, 3.0])\n"
        "np.bincount(np.digitize(x, edges), minlength=len(edges) + 1)[1:-1]",
        "np.histogram(x, [0.0, 1.0, 3.0])[0]",
    ),
    "np.where(i[:, None] == i, value, x) is x (n x n)": (
        "np.fill_diagonal(A, 7.0)\nA",
        "n = 2\nx = A\ni = np.cumsum(np.ones_like(x, shape=(n,), dtype=np.int64)) - 1\n"
        "np.where(i[:, None] == i, 7.0, x)",
        "np.array([[7.0, 2.0], [3.0, 7.0]])",
    ),
    "cr.fori_loop(start, stop, body, value) repeats": (
        "sum(x[j] for j in range(1, i))",
        "cr.fori_loop(1, i, lambda j, total: total + x[j], np.zeros_like(x[0]))",
        "x[1]",
    ),
    "np.full_like(x, value)": ("x.fill(3.0)\nx", "np.full_like(x, 3.0)", "np.full(3, 3.0)"),
    "np.broadcast_to(value, shape) is an array of one value": (
        "np.copyto(x, 3.0)\nx",
        "np.broadcast_to(3.0 + 0 * x[0], (3,))",
        "np.full(3, 3.0)",
    ),
    "traced arrays are values: x = x.at[key].set(value)": (
        "np.put(x, [0, 2], 3.0)\nx",
        "x = x.at[[0, 2]].set(3.0)\nx",
        "np.array([3.0, -1.5, 3.0])",
    ),
    "np.linalg.svd(x, full_matrices=False)": (
        "np.linalg.svd(A[:1])[1]",
        "np.linalg.svd(A[:1], full_matrices=False)[1]",
        "np.linalg.svd(A[:1])[1]",
    ),
    "np.linalg.pinv(a) @ b takes stacks of matrices": (
        "np.linalg.lstsq(A[None], x[:2])[0]",
        "np.linalg.pinv(A[None]) @ x[:2]",
        "np.linalg.lstsq(A, x[:2])[0][None]",
    ),
    "compare, and reduce: np.sum(x**2) > tolerance": (
        "cr.while_loop(lambda v: v > 1, lambda v: v / 2, x * 8)",
        "cr.while_loop(lambda v: np.sum(v**2) > 1, lambda v: v / 2, x * 8)",
        "v = x * 8\nwhile np.sum(v**2) > 1:\n    v = v / 2\nv",
    ),
    "cr.while_loop(..., max_steps=1000) has a gradient": (
        "cr.grad(lambda a: cr.while_loop(lambda v: v < 10, lambda v: v * a, a))(x[2])",
        "cr.grad(lambda a: cr.while_loop(lambda v: v < 10, lambda v: v * a, a, max_steps=1000))"
        "(x[2])",
        "4 * x[2] ** 3",
    ),
    "so has cr.fori_loop with Python integers as bounds": (
        "cr.grad(lambda a: cr.fori_loop(0, i, lambda j, v: v * a, a))(x[2])",
        "cr.grad(lambda a: cr.fori_loop(0, 2, lambda j, v: v * a, a))(x[2])",
        "3 * x[2] ** 2",
    ),
    "use np.ravel(x)": ("A.flat[1]", "np.ravel(A)[1]", "A.ravel()[1]"),
}


@pytest.mark.parametrize("words", RECIPES)
def test_a_recipe_gives_numpys_numbers_when_it_is_followed(words: str, tmp_path: Path) -> None:
    refused, followed, wanted = RECIPES[words]
    assert words in refusal(refused, tmp_path).hint
    np.testing.assert_allclose(
        traced(followed, tmp_path), plain(wanted, tmp_path), rtol=1e-12, atol=1e-12
    )


# Rooms whose hints are recipes for numbers; those of the others call the library, and the pages
# of the documentation run such calls.
ROOMS = ("frontend", "numpy", "nn", "control", "custom", "functional", "random")
RECIPE = re.compile(r"(np|cr)\.\w+(\.\w+)?\(|\.at\[|cr\.at\(")
# Hints that convert, or name what may be called, and need no numbers to be right.
NO_RECIPES = (
    'cr.named(value, "h")',  # tests/frontend/test_by_hand.py
    "give a list of arrays: np.concatenate([x, y])",
    "x[np.argsort(cr.random.bits(key, x.shape[:1]))] has",  # test_frozen_random follows it
    "a list of numbers counts as several arguments: pass np.array",
    "convert",
    "for one-hot labels use",  # tests/composites/test_composites.py follows both
    "give the number of classes, as cr.one_hot(labels, 10)",
    "np.clip(x, 0, 1)",
    "write integers from 0 to 51",  # an example of a call, not of this one
    "pass np.asarray(...) of it",
    "np.reshape(x, (n, 1)) makes a matrix",
    "np.reshape(b, (n, 1)) for one column",
    "call NumPy functions on it directly",
    "cr.random draws in every run",
    "np.linalg.pinv(a) @ b is the solution",  # these three for named sizes: test_hints_of_sizes
    "begin with a traced value: np.zeros_like",
    "or order the rows of x yourself",
    "is its name; as a number of the program",  # test_hints_of_sizes
    "cr.primitive(",  # calls of the library
    "cr.custom_derivative(",
    "cr.stop_gradient(",
    "cr.compile(f)",
    "cr.grad(",
    "cr.random.key(0)",
    "cr.random.fold_in(key, number)",
    "cr.random.truncated_normal(key, -2, 2)",
    "what was broadcast is summed again",  # of a rule of the user's
)


def hints() -> Iterator[str]:
    """Every hint in the source of these rooms, f-strings with their expressions left out."""
    for path in [one for room in ROOMS for one in (PACKAGE / room).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                yield "".join(
                    one.value
                    for one in ast.walk(node.value)
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )
    from chainrule.frontend.hints import replacements

    yield from replacements.REASONS.values()
    yield replacements.instead_of("fft.fft")


@pytest.mark.slow
def test_every_recipe_in_the_source_is_followed_here() -> None:
    left = [
        hint
        for hint in hints()
        if RECIPE.search(hint) and not any(words in hint for words in (*RECIPES, *NO_RECIPES))
    ]
    assert left == []

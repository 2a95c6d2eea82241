"""Random small functions that decide by shapes, integers, static values, closures and containers.

Each is Python source with `x: (n, 3)`, `y: (m, 3)`, an integer `k`, and the static `flag` and
`mode`; NumPy runs it as it is.
"""

from __future__ import annotations

import contextlib
import functools
import json
import linecache
import math
import numbers
import random
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr

INDENT = "    "
CATCHING = 1_000_000


def _about_sizes(r: random.Random) -> str:
    c, d = r.randint(1, 5), r.randint(1, 5)
    size = r.choice(["x.shape[0]", "np.shape(x)[0]", "y.shape[0]", "x.shape[-2]", "rows(x)"])
    return r.choice([
        f"{size} == {c}", f"{size} != {c}", f"{c} == {size}", f"{size} == {c}.0",
        "x.shape == y.shape", "x.shape != y.shape", f"x.shape == ({c}, 3)",
        f"{size} in ({c}, {d})", f"{c} in x.shape", f"{size} not in [{c}]",
        f"{size} % {c} == {d % c}", f"not {size} % 2", f"{size} // {c} == 1",
        f"{size} - {c}", f"2 * {size} == {c}", f"{size} * {size} == {c * c}",
        f"x.shape[0] + y.shape[0] == {c + d}", f"x.size == {3 * c}", "x.size == y.size",
        f"math.prod(x.shape) == {3 * c}", f"sum(x.shape) == {3 + c}",
        f"np.equal({size}, {c})", f"np.int64({c}) == {size}",
        f"any(s == {c} for s in x.shape)", f"[*x.shape].count({c}) > 0",
        "np.array_equal(x.shape, y.shape)", f"{size} == k", f"k == {size}",
        f"{size} < {c}", f"{size} > 0", f"{size} >= k", f"max(x.shape) == {c}",
        f"sorted(x.shape)[0] == {c}", f"min(x.shape[0], y.shape[0]) == {c}",
        f"len(x) == {c}", f"{size} in {{{c}, {d}}}", "len({*x.shape}) == 2",
        f"{{{c}: True}}.get({size}, False)", f"math.sqrt({size}) > 1.5",
        f"int({size}) == {c}", f"f'{{{size}}}' == '{c}'", "x.ndim == 2", "x.shape[1] == 3",
    ])  # fmt: skip


def _about_classes(r: random.Random) -> str:
    c = r.randint(1, 4)
    size = r.choice(["x.shape[0]", "y.shape[0]", "x.size", "rows(x)", "2 * x.shape[0]"])
    return r.choice([
        f"isinstance({size}, int)", f"isinstance({size}, (float, str))",
        f"isinstance({size}, abc_numbers.Integral)", "all(isinstance(s, int) for s in x.shape)",
        f"isinstance({size}, int) and {size} == {c}", f"{size} & 1", f"{size} & 3 == {c}",
        f"{size} >> 1 == {c}", f"{size} << 1 == {2 * c}", f"~{size} == -{c}",
        f"abs({size} - {c}) == 1", f"divmod({size}, {c})[1] == 0", f"divmod(7, {size})[0] == {c}",
        f"round({size}) == {c}", f"math.floor({size}) == {c}", f"{size} | 1 == {c}",
        f"{size} ^ 1 == {c}", f"({size}).bit_length() == 2", f"'%d' % {size} == '{c}'",
        f"f'{{{size}:03d}}' == '00{c}'", f"json.dumps(x.shape) == '[{c}, 3]'",
        f"len([0] * {size}) == {c}", f"len(bytes({size})) == {c}", f"len(range({size})) == {c}",
        f"[1, 2, 3, 4, 5, 6][:{size}] == [1, 2]", f"np.zeros({size}).size == {c}",
        f"kind({size}) == 'int'", f"max({size}, {c}) == {c}", f"min(x.shape) == {c}",
        f"sorted([{size}, {c}])[0] == {c}", f"{{{size}: 1}}.get({c}) == 1", f"float({size}) > 2",
        f"math.gcd({size}, 2) == 2", f"2 ** {size} == {2**c}", f"{size} * 1.5 == {1.5 * c}",
        "np.array_equal(x, y)", f"np.array_equiv(x[:, 0], np.ones({c}))",
        f"bool(np.all(np.array(x.shape) == {c}))", f"({size}).numerator == {c}",
        f"statistics.median([{size}, {c}, 3]) == 3", f"hash({size}) == hash({c})",
    ])  # fmt: skip


def _attempt(r: random.Random) -> str:
    """What fails for some sizes."""
    c = r.randint(1, 4)
    return r.choice([
        f"x = x + np.ones(({c}, 1))", f"x = x + np.ones(({c}, 3))", "x = x + y", "x = x * y[:, :1]",
        f"x = x + np.ones({c})[:, None]", "x = x + (x.T @ y)[0]", f"x = x + (x.T @ np.ones({c}))",
        "x = np.concatenate([x, y], axis=1)[:, :3]", "x = np.stack([x, y])[0]",
        f"x = np.reshape(x, ({c}, 3))", f"x = np.reshape(x, ({c}, -1))[:, :1] + x[:1]",
        f"x = x + x[{c}]", f"x = x + x[-{c}]", f"x = np.split(x, {c})[0]",
        "x = x + np.einsum('ij,ij->j', x, y)", "x = x + np.tensordot(x, y, axes=((0,), (0,)))[0]",
        f"x = np.broadcast_to(x, ({c}, 3))", "x = np.broadcast_to(x, y.shape)",
        f"x = x[np.ones({c}, bool)]", "x = np.squeeze(x, 0) + np.zeros((1, 3))",
        "x = np.linalg.inv(np.eye(3) + 0.0 * x) + x", "x = x * np.zeros(x.shape[0])[0]",
        "x = x * float(np.sum(x))", "x = x * len(x)", "x = x + [1.0, 2.0, 3.0][x.shape[0]]",
        "x = x * (2 if x.shape[0] < 3 else 1)", f"x = x * (2 if x.shape[0] == {c} else 1)",
        "x = x + np.unique(x)[0]", "x = x * len([0] * x.shape[0])", "x = x + x[0, 0].item()",
        "a, b = x; x = a + b + np.zeros((1, 3))",
        "x = np.where(x[:, 0] > 0, y[:, 0], 1) + x.T; x = x.T",
        "x = x + np.dot(x[:, 0], y[:, 0])", "x = np.hstack([x, y])[:, 2:5]",
        "x = x + np.vdot(x, y)", "x = np.column_stack([x[:, 0], y[:, 0], x[:, 1]])",
    ])  # fmt: skip


def _try(r: random.Random, depth: int, indent: str) -> list[str]:
    kinds = r.choice(["ValueError", "IndexError", "(ValueError, IndexError)", "Exception",
                      "(TypeError, ValueError)", "LookupError"])  # fmt: skip
    inner = indent + INDENT
    if r.random() < 0.2:
        return [f"{indent}with contextlib.suppress({kinds.strip('()')}):", inner + _attempt(r)]
    lines = [f"{indent}try:", inner + _attempt(r), f"{indent}except {kinds}:"]
    lines += _block(r, depth - 1, inner) if r.random() < 0.5 else [inner + "x = x * 3 + 1"]
    if r.random() < 0.3:
        lines += [f"{indent}else:", inner + "x = x - 2"]
    if r.random() < 0.2:
        lines += [f"{indent}finally:", inner + "x = x * 0.5"]
    return lines


def _about_integers(r: random.Random) -> str:
    c, d = r.randint(0, 4), r.randint(1, 4)
    return r.choice([
        f"k == {c}", f"k != {c}", f"k > {c}", f"k <= {c}", f"{c} < k", "k", "not k", "-k < -1",
        f"k % 2 == {c % 2}", f"k // 2 == {c}", f"k in ({c}, {d})", f"k in {{{c}, {d}}}",
        "k & 1", f"k << 1 == {2 * c}", "divmod(k, 2)[1]", f"f'{{k}}' == '{c}'",
        f"str(k + 1) == '{c}'", f"{{{c}: True}}.get(k, False)", f"abs(k - 2) == {c}",
        f"k + 1 == {c}", f"k * k == {c * c}", f"max(k, 2) == {c}", f"k ** 2 > {c}",
        f"round(k) == {c}", f"k == {c} or k == {d}", f"{c} <= k < {c + 2}", f"(k, 3) == ({c}, 3)",
        f"bool(k) and k ^ 1 == {c}", f"k == {c}.0", f"len(range(k)) == {c}", f"int(k) == {c}",
    ])  # fmt: skip


def _about_static_values(r: random.Random) -> str:
    return r.choice([
        "flag", "not flag", "mode == 'a'", "mode in ('a', 'b')", "mode.startswith('b')",
        "options['depth'] > 1", "options.get('missing') is None", "'depth' in options",
        "closed == 2", "len(numbers) == 3", "numbers[0] < numbers[1]", "callable(act)",
    ])  # fmt: skip


def _condition(r: random.Random) -> str:
    kind = r.choice([_about_sizes, _about_sizes, _about_integers, _about_static_values])
    return kind(r)


def _question(r: random.Random) -> str:
    """A condition of programs that catch errors and ask for classes."""
    return (_about_classes if r.random() < 0.7 else _condition)(r)


def _step(r: random.Random) -> str:
    c = r.randint(1, 3)
    return r.choice([
        f"x = x * {c}.5", "x = x + k", "x = x * k", f"x = x ** {c}", "x = np.tanh(x)",
        "x = x - np.mean(x, axis=0)", "x = x / x.shape[0]", "x = x * y.shape[0]",
        "x = np.concatenate([x, y])", "x = np.concatenate([x, x[:1]])", "x = x[::-1]",
        f"x = x[:{c}]", f"x = x[{c - 1}:]", "x = x[::2]", "x = x[:k + 1]", "x = x[-1:]",
        "x = np.reshape(x, (-1, 3))", "x = np.reshape(x, (x.shape[0], 3))",
        "x = x.reshape(k, -1, 3)[0] if k == 1 else x",
        "x = np.repeat(x, 2, axis=0)", "x = np.tile(x, (k + 1, 1))", "x = np.roll(x, k, axis=0)",
        "x = x + np.sum(y, axis=0)", f"x = x + y[{c - 1}]", "x = x + y[-1]",
        "x = x * numbers[k % 3]",
        "x = cr.fori_loop(0, k, lambda i, v: v * 1.5 + i, x)",
        "x = cr.fori_loop(0, x.shape[0], lambda i, v: v * 1.25 + i, x)",
        f"x = cr.scan(lambda v, _: (v * 0.5 + 1, None), x, None, length=k + {c})[0]",
        "x = x + sum([i * y[0] for i in range(k)], np.zeros(3))",
        "x = [act, np.sin][k % 2](x)", "x = act(x) if flag else x",
        "x = scaled(x, options['depth'])",
        "parts = {'x': x, 'rest': [y, k]}; x = parts['x'] * parts['rest'][1]",
        "x, old = x * 2, x; x = x - old", "x = (lambda v, s=k: v * s)(x)",
        "x = x * {'a': 2.0, 'b': 3.0}[mode]", "x = x + options['bias'] * (k if flag else 1)",
        "x = np.where(x > k, x, 0.5 * x)", "x = x + np.arange(3) * k",
        "x = x + np.ones(3)[:, None].T * k",
        "x = x if isinstance(mode, str) else 2 * x",
        "x = functools.reduce(lambda a, b: a * b, numbers, x)",
        "x = x * math.factorial(k)", "x = x + np.full(3, float(closed))",
        "x = x / math.sqrt(3 + closed)",
    ])  # fmt: skip


def _block(r: random.Random, depth: int, indent: str) -> list[str]:
    lines: list[str] = []
    for _ in range(r.randint(1, 3)):
        kind = r.random()
        if kind < 0.45 or depth == 0:
            lines.append(indent + _step(r))
        elif kind < 0.8:
            lines.append(f"{indent}if {_condition(r)}:")
            lines += _block(r, depth - 1, indent + INDENT)
            if r.random() < 0.6:
                lines.append(f"{indent}else:")
                lines += _block(r, depth - 1, indent + INDENT)
        elif kind < 0.86:
            lines.append(f"{indent}x = x * 2 if {_condition(r)} else x + 1")
        elif kind < 0.91:
            lines.append(
                f"{indent}for i in range({r.choice(['k', '2', 'k + 1', 'len(numbers)'])}):"
            )
            lines.append(f"{indent}{INDENT}x = x * 0.5 + i")
        elif kind < 0.95:
            lines += [f"{indent}i = 0", f"{indent}while i < {r.choice(['k', '2', 'closed'])}:"]
            lines += [f"{indent}{INDENT}x = x + i", f"{indent}{INDENT}i += 1"]
        else:
            lines += [f"{indent}match {r.choice(['x.shape', '(k, 3)', '(y.shape[0], k)'])}:"]
            lines += [f"{indent}{INDENT}case ({r.randint(1, 4)}, _):"]
            lines += [f"{indent}{INDENT * 2}x = x * 4", f"{indent}{INDENT}case _:"]
            lines += [f"{indent}{INDENT * 2}x = x - 1"]
    return lines


def _catching(r: random.Random) -> list[str]:
    """A body that catches errors and asks for classes."""
    lines: list[str] = []
    for _ in range(r.randint(1, 3)):
        kind = r.random()
        if kind < 0.55:
            lines += _try(r, 1, INDENT)
        elif kind < 0.85:
            lines += [f"{INDENT}if {_question(r)}:", f"{INDENT * 2}{_step(r)}"]
            lines += [f"{INDENT}else:", f"{INDENT * 2}x = x + 0.25"]
        elif kind < 0.92:
            lines += [f"{INDENT}match {r.choice(['x.shape[0]', 'k', 'y.shape[0]'])}:"]
            lines += [f"{INDENT * 2}case {r.choice(['int(s)', 'float() as s', 'str() as s'])}:"]
            lines += [f"{INDENT * 3}x = x * s", f"{INDENT * 2}case _:", f"{INDENT * 3}x = x - 1"]
        else:
            lines.append(INDENT + _step(r))
    return lines


def source_of(seed: int) -> str:
    """The source of a program; from CATCHING on of one that catches errors."""
    r = random.Random(seed)
    result = r.choice([
        "np.sum(x)", "x", "np.mean(x, axis=0)", "{'x': x, 'k': k * 2}", "(np.sum(x), [x[0], k])",
        "np.squeeze(x)", "np.sum(x) / x.shape[0]", "x * x.shape[0]", "np.sum(x) if flag else x",
        "(np.max(x), x.shape[0])",
    ])  # fmt: skip
    return "\n".join([
        "def program(x, y, k, flag, mode):",
        *(_block(r, 2, INDENT) if seed < CATCHING else _catching(r)),
        f"{INDENT}return {result}",
    ]) + "\n"  # fmt: skip


@functools.singledispatch
def kind(value: Any) -> str:
    """What dispatches on the class of a value."""
    return "other"


@kind.register
def _(value: int) -> str:
    return "int"


def program_of(seed: int) -> Callable[..., Any]:
    """The function, and its source where messages look for it."""

    def scaled(v: Any, by: Any) -> Any:
        return v * by if closed == 2 else v

    closed = 2 if seed % 3 else 3
    space = {
        "np": np, "cr": cr, "math": math, "rows": lambda v: v.shape[0], "scaled": scaled,
        "closed": closed, "numbers": [0.5, 2.0, 1.5], "act": np.sin if seed % 2 else np.cos,
        "abc_numbers": numbers, "contextlib": contextlib, "json": json, "statistics": statistics,
        "kind": kind, "options": {"depth": seed % 4, "bias": 0.25}, "functools": functools,
        "__name__": "program_of_a_user",
    }  # fmt: skip
    source, name = source_of(seed), f"<random program {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), space)
    return space["program"]  # type: ignore[return-value]

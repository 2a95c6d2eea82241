"""Random small functions that decide by shapes, integers, static values, closures and containers.

Each is Python source with `x: (n, 3)`, `y: (m, 3)`, an integer `k`, and the static `flag` and
`mode`; NumPy runs it as it is.
"""

from __future__ import annotations

import linecache
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr

INDENT = "    "


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


def source_of(seed: int) -> str:
    """The source of a program."""
    r = random.Random(seed)
    result = r.choice([
        "np.sum(x)", "x", "np.mean(x, axis=0)", "{'x': x, 'k': k * 2}", "(np.sum(x), [x[0], k])",
        "np.squeeze(x)", "np.sum(x) / x.shape[0]", "x * x.shape[0]", "np.sum(x) if flag else x",
        "(np.max(x), x.shape[0])",
    ])  # fmt: skip
    return "\n".join([
        "def program(x, y, k, flag, mode):",
        *_block(r, 2, INDENT),
        f"{INDENT}return {result}",
    ]) + "\n"  # fmt: skip


def program_of(seed: int) -> Callable[..., Any]:
    """The function, and its source where messages look for it."""

    def scaled(v: Any, by: Any) -> Any:
        return v * by if closed == 2 else v

    closed = 2 if seed % 3 else 3
    space = {
        "np": np, "cr": cr, "math": math, "rows": lambda v: v.shape[0], "scaled": scaled,
        "closed": closed, "numbers": [0.5, 2.0, 1.5], "act": np.sin if seed % 2 else np.cos,
        "options": {"depth": seed % 4, "bias": 0.25}, "functools": __import__("functools"),
        "__name__": "program_of_a_user",
    }  # fmt: skip
    source, name = source_of(seed), f"<random program {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, name, "exec"), space)
    return space["program"]  # type: ignore[return-value]

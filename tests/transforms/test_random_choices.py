"""Random programs of selects, sorts, indices, sums and loops around functions with infinite slopes.

The referee goes through the program number by number, and looks only at what is used.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from jets import SLOPES, Jet

import chainrule as cr

N = 5
POINTS = (-2.5, -1.0, -0.7, 0.0, 0.2, 0.5, 0.9, 1.7, 3.0)
SMOOTH = ("tanh", "exp", "negative", "square", "sin")
STEEP = tuple(name for name in SLOPES if name not in SMOOTH)
SELECTS = ("relu", "absolute", "clip", "positive", "below_one", "known", "at_least")
PAIRS = ("add", "multiply", "maximum", "minimum", "where", "unless", "choose", "fmax")
MOVES = ("sort", "reverse", "take", "join", "roll", "set", "cumsum", "accumulate", "spread")
MOVES += ("largest", "total", "product", "length", "mixed", "solved")
LOOPS = ("mapped", "mapped_where", "carried", "branch", "branch_where", "repeated", "batched")
MATRIX = np.array([[3.0 if i == j else 1 / (2 + i + 2 * j) for j in range(N)] for i in range(N)])
WEIGHTS = np.array([1.0, -0.5, 2.0, 0.7, -1.3])

# A program is a nested tuple: an operation, its operands, and for a loop the name of what it does.


def program(rng: random.Random, depth: int) -> Any:
    if depth == 0:
        return "x" if rng.random() < 0.85 else rng.choice([0.0, 0.5, 1.0])
    kinds = [SMOOTH, STEEP, STEEP, SELECTS, SELECTS, PAIRS, PAIRS, MOVES, MOVES, LOOPS]
    kind = rng.choice(kinds)
    name = rng.choice(kind)
    operands = [program(rng, rng.randint(0, depth - 1)) for _ in range(2 if kind is PAIRS else 1)]
    if name == "repeated":
        operands = ["x"]  # what is masked in a while loop is not known of what it begins with
    return (name, *operands, *([rng.choice(SMOOTH + STEEP + STEEP)] if kind is LOOPS else []))


NUMPY = {
    "square": lambda a: a**2,
    "reciprocal": lambda a: 1 / a,
    "root": lambda a: a**0.5,
    "power": lambda a: a**1.3,
    "inverse_root": lambda a: a**-1.5,
}


def within(t: Any) -> Any:
    """Where nothing is singular: what a loop carries may not be NaN."""
    return (t > 0.3) & (t < 0.95)


def function(name: str) -> Any:
    return NUMPY.get(name) or getattr(np, name)


def in_numpy(one: Any, x: Any) -> Any:
    """The program on arrays: everything is computed."""
    if not isinstance(one, tuple):
        return x if one == "x" else np.full(N, one, x.dtype)
    name, a = one[0], in_numpy(one[1], x)
    f: Any = function(one[2]) if name in LOOPS else None
    b: Any = in_numpy(one[2], x) if name in PAIRS else None
    match name:
        case "relu":
            return cr.relu(a)
        case "clip":
            return np.clip(a, -1, 1)
        case "positive":
            return np.where(a > 0, a, 0.5)
        case "below_one":
            return np.where(a >= 1, 0, a)
        case "known":
            return np.nan_to_num(a, nan=0.0, posinf=2.0, neginf=-2.0)
        case "at_least":
            return np.maximum(a, 0.1)
        case "where":
            return np.where(x > 0.1, a, b)
        case "unless":
            return np.where(a > b, b, 2 * a)
        case "choose":
            return np.choose([0, 1, 1, 0, 1], [a, b])
        case "add" | "multiply" | "maximum" | "minimum" | "fmax":
            return getattr(np, name)(a, b)
        case "sort":
            return np.sort(a)
        case "reverse":
            return a[::-1]
        case "take":
            return a[np.array([1, 3, 1, 4, 4])]
        case "join":
            return np.concatenate([a[2:], np.full(2, 0.5, a.dtype)])
        case "roll":
            return np.roll(a, 2)
        case "set":
            return cr.at(a)[1:3].set(0.0)
        case "cumsum":
            return np.cumsum(a)
        case "accumulate":
            return np.maximum.accumulate(a)
        case "spread":
            return a[2] + np.zeros(N, x.dtype)
        case "largest":
            return np.max(a) + np.zeros(N, x.dtype)
        case "total":
            return np.sum(a[1:4]) * np.ones(N, x.dtype)
        case "product":
            return np.prod(a) * np.ones(N, x.dtype)
        case "length":
            return cr.norm(a) * np.ones(N, x.dtype)
        case "mixed":
            return MATRIX.astype(x.dtype) @ a
        case "solved":
            return np.linalg.solve(MATRIX.astype(x.dtype), a)
        case "mapped":
            return cr.scan(lambda c, t: (c, f(t)), np.sum(x) * 0, a)[1]
        case "mapped_where":
            return cr.scan(lambda c, t: (c, np.where(t > 0.3, f(t), 1)), np.sum(x) * 0, a)[1]
        case "carried":
            more = lambda c, t: (np.where(within(t), c + f(t), c), c)  # noqa: E731
            return cr.scan(more, np.zeros((), x.dtype), a)[1]
        case "branch":
            return cr.cond(x[0] > 0, f, lambda t: t * 2, a)
        case "branch_where":
            return cr.cond(x[0] > 0, lambda t: np.where(t > 0.3, f(t), 1), lambda t: t * 2, a)
        case "repeated":
            more = lambda s: (s[0] + 1, np.where(within(s[1]), f(s[1]), 0.4))  # noqa: E731
            return cr.while_loop(lambda s: s[0] < 2, more, (0, a), max_steps=4)[1]
        case "batched":
            return cr.vmap(lambda t: cr.cond(t > 0.3, f, lambda t: t * 2, t))(a)
    return function(name)(a)


def chosen(a: Jet, border: float, first: Jet, second: Jet) -> Jet:
    """The first where a > border, else the second; no derivative on the border."""
    found = first if a.value > border else second
    return found.at_a_kink(N) if a.value == border and a.slope is not None else found


def larger(a: Jet, b: Jet, sign: int = 1) -> Jet:
    if np.isnan(a.value + b.value):
        return Jet(np.nan)
    if a.value == b.value:
        return a if a.slope is b.slope is None else a.at_a_kink(N)
    return a if (a.value > b.value) == (sign > 0) else b


def taken(one: Any, x: Sequence[Jet]) -> list[Jet]:
    """The program number by number."""
    if not isinstance(one, tuple):
        return list(x) if one == "x" else [Jet(one)] * N
    name, a = one[0], taken(one[1], x)
    f: Any = (lambda t: t.through(SLOPES[one[2]])) if name in LOOPS else None
    if name in PAIRS:
        return [
            pair(name, i, p, q, x) for i, (p, q) in enumerate(zip(a, taken(one[2], x), strict=True))
        ]
    if name in SLOPES:
        return [t.through(SLOPES[name]) for t in a]
    if name in SELECTS:
        return [selected(name, t) for t in a]
    zero, half, one_ = Jet(0.0), Jet(0.5), Jet(1.0)
    match name:
        case "sort":
            values = [t.value for t in a]
            moving = [t for t in a if t.slope is not None]
            if len({t.value for t in a}) < N and moving:
                a = [t.at_a_kink(N) if values.count(t.value) > 1 else t for t in a]
            return [a[i] for i in np.argsort(values)]
        case "reverse":
            return a[::-1]
        case "take":
            return [a[i] for i in (1, 3, 1, 4, 4)]
        case "join":
            return [*a[2:], half, half]
        case "roll":
            return [*a[-2:], *a[:-2]]
        case "set":
            return [a[0], zero, zero, *a[3:]]
        case "cumsum":
            return [total(a[: i + 1]) for i in range(N)]
        case "accumulate":
            found = [a[0]]
            for t in a[1:]:
                found.append(larger(found[-1], t))
            return found
        case "spread":
            return [a[2]] * N
        case "largest":
            found = a[0]
            for t in a[1:]:
                found = larger(found, t)
            return [found] * N
        case "total":
            return [total(a[1:4])] * N
        case "product":
            found = a[0]
            for t in a[1:]:
                found = found * t
            return [found] * N
        case "length":
            return [total([t * t for t in a]).through(SLOPES["sqrt"])] * N
        case "mixed":
            return [total([t * Jet(w) for t, w in zip(a, row, strict=True)]) for row in MATRIX]
        case "solved":
            inverse = np.linalg.inv(MATRIX)
            return [total([t * Jet(w) for t, w in zip(a, row, strict=True)]) for row in inverse]
        case "mapped":
            return [f(t) for t in a]
        case "mapped_where":
            return [chosen(t, 0.3, f(t), one_) for t in a]
        case "carried":
            found, c = [], zero
            for t in a:
                found.append(c)
                c = chosen(t, 0.3, chosen(t, 0.95, c, c + f(t)), c)
            return found
        case "branch":
            return [f(t) if x[0].value > 0 else t + t for t in a]
        case "branch_where":
            return [chosen(t, 0.3, f(t), one_) if x[0].value > 0 else t + t for t in a]
        case "repeated":
            for _ in range(2):
                other = Jet(0.4)
                a = [chosen(t, 0.3, chosen(t, 0.95, other, f(t)), other) for t in a]
            return a
        case "batched":
            return [chosen(t, 0.3, f(t), t + t) for t in a]
    raise AssertionError(name)


def total(a: Sequence[Jet]) -> Jet:
    found = a[0]
    for t in a[1:]:
        found = found + t
    return found


def selected(name: str, a: Jet) -> Jet:
    minus = Jet(-1.0)
    match name:
        case "relu":
            return a if np.isnan(a.value) else chosen(a, 0.0, a, Jet(0.0))
        case "absolute":
            return a if np.isnan(a.value) else chosen(a, 0.0, a, a * minus)
        case "clip":
            return larger(larger(a, minus), Jet(1.0), -1)
        case "positive":
            return chosen(a, 0.0, a, Jet(0.5))
        case "below_one":
            if a.value == 1:
                return Jet(0.0).at_a_kink(N)
            return Jet(0.0) if a.value > 1 else a
        case "known":
            return a if np.isfinite(a.value) else Jet(np.nan_to_num(a.value, posinf=2, neginf=-2))
        case "at_least":
            return larger(a, Jet(0.1))
    raise AssertionError(name)


def pair(name: str, i: int, a: Jet, b: Jet, x: Sequence[Jet]) -> Jet:
    match name:
        case "add":
            return a + b
        case "multiply":
            return a * b
        case "maximum" | "minimum":
            return larger(a, b, 1 if name == "maximum" else -1)
        case "fmax":
            if np.isnan(a.value) or np.isnan(b.value):
                return b if np.isnan(a.value) else a
            return larger(a, b)
        case "where":
            return a if x[i].value > 0.1 else b
        case "choose":
            return a if i in (0, 3) else b
        case "unless":
            if a.value == b.value:
                return (a + a).at_a_kink(N)
            return b if a.value > b.value else a + a
    raise AssertionError(name)


def referee(one: Any, x: np.ndarray) -> Jet | None:
    """The weighted sum of the results; None where a derivative does not exist."""
    given = [Jet(v, np.eye(N)[i], np.zeros((N, N))) for i, v in enumerate(x)]
    found = total([t * Jet(w) for t, w in zip(taken(one, given), WEIGHTS, strict=True)])
    if found.slope is None:
        found = Jet(found.value, np.zeros(N), np.zeros((N, N)))
    parts = np.concatenate([[found.value], found.slope, found.bend.ravel()])
    return found if np.isfinite(parts).all() and np.abs(parts).max() < 1e4 else None


def check(seed: int, tries: int = 6) -> int:
    """Compares derivatives of one program; at how many points."""
    rng = random.Random(seed)
    one = program(rng, 4)
    count = 0
    for _ in range(tries):
        x = np.array(rng.sample(POINTS, N))
        wanted = referee(one, x)
        if wanted is None:
            continue
        count += 1
        compare(one, x, wanted, seed)
        if count == 2:
            break
    return count


def compare(one: Any, x: np.ndarray, wanted: Jet, seed: int) -> None:
    def f(x: Any) -> Any:
        return np.sum(in_numpy(one, x) * WEIGHTS.astype(x.dtype))

    scale = max(1.0, np.abs(wanted.slope).max(), np.abs(wanted.bend).max())

    def close(found: Any, right: Any, what: str, rtol: float = 1e-8) -> None:
        np.testing.assert_allclose(
            found, right, rtol=rtol, atol=rtol * scale, err_msg=f"{what} of {seed}: {one} at {x}"
        )

    graph = cr.backward(cr.trace(f, x), wrt="x")
    for executor in ("reference", "native"):
        run = graph.run(x=x, executor=executor)
        close(run[graph.outputs[0][0]], wanted.value, executor)
        close(run[graph.outputs[1][0]], wanted.slope, executor)
    v = np.linspace(1, 2, N)
    close(cr.jvp(f, (x,), (v,))[1], wanted.slope @ v, "jvp")
    close(cr.jvp(cr.grad(f), (x,), (v,))[1], wanted.bend @ v, "jvp of grad")
    close(cr.jacrev(cr.grad(f))(x), wanted.bend, "grad of grad")
    close(cr.jacrev(cr.jacfwd(f))(x), wanted.bend, "reverse over forward")
    close(cr.jacfwd(cr.jacfwd(f))(x), wanted.bend, "forward over forward")
    narrow = x.astype(np.float32)
    if (narrow == x).all():
        close(cr.grad(f)(narrow), wanted.slope, "float32", 2e-3)


@pytest.mark.parametrize("name", SLOPES)
def test_the_slopes_of_the_referee_are_finite_differences(name: str) -> None:
    f, h = SLOPES[name], 1e-5
    for x in (0.3, 0.6):
        _, first, second = f(np.float64(x))
        after, before = f(np.float64(x + h)), f(np.float64(x - h))
        np.testing.assert_allclose(first, (after[0] - before[0]) / (2 * h), rtol=1e-8)
        np.testing.assert_allclose(second, (after[1] - before[1]) / (2 * h), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(8), id="few"),
        pytest.param(range(1000, 1060), id="many", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.filterwarnings("ignore:.*encountered")
def test_derivatives_are_those_of_what_is_used(seeds: range) -> None:
    with np.errstate(all="ignore"):
        assert sum(check(seed) for seed in seeds) > len(seeds)

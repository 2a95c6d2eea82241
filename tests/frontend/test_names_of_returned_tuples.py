"""What helper functions return in tuples and lists takes the names of the caller's targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr

X = np.arange(1.0, 5.0)


def stats(a):
    mean = np.mean(a)
    var = np.mean((a - mean) ** 2)
    y = (a - mean) / np.sqrt(var)
    return (mean, var), y


def make(a, w):
    z = a * w
    h = np.tanh(z)
    return z, h


def three(a):
    p, q, r = a + 1, a + 2, a + 3
    return [p, q, r]


def some(a, both):
    u = a * 2
    if both:
        v = a * 3
        return u, v
    return u


def through(a):
    z, h = make(a, 2.0)
    return h, z


def yielding(a):
    for i in range(2):
        part = a * i
        yield part


def names_of(program: Any) -> dict[str, str]:
    """Every name of the program's graph, with the first name of the same value."""
    graph = cr.trace(program, X)
    return {name: graph.name_of[node] for name, node in graph.names.items()}


def unpacked(x):
    W, b = make(x, 2.0)
    return W + b


def nested(x):
    (mean, var), y = stats(x)
    return mean + var + y


def starred(x):
    first, *rest = three(x)
    return first + rest[0] + rest[1]


def kept(x):
    pair = make(x, 2.0)
    return pair[0] + pair[1]


def comprehended(x):
    moved = x + 1
    pairs = [make(w, 2.0) for w in (x, moved)]
    return pairs[0][0] + pairs[1][1]


def branches(x):
    s, t = some(x, True)
    u = some(t, False)
    return s + u


def passed_on(x):
    m, n = through(x)
    return m + n


def into_entries(x):
    d: Any = {}
    d["z"], d["h"] = make(x, 2.0)
    return d["z"] + d["h"]


def unwanted(x):
    _, h = make(x, 2.0)
    return h


def looped(x):
    s = x
    for z, h in [make(w, 2.0) for w in (x, -x)]:
        s = s + z + h
    return s


def generated(x):
    s = x
    for g in yielding(x):
        s = s + g
    a, b = (s * c for c in (1.0, 2.0))
    return a + b


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (unpacked, {"make.z": "W", "make.h": "b"}),
        (nested, {"stats.mean": "mean", "stats.var": "var", "stats.y": "y"}),
        (starred, {"three.p": "first", "three.q": "rest[0]", "three.r": "rest[1]"}),
        (kept, {"make.z": "pair[0]", "make.h": "pair[1]"}),
        (comprehended, {"make.z": "pairs[0][0]", "make_1.h": "pairs[1][1]"}),
        (branches, {"some.u": "s", "some.v": "t", "some_1.u": "u"}),
        (passed_on, {"through.make.z": "n", "through.h": "m", "through.z": "n"}),
        (into_entries, {"make.z": "d.z", "make.h": "d.h"}),
        (unwanted, {"make.z": "make.z", "make.h": "h"}),
        (looped, {"make.z": "make.z", "make_1.h": "make_1.h"}),
        (generated, {"yielding.part": "yielding.part", "a": "a", "b": "b"}),
    ],
)
def test_values_take_the_names_of_the_callers_targets(program, expected) -> None:
    found = names_of(program)
    assert {name: found.get(name) for name in expected} == expected
    graph = cr.trace(program, X)
    assert np.allclose(graph.run(x=X).outputs, program(X))

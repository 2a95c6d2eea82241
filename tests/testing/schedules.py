"""Small programs, their schedules written by hand, and how to change these."""

from dataclasses import replace

import numpy as np

import chainrule as cr
from chainrule import float32, int64
from chainrule.schedule.records import SCRATCH, Buffer, Compute, Free, Schedule, View


def step(x: float32[4, 4], W: float32[4, 4]):
    z = x @ W
    h = np.tanh(z)
    xT = x.T
    g = xT @ h
    W_next = W - 0.5 * g
    return h, W_next


GRAPH = cr.trace(step)
X, W, Z, H, XT, G, W_NEXT = (GRAPH[name] for name in ("x", "W", "z", "h", "xT", "g", "W_next"))
HALF = next(node for node in GRAPH.nodes if node.primitive.name == "multiply")
NBYTES = 64  # of every value: 4 × 4 of float32


def scratch(offset, nbytes=NBYTES):
    return Buffer(SCRATCH, offset, nbytes)


def array(name, nbytes=NBYTES):
    return Buffer(name, 0, nbytes)


MAKE_Z = Compute((Z,), (scratch(0),), reads=(X, W), label="matmul")
MAKE_H = Compute((H,), (scratch(64),), reads=(Z,), label="tanh")
FREE_Z = Free(Z)
MAKE_G = Compute((G,), (scratch(0),), reads=(X, H), label="matmul")  # x.T is read through
UPDATE = Compute(
    (W_NEXT,),
    (array("W"),),
    reads=(W, G),
    inner=(HALF,),
    in_place=((W_NEXT, W),),
    label="sgd",
)
FREE_G = Free(G)
VIEW = View(XT, X, 0, (4, 16))
GIVEN = {X: array("x"), W: array("W")}


def schedule(*instructions, **changes):
    """A schedule of the step with two places in scratch, and whatever else is said."""
    plain = Schedule(GRAPH, instructions, GIVEN, (H, W_NEXT), {W: W_NEXT}, 2 * NBYTES)
    return replace(plain, **changes)


PLAIN = (MAKE_Z, MAKE_H, FREE_Z, MAKE_G, UPDATE, FREE_G)


def plain(replaced=None, **changes):
    """The plain schedule, in which the instructions at some numbers are replaced by others."""
    instructions = []
    for number, instruction in enumerate(PLAIN):
        found = (replaced or {}).get(number, (instruction,))
        instructions += found if isinstance(found, tuple) else (found,)
    return schedule(*instructions, **changes)


def rows(a: float32[8, 8], k: int64[8]):
    b = np.tanh(a)
    bT = b.T
    flat = bT.reshape(64)
    s = b + bT
    e = np.exp(b)
    u = np.sum(e, axis=1)
    p = e / u[:, None]
    c = b - b[:, :1]
    f = b - b[:1]
    q = b[:4].astype("float64")
    above = b - cr.cross_entropy(b, k, reduction="none")[:, None]
    shuffled = b - b[k]
    alike = cr.stop_gradient(b) * 2
    lower = b[4:]
    first = b[:1]
    return s, p, c, f, q, above, shuffled, alike, flat, lower, first


ROWS = cr.trace(rows)


def in_place_of_b(result, into=None, before=(), **reading):
    """A schedule of `rows` that computes one result in place of b, all else on the way."""
    a, k, b, node = ROWS["a"], ROWS["k"], ROWS["b"], ROWS[result]
    place = scratch(0, 256)
    make_b = Compute((b,), (place,), reads=(a,), label="tanh")
    inner = [n for n in ROWS.nodes if n.inputs and n not in (b, node)]
    defaults = {"reads": (b, k), "inner": tuple(inner), "in_place": ((node, b),), "fails": True}
    reading = {**defaults, **reading}
    put = Compute((node,), (into or place,), label="rows", **reading)
    return Schedule(
        ROWS, (make_b, *before, put), {a: array("a", 256), k: array("k")}, (node,), {}, 512
    )


def picks(W: float32[4, 4], k: int64[4], f: float32[4]):
    m = f.astype("int64")
    p = W[k]
    q = W[m]
    W_next = W - p - q
    last = W_next[k]
    fewer = W_next[:3][k]
    late = W_next[m]
    return W_next, last, fewer, late


PICKS = cr.trace(picks)


def picked(result, fails=False):
    """A schedule of `picks`: elements of W are taken twice, W is updated, some are taken again."""
    W, k, f, m, p, q, new, node = (
        PICKS[n] for n in ("W", "k", "f", "m", "p", "q", "W_next", result)
    )
    inner = tuple(one for one in PICKS.nodes if one.primitive.name == "subtract" and one is not new)
    shown = tuple(one for one in PICKS.nodes if one.primitive.name in ("slice", "full"))
    place = array("W", 64)
    take = Compute((p, q), (scratch(0), scratch(64)), (W, k, f), (m,), fails=True, label="take")
    update = Compute((new,), (place,), (W, p, q), inner, None, ((new, W),), label="sgd")
    buffer = scratch(128, int(node.type.nbytes))
    again = Compute((node,), (buffer,), (new, k, f), (m, *shown), fails=fails, label="again")
    given = {W: place, k: array("k", 32), f: array("f", 16)}
    return Schedule(PICKS, (take, update, again), given, (new,), {W: new}, 192)

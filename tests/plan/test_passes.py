"""Each pass of the planner, by the schedule without it and the schedule with it.

Names of values are those of the graph's text; `@ 512` is an offset in scratch memory.  Second lives
are in `test_rematerialise.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, int64
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.plan import choose_stored, order, planner, storage
from chainrule.plan.loops import fuse
from chainrule.plan.products.fold import ONE, Products
from chainrule.plan.roles import Role
from chainrule.schedule.names_in_messages import Wording
from chainrule.schedule.placement import place
from chainrule.schedule.records import SCRATCH, Compute, Free
from chainrule.testing import simulate

Patch = Callable[[pytest.MonkeyPatch], None]


def schedule_of(graph: Graph, overwrites: dict[Node, Node] | None = None) -> str:
    """The schedule that is planned for a graph, a line for each instruction."""
    results = [node for _, node in graph.outputs]
    made = planner.plan(graph, results, overwrites, threads=1, vector_nbytes=32)
    simulate(made.schedule)
    name = Wording(made.schedule).name
    lines = []
    for one in made.schedule.instructions:
        if isinstance(one, Compute):
            places = [f" @ {b.offset}" if b.arena == SCRATCH else "" for b in one.into]
            written = [name(node) + at for node, at in zip(one.nodes, places, strict=True)]
            lines.append(f"{one.label}: {', '.join(map(name, one.reads))} -> {', '.join(written)}")
        elif isinstance(one, Free):
            lines.append(f"free {name(one.node)}")
    return "\n".join([*lines, f"{made.schedule.scratch_nbytes} bytes"])


# Programs, one for each pass: what it does is all that differs.


def elementwise() -> Graph:
    def f(x: Any) -> Any:
        h = np.tanh(x)
        y = np.sum(h), np.max(h)
        return y

    return cr.trace(f, x=float32[8, 32])


def scaled_sum() -> Graph:
    def f(x: Any, W: Any, u: Any, V: Any) -> Any:
        y = 2 * (x @ W) - u @ V
        return y

    return cr.trace(f, x=float32[8, 16], W=float32[16, 4], u=float32[8, 6], V=float32[6, 4])


def cheap_twice() -> Graph:
    def f(x: Any, w: Any) -> Any:
        h = x * 2 + 1
        a = np.sum(h, axis=0)
        y = np.sum((h - a) * w)
        return y

    return cr.trace(f, x=float32[8, 32], w=float32[8, 32])


def two_branches() -> Graph:
    def f(x: Any, W: Any, V: Any) -> Any:
        a = x @ W
        b = x @ V
        y = np.sum(a @ a.T, axis=1) + np.sum(b @ b.T, axis=1)
        return y

    return cr.trace(f, x=float32[8, 8], W=float32[8, 64], V=float32[8, 64])


def one_after_another() -> Graph:
    def f(x: Any, W: Any) -> Any:
        for _ in range(4):
            x = x @ W
        return x

    return cr.trace(f, x=float32[8, 8], W=float32[8, 8])


def heads() -> Graph:
    def f(a: Any, v: Any, W: Any) -> Any:
        y = np.reshape(np.transpose(a @ v, (1, 0, 2)), (8, 12)) @ W
        return y

    return cr.trace(f, a=float32[3, 8, 8], v=float32[3, 8, 4], W=float32[12, 12])


def widened_late() -> Graph:
    def f(x: Any, W: Any) -> Any:
        h = np.tanh(x.astype(np.float32))
        a = np.tanh(x.astype(np.float32) @ W)
        b = np.tanh(a @ W)
        y = h.T @ b
        return y

    return cr.trace(f, x=cr.bfloat16[64, 32], W=float32[32, 32])


# The planner without each pass.


def small_nests(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fuse, "LARGEST", 1)


def no_folding(patch: pytest.MonkeyPatch) -> None:
    def each(graph: Graph, roles: Any, *_: Any) -> dict[Node, Products]:
        found = [node for node in graph.nodes if roles[node] is Role.PRODUCT]
        return {node: Products(node, ((node, ONE),)) for node in found}

    patch.setattr(planner, "folded_products", each)


def all_stored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choose_stored, "_again", lambda *_: False)


def as_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planner, "orders", lambda *_: iter(()))


def side_by_side(patch: pytest.MonkeyPatch) -> None:
    def apart(requests: Any, seconds: float) -> Any:
        found = place.place(requests)
        offsets, end = [], 0
        for one in requests:
            offsets.append(end)
            end += one.nbytes + -one.nbytes % 64
        return replace(found, offsets=tuple(offsets), nbytes=end)

    patch.setattr(storage, "_placed", apart)


def rows_always(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(planner, "product_layouts", lambda *_: {})


def wide_at_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(order.Ordering, "_is_early", lambda *_: False)


CASES: dict[str, tuple[Callable[[], Graph], Patch, str, str]] = {
    "elementwise": (
        elementwise,
        small_nests,
        """
tanh sum: x -> y[0]
tanh max: x -> y[1]
0 bytes
""",
        """
tanh sum max: x -> y[0], y[1]
0 bytes
""",
    ),
    "scaled_sum": (
        scaled_sum,
        no_folding,
        """
product: x, W -> %1
product: u, V -> %3 @ 0
multiply subtract: %3, %1 -> y
free %3
128 bytes
""",
        """
2 products: x, W, u, V -> y
0 bytes
""",
    ),
    "cheap_twice": (
        cheap_twice,
        all_stored,
        """
multiply add sum: x -> h @ 0, a @ 1024
subtract multiply sum: w, a, h -> y
free h
free a
1152 bytes
""",
        """
multiply add sum: x -> a @ 0
multiply add subtract sum: w, a, x -> y
free a
128 bytes
""",
    ),
    "two_branches": (
        two_branches,
        as_written,
        """
product: x, W -> a @ 4352
product: x, V -> b @ 0
product: a -> %1 @ 2048
free a
sum: %1 -> %2
free %1
product: b -> %4 @ 2048
free b
sum add: %4, %2 -> y
free %4
6400 bytes
""",
        """
product: x, W -> a @ 2304
product: a -> %1 @ 2048
free a
sum: %1 -> %2
free %1
product: x, V -> b @ 0
product: b -> %4 @ 2048
free b
sum add: %4, %2 -> y
free %4
4352 bytes
""",
    ),
    "one_after_another": (
        one_after_another,
        side_by_side,
        """
product: x, W -> x_1 @ 0
product: x_1, W -> x_2 @ 256
free x_1
product: x_2, W -> x_3 @ 512
free x_2
product: x_3, W -> x_4
free x_3
768 bytes
""",
        """
product: x, W -> x_1 @ 256
product: x_1, W -> x_2 @ 0
free x_1
product: x_2, W -> x_3 @ 256
free x_2
product: x_3, W -> x_4
free x_3
512 bytes
""",
    ),
    "heads": (
        heads,
        rows_always,
        """
product: a, v -> %0 @ 0
reshape: %0 -> %2 @ 384
free %0
product: %2, W -> y
free %2
768 bytes
""",
        """
product: a, v -> %0 @ 0
product: %0, W -> y
free %0
384 bytes
""",
    ),
    "widened_late": (
        widened_late,
        wide_at_once,
        """
cast tanh: x -> h @ 0
product: x, W -> %2 @ 8192
tanh: %2 -> a @ 8192
product: a, W -> %3 @ 16384
free a
tanh: %3 -> b @ 16384
product: h, b -> y
free h
free b
24576 bytes
""",
        """
product: x, W -> %2 @ 8192
tanh: %2 -> a @ 8192
product: a, W -> %3 @ 0
free a
tanh: %3 -> b @ 0
cast tanh: x -> h @ 8192
product: h, b -> y
free b
free h
16384 bytes
""",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_pass_changes_the_schedule_to_this(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, without, before, after = CASES[case]
    assert schedule_of(program()) == after.strip()
    without(monkeypatch)
    assert schedule_of(program()) == before.strip()


def test_an_update_takes_the_bytes_of_its_parameter_in_the_call_of_the_product() -> None:
    def f(W: Any, x: Any, g: Any) -> Any:
        W_next = 0.9 * W - 0.1 * (x.T @ g)
        return W_next

    graph = cr.trace(f, W=float32[16, 4], x=float32[8, 16], g=float32[8, 4])
    apart = "product: x, g -> %5\nmultiply subtract: %5, W -> W_next\n0 bytes"
    assert schedule_of(graph) == apart
    taken = {graph.inputs[0].node: graph.outputs[0][1]}
    assert schedule_of(graph, taken) == "product: x, g, W -> W_next\n0 bytes"


def test_an_update_is_one_with_the_scatter_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(E: Any, ids: Any, g: Any) -> Any:
        y = np.sum(E[ids] * g)
        return y

    graph = cr.trace(f, E=float32[600, 8], ids=int64[30], g=float32[30, 8])
    step = cr.training_step(graph, wrt="E", optimizer=cr.sgd(0.1)).graph
    taken = {step["E"]: step["E_next"]}
    one = "scatter_add, cast multiply subtract: g, ids, learning_rate, E -> E_next\n3648 bytes"
    assert schedule_of(step, taken).endswith(one)
    monkeypatch.setattr(planner, "with_touched_rows", lambda made, *_: made)
    apart = """
scatter_add: g, ids -> dy/dE @ 0
cast multiply subtract: dy/dE, learning_rate, E -> E_next
free dy/dE
19200 bytes"""
    assert schedule_of(step, taken).endswith(apart)

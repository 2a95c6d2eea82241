"""Nests whose vectors hold rows compute what the reference does, whole groups and parts."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from emitted import TARGETS, VECTORS
from executing import compare, inputs_of, native, planned

import chainrule as cr
from chainrule.execute.native.plan_to_ir import row_tiles
from chainrule.graph.graph import Graph
from chainrule.plan.loops import row_lanes
from chainrule.plan.loops.nest import NestLayout
from chainrule.plan.work import NestWork

pytestmark = pytest.mark.usefixtures("fences")
TOLERANCES = {"float32": 3e-6, "float64": 1e-14}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors hold rows wherever they can."""
    monkeypatch.setattr(row_lanes, "_of_columns", lambda nest, lanes: math.inf)


def loss(x: Any, labels: Any) -> Any:
    return cr.cross_entropy(x, labels)


def normalized(x: Any, y: Any) -> Any:
    return np.sum(cr.layer_norm(x) * y) + np.sum(np.max(np.tanh(x * y), axis=-1) ** 2)


def mixture(x: Any, means: Any, weights: Any) -> Any:
    z = (x[:, None, :] - means) * np.exp(-means) / 4
    return np.mean(cr.logsumexp(weights - np.sum(z * z, axis=-1), axis=-1))


def largest(x: Any, y: Any) -> Any:
    """The place of the largest element of each row, where another array is read."""
    place = np.argmax(x * 2, axis=-1)
    return np.sum(np.exp(y)[np.arange(len(x)), place] * np.log(np.sum(np.exp(y), axis=-1)))


def pooled(x: Any, weights: Any) -> Any:
    """Windows of two by two: the columns of a row are not one after another."""
    n, d = x.shape
    windows = x.reshape(n, d // 2, 2)
    return np.sum(np.tanh(np.max(windows, axis=(0, 2) if n < 3 else 2)) * weights[: d // 2])


def masked(x: Any, y: Any) -> Any:
    return np.sum(np.where(np.any(x > y, axis=-1), np.exp(np.sum(x, axis=-1)), 1.0))


def arrays(rows: int, columns: int, dtype: Any) -> dict[str, np.ndarray]:
    random = np.random.default_rng(rows * 100 + columns)
    found = {name: random.normal(size=(rows, columns)).astype(dtype) for name in ("x", "y")}
    found["means"] = random.normal(size=(5, columns)).astype(dtype)
    found["weights"] = random.normal(size=5).astype(dtype)
    return {**found, "labels": random.integers(0, columns, rows)}


def graph_of(function: Any, rows: int, columns: int, dtype: Any = np.float32) -> Any:
    """The function with its gradients, and arguments for it."""
    known = arrays(rows, columns, dtype)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    given = {name: known[name] for name in names}
    wrt = [name for name in names if given[name].dtype.kind == "f"]
    return cr.backward(cr.trace(function, **given), wrt=wrt), given


def results_of(graph: Graph) -> list[Any]:
    return [node for _, node in graph.outputs]


def layouts(graph: Graph, **options: Any) -> list[NestLayout]:
    works = planned(graph, results_of(graph), **options).works
    return [one for work in works if isinstance(work, NestWork) for one in work.layouts]


@pytest.mark.usefixtures("always")
@pytest.mark.sweep(5)
@pytest.mark.parametrize("target", VECTORS)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("rows, columns", [(4, 10), (9, 2), (16, 3), (19, 5), (33, 8), (50, 17)])
@pytest.mark.parametrize("function", [loss, normalized, mixture, largest, masked])
def test_lanes_of_rows_have_the_references_values(
    function: Any, rows: int, columns: int, dtype: str, target: str
) -> None:
    graph, given = graph_of(function, rows, columns, dtype)
    assert any(one.lanes for one in layouts(graph, target=TARGETS[target]))
    inputs, keep = inputs_of(graph, given), results_of(graph)
    compare(graph, inputs, keep, TOLERANCES[dtype], target=TARGETS[target])


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("target", VECTORS)
@pytest.mark.parametrize("rows, columns", [(8, 6), (20, 10)])
def test_windows_in_lanes_of_rows(rows: int, columns: int, target: str) -> None:
    graph, given = graph_of(pooled, rows, columns)
    assert any(one.lanes for one in layouts(graph, target=TARGETS[target]))
    compare(graph, inputs_of(graph, given), results_of(graph), 3e-6, target=TARGETS[target])


@pytest.mark.parametrize("kind", ["NaN", "inf", "-inf", "all -inf"])
def test_what_is_no_number_stays_in_its_row(kind: str) -> None:
    graph, given = graph_of(loss, 21, 10)
    if kind == "all -inf":
        given["x"][7] = -np.inf
    else:
        given["x"][7, 3] = float(kind)
    compare(graph, inputs_of(graph, given), results_of(graph), 3e-6)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("rows", [40, 41, 47])
@pytest.mark.parametrize("function", [loss, normalized, mixture])
def test_threads_share_groups_of_rows(
    function: Any, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chainrule.plan.sharing.WORTH_SHARING", 0.0)
    graph, given = graph_of(function, rows, 10)
    assert any(one.lanes and one.parts > 1 for one in layouts(graph, threads=3))
    compare(graph, inputs_of(graph, given), results_of(graph), 3e-6, threads=3)


def test_a_row_has_the_same_bits_in_every_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainrule.plan.sharing.WORTH_SHARING", 0.0)
    graph = cr.trace(lambda x: cr.log_softmax(x, axis=-1), np.zeros((45, 10), np.float32))
    row = np.random.default_rng(0).normal(size=10).astype(np.float32)
    given = inputs_of(graph, {"x": np.tile(row, (45, 1))})
    for threads in (1, 2):
        found = native(graph, given, results_of(graph), threads=threads)
        assert found is not None
        (value,) = found.values()
        assert all(np.array_equal(one, value[0]) for one in value)


@pytest.mark.parametrize("bad", [10, -11])
@pytest.mark.parametrize("row", [0, 16, 20])
def test_an_index_out_of_range_is_seen_in_every_lane(row: int, bad: int) -> None:
    graph, given = graph_of(loss, 21, 10)
    given["labels"][row] = bad
    assert native(graph, inputs_of(graph, given), results_of(graph)) is None


def test_rows_may_be_written_over_their_operand() -> None:
    random = np.random.default_rng(3)
    given = {"x": random.normal(size=(21, 10)).astype(np.float32)}
    graph = cr.trace(lambda x: x - cr.softmax(x, axis=-1), **given)
    results = results_of(graph)
    overwrites = {graph.input("x").node: results[0]}
    assert planned(graph, results, overwrites).overwrites
    compare(graph, inputs_of(graph, given), results, 3e-6, overwrites=overwrites)


def test_a_tile_that_is_not_transposed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_tiles, "_transposed", lambda code, rows: rows)
    graph, given = graph_of(normalized, 16, 8)
    with pytest.raises(AssertionError):
        compare(graph, inputs_of(graph, given), results_of(graph), 3e-6)


def in_lanes(function: Any, *given: np.ndarray) -> list[bool]:
    return [one.lanes is not None for one in layouts(cr.trace(function, *given))]


def test_lanes_hold_rows_only_where_it_pays() -> None:
    def total(x: Any) -> Any:
        return np.sum(x * x, axis=-1)

    def softmax(x: Any) -> Any:
        return cr.softmax(x, axis=-1)

    short, long = (np.ones((64, size), np.float32) for size in (10, 512))
    assert in_lanes(softmax, short) == [True]
    assert in_lanes(softmax, long) == [False]
    assert in_lanes(softmax, short[:2]) == [False], "too few rows"
    assert in_lanes(total, np.ones((64, 16), np.float32)) == [False], "a vector of columns is full"
    assert in_lanes(lambda x: np.cumsum(softmax(x)), short)[0], "the sum is of another nest"


def test_a_part_of_a_nest_has_the_lanes_of_the_whole() -> None:
    from chainrule.plan.loops.fragment import fragment

    graph = cr.trace(
        lambda x: (cr.softmax(x, axis=-1), np.max(x, axis=-1)), np.ones((9, 5), np.float32)
    )
    (whole,) = layouts(graph)
    for store in whole.nest.stores:
        part = fragment(whole, [store.node], ())
        assert part is not None and whole.lanes is not None and part.lanes is not None
        assert (part.lanes.axis, part.width) == (whole.lanes.axis, whole.width)


def test_a_small_value_is_computed_once_for_many_rows() -> None:
    """The exponentials of 5 by 3 deviations, which 1000 rows need, are stored."""

    def deviations(x: Any, logs: Any) -> Any:
        return np.sum((x[:, None, :] * np.exp(-logs)) ** 2)

    x, logs = np.ones((1000, 3), np.float32), np.ones((5, 3), np.float32)
    graph = cr.backward(cr.trace(deviations, x, logs), wrt=["x", "logs"])
    computing = [
        one.row_count * int(np.prod(one.nest.columns))
        for one in layouts(graph)
        for instance in one.nest.instances
        if instance.node.primitive.name == "exp" and instance.operands
    ]
    assert computing == [15]


BEHIND = """
import ctypes, mmap, sys
import numpy as np
import chainrule as cr

page, shape = mmap.PAGESIZE, (10, 64, 3)
memory = np.frombuffer(mmap.mmap(-1, 4 * page), np.float32)
x = memory[: 3 * page // 4][-10 * 64 * 3 :].reshape(shape)
x[...] = np.random.default_rng(0).standard_normal(shape)
behind = ctypes.c_void_p(memory.ctypes.data + 3 * page)
assert ctypes.CDLL(None).mprotect(behind, ctypes.c_size_t(page), 0) == 0  # neither read nor written
labels = np.arange(64) % 3


def picked(x, labels):
    return cr.vmap(lambda z: np.sum(z[np.arange(64), labels]))(x)


plan = str(cr.trace(picked, x, labels).compile(executor="native").plan())
assert "lanes of rows" in plan, plan
found = cr.compile(picked, executor="native")(x, labels)
np.testing.assert_allclose(found, [sum(z[i, labels[i]] for i in range(64)) for z in x], rtol=1e-5)
print("read what is there")
"""


def test_lanes_without_a_row_read_nothing_behind_an_array() -> None:
    """Ten rows are one group of eight lanes and a quarter of a second one."""
    done = subprocess.run([sys.executable, "-c", BEHIND], capture_output=True, text=True)
    assert done.stdout == "read what is there\n", (done.returncode, done.stderr)

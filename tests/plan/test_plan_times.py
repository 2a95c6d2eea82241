"""`plan.measured()` says how long each instruction of a plan takes on this machine."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import IndexOutOfRangeError, InputError, UnsupportedError
from chainrule.machine_code.target import host_target, native_refusal
from chainrule.plan.planner import plan

pytestmark = pytest.mark.skipif(native_refusal() is not None, reason=str(native_refusal()))

NAP = 0.01  # seconds


def _nap(x):
    time.sleep(NAP)
    return x.copy()


nap = cr.primitive(_nap, name="nap", result_type=lambda x: x)
TYPES = {"x": cr.float32["64 32"], "y": cr.float32["32 48"], "tokens": cr.int64["9"]}


def program(x, y, tokens):
    h = np.tanh(x @ y)
    slept = nap(h[:4, :4])
    J = np.sum(np.exp(h)[tokens]) + np.sum(slept)
    return J


def planned(threads=1):
    graph = cr.trace(program, **TYPES)
    return plan(
        graph,
        [node for _, node in graph.outputs],
        threads=threads,
        vector_nbytes=host_target().vector_nbytes,
    )


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr("chainrule.execute.native.stamped.SECONDS", 0.0)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_instruction_has_its_own_time(threads):
    made = planned(threads)
    found = made.measured()
    assert len(found.measured) == len(found.predicted) == len(made.works) > 2
    (napped,) = (n for n, one in enumerate(made.works) if one.label == "nap")
    others = [one for n, one in enumerate(found.measured) if n != napped]
    assert found.measured[napped] >= NAP * 1e9 > 2 * sum(others)
    assert all(one >= 0 for one in others) and max(others) > 0


def test_a_long_loop_has_the_time_of_all_its_iterations():
    """Python has turns between them: code stamps the time when all have ended."""

    def looped(x):
        h = np.sort(np.tanh(x))  # two instructions before it
        return cr.fori_loop(0, 100_000, lambda i, h: np.tanh(h) + x, h) * 2

    graph = cr.trace(looped, x=cr.float32["256"])
    made = plan(graph, [n for _, n in graph.outputs], vector_nbytes=host_target().vector_nbytes)
    found = made.measured().measured
    (loop,) = (n for n, one in enumerate(made.works) if one.label == "scan")
    assert found[loop] > 0.9 * sum(found) and len(found) > 2


def test_the_text_has_a_row_for_each_instruction():
    made = planned()
    found = made.measured()
    title, head, *rows, whole = str(found).splitlines()
    assert title == "times of program, in microseconds"
    assert head.split() == ["instruction", "predicted", "measured", "ratio", "writes"]
    assert [row.split()[0] for row in rows] == [str(n + 1) for n in range(len(made.works))]
    assert "product 64 x 32 x 48" in rows[0] and rows[-1].endswith("J")
    assert f"{sum(found.measured) / 1000:,.1f}" in whole


def test_more_work_takes_longer():
    def taken(n):
        graph = cr.trace(lambda x: np.tanh(x @ x), x=cr.float32[f"{n} {n}"])
        results = [node for _, node in graph.outputs]
        made = plan(graph, results, vector_nbytes=host_target().vector_nbytes)
        return sum(made.measured().measured)

    assert taken(256) > 4 * taken(64)


@pytest.mark.parametrize("shapes", [((0, 3), (3, 0)), ((3, 0), (0, 3))])
def test_a_product_without_elements_has_a_time(shapes):
    graph = cr.trace(lambda x, y: np.tanh(x @ y), *map(np.ones, shapes))
    text = str(graph.compile(executor="native").plan().measured())
    assert "product" in text and "out" in text


def test_arrays_may_be_given_and_are_checked():
    made = planned()
    given = {"tokens": np.array([1, 63]), "x": np.zeros((1, 32))}
    assert made.measured(given).measured
    with pytest.raises(InputError, match="tokns"):
        made.measured({"tokns": np.array([1])})
    with pytest.raises(IndexOutOfRangeError, match="64"):
        made.measured({"tokens": np.array([64])})


def test_code_for_another_processor_is_refused():
    with pytest.raises(UnsupportedError, match="is for vectors of 4096 bytes"):
        replace(planned(), vector_nbytes=4096).measured()

"""Budgets in a report: which values each plan computes again, from what, and what it saves."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from report_data_checks import REPEATED, WEIGHED, checked
from reports import EITHER, both

import chainrule as cr
from chainrule import float32
from chainrule.errors import InputError
from chainrule.execute.plain import PlainExecutor
from chainrule.explain.report.data import report_data

WS = [np.eye(32, dtype=np.float32) / 3 for _ in range(4)]


def objective(x: float32["n 32"], Ws: Any) -> Any:
    h = x
    for W in Ws:
        z = h @ W
        h = np.tanh(z)
    J = np.mean(h * h)
    return J


def training(executor: str) -> Any:
    return cr.training_step(objective, "Ws", cr.sgd(0.1), Ws=WS, executor=executor)


def rows_of(data: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What each point computes again."""
    now: set[int] = set()
    found = []
    for point in data["tradeoff"]["points"]:
        assert now.isdisjoint(point["adds"]) and now >= set(point["drops"])
        now = now - set(point["drops"]) | set(point["adds"])
        found.append([data["tradeoff"]["rows"][one] for one in sorted(now)])
    return found


@pytest.mark.slow
@pytest.mark.sweep(2)
@EITHER
def test_what_each_budget_computes_again(executor: str) -> None:
    step = training(executor)
    data = checked(report_data(step, sizes={"n": 512}, tradeoff=True))
    found = step.tradeoff(n=512)
    shown, values = data["tradeoff"], data["values"]
    assert len(shown["points"]) == len(found) > 2
    assert all(set(row) == REPEATED for row in shown["rows"])
    assert [one["nbytes"] for one in shown["rows"]] == sorted(
        (one["nbytes"] for one in shown["rows"]), reverse=True
    )
    for point, one, rows in zip(found, shown["points"], rows_of(data), strict=True):
        assert set(one) == WEIGHED and one["needed_nbytes"] == point.needed_nbytes
        names = {values[at]["name"] for row in rows for at in row["values"]}
        assert names == set(point.again)
        total = sum(row["nanoseconds"] for row in rows)
        first = found.points[0].nanoseconds
        # In compiled code the others find other arrays in caches, and take a little more or less.
        apart = 0.05 * first if executor == "native" else 1e-6
        assert total == pytest.approx(point.nanoseconds - first, rel=1e-6, abs=apart)
        live = [sum(column) for column in zip(*one["kinds"].values(), strict=True)]
        assert max(live) <= one["peak_nbytes"] == point.report.main.peak_nbytes
        assert max(live) == max(point.report.main.usage.live_nbytes)
    row = next(
        row
        for row in rows_of(data)[-1]
        for at in row["values"]
        if values[at]["name"].startswith("h")
    )
    name = next(values[at]["name"] for at in row["values"] if values[at]["name"][0] == "h")
    sources = {values[at]["name"] for at in row["sources"]}
    assert sources and sources <= {name.replace("h", "z"), *(f"Ws[{at}]" for at in range(4))} | {
        "x",
        *(f"h{end}" for end in ("", "_1", "_2")),
    }
    assert row["nbytes"] >= 512 * 32 * 4
    assert f"operator {name}" in {data["steps"][at]["circle"] for at in row["steps"]}


def test_there_is_none_unless_it_is_asked_for() -> None:
    assert report_data(both(), sizes={"n": 4})["tradeoff"] is None


@pytest.mark.slow
def test_parts_of_values_are_counted_to_them() -> None:
    def normed(x: float32["n 32"], Ws: Any) -> Any:
        for W in Ws:
            h = cr.layer_norm(x) @ W
            x = x + cr.gelu(h)
        J = np.mean(x * x)
        return J

    graph = cr.backward(cr.trace(normed, x=float32["n 32"], Ws=WS[:2]), wrt="Ws")
    data = checked(report_data(graph, sizes={"n": 512}, tradeoff=True))
    parts = [row for rows in rows_of(data) for row in rows if row["parts_of"]]
    assert parts and all(not row["values"] for row in parts)
    owners = {data["values"][at]["name"] for row in parts for at in row["parts_of"]}
    assert owners & {"h", "h_1", "h_2", "x_1", "x_2", "x_3"}, owners


@pytest.mark.slow
def test_data_of_many_plans_are_small() -> None:
    data = report_data(training("reference"), sizes={"n": 512}, tradeoff=True)
    points = len(data["tradeoff"]["points"])
    assert len(json.dumps(data["tradeoff"])) < 6000 * points


def test_what_cannot_be_weighed_is_refused_before_anything_runs(registry: None) -> None:
    with pytest.raises(InputError, match="n has no number") as caught:
        cr.report(both(), tradeoff=True)
    assert 'sizes={"n": 256}' in str(caught.value)

    def never(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("it runs")

    cr.register_executor(PlainExecutor("for tests of tradeoffs", never))
    with pytest.raises(InputError, match="cannot compute values again"):
        cr.report(both(), sizes={"n": 4}, executor="for tests of tradeoffs", tradeoff=True)


@pytest.mark.slow
def test_loops_that_keep_fewer_states() -> None:
    def walk(x: float32["300 8"], W: float32["8 8"]) -> Any:
        h, _ = cr.scan(lambda h, x: (np.tanh(x + h @ W), None), np.zeros(8, np.float32), x)
        J = np.sum(h)
        return J

    graph = cr.backward(cr.trace(walk), wrt="W")
    data = checked(report_data(graph, sizes={}, tradeoff=True))
    assert [one["in_loops"] for one in data["tradeoff"]["points"]][:1] == [False]
    assert data["tradeoff"]["points"][-1]["in_loops"]

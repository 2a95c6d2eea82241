"""Bytes against time: each point is a plan that needs what it says, with the same bits."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32
from chainrule.errors import InputError, MemoryLimitError
from chainrule.machine_code.target import native_refusal

RANDOM = np.random.default_rng(0)
WS = [RANDOM.normal(size=(32, 32)).astype(np.float32) / 6 for _ in range(8)]
X = RANDOM.normal(size=(512, 32)).astype(np.float32)
EXECUTOR = pytest.mark.parametrize(
    "executor", ["reference"] if native_refusal() else ["reference", "native"]
)


def objective(x: float32["n 32"], Ws: Any) -> Any:
    h = x
    for W in Ws:
        h = np.tanh(h @ W)
    return np.mean(h * h)


def trained(executor: str, memory: int | None = None) -> tuple[Any, float]:
    step = cr.training_step(objective, "Ws", cr.sgd(0.1), Ws=WS, executor=executor, memory=memory)
    state = step.init(Ws=WS)
    step(state, x=X)
    return step, float(step(state, x=X))


@pytest.mark.sweep(2)
@EXECUTOR
def test_points_go_from_no_repetition_to_the_least_bytes(executor: str) -> None:
    step, expected = trained(executor)
    found = step.tradeoff(n=512)
    assert len(found) >= 4
    needs = [one.needed_nbytes for one in found]
    assert needs[0] == step.memory(n=512).needed_nbytes
    assert needs == sorted(needs, reverse=True)
    times = [one.nanoseconds for one in found]
    assert times == sorted(times) and times[0] > 0
    assert found.points[0].again == () and found.points[0].extra_flops == 0
    assert found.points[-1].again and found.points[-1].extra_flops > 0
    for one in (found.points[1], found.points[-1]):
        within, loss = trained(executor, one.needed_nbytes)
        assert within.memory(n=512).needed_nbytes == one.needed_nbytes
        assert loss == expected
    with pytest.raises(MemoryLimitError):
        trained(executor, needs[-1] - 1)


@EXECUTOR
def test_the_quickest_plan_within_an_amount(executor: str) -> None:
    step, _ = trained(executor)
    found = step.tradeoff(n=512)
    middle = found.points[len(found) // 2]
    assert found.within(middle.needed_nbytes) is middle
    assert found.within("1 GiB") is found.points[0]
    with pytest.raises(MemoryLimitError, match="the least that was found is") as caught:
        found.within(100)
    assert f"memory={found.points[-1].needed_nbytes} is enough" in str(caught.value)


@EXECUTOR
def test_text_numbers_and_picture(executor: str) -> None:
    found = trained(executor)[0].tradeoff(n=512)
    rows = str(found).splitlines()
    assert rows[0] == f"memory against time of objective, by {executor}"
    assert len(rows) == 2 + len(found)
    assert rows[2].split()[1:4] == ["100.0%", "0.0%", "0"]
    numbers = json.loads(json.dumps(found.json()))
    assert [one["needed_nbytes"] for one in numbers["points"]] == [p.needed_nbytes for p in found]
    picture = ElementTree.fromstring(found.svg())
    assert len(picture.findall("{http://www.w3.org/2000/svg}circle")) == len(found)


def test_a_picture_is_saved_and_another_name_refused(tmp_path: Any) -> None:
    found = trained("reference")[0].tradeoff(n=64)
    found.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text("utf-8") == found.svg()
    with pytest.raises(InputError):
        found.save(tmp_path / "a.png")


def test_a_graph_has_a_tradeoff_too() -> None:
    graph = cr.backward(cr.trace(objective, x=X, Ws=WS), wrt="Ws")
    found = graph.memory(executor="reference").tradeoff()
    assert len(found) > 2
    assert found.points[0].report.needed_nbytes == found.points[0].needed_nbytes

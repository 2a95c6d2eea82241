"""Bytes against time: each point is a plan that needs what it says, with the same bits."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32
from chainrule.errors import InputError, MemoryLimitError
from chainrule.explain.memory.tradeoff import LOOPS, PARTS, Tradeoff, worth_choosing
from chainrule.machine_code.target import native_refusal

RANDOM = np.random.default_rng(0)
WS = [RANDOM.normal(size=(32, 32)).astype(np.float32) / 6 for _ in range(5)]
X = RANDOM.normal(size=(512, 32)).astype(np.float32)
EXECUTOR = pytest.mark.parametrize(
    "executor", ["reference"] if native_refusal() else ["reference", "native"]
)


def objective(x: float32["n 32"], Ws: Any) -> Any:
    h = x
    for W in Ws:
        h = np.tanh(h @ W)
    return np.mean(h * h)


def named(x: float32["n 32"], Ws: Any) -> Any:
    h = x
    for W in Ws:
        z = h @ W
        h = np.tanh(z)
    J = np.mean(h * h)
    return J


def trained(executor: str, memory: int | None = None) -> tuple[Any, float]:
    step = cr.training_step(objective, "Ws", cr.sgd(0.1), Ws=WS, executor=executor, memory=memory)
    state = step.init(Ws=WS)
    step(state, x=X)
    return step, float(step(state, x=X))


@cache
def weighed(executor: str) -> tuple[Any, float, Tradeoff]:
    """The step, its second loss, and what its plans need and take."""
    step, loss = trained(executor)
    return step, loss, step.tradeoff(n=512)


@pytest.mark.slow
@pytest.mark.sweep(2)
@EXECUTOR
def test_points_go_from_no_repetition_to_the_least_bytes(executor: str) -> None:
    step, expected, found = weighed(executor)
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


@pytest.mark.slow
@EXECUTOR
def test_the_quickest_plan_within_an_amount(executor: str) -> None:
    _, _, found = weighed(executor)
    middle = found.points[len(found) // 2]
    assert found.within(middle.needed_nbytes) is middle
    assert found.within("1 GiB") is found.points[0]
    with pytest.raises(MemoryLimitError, match="the least that was found is") as caught:
        found.within(100)
    assert f"memory={found.points[-1].needed_nbytes} is enough" in str(caught.value)


@pytest.mark.slow
@EXECUTOR
def test_text_numbers_and_picture(executor: str) -> None:
    _, _, found = weighed(executor)
    rows = str(found).splitlines()
    assert rows[0] == f"memory against time of objective, by {executor}"
    assert len(rows) == 3 + len(found) and "measure=True" in rows[-1]
    assert rows[2].split()[1:4] == ["100.0%", "0.0%", "0"]
    assert rows[-2].split()[3] == "±" and rows[-2].split()[4].endswith("%")
    numbers = json.loads(json.dumps(found.json()))
    assert [one["needed_nbytes"] for one in numbers["points"]] == [p.needed_nbytes for p in found]
    assert numbers["points"][0]["margin"] == 0 < numbers["points"][-1]["margin"] < 0.5
    picture = ElementTree.fromstring(found.svg())
    assert len(picture.findall("{http://www.w3.org/2000/svg}circle")) == len(found)


@pytest.mark.slow
def test_a_picture_is_saved_and_another_name_refused(tmp_path: Any) -> None:
    _, _, found = weighed("reference")
    found.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text("utf-8") == found.svg()
    with pytest.raises(InputError):
        found.save(tmp_path / "a.png")


def test_a_graph_has_a_tradeoff_too() -> None:
    graph = cr.backward(cr.trace(objective, x=X, Ws=WS), wrt="Ws")
    found = graph.memory(executor="reference").tradeoff()
    assert len(found) > 1
    assert found.points[0].report.needed_nbytes == found.points[0].needed_nbytes


@pytest.mark.slow
def test_each_point_but_the_last_is_worth_choosing() -> None:
    _, _, found = weighed("reference")
    needs = [one.needed_nbytes for one in found]
    part = (needs[0] - needs[-1]) // PARTS
    assert all(more - fewer >= part for more, fewer in pairwise(needs[:-1]))
    times = [one.nanoseconds for one in found]
    assert all(later > earlier for earlier, later in pairwise(times[1:]))
    with pytest.raises(MemoryLimitError) as caught:
        trained("reference", 1)
    assert needs[-1] == caught.value.needed_nbytes, "the least is among them"


def points(*pairs: tuple[int, float]) -> list[Any]:
    first = pairs[0][1]
    return [
        SimpleNamespace(
            needed_nbytes=nbytes,
            nanoseconds=time,
            extra=time / first - 1,
            again=(),
            words=(),
            is_measured=False,
        )
        for nbytes, time in pairs
    ]


def test_what_a_later_point_is_as_quick_as_is_left_out() -> None:
    made = points((100, 10.0), (90, 10.0), (80, 10.0), (70, 12.0), (60, 12.001), (50, 20.0))
    kept = [one.needed_nbytes for one in worth_choosing(made)]
    assert kept == [100, 80, 60, 50]
    for few in (points((100, 1.0)), points((100, 1.0), (90, 1.0))):
        assert worth_choosing(few) == few


def test_a_last_point_that_saves_nothing_leaves_room_for_the_others() -> None:
    steep = Tradeoff("f", "native", tuple(points((1000, 10.0), (500, 12.0), (496, 72.0))))
    assert steep.highest == pytest.approx(0.2)
    texts = [one.text for one in ElementTree.fromstring(steep.svg()).iter() if one.text]
    assert "620% ↑" in texts
    fair = Tradeoff("f", "native", tuple(points((1000, 10.0), (500, 12.0), (300, 72.0))))
    assert fair.highest == pytest.approx(6.2) and "↑" not in fair.svg()
    assert Tradeoff("f", "native", tuple(points((1000, 10.0)))).highest == 0


def test_amounts_that_are_near_each_other_are_apart_in_a_picture() -> None:
    def drawn(*pairs: tuple[int, float]) -> tuple[list[float], list[str]]:
        made = Tradeoff("f", "native", tuple(points(*pairs)))
        parts = list(ElementTree.fromstring(made.svg()).iter())
        return [float(one.get("cx", 0)) for one in parts if one.get("cx")], [
            one.text for one in parts if one.text
        ]

    near, words = drawn((10_000_000, 1.0), (9_999_000, 1.1), (9_998_000, 1.3))
    assert near[0] - near[-1] > 400 and "9,998,000" in words
    far, words = drawn((10_000_000, 1.0), (5_000_000, 1.1), (1_000_000, 1.3))
    assert far[0] - far[-1] > 400 and "0" in words
    assert drawn((10_000_000, 1.0))[0] == [690.0]


@pytest.mark.slow
@pytest.mark.sweep(2)
@EXECUTOR
def test_what_is_computed_again_from_what_at_which_cost_and_what_it_saves(executor: str) -> None:
    step = cr.training_step(named, "Ws", cr.sgd(0.1), Ws=WS, executor=executor)
    found = step.tradeoff(n=512)
    first = found.points[0]
    # In compiled code the others find other arrays in caches, and take a little more or less.
    apart = 0.05 * first.nanoseconds if executor == "native" else 0.0
    for one in found:
        own = [repeat for repeat in one.repeats if repeat.nanoseconds]
        total = sum(repeat.nanoseconds for repeat in own)
        assert first.nanoseconds + total == pytest.approx(one.nanoseconds, rel=1e-9, abs=apart)
        for repeat in own:
            assert repeat.nbytes > 0 and repeat.free_from <= repeat.number
    assert json.dumps(found.json()["points"][-1]["repeats"][0])
    sources = {name: one.sources for one in found.points[-1].repeats for name in one.values}
    assert {"h", "Ws[1]"} <= {*sources["h_1"], *sources.get("z_1", ())}


@pytest.mark.slow
@pytest.mark.sweep(2)
@EXECUTOR
def test_parts_and_states_of_loops_are_told(executor: str) -> None:
    def normed(x: float32["n 32"], Ws: Any) -> Any:
        for W in Ws:
            x = x + cr.gelu(cr.layer_norm(x) @ W)
        return np.mean(x * x)

    graph = cr.backward(cr.trace(normed, x=X, Ws=WS[:2]), wrt="Ws")
    last = graph.memory(executor=executor).tradeoff().points[-1]
    assert any(word.startswith("a part of ") for word in last.words), last.words
    assert set(last.again) <= set(last.words)

    def walk(x: float32["300 8"], W: float32["8 8"]) -> Any:
        h, _ = cr.scan(lambda h, x: (np.tanh(x + h @ W), None), np.zeros(8, np.float32), x)
        return np.sum(h)

    graph = cr.backward(cr.trace(walk), wrt="W")
    found = graph.memory(executor=executor).tradeoff()
    if len(found) > 1:
        assert LOOPS in found.points[-1].words and LOOPS in str(found)
    assert not found.points[0].in_loops

"""With `xla`, the next batch is on its way to the device before a step has ended."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64, int64
from chainrule.errors import InputError
from chainrule.train.loop.coming import Coming

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("jax")]
RANDOM = np.random.default_rng(3)
DATA = {"x": RANDOM.normal(size=(22, 5)), "y": RANDOM.integers(0, 3, 22)}
W = RANDOM.normal(size=(5, 3))


@pytest.fixture(scope="module")
def jax() -> Any:
    return pytest.importorskip("jax")


def objective(x: float64["n 5"], y: int64["n"], W: float64["5 3"]):
    J = cr.cross_entropy(x @ W, y)
    return J


def batches(epoch: int) -> Any:
    return cr.data.minibatches(DATA, 8, cr.random.key(1), epoch=epoch)


def trained(data: Any, **options: Any) -> Any:
    trainer = cr.Trainer(
        objective, {"W": W}, cr.adam(0.1), data, executor="xla", progress=False, **options
    )
    trainer.fit(2)
    return trainer


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, jax: Any) -> list[str]:
    """What is sent and waited for, in order, as on a device with memory of its own."""
    from chainrule.execute.xla import ahead, calls

    found: list[str] = []
    put, settle = jax.device_put, calls.XlaHeldCall._settle
    there = ahead.SentAhead.there

    def putting(array: Any, **options: Any) -> Any:
        if array.shape[1:] == (5,):
            found.append(f"sends x of {len(array)} rows")
        return put(array, **options)

    def finding(self: Any, arrays: Any) -> Any:
        given = there(self, arrays)
        found.extend("reads it" for one in given if isinstance(one, jax.Array) and one.ndim == 2)
        return given

    def settling(*arguments: Any) -> Any:
        found.append("waits")
        return settle(*arguments)

    monkeypatch.setattr(ahead, "has_own_memory", lambda: True)
    monkeypatch.setattr(jax, "device_put", putting)
    monkeypatch.setattr(ahead.SentAhead, "there", finding)
    monkeypatch.setattr(calls.XlaHeldCall, "_settle", settling)
    return found


def test_the_next_batch_is_sent_before_a_step_is_waited_for(events: Any) -> None:
    trainer = trained(batches)
    # the third batch has 6 rows, for which other code is bound: that run sends it
    epoch = ["sends x of 8 rows", "waits", "reads it", "waits", "waits"]
    assert events == epoch * 2
    assert not trainer.state.home.sent and trainer.state.home.ahead is None


def test_what_is_trained_has_the_same_bits(events: Any) -> None:
    ahead = [trained(one) for one in (batches, lambda epoch: list(batches(epoch)))]
    assert events.count("sends x of 8 rows") == 4
    events.clear()
    plain = trained(lambda epoch: (one for one in batches(epoch)))
    assert events == ["waits"] * 6  # a generator is not asked before its turn
    for one in ahead:
        assert one.state["W"].tobytes() == plain.state["W"].tobytes()
        lines = [[line["objective"] for line in x.history] for x in (one, plain)]
        assert lines[0] == lines[1]
    assert len(events) == 6 and trained(DATA, batch_size=8).state.steps == 6
    assert "sends x of 8 rows" in events


def test_a_batch_that_the_device_has_no_room_for_is_sent_by_its_own_step(
    events: Any, jax: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = jax.device_put

    def full(array: Any, **options: Any) -> Any:
        if array.shape[1:] == (5,):
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED")
        return put(array, **options)

    monkeypatch.setattr(jax, "device_put", full)
    found = trained(batches).state
    assert found.steps == 6
    monkeypatch.undo()
    assert found["W"].tobytes() == trained(batches).state["W"].tobytes()


def test_an_error_comes_with_its_own_batch() -> None:
    rows = list(batches(1))
    rows[1] = {"x": rows[1]["x"], "z": rows[1]["y"]}
    with pytest.raises(InputError, match=r"z") as error:
        trained(rows)
    assert "in batch 2 of epoch 1" in error.value.__notes__


def test_batches_that_come_are_those_that_were_looked_at() -> None:
    def made(number: int) -> dict[str, int]:
        if number == 2:
            raise ValueError("no batch 2")
        return {"x": number}

    coming = Coming(map(made, range(4)), dict)
    assert coming.ahead() == coming.ahead() == {"x": 0} == next(coming)
    assert next(coming) == {"x": 1}
    assert coming.ahead() == {}
    with pytest.raises(ValueError, match="no batch 2"):
        next(coming)
    ended = Coming(iter(()), dict)
    assert ended.ahead() == {} and list(ended) == []

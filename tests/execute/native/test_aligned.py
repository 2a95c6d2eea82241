"""Large blocks of memory begin with a page, so that no load waits for a store to another array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.execute.aligned import LARGE, PAGE, address_of, alignment_of, block
from chainrule.execute.native.runtime import context

ROWS, WIDTH = 256, 128  # 64 KiB of float32 at each layer, as much of a weight


@pytest.mark.parametrize("make", [np.empty, np.zeros])
def test_large_blocks_begin_with_a_page_and_small_ones_with_a_cache_line(make: Any) -> None:
    for nbytes in (1, 1000, LARGE - 1, LARGE, 3 * LARGE + 1):
        kept = [block(nbytes, make) for _ in range(5)]
        assert all(address_of(one) % (PAGE if nbytes >= LARGE else 64) == 0 for one in kept)
        assert all(one.nbytes == nbytes for one in kept)
        assert all(one.base.nbytes == nbytes + alignment_of(nbytes) for one in kept)


def test_a_step_has_its_state_and_its_scratch_memory_at_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begins: list[int] = []

    def seen(nbytes: int, make: Any = np.empty) -> np.ndarray:
        found = block(nbytes, make)
        begins.append(address_of(found))
        assert nbytes >= LARGE
        return found

    monkeypatch.setattr(context, "block", seen)

    def objective(x: cr.float32["n 128"], W: cr.float32["128 128"], b: cr.float32["128"]) -> Any:
        h = np.tanh(x @ W + b)
        return np.mean(np.tanh(h @ W + b) ** 2)

    random = np.random.default_rng(0)
    W, b = (random.normal(size=shape).astype(np.float32) for shape in ((WIDTH, WIDTH), (WIDTH,)))
    step = cr.training_step(objective, ["W", "b"], cr.sgd(0.1), W=W, b=b, executor="native")
    others = [np.empty(16 * n, np.uint8) for n in range(9)]  # malloc's next place is any
    for _ in range(3):
        state = step.init(W=W, b=b)
        step(state, x=random.normal(size=(ROWS, WIDTH)).astype(np.float32))
        assert state.begin % PAGE == 0
        others += [np.empty(48, np.uint8)]
    assert len(begins) == 3 and all(begin % PAGE == 0 for begin in begins)

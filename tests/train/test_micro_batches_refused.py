"""Batches and numbers of parts that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from micro_batched import assert_same, batch, weights, whole
from small_machine import having

import chainrule as cr
from chainrule import float64
from chainrule.errors import InputError, MemoryLimitError, SizeError


@pytest.mark.parametrize(
    ("changes", "error", "what"),
    [
        ({"x": np.ones((8, 5))}, InputError, r"the input x of objective must be float64\[n, 6\]"),
        ({"y": np.ones(7, int)}, SizeError, "axis 0 of the input y"),
        ({"z": 1}, InputError, "objective has no input called 'z'"),
        ({"W": np.ones((6, 5))}, InputError, "W was given to a step, and lives in the state"),
        ({"learning_rate": -1.0}, InputError, "a learning rate is a finite number of at least 0"),
    ],
)
def test_what_the_whole_step_refuses_is_refused(changes, error, what):
    parts = whole(cr.sgd(0.1)).micro_batched(4)
    state = parts.init(weights())
    with pytest.raises(error, match=what):
        parts(state, {**batch(8), **changes})
    with pytest.raises(InputError, match="step of objective was not given: y"):
        parts(state, x=batch(8)["x"])
    with pytest.raises(InputError, match="the first argument of a step is its state"):
        parts(None, batch(8))  # type: ignore[arg-type]
    assert_same(state, parts.init(weights()), 0)


def test_a_batch_without_equal_parts_is_refused():
    parts = whole().micro_batched(4)
    state = parts.init(weights())
    for call in (lambda: parts(state, batch(10)), lambda: parts.memory(n=10)):
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.what == "a batch with n = 10 does not split into 4 equal parts"
        assert caught.value.hint == "give 8 or 12 rows, or cut the batch into 2 or 5 parts"
    with pytest.raises(InputError, match="give 4 rows, or cut the batch into 1 or 3 parts"):
        parts(state, batch(3))
    with pytest.raises(SizeError, match="the memory of objective depends on n, which was not"):
        parts.memory()


@pytest.mark.parametrize("count", [0, -1, 2.0, True, "4", None])
def test_a_number_of_parts_that_is_none_is_refused(count):
    with pytest.raises(InputError, match="an integer of at least 1, got") as caught:
        whole().micro_batched(count)
    assert caught.value.hint == "step.micro_batched(4)"


def test_a_batch_whose_size_is_not_clear_is_explained():
    def two(x: float64["n d"], t: float64["m"], w: float64["d"]):
        J = np.mean(x @ w) * np.mean(t)
        return J

    def fixed(x: float64[8, 2], w: float64[2]):
        J = np.mean(x @ w)
        return J

    def square(x: float64["n n"], w: float64[2]):
        J = np.mean(x) * np.mean(w)
        return J

    with pytest.raises(InputError, match="the batch of two has several sizes: n, m") as caught:
        whole(of=two, wrt="w").micro_batched(2)
    assert caught.value.hint == "size='n'; it may be one of: n, m"
    assert whole(of=two, wrt="w").micro_batched(2, size="m").split == {"t": 0}
    with pytest.raises(InputError, match="the batch of two cannot be split by the size 'd'"):
        whole(of=two, wrt="w").micro_batched(2, size="d")
    with pytest.raises(InputError, match="the batch of fixed has no named size") as caught:
        whole(of=fixed, wrt="w").micro_batched(2)
    assert caught.value.hint.startswith("trace the objective with a size for the rows: x: float32")
    with pytest.raises(InputError, match=r"x: float64\[n, n\] cannot be split by n"):
        whole(of=square, wrt="w").micro_batched(2)


def test_a_part_that_has_no_memory_says_whose_sizes_it_names(monkeypatch: pytest.MonkeyPatch):
    parts = whole().micro_batched(4)
    state = parts.init(weights())
    having(monkeypatch, 20_000)
    with pytest.raises(MemoryLimitError, match="n = 1,000 needs") as caught:
        parts(state, batch(4000))
    note = "in part 1 of 4 of the batch, rows 0 to 999 (sizes are those of a part)"
    assert caught.value.__notes__ == [note]
    rows = int(caught.value.hint.partition("n = ")[2].split()[0])
    parts(state, batch(4 * rows))

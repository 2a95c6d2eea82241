"""The backward pass of a loop that is too long for any memory is refused before it allocates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import MemoryLimitError

X = np.ones(2)


def long(iterations: int) -> Any:
    def loss(x: Any) -> Any:
        c, _ = cr.scan(lambda c, _: (np.sin(c) * x, None), x, None, length=iterations)
        return np.sum(c)

    return loss


@pytest.mark.parametrize("executor", ["reference", None])
@pytest.mark.parametrize("iterations", [2**62, 2**60])
def test_the_gradient_says_how_much_it_would_read(iterations: int, executor: str | None) -> None:
    with pytest.raises(MemoryLimitError) as caught:
        cr.grad(long(iterations), executor=executor)(X)
    error = caught.value
    assert error.what == (
        f"the backward pass of a loop of {iterations:,} iterations reads what each began with: c "
        f"(float64[2]), {iterations * 16:,} bytes in all, more than any memory has"
    )
    assert f"{__file__}:" in error.where and "length=iterations)" in error.where
    assert (
        error.hint == "fewer iterations; or cr.jvp, which keeps the values of one iteration alone"
    )


def test_a_hessian_and_a_graph_say_it_too() -> None:
    for make in (
        lambda: cr.hessian(long(2**62))(X),
        lambda: cr.backward(cr.trace(long(2**62), X), wrt="x"),
    ):
        with pytest.raises(MemoryLimitError, match="4,611,686,018,427,387,904 iterations"):
            make()


def test_what_could_be_counted_is_refused_when_it_would_run() -> None:
    """The states are kept, and their sines."""
    with pytest.raises(MemoryLimitError, match=r"needs 1,125,899,906,\d{3},\d{3} bytes"):
        cr.grad(long(2**45))(X)


def test_loops_that_keep_nothing_are_not_refused() -> None:
    def linear(x: Any) -> Any:
        return cr.scan(lambda c, _: (c, None), np.sum(x), None, length=2**62)[0]

    np.testing.assert_array_equal(cr.grad(linear)(X), 1)
    graph = cr.trace(lambda x, v: cr.jvp(long(2**62), x, v), X, X)
    assert graph.outputs


def test_a_loop_of_named_length_is_not_refused() -> None:
    def loss(xs: cr.float64["n"]) -> Any:  # type: ignore
        return cr.scan(lambda c, x: (np.sin(c) * x, None), 1.0, xs)[0]

    graph = cr.backward(cr.trace(loss), wrt="xs")
    assert graph.run(xs=np.ones(3)).outputs[1].shape == (3,)

"""Calls of the executor `xla` that end in something else: user's functions that raise, Ctrl-C in
them, settings of JAX that refuse what a call does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float64
from chainrule.errors import EvaluationError, UnsupportedError

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("jax")]


@pytest.fixture(scope="module")
def jax() -> Any:
    return pytest.importorskip("jax")


def told(x: Any) -> Any:
    if x[0] > 1000:
        raise KeyboardInterrupt
    if x[0] > 100:
        raise ValueError("too large to be halved")
    return x / 2


half = cr.primitive(told, partials=lambda out, x: 0.5 + 0 * x, name="half")


def objective(x: float64["3"], w: float64["3"]):
    J = np.sum(half(x * w) ** 2)
    return J


def logarithms(x: float64["3"], w: float64["3"]):
    J = np.sum(np.log(x * w))
    return J


GOOD, LARGE, STOPPED = np.array([1.0, 2.0, 3.0]), np.full(3, 200.0), np.full(3, 2000.0)


@pytest.mark.parametrize("x, kind", [(LARGE, EvaluationError), (STOPPED, KeyboardInterrupt)])
def test_what_a_users_function_raises_is_raised_by_every_call(x: Any, kind: Any) -> None:
    """From its second call on, JAX raises other classes."""
    twice = cr.compile(lambda x: half(x) * 2, executor="xla")
    step = cr.training_step(objective, "w", cr.sgd(0.1, momentum=0.9), executor="xla")
    reference = cr.training_step(objective, "w", cr.sgd(0.1, momentum=0.9), executor="reference")
    state, wanted = step.init(w=np.ones(3)), reference.init(w=np.ones(3))
    for _ in range(3):
        for call in (lambda: twice(x), lambda: step(state, x=x)):
            with pytest.raises(kind) as caught:
                call()
            if kind is EvaluationError:
                assert "too large to be halved" in str(caught.value)
                assert __file__ in str(caught.value)
        np.testing.assert_array_equal(twice(GOOD), GOOD)
        np.testing.assert_allclose(step(state, x=GOOD), reference(wanted, x=GOOD), rtol=1e-14)
        assert state.steps == wanted.steps
        np.testing.assert_allclose(state["w"], wanted["w"], rtol=1e-14)


@pytest.fixture
def looking_for_nans(jax: Any) -> Iterator[None]:
    with jax.debug_nans(True):
        yield


@pytest.mark.usefixtures("looking_for_nans")
def test_a_nan_is_a_value_also_where_jax_looks_for_nans() -> None:
    x = np.array([0.0, -2.0, 3.0])
    step = cr.training_step(logarithms, "w", cr.sgd(0.1), executor="xla")
    state = step.init(w=np.ones(3))
    compiled = cr.compile(logarithms, executor="xla")
    for given in (GOOD, x, GOOD):
        with np.errstate(all="ignore"):
            wanted = np.sum(np.log(given))
        np.testing.assert_allclose(compiled(given, np.ones(3)), wanted, rtol=1e-14)
        step(state, x=given)
    assert state.steps == 3
    np.testing.assert_array_equal(np.isnan(state["w"]), [True, False, False])


def test_a_guard_on_transfers_is_named(jax: Any) -> None:
    step = cr.training_step(logarithms, "w", cr.sgd(0.1), executor="xla")
    state = step.init(w=np.ones(3))
    step(state, x=GOOD)
    before = state["w"]
    with jax.transfer_guard("disallow"), pytest.raises(EvaluationError) as caught:
        step(state, x=GOOD)
    assert "JAX is set to refuse that arrays are sent" in str(caught.value)
    assert 'try: with jax.transfer_guard("allow"): around the call' in str(caught.value)
    np.testing.assert_array_equal(state["w"], before)
    step(state, x=GOOD)
    assert state.steps == 2


def test_a_call_while_jax_traces_is_refused(jax: Any) -> None:
    """JAX would make tracers of the state."""
    compiled = cr.compile(np.exp, executor="xla")
    step = cr.training_step(logarithms, "w", cr.sgd(0.1), executor="xla")
    state = step.init(w=np.ones(3))
    for _ in range(2):  # before anything was compiled, and after
        for call in (lambda: compiled(GOOD), lambda: step(state, x=GOOD)):
            with pytest.raises(UnsupportedError) as caught:
                jax.jit(lambda z, call=call: z + call().sum())(1.0)
            assert "was called while JAX traces a function that calls it" in str(caught.value)
            assert "jax.pure_callback" in str(caught.value)
        compiled(GOOD)
        step(state, x=GOOD)
    assert state.steps == 2

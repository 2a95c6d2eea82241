"""What a compiled function refuses, it refuses in the words of the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compiling import EXECUTORS, compiling

import chainrule as cr
from chainrule.errors import ChainruleError, InputError, UnsupportedError


@pytest.fixture(params=EXECUTORS)
def compiled(request: Any) -> Any:
    return compiling(request.param)


def refusal(call: Callable[[], Any]) -> tuple[type, str]:
    with pytest.raises((ChainruleError, TypeError)) as caught:
        call()
    return type(caught.value), str(caught.value)


def refused_calls(g: Any) -> list[Callable[[], Any]]:
    x, W = np.ones((2, 3)), np.ones((3, 4))
    return [
        lambda: g(x, W.T),
        lambda: g(x),
        lambda: g(x, W, W),
        lambda: g(x, W, unknown=1),
        lambda: g(x.astype(complex), W),
        lambda: g(x.astype(object), W),
        lambda: g(np.ma.masked_array(x, x > 0), W),
        lambda: g(x, 2**70),
        lambda: g("text", W),
    ]


def test_wrong_arguments_are_refused_in_the_same_words_by_both_executors():
    def f(x: Any, W: Any) -> Any:
        return x @ W if np.ndim(W) else x * W

    texts = []
    for executor in EXECUTORS:
        g = cr.compile(f, executor=executor)
        g(np.ones((2, 3)), np.ones((3, 4)))
        g(np.ones((2, 3)), 3)
        texts.append([refusal(call) for call in refused_calls(g)])
    assert texts[0] == texts[1]


def test_a_refused_call_leaves_the_function_as_it_was(compiled: Any):
    g, _ = compiled(lambda x, i: x[i])
    x = np.arange(3.0)
    for _ in range(3):
        assert g(x, np.array([2])).tolist() == [2]
        with pytest.raises(cr.errors.IndexOutOfRangeError, match=r"index 3 .* axis of length 3"):
            g(x, np.array([3]))


def test_index_errors_have_the_words_of_the_reference():
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (cr.cross_entropy, (np.ones((2, 3)), np.array([1, 7]))),
        (lambda table, tokens: cr.embedding(table, tokens) * 2, (np.ones((5, 2)), np.array([[5]]))),
        (lambda x, i: np.take_along_axis(x, i, 1), (np.ones((2, 3)), np.array([[3], [0]]))),
        (lambda x, i: x[i], (np.ones((0, 3)), np.array([0]))),
        (cr.value_and_grad(cr.cross_entropy), (np.ones((2, 3)), np.array([-1, 0]))),
    ]
    for f, args in calls:
        texts = []
        for executor in EXECUTORS:
            g = cr.compile(f, executor=executor)
            texts.append({refusal(lambda g=g, args=args: g(*args)) for _ in range(2)})
        assert texts[0] == texts[1] and len(texts[0]) == 1


def test_what_cannot_be_compiled_is_refused():
    with pytest.raises(InputError, match=r"there is no executor 'gpu'\n.*'native', 'reference'"):
        cr.compile(np.sin, executor="gpu")
    with pytest.raises(InputError, match="compile needs a function or a graph, got int"):
        cr.compile(3)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="returned out, a object"):
        cr.compile(lambda x: x)(object())

"""A composite's call is one scope with a symbol; what it refuses, it explains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from composite_cases import CASES

import chainrule as cr
from chainrule.graph.node import topological

SCOPED = [
    (cr.mean, "mean"),
    (cr.var, "var"),
    (cr.std, "std"),
    (cr.norm, "norm"),
    (cr.softmax, "softmax"),
    (cr.log_softmax, "log softmax"),
    (cr.logsumexp, "logsumexp"),
    (lambda x: cr.cross_entropy(x, np.array([0, 1])), "ℓ"),
    (lambda x: cr.squared_error(x, 0.0), "ℓ"),
    (cr.relu, "relu"),
    (cr.softplus, "softplus"),
    (cr.gelu, "gelu"),
    (cr.layer_norm, "LN"),
    (lambda x: cr.linear(x, np.ones((3, 2))), "linear"),
    (lambda x: cr.embedding(x, np.array([1])), "embed"),
    (np.mean, "mean"),
    (np.std, "std"),
    (np.sort, "sort"),
    (np.median, "median"),
    (lambda x: np.percentile(x, [30, 60.5]), "percentile"),
    (lambda x: np.nanquantile(x, 0.3), "nanquantile"),
]


@pytest.mark.parametrize("function, symbol", SCOPED)
def test_a_call_is_one_scope_and_its_result_has_the_users_name(function: Any, symbol: str) -> None:
    def program(x: Any) -> Any:
        before = np.sin(x)
        result = function(before)
        return np.sum(result)

    graph = cr.trace(program, np.ones((2, 3)))
    result, before = graph["result"], graph["before"]
    inner = [n for n in topological([result]) if n not in set(topological([before]))]
    outermost = set()
    for node in inner:
        scope = node.origin.scope
        assert scope is not None
        while scope.parent is not None and scope.parent.symbol:
            scope = scope.parent
        outermost.add(scope)
        if node is not result and node.primitive.name != "constant":
            assert node not in graph.name_of
    (scope,) = outermost
    assert scope.symbol == symbol and scope.textbook.latex
    assert scope.result == (result,)
    assert before in [value for _, value in scope.arguments]
    assert before.origin.scope is None


@pytest.mark.parametrize("function", [cr.erf, cr.sigmoid, cr.stop_gradient])
def test_a_function_that_is_one_primitive_is_one_node(function: Any) -> None:
    def program(x: Any) -> Any:
        result = function(x)
        return result

    graph = cr.trace(program, np.ones(3))
    assert graph["result"].inputs == (graph["x"],)


def test_plain_lists_and_numbers_give_numbers() -> None:
    assert cr.sigmoid(0.0) == 0.5
    np.testing.assert_array_equal(cr.softmax(np.zeros(2)), [0.5, 0.5])
    assert cr.cross_entropy(np.zeros((1, 4)), np.array([3])) == np.log(4)
    assert cr.relu(np.float32(-1)).dtype == np.float32
    assert cr.erf(np.ones(2, np.float32)).dtype == np.float32


WIDENED_BY_NUMPY = (  # to float64
    "np.quantile(x, [0.1, 0.75]",  # by a list of float64
    "np.cov(",  # which is float64 at least
    "np.corrcoef(",
    "x * np.searchsorted(",  # by a factor of int64
    "x * np.digitize(",
)


def test_float32_stays_float32() -> None:
    x = np.ones((2, 3), np.float32)
    chosen = [c for c in CASES if c.shapes == ((2, 3),)]
    chosen = [c for c in chosen if not c.name.startswith(WIDENED_BY_NUMPY)]
    assert len(chosen) > 30
    for c in chosen:
        graph = cr.trace(c.call, x)
        assert graph.outputs[0][1].type.dtype == np.float32, c.name


def refuse(function: Any, *examples: Any) -> Any:
    return lambda: cr.trace(function, *examples)


@pytest.mark.parametrize(
    "call, error, texts",
    [
        (
            refuse(lambda x: cr.cross_entropy(x, np.ones(2)), np.ones((2, 3))),
            cr.errors.DTypeError,
            ["integer labels (class numbers), got float64", "np.argmax(labels, -1)"],
        ),
        (
            refuse(lambda x: cr.cross_entropy(x, np.ones(3, int)), np.ones((2, 3))),
            cr.errors.ShapeError,
            ["logits of shape [2, 3] need labels of shape [2], got [3]"],
        ),
        (
            refuse(lambda x: cr.cross_entropy(x, np.ones(2, int), "avg"), np.ones((2, 3))),
            cr.errors.InputError,
            ["reduction='avg' is not one of 'mean', 'sum', 'none'"],
        ),
        (
            lambda: cr.cross_entropy(np.ones((2, 3)), np.array([0, 3])),
            cr.errors.IndexOutOfRangeError,
            ["labels from 0 to 3 for 3 classes", "end at 2"],
        ),
        (
            lambda: cr.trace(cr.cross_entropy, np.ones((2, 3)), np.zeros(2, int)).run(
                logits=np.ones((2, 3)), labels=np.array([0, 3])
            ),
            cr.errors.IndexOutOfRangeError,
            ["index 3", "from 0 to 2"],
        ),
        (
            refuse(lambda x: cr.embedding(x, np.ones(2)), np.ones((2, 3))),
            cr.errors.DTypeError,
            ["embedding needs integer indices, got float64"],
        ),
        (
            lambda: cr.embedding(np.ones((2, 3)), np.array([-1])),
            cr.errors.IndexOutOfRangeError,
            ["indices from -1 to -1 for 2 rows of the table"],
        ),
        (
            refuse(lambda x: cr.norm(x, "fro"), np.ones(3)),
            cr.errors.InputError,
            ["norm(ord='fro') is of matrices", "use a number as ord"],
        ),
        (
            refuse(lambda x: np.clip(x, None, None), np.ones(3)),
            cr.errors.InputError,
            ["np.clip needs a lower or an upper limit"],
        ),
        (
            refuse(lambda x: np.split(x, 2)[0], np.ones(3)),
            cr.errors.InputError,
            ["an axis of length 3 has no 2 equal parts"],
        ),
        (lambda: cr.gelu(np.ones(2), approximate="sigmoid"), ValueError, ['"none" or "tanh"']),
    ],
)
def test_a_refusal_says_what_and_what_to_try(call: Any, error: Any, texts: list[str]) -> None:
    with pytest.raises(error) as caught:
        call()
    for text in texts:
        assert text in str(caught.value)

"""Wrong arguments are met by errors of this library: what, where, and what to try."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ChainruleError

V = np.arange(4.0)
numpy: Any = np  # whose types would refuse these calls
IMAGES = np.ones((2, 3, 5, 5))
NUMPYS: dict[str, Callable[[Any], Any]] = {
    "np.tile(x: float64[4], (2.0, 2)): 'float' object": lambda x: numpy.tile(x, (2.0, 2)),
    "np.sum(x: float64[4], axis='a')": lambda x: numpy.sum(x, axis="a"),
    "np.repeat(x: float64[4], '3')": lambda x: numpy.repeat(x, "3"),
    "np.linspace(x: float64[4], 5, '3')": lambda x: numpy.linspace(x, 5, "3"),
    "np.full_like(x: float64[4], 1, shape=-1): the shape": lambda x: numpy.full_like(
        x, 1, shape=-1
    ),
    "np.split into -1 parts": lambda x: numpy.split(x, -1),
    "np.vander of x: float64[4] with -1 columns": lambda x: numpy.vander(x, -1),
    "np.partition(x: float64[4], 1.5): 'float'": lambda x: numpy.partition(x, 1.5),
    "axis=5 does not exist: x: float64[4]": lambda x: cr.softmax(x, axis=5),
    "axis=-7 does not exist: x: float64[4] has": lambda x: cr.logsumexp(x, axis=-7),
    "gelu: approximate='q' is not known": lambda x: cr.gelu(x, "q"),
    "x.at[...] has no method 'insert'": lambda x: x.at[0].insert(3),
    "x.at[0] = ... changes an array in place": lambda x: x.at.__setitem__(0, 1),
}


@pytest.mark.parametrize("what", NUMPYS)
def test_what_a_traced_function_cannot_take_is_said_with_the_line(what: str) -> None:
    try:
        cr.trace(NUMPYS[what], V)
    except ChainruleError as error:
        if "axis='a'" not in what:
            assert what in error.what
        assert "test_wrong_arguments.py" in error.where
        assert error.hint
    else:
        raise AssertionError("no error")


def test_errors_of_the_users_own_functions_stay_as_they_are() -> None:
    def of_a_row(row: Any) -> Any:
        return row[int("no number")]

    with pytest.raises(ValueError, match="no number") as caught:
        cr.trace(lambda x: numpy.apply_along_axis(of_a_row, 0, x), V)
    assert type(caught.value) is ValueError


@pytest.mark.parametrize(
    "of", [cr.vmap, cr.grad, cr.jacobian, cr.hessian, cr.jvp], ids=lambda of: of.__name__
)
def test_a_number_in_place_of_a_function_is_refused(of: Any) -> None:
    with pytest.raises(ChainruleError, match=r"a function is needed, got 3") as caught:
        of(3, V, (V,)) if of is cr.jvp else of(3)(V)
    assert caught.value.hint


def test_batch_norm_without_statistics_says_what_it_needs() -> None:
    with pytest.raises(ChainruleError, match="needs running_mean and running_var") as caught:
        cr.trace(lambda x: cr.batch_norm(x, None, None)[0], IMAGES)
    assert "training=True" in caught.value.hint


def test_numpys_want_of_memory_names_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = cr.trace(lambda x: np.sort(x), V)

    def fails(*_: Any, **__: Any) -> Any:
        raise MemoryError("Unable to allocate 8 GiB")

    monkeypatch.setattr(np, "argsort", fails)
    with pytest.raises(cr.errors.MemoryLimitError, match="no memory for sort") as caught:
        graph.run(x=V, executor="reference")
    assert "np.sort(x)" in caught.value.where and "Unable to allocate" in caught.value.what


X = np.ones((4, 3))
KEY = cr.random.key(0)
anything: Any = cr  # whose types would refuse these calls
graph: Any = cr.trace(lambda x, W: np.sum(x @ W), X, np.ones(3))
step: Any = cr.training_step(graph, "W", cr.sgd(0.1))
huber: Any = cr.huber
AT_ONCE: dict[str, Callable[[], Any]] = {
    "cr.huber(float64[4, 3], None): unsupported operand": lambda: huber(X, None),
    "its arguments are: cr.huber(prediction, target, delta=1.0,": lambda: huber(X, X, delt=3),
    "cr.erf('a'): must be real number": lambda: cr.erf("a"),
    "cr.huber({'q': array([[1., 1., 1.], [1.": lambda: huber({"q": X}, X),
    "axis=-3 is no axis of the array: float64[4, 3]": lambda: cr.norm(X, axis=-3),
    "indices start at 0 and end at 3": lambda: cr.embedding(X, np.array([7])),
    "there is nothing to choose from in None": lambda: cr.random.choice(KEY, None),
    "up to maxval=3 there are no integers": lambda: cr.random.randint(KEY, (), 3, 3),
    "simplify needs a graph, got function": lambda: anything.simplify(huber),
    "prune needs a graph, got function": lambda: anything.prune(huber),
    "deduplicate needs a graph, got function": lambda: anything.deduplicate(huber),
    "cr.transforms.jvp_graph(cr.trace(f))": lambda: anything.transforms.jvp_graph(huber),
    "cr.transforms.vjp_graph(cr.trace(f))": lambda: anything.transforms.vjp_graph(huber),
    "cr.transforms.batch(cr.trace(f)": lambda: anything.transforms.batch(huber, 3, ["x"]),
    "keep=None is neither": lambda: graph.compile(keep=None),
    "layout=3 is not a memory layout": lambda: graph.memory(layout=3),
    "step.init takes its arrays by name, got list": lambda: step.init([1]),
    "step.restore takes its arrays by name": lambda: step.restore([1]),
    "an objective is a function, a graph or": lambda: anything.evaluate(3, {}, {}),
    "batch_size=100": lambda: anything.data.minibatches(X, None),
}


@pytest.mark.parametrize("words", AT_ONCE)
def test_what_is_wrong_with_an_argument_is_said_at_once(words: str) -> None:
    try:
        AT_ONCE[words]()
    except ChainruleError as error:
        assert words in f"{error.what}\n{error.hint}"
        assert error.hint
    else:
        raise AssertionError("no error")


def test_np_errstate_raises_its_own_error() -> None:
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        cr.logsumexp(np.array([np.inf, -np.inf]) - np.inf)

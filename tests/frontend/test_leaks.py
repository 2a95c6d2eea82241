"""A traced array is of use within the call that traces it, and nowhere else."""

import functools
import threading
from dataclasses import dataclass

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import ForeignValueError

X = np.array([0.5, 1.5])
ENDED = "is used after the call that traced it has ended"


def leak_of(call):
    """What `call` keeps when it runs a function that stores what it computes."""
    kept = []

    def leaking(x, *more):
        h = np.sin(x)
        kept.append(h)
        return np.sum(h)

    call(leaking)
    return kept[-1]


@cr.custom_derivative
def cubed(x):
    return x**3


RULE_VALUES = []


def _cubed_backward(x, seed):
    RULE_VALUES.append(seed * 2)
    return (3 * x**2 * seed,)


cubed.defvjp(lambda x: (cubed(x), x), _cubed_backward)


def _of_rule(leaking):
    cr.grad(lambda x: np.sum(cubed(x)))(X)
    leaking(RULE_VALUES[-1])


def _primitive(leaking):
    def partial(out, x):
        leaking(x)
        return 2 * x

    cr.grad(lambda x: np.sum(cr.primitive(np.square, partials=(partial,))(x)))(X)


def _failing(leaking):
    def function(x):
        leaking(x)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        cr.trace(function, X)


WAYS = {
    "trace": lambda f: cr.trace(f, X),
    "a trace that fails": _failing,
    "compile": lambda f: cr.compile(f)(X),
    "grad": lambda f: cr.grad(f)(X),
    "value_and_grad": lambda f: cr.value_and_grad(f)(X),
    "grad of a grad": lambda f: cr.grad(lambda x: np.sum(cr.grad(f)(x)))(X),
    "vjp": lambda f: cr.vjp(f, X)[1](1.0),
    "jvp": lambda f: cr.jvp(f, (X,), (X,)),
    "hvp": lambda f: cr.hvp(f, X, X),
    "vmap": lambda f: cr.vmap(f)(np.stack([X, X])),
    "jacobian": lambda f: cr.jacobian(f)(X),
    "jacobian in parts": lambda f: cr.jacobian(lambda x: x * f(x), rows=1)(X),
    "hessian": lambda f: cr.hessian(f)(X),
    "cond": lambda f: cr.trace(lambda x: cr.cond(x[0] > 0, f, np.sum, x), X),
    "scan": lambda f: cr.trace(lambda x: cr.scan(lambda c, r: (c + f(r), None), 0.0, x)[0], X),
    "fori_loop": lambda f: cr.trace(lambda x: cr.fori_loop(0, 3, lambda i, c: c + f(x), 0.0), X),
    "while_loop": lambda f: cr.trace(
        lambda x: cr.while_loop(lambda c: c < 3, lambda c: c + f(x) ** 2, 0.0), X
    ),
    "a rule of custom_derivative": _of_rule,
    "a rule of primitive": _primitive,
    "has_aux": lambda f: cr.grad(lambda x: (f(x), {"aux": x}), has_aux=True)(X),
}


@dataclass
class Held:
    value: object


def _step(function, **given):
    graph = cr.trace(function, x=X, w=X)
    step = cr.training_step(graph, wrt="w", optimizer=cr.sgd(0.1))
    return step(step.init(w=X), x=given["x"])


def _layer(weights):
    class Layer:
        W = weights

        def f(self, x):
            return np.sum(x * self.W)

    return Layer()


def _of(*values):
    yield from values


def uses(leaked):
    """Ways in: what is done with the array, by what a reader would call it."""
    held, plain = Held(leaked), np.zeros(2)
    graph = cr.trace(lambda x: x * 2, X)

    def closing(x):
        return np.sum(x * leaked)

    return {
        "an operator": lambda: leaked + 1,
        "a reflected operator": lambda: plain - leaked,
        "a comparison": lambda: leaked > 0,
        "an index": lambda: leaked[..., None],
        "a ufunc": lambda: np.exp(leaked),
        "a function": lambda: np.sum(leaked),
        "a method": lambda: leaked.sum(),
        "a method that computes nothing": lambda: leaked.copy(),
        "an operator that computes nothing": lambda: +leaked,
        "the real part": lambda: leaked.real,
        "an axis order that is its own": lambda: np.transpose(leaked, tuple(range(leaked.ndim))),
        "dropout in prediction": lambda: cr.dropout(leaked, 0.5),
        "what a custom function returns": lambda: cr.custom_derivative(lambda x: held.value)(X),
        "an operand of cr.at": lambda: cr.at(X)[:].set(leaked),
        "a function of cr.at": lambda: cr.at(X)[0].apply(lambda x: leaked),
        "a rate of dropout": lambda: cr.dropout(X, leaked, key=cr.random.key(0)),
        "a default": lambda: cr.grad(lambda x, y=leaked: np.sum(x * y))(X),
        "a partial": lambda: cr.trace(functools.partial(np.multiply, leaked), X),
        "an attribute of a class": lambda: cr.grad(_layer(leaked).f)(X),
        "a generator": lambda: cr.grad(lambda x: sum(np.sum(x * one) for one in _of(leaked)))(X),
        "a row": lambda: next(iter(leaked + 0.0)),
        "a sum in Python": lambda: sum([leaked, leaked]),
        "a buffer": lambda: X.copy().__setitem__(slice(None), leaked),
        "weights": lambda: cr.save_weights("never.npz", {"w": leaked}),
        "a parameter": lambda: cr.training_step(
            cr.trace(lambda w: np.sum(w * w), X), "w", cr.sgd(0.1)
        ).init(w=leaked),
        "a composite": lambda: cr.softmax(leaked),
        "an update": lambda: leaked.at[..., None].set(0.0),
        "float": lambda: float(leaked),
        "bool": lambda: bool(leaked),
        "np.asarray": lambda: np.asarray(leaked),
        "a scan": lambda: cr.scan(lambda c, x: (c, x), leaked, X),
        "cond": lambda: cr.cond(True, np.sum, np.mean, leaked),
        "an argument of trace": lambda: cr.trace(np.sin, leaked),
        "an argument of run": lambda: graph.run(x=leaked),
        "an argument of a compiled graph": lambda: cr.compile(graph)(x=leaked),
        "an argument of a compiled function": lambda: cr.compile(np.sum)(leaked),
        "an argument of grad": lambda: cr.grad(np.sum)(leaked),
        "an argument of vmap": lambda: cr.vmap(np.sin)([leaked]),
        "an argument of jvp": lambda: cr.jvp(np.sin, (X,), (leaked,)),
        "an argument of vjp": lambda: cr.vjp(np.sin, leaked),
        "a closure of trace": lambda: cr.trace(closing, X),
        "a closure of compile": lambda: cr.compile(closing)(X),
        "a closure of grad": lambda: cr.grad(closing)(X),
        "a closure of value_and_grad": lambda: cr.value_and_grad(closing)(X),
        "a closure of vjp": lambda: cr.vjp(closing, X),
        "a closure of jvp": lambda: cr.jvp(closing, (X,), (X,)),
        "a closure of hvp": lambda: cr.hvp(closing, X, X),
        "a closure of vmap": lambda: cr.vmap(closing)(np.stack([X, X])),
        "a closure of jacobian": lambda: cr.jacobian(closing)(X),
        "a closure of hessian": lambda: cr.hessian(closing)(X),
        "a closure of a nested grad": lambda: cr.grad(lambda x: np.sum(cr.grad(closing)(x)))(X),
        "what a function returns": lambda: cr.trace(lambda x: [x, held.value], X),
        "what a differentiated function returns": lambda: cr.grad(lambda x: held.value)(X),
        "aux": lambda: cr.grad(lambda x: (np.sum(x), held.value), has_aux=True)(X),
        "a body of scan": lambda: cr.trace(
            lambda x: cr.scan(lambda c, r: (c + held.value.sum() * r, None), 0.0, x)[0], X
        ),
        "a branch": lambda: cr.trace(
            lambda x: cr.cond(x[0] > 0, lambda y: y * held.value, lambda y: y, x), X
        ),
        "a training step": lambda: _step(lambda x, w: np.sum(x * w * leaked), x=X),
        "a batch of a training step": lambda: _step(lambda x, w: np.sum(x * w), x=leaked),
    }


def refuse(use, leaked):
    with pytest.raises(ForeignValueError, match=ENDED) as caught:
        uses(leaked)[use]()
    assert caught.value.hint.startswith("pass the array as an argument")


@pytest.mark.parametrize("use", uses(None))
def test_a_value_that_left_its_trace_is_refused(use) -> None:
    refuse(use, leak_of(WAYS["grad"]))


@pytest.mark.parametrize("way", WAYS)
def test_values_of_every_trace_are_refused(way) -> None:
    if way == "a rule of custom_derivative":
        with pytest.raises(ForeignValueError):
            leak_of(WAYS[way])
        leaked = RULE_VALUES[-1]
    else:
        leaked = leak_of(WAYS[way])
    for use in ("an operator", "a function", "a closure of grad", "a closure of trace"):
        refuse(use, leaked)


def test_the_message_names_the_value_and_the_line_that_uses_it() -> None:
    leaked = leak_of(WAYS["grad"])
    with pytest.raises(ForeignValueError) as caught:
        cr.grad(lambda x: np.sum(x * leaked))(X)
    text = str(caught.value)
    assert text.startswith(f"h: float64[2] {ENDED}")
    assert "np.sum(x * leaked)" in caught.value.where


def test_a_pull_that_left_its_trace_is_refused() -> None:
    pulls = []

    def function(x):
        value, pull = cr.vjp(np.sin, x)
        pulls.append(pull)
        return np.sum(value + pull(np.ones(2))[0])

    cr.trace(function, X)
    with pytest.raises(ForeignValueError, match="has ended"):
        pulls[0](np.ones(2))


def test_values_of_an_outer_trace_that_goes_on_are_read_within() -> None:
    def outer(x):
        y = np.sin(x)
        inner = cr.grad(lambda w: np.sum(w * y))(np.ones(2))
        return np.sum(inner * cr.compile(lambda w: w * y)(np.ones(2)))

    np.testing.assert_allclose(cr.grad(outer)(X), 2 * np.sin(X) * np.cos(X), rtol=1e-14)


def _in_thread(function):
    found = []

    def run():
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize(
    "use",
    [
        lambda h: h + 1,
        lambda h: cr.grad(lambda x: np.sum(x * h))(X),
        lambda h: cr.compile(lambda x: np.sum(x * h))(X),
        lambda h: cr.trace(lambda x: x * h, X),
        lambda h: float(h[0]),
    ],
    ids=["an operator", "grad", "compile", "trace", "float"],
)
def test_a_value_of_a_trace_that_goes_on_in_another_thread_is_refused(use) -> None:
    found = []

    def function(x):
        h = np.sin(x)
        found.append(_in_thread(lambda: use(h)))
        return np.sum(h)  # the trace itself goes on unharmed

    graph = cr.trace(function, X)
    assert isinstance(found[0], ForeignValueError), found[0]
    assert "is used in another thread than traces it" in str(found[0])
    assert [name for name, _ in graph.outputs] == ["out"]
    np.testing.assert_allclose(graph.run(x=X)["out"], np.sin(X).sum())


def test_threads_that_trace_at_once_keep_to_themselves() -> None:
    def gradient():
        return cr.grad(lambda x: np.sum(np.sin(x) ** 2))(X)

    wanted = gradient()
    found = [_in_thread(gradient) for _ in range(4)]
    assert all(np.array_equal(one, wanted) for one in found)


def test_a_value_that_left_its_trace_says_so_where_it_is_printed() -> None:
    leaked = leak_of(WAYS["grad"])
    assert str(leaked).endswith(", of a trace that has ended>")
    assert repr([leaked]).endswith(", of a trace that has ended>]")

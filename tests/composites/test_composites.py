"""Every composite has the value and the derivatives that autograd and PyTorch find."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy as anp
import elementwise_cases  # noqa: F401  (it adds its cases to CASES)
import neural_cases  # noqa: F401  (it adds its cases to CASES)
import numpy as np
import pytest
import reduction_cases  # noqa: F401  (it adds its cases to CASES)
from composite_cases import CASES, RANDOM, Case

import chainrule as cr
from chainrule.nn import (
    activations,
    adaptive_pooling,
    attention,
    binary,
    convolution,
    distances,
    grid_sampling,
    interpolation,
    layers,
    linear_units,
    losses,
    normalisation,
    pooling,
    running,
    transposed_convolution,
)
from chainrule.numpy import of_one_primitive, statistics

MODULES = (
    *(activations, attention, binary, convolution, distances),
    *(layers, linear_units, losses, normalisation, pooling, of_one_primitive, statistics),
    *(transposed_convolution, adaptive_pooling, interpolation, running, grid_sampling),
)


def public_composites() -> list[Any]:
    """The library's composites: every public function of the modules that define them."""
    found = []
    for module in MODULES:
        for name, value in inspect.getmembers(module, inspect.isfunction):
            # What `unary` makes says that it is of that module.
            mine = module is of_one_primitive or value.__module__ == module.__name__
            if not name.startswith("_") and mine:
                found.append(value)
    return [f for f in found if getattr(cr, f.__name__, None) is f and f is not cr.size_value]


def test_every_composite_has_a_case() -> None:
    """Those with NumPy's names are gone through by frontend/test_numpy_gradients.py."""
    tried = {id(c.of) for c in CASES}
    wanted = public_composites()
    assert len(wanted) >= 18
    missing = [f.__name__ for f in wanted if id(f) not in tried]
    assert not missing


FIRST = list({id(c.of): c for c in reversed(CASES)}.values())  # of each function
every_case = pytest.mark.parametrize(
    "c",
    [pytest.param(c, marks=[] if c in FIRST else pytest.mark.exhaustive) for c in CASES],
    ids=lambda c: c.name,
)


def scalar(xp: Any, call: Callable[..., Any], weights: list[Any]) -> Callable[..., Any]:
    """A scalar function of the arguments in which every element of the result matters."""

    def J(*args: Any) -> Any:
        out = call(*args)
        return xp.sum(xp.sin(out) * weights[0] + out * weights[1])

    return J


def found(c: Case) -> tuple[list[Any], list[Any], Any, list[Any], list[Any]]:
    """arguments, directions, weights; then gradients and Hessian-vector products by chainrule."""
    arguments = c.arguments()
    directions = [RANDOM.normal(size=x.shape) for x in arguments]
    with np.errstate(all="ignore"):
        out = np.shape(c.call(*arguments))
    weights = [RANDOM.normal(size=out), RANDOM.normal(size=out)]
    J = scalar(np, c.call, weights)
    places = tuple(range(len(arguments)))
    gradients = cr.grad(J, wrt=places)(*arguments)
    products = cr.hvp(J, tuple(arguments), tuple(directions))
    return arguments, directions, weights, list(gradients), list(products)


def agree(one: Any, other: Any) -> None:
    """Within 1e-10 of the largest element: second derivatives are sums of both signs."""
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape
    np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(other).max(initial=1))


@every_case
def test_the_value_is_numpys_and_traced_and_plain_agree(c: Case) -> None:
    arguments = c.arguments()
    plain = c.call(*arguments)
    assert isinstance(plain, (np.ndarray, np.generic))
    names = "xyz"[: len(arguments)]
    graph = cr.trace(c.call, *arguments)
    run = graph.run({item.name: x for item, x in zip(graph.inputs, arguments, strict=True)})
    assert names
    agree(run[graph.outputs[0][0]], plain)
    assert graph.outputs[0][1].type.dtype == np.float64


@pytest.mark.sweep(5)
@every_case
def test_float32_stays_what_it_is_traced_as_plain(c: Case) -> None:
    arguments = [x.astype("f4") if x.dtype == np.float64 else x for x in c.arguments()]
    graph = cr.trace(c.call, *arguments)
    assert graph.outputs[0][1].type.dtype == np.asarray(c.call(*arguments)).dtype


@pytest.mark.parametrize("function", [cr.stop_gradient, cr.softmax, cr.log_softmax, cr.logsumexp])
def test_booleans_are_taken_traced_as_plain(function: Callable[[Any], Any]) -> None:
    x = np.array([True, False, True])
    for executor in ("reference", "native"):
        run = cr.trace(function, x).run(x=x, executor=executor)
        assert run.outputs.dtype == function(x).dtype
        np.testing.assert_allclose(run.outputs, function(x), rtol=1e-12)


@pytest.mark.sweep(11)
@pytest.mark.parametrize("c", [c for c in CASES if c.autograd], ids=lambda c: c.name)
def test_first_and_second_derivatives_are_autograds(c: Case) -> None:
    arguments, directions, weights, gradients, products = found(c)
    assert c.autograd is not None
    agree(c.call(*arguments), c.autograd(*arguments))
    J = scalar(anp, c.autograd, weights)
    gradient = autograd.grad(lambda xs: J(*xs))

    def along(xs: Any) -> Any:
        parts = zip(gradient(xs), directions, strict=True)
        return sum((anp.sum(g * v) for g, v in parts), 0.0)

    for one, other in zip(gradients, gradient(tuple(arguments)), strict=True):
        agree(one, other)
    with np.errstate(all="ignore"):
        expected = autograd.grad(along)(tuple(arguments))
    for one, other in zip(products, expected, strict=True):
        agree(one, other)


@pytest.mark.peers
@pytest.mark.sweep(7)  # tests/opinfo has PyTorch's own samples of nearly all of them
@pytest.mark.parametrize("c", [c for c in CASES if c.torch], ids=lambda c: c.name)
def test_first_and_second_derivatives_are_pytorchs(c: Case) -> None:
    torch = pytest.importorskip("torch")
    arguments, directions, weights, gradients, products = found(c)
    leaves = [torch.tensor(x, requires_grad=True) for x in arguments]
    assert c.torch is not None
    value = c.torch(*leaves)
    agree(c.call(*arguments), value.detach().numpy())
    J = scalar(torch, c.torch, [torch.tensor(w) for w in weights])(*leaves)
    options = dict(allow_unused=True, materialize_grads=True)
    first = torch.autograd.grad(J, leaves, create_graph=True, **options)
    along = sum((g * torch.tensor(v)).sum() for g, v in zip(first, directions, strict=True))
    second = torch.autograd.grad(along, leaves, **options)
    for one, other in zip((*gradients, *products), (*first, *second), strict=True):
        agree(one, other.numpy(force=True))

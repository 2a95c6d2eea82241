"""What the key of a compiled function must tell apart: the order of dicts, and equal names."""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest
from executors import EITHER

import chainrule as cr
from chainrule.errors import InputError

A, B = np.random.default_rng(0).normal(size=(2, 3, 3))
X = np.ones((1, 3))


def net(x, layers):
    for W in layers.values():
        x = np.tanh(x @ W)
    return x


@dataclass
class Model:
    layers: dict


@EITHER
@pytest.mark.parametrize("kind", [dict, OrderedDict])
def test_dicts_in_another_order_are_another_program(executor, kind) -> None:
    one, two = kind([("a", A), ("b", B)]), kind([("b", B), ("a", A)])
    f = cr.compile(net, executor=executor)
    for layers in (one, two, one):
        np.testing.assert_allclose(f(X, layers), net(X, layers), rtol=1e-12)
        np.testing.assert_allclose(f(x=X, layers=layers), net(X, layers), rtol=1e-12)
    nested = cr.compile(lambda x, m: net(x, m[0].layers), executor=executor)
    for layers in (one, two):
        np.testing.assert_allclose(nested(X, [Model(layers)]), net(X, layers), rtol=1e-12)


@EITHER
def test_keywords_in_another_order_are_another_program(executor) -> None:
    def first(**given):
        return next(iter(given.values())) * 1.0

    f = cr.compile(first, executor=executor)
    for _ in range(2):
        np.testing.assert_array_equal(f(b=X, a=2 * X), X)
        np.testing.assert_array_equal(f(a=2 * X, b=X), 2 * X)


@EITHER
def test_a_key_with_the_name_of_an_argument_is_refused(executor) -> None:
    def f(x, /, **given):
        return x * 1.0 + sum(v * 10 for v in given.values())

    for call in (cr.compile(f, executor=executor), cr.grad(lambda x, /, **k: np.sum(f(x, **k)))):
        with pytest.raises(InputError, match=r"x is an argument of .*, and a key of \*\*"):
            call(X, x=5 * X)
    np.testing.assert_array_equal(cr.compile(f, executor=executor)(X, y=X), 11 * X)


def test_a_memoryview_stays_what_it_is() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        cr.compile(lambda x: x * 2)(memoryview(bytearray(8)))

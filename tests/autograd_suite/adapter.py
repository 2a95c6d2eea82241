"""A stand-in for autograd, made of NumPy and chainrule: a pytest plugin for autograd's own tests.

`pytest -p adapter FILES` runs them with `import autograd` meaning what is made here: its numpy is
NumPy itself, whose functions are traced, and its derivatives are chainrule's.  `--outcomes FILE`
writes what became of each test; `--combinations 2` tries about 2 of the combinations of arguments
that a test asks for, where it asks for more, and second derivatives in its first check alone;
`--executor NAME` runs the derivatives.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chainrule as cr

EPS, CLOSE = 1e-6, 1e-6
EXECUTOR = ["reference"]


# NumPy, with the one function that cannot see traced arrays inside lists -------------------------


def array(value: Any, dtype: Any = None, **options: Any) -> Any:
    """np.array, of nested lists of traced arrays too."""
    if not has_traced(value):
        return np.array(value, dtype, **options)
    if isinstance(value, (list, tuple)):
        return np.stack([np.asarray(one) if not has_traced(one) else array(one) for one in value])
    return value if dtype is None else value.astype(dtype)


def make_diagonal(diagonal: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """autograd's own inverse of np.diagonal, for the last two axes."""
    assert (offset, axis1, axis2) == (0, -1, -2)
    return diagonal[..., None] * np.eye(np.shape(diagonal)[-1])


def has_traced(value: Any) -> bool:
    """Whether a traced array is, or is in, the value."""
    if isinstance(value, (list, tuple)):
        return any(has_traced(one) for one in value)
    return hasattr(value, "node")


# Derivatives --------------------------------------------------------------------------------------


def _argnums(argnum: Any) -> Any:
    return tuple(argnum) if isinstance(argnum, (list, tuple)) else argnum


def scalar(value: Any) -> Any:
    """autograd takes arrays of one element for scalars."""
    return np.reshape(value, ()) if np.size(value) == 1 and np.ndim(value) else value


def value_and_grad(fun: Any, argnum: Any = 0) -> Any:
    @functools.wraps(fun)
    def of_scalar(*args: Any, **kwargs: Any) -> Any:
        value = fun(*args, **kwargs)
        return scalar(value), value

    both = cr.value_and_grad(of_scalar, wrt=_argnums(argnum), has_aux=True, executor=EXECUTOR[0])

    def call(*args: Any, **kwargs: Any) -> Any:
        (_, value), gradient = both(*args, **kwargs)
        return value, gradient

    return call


def grad(fun: Any, argnum: Any = 0) -> Any:
    both = value_and_grad(fun, argnum)
    return lambda *args, **kwargs: both(*args, **kwargs)[1]


def grad_and_aux(fun: Any, argnum: Any = 0) -> Any:
    return cr.grad(fun, wrt=_argnums(argnum), has_aux=True, executor=EXECUTOR[0])


def grad_named(fun: Any, argname: str) -> Any:
    return cr.grad(fun, wrt=argname, executor=EXECUTOR[0])


def make_jvp(fun: Any, argnum: Any = 0) -> Any:
    def made(*args: Any) -> Any:
        def of_one(x: Any) -> Any:
            return fun(*args[:argnum], x, *args[argnum + 1 :])

        return lambda v: cr.jvp(of_one, (args[argnum],), (v,), executor=EXECUTOR[0])

    return made


def tensor_jacobian_product(fun: Any, argnum: Any = 0) -> Any:
    def product(*args: Any) -> Any:
        *given, vector = args
        pull, value = make_vjp(fun, argnum)(*given)
        rest = np.shape(value)[np.ndim(vector) :]
        if not rest:
            return pull(vector)
        return np.tensordot(vector, jacobian(fun, argnum)(*given), np.ndim(vector))

    return product


def left_out(*args: Any, **kwargs: Any) -> Any:
    """What autograd has and chainrule has not."""
    raise NotImplementedError("chainrule has nothing like it")


def jacobian(fun: Any, argnum: Any = 0) -> Any:
    return cr.jacobian(fun, wrt=_argnums(argnum))


def hessian(fun: Any, argnum: Any = 0) -> Any:
    return cr.hessian(fun, wrt=_argnums(argnum))


def elementwise_grad(fun: Any, argnum: Any = 0) -> Any:
    def total(*args: Any, **kwargs: Any) -> Any:
        return np.sum(fun(*args, **kwargs))

    return grad(total, argnum)


def make_vjp(fun: Any, argnum: Any = 0) -> Any:
    def made(*args: Any) -> Any:
        def of_one(x: Any) -> Any:
            return fun(*args[:argnum], x, *args[argnum + 1 :])

        value, pull = cr.vjp(of_one, args[argnum], executor=EXECUTOR[0])
        return (lambda g: pull(g)[0]), value

    return made


def make_hvp(fun: Any, argnum: Any = 0) -> Any:
    def made(*args: Any) -> Any:
        gradient = grad(fun, argnum)

        def of_one(x: Any) -> Any:
            return gradient(*args[:argnum], x, *args[argnum + 1 :])

        return (lambda v: cr.jvp(of_one, (args[argnum],), (v,), executor=EXECUTOR[0])[1],)

    return made


def hessian_vector_product(fun: Any, argnum: Any = 0) -> Any:
    def product(*args: Any) -> Any:
        *given, v = args
        return make_hvp(fun, argnum)(*given)[0](v)

    return product


# What a test compared -----------------------------------------------------------------------------

COMPARED = {"derivatives": 0, "others": 0, "complex": 0}


def left_out_for() -> str:
    """What the outcome of a test that passed is called where it had nothing but complex cases."""
    is_complex = COMPARED["complex"] and not (COMPARED["derivatives"] or COMPARED["others"])
    return "complex" if is_complex else ""


# Checks -------------------------------------------------------------------------------------------


def leaves_of(value: Any) -> list[np.ndarray]:
    """The float arrays and numbers in a container, in order."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves_of(value[key])]
    if isinstance(value, (list, tuple)):
        return [leaf for one in value for leaf in leaves_of(one)]
    return [value]


def rebuilt(value: Any, leaves: Any) -> Any:
    """The container with other leaves, taken from an iterator."""
    if isinstance(value, dict):
        found = {key: rebuilt(value[key], leaves) for key in sorted(value)}
        return {key: found[key] for key in value}
    if isinstance(value, (list, tuple)):
        return type(value)([rebuilt(one, leaves) for one in value])
    return next(leaves)


def is_float(value: Any) -> bool:
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    return dtype.kind == "f"


def is_complex(value: Any) -> bool:
    return any(np.iscomplexobj(leaf) for leaf in leaves_of(value))


def check_grads(fun: Any, argnum: Any = 0, modes: Any = ("fwd", "rev"), order: int = 2) -> Any:
    """Orders 1 and 2 along random directions against central differences, in both modes."""
    argnums = (argnum,) if isinstance(argnum, int) else tuple(argnum)

    def check(*args: Any, **kwargs: Any) -> None:
        if is_complex([*args, *kwargs.values()]):
            COMPARED["complex"] += 1  # which are left out; a test of nothing else counts so
            return
        chosen = [args[i] for i in argnums]
        points = [np.asarray(leaf, float) for leaf in leaves_of(chosen)]
        generator = np.random.default_rng(len(points))

        def outputs(*leaves: Any) -> list[Any]:
            found = rebuilt(chosen, iter(leaves))
            given = list(args)
            for i, value in zip(argnums, found, strict=True):
                given[i] = value
            return [leaf for leaf in leaves_of(fun(*given, **kwargs)) if is_float(leaf)]

        weights = [generator.standard_normal(np.shape(v)) for v in outputs(*points)]

        def scalar(*leaves: Any) -> Any:
            return sum(np.sum(v * w) for v, w in zip(outputs(*leaves), weights, strict=True))

        is_quick = MOST_COMBINATIONS[0] and COMPARED["derivatives"]
        if weights:
            along(scalar, points, modes, 1 if is_quick else order, generator)

    return check


def along(function: Any, points: Any, modes: Any, order: int, generator: Any) -> None:
    """Compare the derivative along a direction; then that of the gradient along another."""
    move = [generator.standard_normal(point.shape) for point in points]
    wrt = tuple(range(len(points)))
    gradient = cr.grad(function, wrt=wrt, executor=EXECUTOR[0])
    ahead = function(*[p + EPS / 2 * v for p, v in zip(points, move, strict=True)])
    behind = function(*[p - EPS / 2 * v for p, v in zip(points, move, strict=True)])
    expected = float(np.asarray((ahead - behind) / EPS))
    if "rev" in modes:
        found = sum(float(np.sum(g * v)) for g, v in zip(gradient(*points), move, strict=True))
        close(found, expected, "reverse mode")
    if "fwd" in modes:
        found = cr.jvp(function, tuple(points), tuple(move), executor=EXECUTOR[0])[1]
        close(float(np.asarray(found)), expected, "forward mode")
    if order > 1:
        other = [generator.standard_normal(point.shape) for point in points]

        def product(*leaves: Any) -> Any:
            return sum(np.sum(g * u) for g, u in zip(gradient(*leaves), other, strict=True))

        along(product, points, modes, order - 1, generator)


def close(found: float, expected: float, what: str) -> None:
    COMPARED["derivatives"] += 1
    scale = abs(found + expected)
    near = abs(found - expected) < CLOSE or abs(found - expected) / scale < CLOSE
    assert near, f"{what}: {found}, by finite differences {expected}"


def combo_check(fun: Any, argnum: Any = 0, **options: Any) -> Any:
    """check_grads on all combinations of the arguments given."""

    def check(*args: Any, **kwargs: Any) -> None:
        for values in some_of(list(itertools.product(*args, *kwargs.values()))):
            named = dict(zip(kwargs, values[len(args) :], strict=True))
            check_grads(fun, argnum, **options)(*values[: len(args)], **named)

    return check


MOST_COMBINATIONS = [0]  # of one check; 0: all of them


def some_of(combinations: list[Any]) -> list[Any]:
    """Every kth: with k that has no divisor in common with their number, all values are met."""
    count, most = len(combinations), MOST_COMBINATIONS[0] or len(combinations)
    every = max(1, -(-count // max(most, 1)))
    while math.gcd(every, count) > 1:
        every += 1
    return combinations[::every]


def check_equivalent(x: Any, y: Any) -> None:
    COMPARED["others"] += 1
    np.testing.assert_allclose(x, y, rtol=CLOSE, atol=CLOSE)


def scalar_close(a: Any, b: Any) -> bool:
    COMPARED["others"] += 1
    return abs(a - b) < CLOSE or abs(a - b) / abs(a + b) < CLOSE


# The plugin ---------------------------------------------------------------------------------------


def _module(name: str, **members: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__path__ = []
    vars(made).update(members)
    sys.modules[name] = made
    return made


def public(module: types.ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("__")}


def install() -> None:
    """Put the stand-in where `import autograd` finds it."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "autograd"]:
        del sys.modules[name]
    numpy = _module("autograd.numpy", **public(np), __version__=np.__version__)
    numpy.make_diagonal = make_diagonal
    linalg = _module("autograd.numpy.linalg", **public(np.linalg))
    linalg._dot, linalg.T = np.matmul, np.matrix_transpose  # which the tests take from there
    numpy.array, numpy.random, numpy.linalg = array, np.random, linalg
    sys.modules["autograd.numpy.random"] = np.random
    derivatives = {
        "grad": grad,
        "value_and_grad": value_and_grad,
        "jacobian": jacobian,
        "hessian": hessian,
        "elementwise_grad": elementwise_grad,
        "deriv": elementwise_grad,
        "grad_and_aux": grad_and_aux,
        "grad_named": grad_named,
        "make_jvp": make_jvp,
        "make_vjp": make_vjp,
        "tensor_jacobian_product": tensor_jacobian_product,
        "checkpoint": lambda fun: fun,
        **dict.fromkeys(
            ("holomorphic_grad", "make_ggnvp", "multigrad_dict"),
            left_out,
        ),
        "make_hvp": make_hvp,
        "hessian_vector_product": hessian_vector_product,
        "hessian_tensor_product": hessian_vector_product,
        "tuple": tuple,
        "list": list,
        "dict": dict,
        "isinstance": isinstance,
    }
    _module("autograd", numpy=numpy, **derivatives)
    _module("autograd.builtins", tuple=tuple, list=list, dict=dict, isinstance=isinstance)
    _module("autograd.tracer", isbox=has_traced)
    _module(
        "autograd.test_util",
        check_grads=check_grads,
        combo_check=combo_check,
        check_equivalent=check_equivalent,
        scalar_close=scalar_close,
    )


OUTCOMES: dict[str, list[Any]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", help="where to write what became of each test")
    parser.addoption("--combinations", type=int, default=0, help="of a check's arguments; 0: all")
    parser.addoption("--executor", default="reference", help="of the derivatives")


def pytest_configure(config: pytest.Config) -> None:
    EXECUTOR[0] = config.getoption("--executor")
    MOST_COMBINATIONS[0] = config.getoption("--combinations")
    install()


def pytest_runtest_call(item: pytest.Item) -> None:
    COMPARED.update(dict.fromkeys(COMPARED, 0))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.failed:
        said = str(getattr(report.longrepr, "reprcrash", report.longrepr) or "")
        outcome = left_out_for() if report.outcome == "passed" else ""
        OUTCOMES[report.nodeid] = [outcome or report.outcome, said[:500], dict(COMPARED)]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        OUTCOMES[report.nodeid] = ["uncollected", str(report.longrepr)[-500:], dict(COMPARED)]


def pytest_sessionfinish(session: pytest.Session) -> None:
    where = session.config.getoption("--outcomes")
    if where:
        Path(where).write_text(json.dumps(OUTCOMES, indent=1), encoding="utf-8")

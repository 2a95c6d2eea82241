"""Every primitive that can make a NaN or an inf: its line, element and cause are told truly."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
from nonfinite_faults import FAULTS, HUGE
from nonfinite_programs import function_of, model

import chainrule as cr
from chainrule.control import CONTROL
from chainrule.explain.nonfinite import Diagnosis
from chainrule.explain.nonfinite.flow import is_pointwise
from chainrule.primitives.primitive import Assemble, Generate, Move, Primitive
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing.samples import as_function, sample_arrays, sample_graph

BY_NAME = {one.name: one for one in (*PRIMITIVES, *CONTROL)}
INF = np.inf
REFUSES = {
    "cholesky": [[1.0, 2.0], [2.0, 1.0]],  # an EvaluationError of the run, with the user's line
    "solve": np.ones((2, 2)),
    "inv": np.ones((2, 2)),
}
SELECTS = (
    *("where", "maximum", "minimum", "max", "min", "cummax", "cummin"),
    *("copysign", "stop_gradient", "identity"),
)
NEVER = (  # finite wherever their operands are; NaN only of NaN
    *("negative", "sign", "absolute", "tanh", "logistic", "erf", "erfc", "ndtr", "cbrt"),
    *(
        "arctan",
        "arctan_slope",
        "arctan2",
        "arcsinh",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "i0e",
        "i1e",
        "pinv",
    ),
    *("gaussian", "log_expit", "i0e_slope", "i1e_slope", "bessel_derivative"),
)
CASES = [(name, number) for name, faults in FAULTS.items() for number in range(len(faults))]
EXTREME = (0.0, -0.0, 5e-324, 1e-310, 0.5, 1, 2, 3.5, 1e10, 1e200, 1e308, -0.5, -1, -2, -1e308)


def named(primitive: Primitive) -> str:
    """What a test says of a primitive, "" for those without floats in their results."""
    found = []
    for sample in primitive.samples:
        arrays = sample_arrays(sample, 0)
        graph = sample_graph(primitive, sample, arrays)
        found.append(graph.outputs[0][1].dtype.kind == "f")
    return primitive.name if any(found) else ""


def test_every_primitive_is_in_one_table() -> None:
    bodies = {one.name for one in CONTROL}  # test_nonfinite_loops
    moves = {one.name for one in PRIMITIVES if isinstance(one.kernel, (Move, Assemble, Generate))}
    given = {"input", "constant", "gather"}
    known = {*FAULTS, *SELECTS, *NEVER, "cholesky"}
    assert known <= set(BY_NAME)
    assert not known & (moves | given | bodies)
    floats = {named(one) for one in PRIMITIVES if one.inputs} - {""}
    assert floats - known - moves - given == set()


@pytest.mark.sweep(5)
@pytest.mark.parametrize(("name", "number"), CASES)
def test_primitive_line_element_and_cause_are_told(name: str, number: int) -> None:
    fault = FAULTS[name][number]
    primitive = BY_NAME[name]
    apply = as_function(primitive, **fault.params)
    arrays = [
        one if isinstance(one, np.ndarray) and one.dtype.kind == "i" else np.array(one, float)
        for one in fault.operands
    ]
    found = replayed(apply, arrays)
    assert found is not None
    assert found.became == ("NaN" if np.isnan(fault.became) else f"{fault.became:g}")
    assert found.indices[0] == fault.place
    assert name in found.expression or is_pointwise_sign(found.expression)
    assert found.because == fault.because


def is_pointwise_sign(expression: str) -> bool:
    """Whether it is written with an operator, `x / y`, or as a conversion."""
    return any(sign in expression for sign in (" ", "astype"))


CALLS = (
    "np.add", "np.subtract", "np.multiply", "np.divide", "np.power", "np.exp", "np.expm1",
    "np.exp2", "np.sinh", "np.cosh", "np.log", "np.log1p", "np.log2", "np.log10", "np.sqrt",
    "np.sin", "np.cos", "np.tan", "np.sinc", "np.arcsin", "np.arccos", "np.arccosh", "np.arctanh",
    "cr.logit",
    "np.hypot", "np.floor_divide", "np.remainder", "np.fmod", "cr.erfcx", "cr.log_ndtr",
    "cr.gammaln", "cr.digamma", "cr.betaln", "cr.xlogy", "cr.entr", "np.matmul",
    "np.linalg.inv", "np.linalg.solve", "np.linalg.eigvalsh", "np.linalg.svdvals", "np.linalg.det",
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_the_line_of_the_call_is_told(call: str) -> None:
    fault = FAULTS[call.rpartition(".")[2]][0]
    arrays = [np.array(one, float) for one in fault.operands]
    meant = [
        "np.where(np.ones({}, bool), {}, {})".format(
            one.shape, repr(one.tolist()).replace("inf", "np.inf"), name
        )
        for name, one in zip("xy", arrays, strict=False)
    ]
    types = [f"{name}: float64[{one.shape}]" for name, one in zip("xy", arrays, strict=False)]
    names = ", ".join("abcd"[: len(arrays)])
    lines = (f"{names} = {', '.join(meant)}", f"r = {call}({names})", "return r")
    graph = cr.trace(function_of(model(", ".join(types), *lines)))
    found = graph.nonfinite(**{n: np.ones(a.shape) for n, a in zip("xy", arrays, strict=False)})
    assert found is not None
    assert found.place == "model.py:3" and found.where.splitlines()[1].strip() == lines[1]
    assert found.value == "r" and found.indices[0] == fault.place


def replayed(apply: Any, arrays: list[np.ndarray]) -> Diagnosis | None:
    """What is found in `apply(*arrays)`, where the program itself writes the infinities."""
    finite = [np.nan_to_num(one, posinf=1, neginf=1) for one in arrays]

    def written(number: int, x: Any) -> Any:
        given = arrays[number]
        if np.isfinite(given).all():
            return x
        return np.where(given == INF, INF, np.where(given == -INF, -INF, x))

    def of_one(x):
        return apply(written(0, x))

    def of_two(x, y):
        return apply(written(0, x), written(1, y))

    program = of_one if len(arrays) == 1 else of_two
    return cr.trace(program, *finite).nonfinite(**dict(zip("xy", finite, strict=False)))


@pytest.mark.parametrize("name", NEVER)
def test_the_others_make_nothing_of_finite_numbers(name: str) -> None:
    primitive = BY_NAME[name]
    sample = primitive.samples[-1]
    values = np.array(EXTREME)
    if is_pointwise(sample_graph(primitive, sample, sample_arrays(sample, 0)).outputs[0][1]):
        grid = np.meshgrid(*[values] * len(primitive.inputs))
        with np.errstate(all="ignore"):
            found = primitive.evaluate(np, *grid, **dict(sample.params))
            assert np.isfinite(found).all()
    else:
        with np.errstate(all="ignore"):
            assert np.isfinite(primitive.evaluate(np, np.array(HUGE), **dict(sample.params))).all()


@pytest.mark.parametrize("name", REFUSES)
def test_what_is_refused_raises_as_a_run_does(name: str) -> None:
    x = np.array(REFUSES[name], float)
    names = ", ".join("x" for _ in BY_NAME[name].inputs)
    source = model("x: float64[2, 2]", f"z = np.linalg.{name}({names})", "return z")
    with pytest.raises(cr.errors.EvaluationError, match=name) as caught:
        cr.trace(function_of(source)).nonfinite(x=x)
    assert "model.py:2" in str(caught.value)


@pytest.mark.sweep(11)
@pytest.mark.parametrize(
    "primitive", [one for one in PRIMITIVES if one.inputs], ids=lambda one: one.name
)
def test_of_extreme_numbers_the_element_is_right_and_a_cause_is_given(primitive: Primitive) -> None:
    sample = primitive.samples[0]
    node = sample_graph(primitive, sample, sample_arrays(sample, 0)).outputs[0][1]
    if not is_pointwise(node) or node.dtype.kind != "f" or sample.dtype != "float64":
        return
    if any(isinstance(one, str) for one in sample.domains):
        return  # where, of a condition: it makes nothing
    values = np.array(EXTREME)
    arrays = [one.ravel() for one in np.meshgrid(*[values] * len(primitive.inputs))]
    apply = as_function(primitive, **dict(sample.params))
    with np.errstate(all="ignore"):
        value = primitive.evaluate(np, *arrays, **dict(sample.params))
    for place in np.flatnonzero(~np.isfinite(value)).tolist():
        found = replayed(apply, [np.array([1.0, one[place]]) for one in arrays])
        assert found is not None and found.indices[-1] == (1,) and found.because
        assert [one.rpartition(" = ")[2] for one in found.elements[-1].operands] == list(
            dict.fromkeys(f"{one[place]:.6g}" for one in arrays)
        ) or len(arrays) == 2
        assert "overflow" not in found.because or truly_large(primitive.name, arrays, place)


def truly_large(name: str, arrays: list[np.ndarray], place: int) -> bool:
    """Whether the value is finite, and larger than float64 holds."""
    exact = {
        "add": lambda x, y: x + y,
        "subtract": lambda x, y: x - y,
        "multiply": lambda x, y: x * y,
        "divide": lambda x, y: x / y,
        "power": lambda x, y: y * mpmath.log(abs(x)),  # its logarithm
        "integer_power": lambda x: 2 * mpmath.log(abs(x)),
        **dict.fromkeys(("exp", "expm1", "exp2", "sinh", "cosh"), abs),
        "hypot": mpmath.hypot,
        "floor_divide": lambda x, y: x / y,
        "erfcx": lambda x: x * x,
        "erfcx_slope": lambda x: x * x,
        "erfcx_derivative": lambda x: x * x,
        "log_ndtr": lambda x: x * x / 2,
        "log_erfc": lambda x: x * x,
        "xlogy": lambda x, y: x * mpmath.log(y),
        "entr": lambda x: x * mpmath.log(x),
        "sinc": lambda x: x * mpmath.pi,
    }[name](*(mpmath.mpf(float(one[place])) for one in arrays))
    assert mpmath.isfinite(exact)
    in_logs = name in ("power", "integer_power", "exp", "expm1", "exp2", "sinh", "cosh")
    in_logs = in_logs or name.startswith("erfcx")
    return abs(exact) > (709 if in_logs else np.finfo(float).max)

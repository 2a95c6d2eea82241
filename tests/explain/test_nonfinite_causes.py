"""Each classical cause is told by the operation and its operands, with what to try."""

from __future__ import annotations

import re

import mpmath
import numpy as np
import pytest
from nonfinite_programs import f16, f32, f64, function_of, model

import chainrule as cr
from chainrule.explain.nonfinite import Diagnosis, nonfinite
from chainrule.explain.nonfinite.describe import words_of
from chainrule.explain.reading.statements import FORWARD, Direction, Pass

INF = np.inf
MASKED = "leave at least one position of each row unmasked, or mask with a large finite number"


def found_in(line: str, x: np.ndarray, wrt: str | None = None) -> Diagnosis:
    """What is said of J = sum(z) with z = `line`."""
    source = model(f"x: {x.dtype}[{len(x)}]", f"z = {line}", "J = np.sum(z)", "return J")
    graph = cr.trace(function_of(source))
    found = nonfinite(cr.backward(graph, wrt=wrt) if wrt else graph, {"x": x})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "x", "because", "hint"),
    [
        (
            "np.log(x)",
            f64([2, -1]),
            "log of a number below 0 is NaN",
            "x above 0: np.log(np.maximum(x, eps)) with a small eps",
        ),
        (
            "np.log1p(x)",
            f64([2, -1]),
            "log1p of -1 is -inf",
            "np.log1p(np.maximum(x, eps)) with a small eps",
        ),
        (
            "np.expm1(x)",
            f64([2, 1000]),
            "expm1 overflows float64 above 709.8; the largest argument is 1000",
            "or np.expm1(np.minimum(x, 709))",
        ),
        (
            "np.exp(x)",
            f16([2, 12]),
            "exp overflows float16 above 11.1; the largest argument is 12",
            "or np.exp(np.minimum(x, 11))",
        ),
        (
            "x**-2",
            f64([2, 0]),
            "0 to the power -2 is inf",
            "x + eps or np.maximum(x, eps) as the base, with a small eps",
        ),
        (
            "x**3",
            f32([2, 1e20]),
            "overflow: float32 holds numbers up to 3.40282e+38",
            "scale the numbers down, or compute in float64",
        ),
        (
            "x * 1e10 * 1e300",
            f64([2, 1]),
            "overflow: float64 holds numbers up to 1.79769e+308",
            "scale the numbers down",
        ),
        (
            "np.where(x > 0, x, INF) - np.where(x > 0, x, INF)",
            f64([2, -1]),
            "inf - inf is NaN",
            "mask with a large finite number in place of inf",
        ),
        (
            "np.where(x > 0, x, INF) / np.where(x > 0, x, INF)",
            f64([2, -1]),
            "inf / inf is NaN",
            f"where a mask made both infinite, {MASKED}",
        ),
        (
            "np.sin(np.where(x > 0, x, INF))",
            f64([2, -1]),
            "sin is NaN where it meets this inf",
            "a large finite number for inf",
        ),
        (
            "np.where(x > 0, x, INF) @ np.where(x > 0, x, 0.0)",
            f64([2, -1]),
            "matmul is NaN where it meets this inf",
            "a large finite number for inf",
        ),
        (
            "np.mean(x, axis=0)",
            f32([3e38, 3e38]),
            "overflow: float32 holds numbers up to 3.40282e+38",
            "scale the numbers down, or compute in float64",
        ),
    ],
)
def test_what_an_operation_does_with_its_operands_is_the_cause(
    line: str, x: np.ndarray, because: str, hint: str
) -> None:
    found = found_in(line.replace("INF", "np.inf"), x)
    assert found.because == because
    assert found.hint.splitlines()[-1] == hint
    assert f"  because: {because}\n" in str(found)


@pytest.mark.parametrize(
    ("line", "x", "because"),
    [
        ("np.log(x + 1e-30)", f32([1, 0]), ""),  # 1e30: large, and no fault
        ("np.log1p(np.sqrt(x))", f64([1, 0]), "the derivative of sqrt at 0 is inf"),
        ("np.cbrt(x)", f64([1, 0]), "the derivative of cbrt at 0 is inf"),
        ("cr.entr(x)", f64([1, 0]), "the derivative of entr at 0 is inf"),
        ("np.arcsin(x)", f64([0, 1]), "the derivative of arcsin at -1 and 1 is not finite"),
        ("np.arccos(x)", f64([0, -1]), "the derivative of arccos at -1 and 1 is not finite"),
        ("np.arccosh(x)", f64([2, 1]), "the derivative of arccosh at 1 is not finite"),
        ("x**0.5", f64([1, 0]), "0 to the power -0.5 is inf, in the derivative of a power"),
        ("np.minimum(-np.log(x), 5.0)", f64([1, 0]), ""),  # left out, as its derivative
        ("np.minimum(np.where(x < 9, -np.log(x), 0.0), 5.0)", f64([1, 0]), ""),
        (
            "np.minimum(-np.log(x)[:, None] @ np.ones(1), 5.0)",  # no mask goes back through @
            f64([1, 0]),
            "the derivative of log at 0 is inf; log(x) was not finite in the forward pass either",
        ),
    ],
)
def test_steep_derivatives_are_told_by_the_operation_they_are_of(
    line: str, x: np.ndarray, because: str
) -> None:
    source = model(f"x: {x.dtype}[{len(x)}]", f"J = np.sum({line})", "return J")
    found = nonfinite(cr.backward(cr.trace(function_of(source)), wrt="x"), {"x": x})
    assert (found.because if found is not None else "") == because
    assert found is None or found.phase == "the backward pass"


def test_the_largest_parameter_is_told_where_training_let_it_grow() -> None:
    source = model("W: float32[2]", "J = np.sum(W * W)", "return J")
    graph = cr.backward(cr.trace(function_of(source)), wrt="W")
    found = nonfinite(graph, {"W": f32([1, -1e30])})
    assert found is not None
    assert found.because.endswith("the largest element of a parameter is |W| = 1e+30")
    assert "a smaller learning rate" in found.hint


def test_a_fault_inside_a_composite_names_its_call() -> None:
    lines = ("L = cr.cross_entropy(o, y)", "J = L * 2", "return J")
    graph = cr.trace(function_of(model("o: float64[2, 2], y: int64[2]", *lines)))
    o = f64([[1, 2], [np.inf, 3]])
    found = nonfinite(graph, {"o": o, "y": np.array([0, 1])})
    assert found is not None and str(found).startswith("o[1, 0] is inf before the run began")
    o = f64([[1, 2], [-np.inf, -np.inf]])
    o[0] = [0, 0]  # nothing but 0 and -inf: a mask, and meant
    found = nonfinite(graph, {"o": o, "y": np.array([0, 1])})
    assert found is not None
    assert found.value == "log(sum(...)) in cross_entropy(o, y)"
    assert found.part_of == "L" and found.because.startswith("log of 0 is -inf")


def test_elements_are_shown_by_their_place_in_what_has_a_name() -> None:
    lines = ("z = a[::-1].T / b[:, None] * 1.0", "J = np.sum(z)", "return J")
    graph = cr.trace(function_of(model("a: float64[3, 2], b: float64[2]", *lines)))
    a = np.arange(1.0, 7).reshape(3, 2)
    found = nonfinite(graph, {"a": a, "b": np.array([4.0, 0])})
    assert found is not None
    assert found.indices == ((1, 0), (1, 1), (1, 2))
    assert [one.operands for one in found.elements] == [
        ("a[2, 1] = 6", "b[1] = 0"),
        ("a[1, 1] = 4", "b[1] = 0"),
        ("a[0, 1] = 2", "b[1] = 0"),
    ]
    assert [(one.value, one.type) for one in found.inputs] == [
        ("a[...].T", "float64[3, 2]"),
        ("b", "float64[2]"),
    ]


def test_hints_at_borders_are_right_when_followed() -> None:
    for line, bad in (
        ("np.arcsin(x)", 1.0), ("np.arccos(x)", -1.0), ("np.arccosh(x)", 1.0), ("np.cbrt(x)", 0.0),
        ("cr.entr(x)", 0.0), ("np.arctanh(x)", 1.0), ("cr.logit(x)", 0.0), ("cr.gammaln(x)", 0.0),
        ("np.log(x)", 0.0), ("np.sqrt(x)", 0.0), ("np.arccosh(x)", 0.5), ("np.arcsin(x)", 1.5),
        ("cr.entr(x)", -1.0), ("np.sinh(x)", 800.0), ("cr.digamma(x)", 0.0), ("np.exp2(x)", 2e3),
    ):  # fmt: skip
        x = f64([bad])
        forward = cr.trace(function_of(model("x: float64[1]", f"J = np.sum({line})", "return J")))
        graph = cr.backward(forward, wrt="x")
        found = nonfinite(graph, {"x": x})
        assert found is not None
        hint = found.hint.splitlines()[-1].removeprefix("or ").partition(", with a small")[0]
        hint = hint.removeprefix("x above 0: ").partition(" with a small")[0]
        hint = hint.partition(" or ")[2] or hint
        if " in place of x" in hint:
            hint = line.replace("x)", f"{hint.removesuffix(' in place of x')})")
        source = model("x: float64[1]", "eps = 1e-9", f"J = np.sum({hint})", "return J")
        mended = cr.trace(function_of(source))
        assert nonfinite(mended, {"x": x}) is None, hint
        if "eps" in hint:
            assert nonfinite(cr.backward(mended, wrt="x"), {"x": x}) is None, hint


def test_a_result_that_is_bad_is_told_where_the_derivative_is_refused() -> None:
    lines = ("J = np.linalg.slogdet(np.diag(x))[1]", "return J")
    graph = cr.backward(cr.trace(function_of(model("x: float64[2]", *lines))), wrt="x")
    found = nonfinite(graph, {"x": f64([1, 0])})  # the derivative is the inverse
    assert found is not None and "its determinant is 0" in found.because
    assert found.place == "model.py:2"
    with pytest.raises(cr.errors.EvaluationError):
        graph.run(x=f64([1, 0]))


def test_passes_have_names() -> None:
    assert words_of(FORWARD) == "the forward pass"
    backward = [words_of(Pass(order, Direction.BACKWARD)) for order in (1, 2, 3, 4)]
    assert backward[:2] == ["the backward pass", "the second backward pass"]
    assert backward[2:] == ["the third backward pass", "backward pass 4"]
    assert words_of(Pass(1, Direction.UPDATE)) == "the update"
    assert words_of(Pass(1, Direction.TANGENT)) == "the tangent pass"


# Logarithms of values that round to 0, as lines of a program, and where they are taken.
ROUNDED = [
    ("p = cr.ndtr(x); z = np.log(p)", -40.0, "log of 0 is -inf: here, of ndtr"),
    ("p = cr.ndtr(x); z = np.log(p[::-1])[::-1]", -40.0, "log of 0 is -inf: here, of ndtr"),
    ("p = cr.ndtr(x); z = np.log(1 - p)", 40.0, "log of 0 is -inf: here, of 1 - ndtr"),
    ("q = cr.sigmoid(x); z = np.log(q)", -800.0, "log of 0 is -inf: here, of sigmoid"),
    (
        "q = cr.sigmoid(2 * x + 1); z = np.log(1 - q)",
        40.0,
        "log of 0 is -inf: here, of 1 - sigmoid",
    ),
    ("q = cr.sigmoid(-x); z = np.log(1 - q)", -40.0, "log of 0 is -inf: here, of 1 - sigmoid"),
    ("q = cr.sigmoid(x); z = np.log1p(-q)", 40.0, "log1p of -1 is -inf: here, of 1 - sigmoid"),
    ("z = np.log(1 / (1 + np.exp(-x)))", -800.0, "log of 0 is -inf: here, of sigmoid"),
    ("z = np.log2(cr.sigmoid(x))", -800.0, "log2 of 0 is -inf: here, of sigmoid"),
    ("z = np.log10(cr.ndtr(x))", -40.0, "log10 of 0 is -inf: here, of ndtr"),
    ("q = cr.erfc(x); z = np.log(q)", 40.0, "log of 0 is -inf: here, of erfc"),
    ("z = cr.xlogy(1.0, cr.ndtr(x))", -40.0, "the log of 0 is -inf: here, of ndtr"),
    ("z = cr.xlogy(x, cr.sigmoid(x))", -800.0, "the log of 0 is -inf: here, of sigmoid"),
    ("z = cr.xlogy(x + 1, cr.erfc(x))", 40.0, "the log of 0 is -inf: here, of erfc"),
]


@pytest.mark.sweep(5)
@pytest.mark.parametrize(("line", "far", "because"), ROUNDED)
def test_the_logarithm_of_what_rounds_to_0_is_named_and_is_right(
    line: str, far: float, because: str
) -> None:
    def run(program: str, x: np.ndarray) -> np.ndarray:
        source = model("x: float64[3]", program, "return z")
        return cr.trace(function_of(source)).run(x=x).outputs

    x = f64([0.5, far, -1.0])
    graph = cr.trace(function_of(model("x: float64[3]", line, "return z")))
    found = nonfinite(graph, {"x": x})
    assert found is not None and found.because == because
    call, _, rest = found.hint.rpartition(", which does not round")
    assert rest == " to log(0)"
    got, near = run(f"z = {call}", x), run(line, x)
    assert np.isfinite(got).all() and not np.isfinite(near).all()
    np.testing.assert_allclose(got[[0, 2]], near[[0, 2]], rtol=1e-12)  # the same function
    names = {
        "cr.ndtr": mpmath.ncdf,
        "cr.sigmoid": lambda t: 1 / (1 + mpmath.exp(-t)),
        "cr.erfc": mpmath.erfc,
        "cr.xlogy": lambda a, b: a * mpmath.log(b),
        "np.log2": lambda t: mpmath.log(t, 2),
        "np.log10": mpmath.log10,
        "np.log1p": lambda t: mpmath.log(1 + t),
        "np.log": mpmath.log,
        "np.exp": mpmath.exp,
    }
    plain = line.replace("[::-1]", "")
    for name in names:
        plain = re.sub(rf"{re.escape(name)}\b", name.replace(".", "_"), plain)
    scope = {name.replace(".", "_"): function for name, function in names.items()}
    with mpmath.workdps(1000):
        scope["x"] = mpmath.mpf(far)
        exec(plain, scope)
        wanted = float(scope["z"])
    np.testing.assert_allclose(got[1], wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("line", "x", "because", "hint"),
    [
        (
            "cr.xlogy(2.0, x)",
            [2, 0],
            "the log of 0 is -inf",
            "cr.xlogy(2, np.maximum(x, eps)) with a small eps",
        ),
        (
            "cr.xlogy(2.0, x)",
            [2, -1],
            "the log of a number below 0 is NaN",
            "x above 0: cr.xlogy(2, np.maximum(x, eps)) with a small eps",
        ),
        (
            "np.log2(x)",
            [2, 0],
            "log2 of 0 is -inf",
            "np.log2(np.maximum(x, eps)) with a small eps",
        ),
        (
            "cr.xlogy(x, cr.softmax(x))",
            [0, 1000],
            "",
            "",
        ),
        (
            "cr.xlogy(0.5, cr.softmax(x))",
            [0, 1000],
            "the log of 0 is -inf: here, of a softmax",
            "cr.log_softmax or cr.cross_entropy, which never form the probabilities",
        ),
    ],
)
def test_other_logarithms_of_0_are_told(line: str, x: list[float], because: str, hint: str) -> None:
    source = model("x: float64[2]", f"z = {line}", "return z")
    found = nonfinite(cr.trace(function_of(source)), {"x": f64(x)})
    assert (found.because if found else "", found.hint if found else "") == (because, hint)


@pytest.mark.parametrize("function", ["np.log", "np.log2", "np.log10"])
def test_the_derivative_of_a_logarithm_that_rounds_is_told_too(function: str) -> None:
    lines = ("p = cr.ndtr(x)", f"J = np.sum(np.minimum({function}(p), p - 9))", "return J")
    graph = cr.backward(cr.trace(function_of(model("x: float64[2]", *lines))), wrt="x")
    found = nonfinite(graph, {"x": f64([0.5, -40])})
    assert found is not None and "here, of ndtr" in found.because
    assert found.hint.startswith("cr.log_ndtr(x)")

"""Expressions of kernels in native code: every Map primitive against its evaluation by NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from emitted import TARGETS, function, functions
from exact_special import EXACT_SPECIAL
from noting import noted

from chainrule.execute.native.plan_to_ir.emit import Code, Module, Operand
from chainrule.execute.native.plan_to_ir.scalars import Typed, emit_expression
from chainrule.graph.types import array_type
from chainrule.primitives.primitive import Map, Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES

# Without F16C, float16 needs functions of a compiler's library that is not there.
HALVES = ("f2",) if "+f16c" in TARGETS["sse2"].features else ()
FLOATS = tuple(map(np.dtype, (*HALVES, "f4", "f8")))
WHOLE = tuple(map(np.dtype, ("?", "i1", "u1", "i2", "i4", "u4", "i8", "u8")))
MAPS = [one for one in PRIMITIVES if isinstance(one.kernel, Map)]
# What NumPy does on integers and a kernel does not: integer powers may raise for some values,
# and erf of integers has no meaning (its evaluation cuts the digits off).
REFUSED = {"power", "erf"}
# Choosing between 0 and -0 is free.
EITHER_ZERO = {"maximum", "minimum"}


def special(dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([0, 1, 2, 7, limits.max, limits.min, limits.max - 1], dtype)
    limits = np.finfo(dtype)
    positive = [0.0, limits.smallest_subnormal, limits.tiny / 3, 0.7, 2.5, limits.max, np.inf]
    return np.array([np.nan, *positive, *(-x for x in positive)], dtype)


def arguments(sample: Sample, dtype: np.dtype) -> list[np.ndarray]:
    """Every combination of special values, then random numbers of the sample's domains."""
    dtypes = [np.dtype(bool) if one == "bool" else dtype for one in sample.domains]
    combined = list(itertools.product(*map(special, dtypes)))
    random = np.random.default_rng(0)
    columns = []
    for place, (domain, one) in enumerate(zip(sample.domains, dtypes, strict=True)):
        low, high = domain if isinstance(domain, tuple) else (0, 2)
        more = random.uniform(low, high, 37).astype(one)
        columns.append(np.concatenate([np.array([row[place] for row in combined], one), more]))
    return columns


def accepted(primitive: Primitive, sample: Sample, dtype: np.dtype) -> np.dtype | None:
    """The dtype of the result; None where the primitive or NumPy does not have this one."""
    arrays, params = arguments(sample, dtype), dict(sample.params)
    try:
        type_ = primitive.result_type(*(array_type(x.dtype, x.shape) for x in arrays), **params)
        with np.errstate(all="ignore"):
            found = np.asarray(primitive.evaluate(np, *(x[:1] for x in arrays), **params)).dtype
    except (TypeError, ValueError, OverflowError):
        return None
    return type_.dtype if found == type_.dtype else None


def cases(primitive: Primitive) -> list[tuple[Sample, np.dtype]]:
    """Each of its domains and parameters in each dtype that it has."""
    samples = {f"{one.domains}-{one.params}": one for one in primitive.samples}.values()
    return [
        (sample, dtype)
        for sample in samples
        for dtype in FLOATS + WHOLE
        if accepted(primitive, sample, dtype) is not None
    ]


EVERY = pytest.mark.parametrize("primitive", MAPS, ids=lambda one: one.name)


def emission(primitive, sample, dtype, lanes):
    output = accepted(primitive, sample, dtype)
    assert output is not None
    dtypes = [x.dtype for x in arguments(sample, dtype)]

    def emit(code: Code, *operands: Operand) -> Operand:
        pairs = zip(operands, dtypes, strict=True)
        names = {**dict(sample.params), **dict(zip(primitive.inputs, pairs, strict=True))}
        return emit_expression(code, primitive.kernel.expression, names, output)

    return emit, dtypes, output, lanes


def reference(primitive, sample, arrays, output):
    """What NumPy computes: floats in a wider dtype, so that its own errors do not count."""
    exact = output.kind != "f" or "dtype" in dict(sample.params)
    if not exact:
        wider = {2: np.float32, 4: np.float64, 8: np.longdouble}[output.itemsize]
        arrays = [x.astype(wider) if x.dtype.kind == "f" else x for x in arrays]
    with np.errstate(all="ignore"):
        if primitive.name in EXACT_SPECIAL:
            return EXACT_SPECIAL[primitive.name](*arrays).astype(output)
        return np.asarray(primitive.evaluate(np, *arrays, **dict(sample.params))).astype(output)


def assert_same(primitive, got, expected):
    assert got.dtype == expected.dtype
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
        return
    limits = np.finfo(got.dtype)
    # 4 units in the last place, as test_mathematics demands it more exactly.
    finite = np.isfinite(got) & np.isfinite(expected)
    np.testing.assert_array_equal(got[~finite], expected[~finite])
    near = 4 * (limits.eps * np.abs(expected[finite]) + limits.smallest_subnormal)
    assert (np.abs(got[finite] - expected[finite]) <= near).all()
    if primitive.name not in EITHER_ZERO:
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(expected[known]))


def check(primitive: Primitive, lanes: Any, targets: tuple[str, ...]) -> None:
    """In every dtype, with `lanes(dtype)` lanes for the first target and those for the second."""
    tried = []
    for sample, dtype in cases(primitive):
        if primitive.name in REFUSED and dtype.kind != "f":
            with pytest.raises(ValueError, match="no known name or operation on"):
                functions([emission(primitive, sample, dtype, 4)], TARGETS["avx512"])
        else:
            tried.append((sample, dtype))
    for place, target in enumerate(targets):
        emissions = [emission(primitive, *one, lanes(one[1])[place]) for one in tried]
        runs = functions(emissions, TARGETS[target])
        for (sample, dtype), (_, _, output, count), run in zip(tried, emissions, runs, strict=True):
            arrays = arguments(sample, dtype)
            what = f"{primitive.name} {sample.domains} {dict(sample.params)} of {dtype}"
            with noted(f"{what}, {count} lanes for {target}"):
                assert_same(primitive, run(*arrays), reference(primitive, sample, arrays, output))


@pytest.mark.sweep(17)
@EVERY
def test_every_kernel_computes_what_the_evaluation_does(primitive):
    check(primitive, lambda dtype: (64 // max(dtype.itemsize, 4), 0), ("avx512", "sse2"))


@pytest.mark.sweep(13)
@pytest.mark.slow
@EVERY
def test_every_kernel_computes_it_in_every_width(primitive):
    check(primitive, lambda dtype: (8, 2), ("avx2", "sse2"))


def test_every_primitive_is_tried_in_both_floats_or_on_what_has_bits():
    words = {"i4", "i8", "u1", "u4"}
    of_bits = {"logical": {"b1"}, "threefry": {"u4"}}
    of_bits |= dict.fromkeys(("bitwise", "left", "right"), words)
    for primitive in MAPS:
        needed = of_bits.get(primitive.name.partition("_")[0], {"f4", "f8"})
        assert needed <= {dtype.str[1:] for _, dtype in cases(primitive)}


@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    ("lanes", "machine"), [(0, "sse2"), (4, "sse2"), (8, "avx2"), (8, "avx512")]
)
@pytest.mark.parametrize("source", FLOATS + WHOLE, ids=str)
def test_casts_are_those_of_numpy(source, lanes, machine):
    dtypes = FLOATS + WHOLE
    casts = functions([cast_to(target, source, lanes) for target in dtypes], TARGETS[machine])
    for target, cast in zip(dtypes, casts, strict=True):
        with noted(f"{source} as {target}"):
            check_cast(source, target, cast)


def cast_to(target, source, lanes):
    def emit(code, x):
        names = {"x": (x, source), "dtype": target, "weak": False}
        return emit_expression(code, "cast(x)", names, target)

    return emit, [source], target, lanes


def check_cast(source, target, cast):
    x, nbytes = special(source), target.itemsize
    if source.kind == "f":
        with np.errstate(over="ignore"):
            more = np.array([-1.5, 200.9, -200.9, 7e4, 3e9, -3e9, 1e10, 1e19], source)
        x = np.concatenate([x, more])
        if target.kind == "u" and nbytes > 2:
            # NumPy's own results differ between the start and the end of an array otherwise.
            x = x[(x >= 0) & (x.astype(np.float64) < 2.0 ** (8 * nbytes))]
    with np.errstate(all="ignore"):
        expected = x.astype(target)
    np.testing.assert_array_equal(cast(x), expected)


@pytest.mark.skipif(not HALVES, reason="no F16C")
@pytest.mark.parametrize("source", [np.dtype("f4"), np.dtype("f8")], ids=str)
def test_a_float_is_rounded_once_to_half(source):
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    halves = np.sort(halves[np.isfinite(halves)]).astype(source)
    between = (halves[1:] + halves[:-1]) / 2
    x = np.concatenate([halves, between, *(np.nextafter(between, s * np.inf) for s in (-1, 1))])
    x = np.concatenate([x, np.array([65519.99, 65520, 1e30, 1e-30, -1e-30], source)])
    if source == np.float64:
        x = np.append(x, [1e300, -1e300, 1e-300, 1 + 2.0**-11 + 2.0**-40])
    cast = function(
        lambda code, x: emit_expression(
            code, "cast(x)", {"x": (x, source), "dtype": np.dtype("f2")}, np.dtype("f2")
        ),
        [source],
        np.dtype("f2"),
        8,
        TARGETS["avx2"],
    )
    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_array_equal(cast(x), x.astype(np.float16))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x * 2 + 1", lambda x: x * 2 + 1),
        ("1 - x", lambda x: 1 - x),
        ("where(x <= 0.5, -x, x / 3)", lambda x: np.where(x <= 0.5, -x, x / 3)),
        ("-2 * fabs(x)", lambda x: -2 * np.abs(x)),
        ("pow(x, 2) + pow(x, exponent)", lambda x: x**2 + x**-3),
    ],
)
def test_numbers_of_the_text_take_the_dtype_of_the_other_operand(expression, expected):
    x = np.linspace(-2, 2, 41, dtype=np.float32) + np.float32(0.01)

    def emit(code: Code, x: Operand) -> Operand:
        names = {"x": (x, np.dtype("f4")), "exponent": -3}
        return emit_expression(code, expression, names, np.dtype("f4"))

    got = function(emit, [np.dtype("f4")], np.dtype("f4"), 16, TARGETS["avx512"])(x)
    np.testing.assert_allclose(got, expected(x), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("eval(x)", r"'eval\(x\)' is no known name or operation on int32"),
        ("x / x", r"'x / x' is no known name or operation on int32"),
        ("exp(x)", r"'exp\(x\)' is no known"),
        ("x +", "not an expression"),
        ("x + 0.5", r"0.5 is no int32"),
        ("z", "'z' is no known name"),
        ("x < y", "mixes int32 and float32"),
        ("3", "only a number"),
        ("1 + 2", "only a number"),
        ("x == x", "gives bool, not int32"),
        ("~y", "'~y' is no known"),
        ("pow(x, exponent)", "negative power -2"),
    ],
)
def test_what_has_no_meaning_is_refused(expression, message):
    names = {
        "x": (Operand("%x", "<4 x i32>"), np.dtype("i4")),
        "y": (Operand("%y", "<4 x float>"), np.dtype("f4")),
        "exponent": -2,
    }
    with pytest.raises(ValueError, match=message):
        emit_expression(Code(Module()), expression, names, np.dtype("i4"))


def lines_of(expression):
    code = Code(Module())
    x = (Operand("%x", "<4 x float>"), np.dtype("f4"))
    emit_expression(code, expression, {"x": x}, np.dtype("f4"))
    return code.lines


@pytest.mark.parametrize("expression", ["x * x + x", "x + x * x", "x * x + x * x"])
def test_a_product_and_a_sum_become_one_instruction(expression):
    lines = lines_of(expression)
    assert "fmuladd" in lines[-1]
    assert not any("fadd" in line for line in lines)


@pytest.mark.parametrize("expression", ["x - x * x", "x * x - x", "x * x - x * x"])
def test_a_product_and_a_difference_stay_two(expression):
    lines = lines_of(expression)
    assert "fsub" in lines[-1]
    assert not any("fmuladd" in line for line in lines)


def test_a_product_that_a_kernel_computed_before_becomes_one_instruction_with_a_sum():
    code = Code(Module())
    a, b, c = (Operand(f"%{name}", "<4 x float>") for name in "abc")
    product = Typed(code.binary("fmul", a, b), np.dtype("f4"), (a, b))
    emit_expression(code, "x + y", {"x": (c, product.dtype), "y": product}, product.dtype)
    assert "%a, <4 x float> %b, <4 x float> %c" in code.lines[-1]

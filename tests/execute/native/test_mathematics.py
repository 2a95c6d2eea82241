"""Elementary functions in native code: their errors against mpmath, and exceptional values."""

from __future__ import annotations

import itertools
import runpy
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from compiled_mathematics import (
    CASES,
    F4,
    F8,
    GREATEST_ERROR,
    LANES,
    check,
    emitted,
    errors,
    exceptional,
    sample,
    widened,
    wider,
)
from emitted import TARGETS, function
from executing import text_of

import chainrule
from chainrule.execute.native.libm import (
    bessel_coefficients,
    coefficients,
    erf_pieces,
    erfcx_coefficients,
    gamma_coefficients,
)
from chainrule.execute.native.libm.mathematics import FUNCTIONS, integer_power
from chainrule.execute.native.plan_to_ir.emit import Code, Module, Operand
from chainrule.machine_code.target import compile_object, cross_target
from chainrule.plan.planner import plan

OF_TWO = "atan2 copysign floor_divide fmax_nan fmin_nan fmod hypot pow remainder".split()


@pytest.mark.sweep(7)
@CASES
def test_errors_are_at_most_4_units_of_the_last_place(name, dtype, target):
    check(name, dtype, target, sample(name, dtype, 2000), 50)


@pytest.mark.slow
@pytest.mark.sweep(11)
@CASES
def test_errors_of_many_numbers_are_small(name, dtype, target, record_property):
    if dtype == F4:
        x = np.arange(0, 2**32, 16381, dtype=np.uint64).astype(np.uint32).view(F4)
        if name in ("sin", "cos"):
            x = x[~(np.abs(x) > 2.0**20)]
    else:
        x = sample(name, dtype, 20_000)
    worst = check(name, dtype, target, x, 100)
    record_property("ran", f"{name} in {dtype} for {target}: {worst:.2f} ulp of {x.size} numbers")


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", TARGETS)
def test_tanh_is_close_odd_and_bounded(target, record_property):
    run, worst, sign = emitted("tanh", F4, target), 0.0, np.uint32(1 << 31)
    for first in range(0, 2**31, 2**28):
        bits = np.arange(first, first + 2**28, 31, dtype=np.uint32)
        got, exact = run(bits.view(F4)), widened("tanh", bits.view(F4))
        worst = max(worst, errors(got, exact).max())
        known = ~np.isnan(got)
        assert (got[known] <= 1).all()
        opposite = run((bits | sign).view(F4))
        np.testing.assert_array_equal(opposite.view("u4")[known], got.view("u4")[known] | sign)
    record_property("ran", f"tanh of every 31st float32 for {target}: {worst:.2f} ulp")
    assert worst <= GREATEST_ERROR


@pytest.mark.sweep(7)
@CASES
def test_exceptional_values_are_those_of_libm(name, dtype, target):
    x = exceptional(dtype)
    got, expected = emitted(name, dtype, target)(x), widened(name, x).astype(dtype)
    with np.errstate(over="ignore"):
        expected = widened(name, x).astype(dtype)
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(dtype).eps, atol=0)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(expected[known]))


@pytest.mark.sweep(11)
@CASES
def test_a_scalar_gets_the_same_bits_as_a_lane(name, dtype, target):
    x = np.concatenate([sample(name, dtype, 1000), exceptional(dtype)])
    vector, scalar = emitted(name, dtype, target)(x), emitted(name, dtype, target, scalar=True)(x)
    np.testing.assert_array_equal(vector, scalar)
    known = ~np.isnan(vector)
    np.testing.assert_array_equal(np.signbit(vector[known]), np.signbit(scalar[known]))


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("name", ["exp", "erf"])
@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_the_width_of_a_vector_does_not_matter(name, dtype, lanes):
    x = np.concatenate([sample(name, dtype, 1000), exceptional(dtype)])
    narrow = function(FUNCTIONS[name], [dtype], dtype, lanes, TARGETS["avx512"])
    np.testing.assert_array_equal(narrow(x), emitted(name, dtype, "avx512")(x))


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("name", ["exp", "exp2"])
@pytest.mark.parametrize("target", TARGETS)
def test_what_a_mask_set_to_minus_infinity_takes_no_longer(name, dtype, target):
    """Where a product underflows, a processor may take eight times as long for all of it."""
    compute = emitted(name, dtype, target)

    def seconds(value: float) -> float:
        x, found = np.full(20_000, value, dtype), []
        for _ in range(30):
            begun = perf_counter()
            compute(x)
            found.append(perf_counter() - begun)
        return min(found)

    low = {value: compute(np.full(64, value, dtype)) for value in (-np.inf, -1e9)}
    assert all((y == 0).all() and not np.signbit(y).any() for y in low.values())
    usual = seconds(-1.0)
    assert max(map(seconds, low)) < 2.5 * usual


def test_erf_and_its_derivative_compute_one_exponential():
    def both(x: np.ndarray) -> tuple:
        y, pull = chainrule.vjp(chainrule.erf, x)
        return y, pull(x)

    graph = chainrule.trace(both, np.zeros((4, 32), F4))
    made = plan(graph, [node for _, node in graph.outputs], vector_nbytes=64)
    assert text_of(made).count("= shl") == 1  # where a power of two is made


@pytest.mark.sweep(5)
@pytest.mark.parametrize("name", ["tanh", "erf", "logistic", "sin", "cos"])
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_bounded_functions_keep_their_bound(name, dtype, target):
    x = sample(name, dtype, 50_000)
    assert np.nanmax(np.abs(emitted(name, dtype, target)(x))) == 1


@pytest.mark.parametrize("name", ["sin", "cos"])
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_huge_angles_are_given_to_libm_and_spare_their_neighbours(name, dtype, target):
    random = np.random.default_rng(1)
    x = np.ldexp(random.uniform(-1, 1, 1000), random.integers(-30, 100, 1000)).astype(dtype)
    x[::97] = np.nan
    run = emitted(name, dtype, target)
    got, far = run(x), np.abs(x) > 2.0**20
    assert 0.2 < far.mean() < 0.8
    assert (errors(got, widened(name, x)) <= 2.5).all()
    np.testing.assert_array_equal(got[~far], run(np.where(far, dtype.type(0), x))[~far])


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["sign", "fabs"])
def test_sign_and_size_are_those_of_numpy(name, dtype, target):
    x = np.concatenate([exceptional(dtype), sample("exp", dtype, 200)])
    expected = {"sign": np.sign, "fabs": np.abs}[name](x)
    np.testing.assert_array_equal(emitted(name, dtype, target)(x), expected)
    known = ~np.isnan(x)
    got = emitted(name, dtype, target)(x)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["fmax_nan", "fmin_nan"])
def test_of_two_the_chosen_is_that_of_numpy(name, dtype, target):
    x, y = np.array(list(itertools.product(exceptional(dtype), repeat=2)), dtype).T
    expected = {"fmax_nan": np.maximum, "fmin_nan": np.minimum}[name](x, y)
    lanes = LANES[target, dtype]
    run = function(FUNCTIONS[name], [dtype, dtype], dtype, lanes, TARGETS[target])
    np.testing.assert_array_equal(run(x, y), expected)


@pytest.mark.parametrize("number", [0.0, -1.5, np.inf])
@pytest.mark.parametrize("first", [True, False])
def test_a_constant_is_chosen_in_one_instruction_and_nan_stays(number, first):
    def relu(code: Code, x: Operand) -> Operand:
        one = Operand(f"splat (double {number:e})".replace("inf", "0x7FF0000000000000"), x.type)
        before = len(code.lines)
        result = FUNCTIONS["fmax_nan"](code, *((one, x) if first else (x, one)))
        assert len(code.lines) - before == 2  # a comparison and a choice, which x86 has as one
        return result

    x = exceptional(F8)
    got = function(relu, [F8], F8, 8, TARGETS["avx512"])(x)
    np.testing.assert_array_equal(got, np.maximum(x, number))


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
def test_power_is_that_of_libm(dtype):
    points = np.concatenate([exceptional(dtype), np.array([-3, 3, 0.3, -0.7, 1e3, -2], dtype)])
    x, y = np.array(list(itertools.product(points, repeat=2)), dtype).T
    run = function(FUNCTIONS["pow"], [dtype, dtype], dtype, LANES["avx2", dtype], TARGETS["avx2"])
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(wider(dtype)), y.astype(wider(dtype)))
    assert (errors(run(x, y), expected) <= 2).all()


@pytest.mark.sweep(5)
@pytest.mark.parametrize("exponent", [*range(-9, 13), -40, 33, 1000, -1000])
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
def test_integer_powers_are_close_from_end_to_end(dtype, exponent):
    twos = np.ldexp(dtype.type(1), np.arange(-126, 128))
    x = np.concatenate([sample("exp", dtype, 2000), twos, -twos])
    got = function(
        lambda code, x: integer_power(code, x, exponent),
        [dtype],
        dtype,
        LANES["avx2", dtype],
        TARGETS["avx2"],
    )(x)
    with np.errstate(all="ignore"):
        expected = x.astype(wider(dtype)) ** exponent
    # Where the power of a double passes through the ends of its range, NumPy's does as well.
    assert (errors(got, expected) <= GREATEST_ERROR).all()
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(expected[known]))


def test_functions_of_integers_are_refused():
    with pytest.raises(TypeError, match="take float and double, not <8 x i32>"):
        FUNCTIONS["exp"](Code(Module()), Operand("%x", "<8 x i32>"))
    with pytest.raises(ValueError, match="negative power -1"):
        integer_power(Code(Module()), Operand("%x", "i32"), -1)


def test_the_call_of_libm_is_made_once_a_module():
    module = Module()
    for _ in range(2):
        code = Code(module)
        FUNCTIONS["sin"](code, Operand("%x", "<4 x float>"))
        FUNCTIONS["sin"](code, Operand("%y", "<4 x float>"))
    assert [one.split("(")[0] for one in module.functions] == [
        "define internal <4 x float> @each_sin_v4f32"
    ]


@pytest.mark.parametrize("type_", ["float", "double", "<4 x float>", "<2 x double>"])
def test_every_function_is_generated_for_another_processor(type_):
    module = Module()
    for name, emit in FUNCTIONS.items():
        code, count = Code(module), 2 if name in OF_TWO else 1
        parameters = [Operand(f"%p{k}", type_) for k in range(count)]
        result = emit(code, *parameters)
        code.do(f"ret {type_} {result.text}")
        code.function(f"{name}_", parameters, type_)
    assert compile_object(module.text(), cross_target("aarch64-linux-gnu")).startswith(b"\x7fELF")


@pytest.mark.exhaustive
def test_the_coefficients_are_those_that_the_script_makes(monkeypatch):
    folder = Path(__file__).parents[3] / "scripts"
    monkeypatch.syspath_prepend(folder)  # where it finds what it imports
    script = runpy.run_path(str(folder / "make_elementary.py"))
    counts = {coefficients: 11, erfcx_coefficients: 2, bessel_coefficients: 9}
    counts |= {gamma_coefficients: 8, erf_pieces: 2}
    for module, count in counts.items():
        made: dict[str, object] = {}
        exec(script[module.__name__.rpartition(".")[2]](), made)
        names = [name for name in vars(module) if name.isupper()]
        assert len(names) == count
        for name in names:
            assert made[name] == getattr(module, name), name


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("name", "number"), [("log2", 2), ("log10", 10), ("exp2", None), ("cbrt", None)]
)
def test_whole_results_are_exact(name, number, dtype, target):
    if name == "cbrt":
        whole = np.arange(-100, 101).astype(dtype)
        x = whole**3
    else:
        # 10^22 is the last power of 10 that is a double, 10^10 that is a float
        tens = range(23 if dtype == F8 else 11)
        whole = np.array(tens if number == 10 else range(-126, 127), dtype)
        x = np.array([float((number or 2) ** int(k)) for k in whole], dtype)
        x, whole = (whole, x) if name == "exp2" else (x, whole)
    np.testing.assert_array_equal(emitted(name, dtype, target)(x), whole)


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["atan2", "hypot", "remainder", "fmod"])
def test_functions_of_two_numbers_are_close(name, dtype, target):
    x, y = sample(name, dtype, 3000), sample(name, dtype, 3000)[::-1]
    edges = np.array(list(itertools.product(exceptional(dtype), repeat=2)), dtype).T
    near = np.random.default_rng(1).uniform(0.1, 3, (2, 1000)).astype(dtype)
    x, y = (np.concatenate(pair) for pair in ((x, edges[0], near[0]), (y, edges[1], near[1])))
    run = function(FUNCTIONS[name], [dtype, dtype], dtype, LANES[target, dtype], TARGETS[target])
    got, ufunc = run(x, y), getattr(np, "arctan2" if name == "atan2" else name)
    with np.errstate(all="ignore"):
        exact = ufunc(x.astype(wider(dtype)), y.astype(wider(dtype)))
    found = errors(got, exact)
    assert found.max() <= GREATEST_ERROR, (x[found.argmax()], y[found.argmax()])
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(exact[known]))


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_floors_of_quotients_are_numpys(dtype, target):
    random = np.random.default_rng(1)
    x, y = random.uniform(-30, 30, (2, 3000)).astype(dtype)
    x[:1000] = np.round(x[:1000])
    y[:1000] = np.round(y[:1000]) / dtype.type(10)
    edges = np.array(list(itertools.product(exceptional(dtype), repeat=2)), dtype).T
    x, y = np.concatenate([x, edges[0]]), np.concatenate([y, edges[1]])
    lanes = LANES[target, dtype]
    run = function(FUNCTIONS["floor_divide"], [dtype, dtype], dtype, lanes, TARGETS[target])
    with np.errstate(all="ignore"):
        expected = np.floor_divide(x, y)
    got = run(x, y)
    np.testing.assert_array_equal(got, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("name", ["atan", "asin"])
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_angles_stay_between_right_angles(name, dtype, target):
    x = sample(name, dtype, 20_000)
    assert np.nanmax(np.abs(emitted(name, dtype, target)(x))) == dtype.type(np.pi / 2)

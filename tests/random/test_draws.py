"""What is drawn: the same on every executor and at once, as its name says, and as JAX draws it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule import float32, int64, uint32

n = cr.size("n")
KEY = cr.random.key(7)


# Everything that can be drawn from a key for an array of n rows, and a step.
def drawn(x: float32[n, 5], key: uint32[2], step: int64[()], rate: float = 0.3) -> Any:
    first, second = cr.random.split(key)
    third = cr.random.fold_in(second, step)
    return {
        "keys": cr.random.split(third, 3),
        "bits": cr.random.bits(first, x.shape),
        "one": cr.random.bits(first),
        "uniform": cr.random.uniform(third, x.shape),
        "wide": cr.random.uniform(third, (x.shape[0],), np.float64),
        "normal": cr.random.normal(second, x.shape),
        "wide_normal": cr.random.normal(second, (4,), np.float64),
        "bernoulli": cr.random.bernoulli(second, rate, x.shape),
        "dropout": cr.dropout(x, rate, key=third),
    }


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_a_graph_has_the_bits_that_are_drawn_at_once(executor: str) -> None:
    graph = cr.trace(drawn)
    for rows in (1, 40):
        x = np.linspace(-1, 1, 5 * rows, dtype=np.float32).reshape(rows, 5)
        run = graph.run(x=x, key=KEY, step=np.int64(12), executor=executor)
        at_once = drawn(x, KEY, 12)
        assert run.outputs.keys() == at_once.keys()
        for name, got in run.outputs.items():
            expected = at_once[name]
            assert (got.dtype, got.shape) == (expected.dtype, np.shape(expected)), name
            if name == "dropout":  # the mask is the same; native multiplies by 1 / (1 - rate)
                np.testing.assert_array_equal(got == 0, expected == 0)
                np.testing.assert_allclose(got, expected, rtol=2e-7)
            else:
                np.testing.assert_array_equal(got, expected, err_msg=name)


def test_names_of_the_source_are_the_names_of_draws() -> None:
    def program(key: uint32[2]) -> Any:
        noise_key, mask_key = cr.random.split(key)
        noise = cr.random.normal(noise_key, (3,))
        mask = cr.random.bernoulli(mask_key, 0.5, (3,))
        kept = np.where(mask, noise, 0)
        return kept

    graph = cr.trace(program)
    assert {"noise_key", "mask_key", "noise", "mask", "kept"} <= set(graph.names)
    scope = graph["noise"].origin.scope
    assert scope is not None and scope.symbol == "normal"


def test_numbers_do_not_depend_on_the_version_of_anything() -> None:
    # Written down once, from JAX 0.10.2 with jax_threefry_partitionable.
    assert cr.random.key(42).tolist() == [0, 42]
    assert cr.random.split(cr.random.key(42)).tolist() == SPLIT_OF_42
    assert cr.random.bits(cr.random.key(42), (3,)).tolist() == BITS_OF_42
    assert cr.random.permutation(cr.random.key(42), 10).tolist() == ORDER_OF_42
    many = cr.random.permutation(cr.random.key(42), 5000)  # sorted twice
    assert many[:4].tolist() == [3825, 3150, 2972, 2921]


SPLIT_OF_42 = [[1832780943, 270669613], [64467757, 2916123636]]
BITS_OF_42 = [2098992034, 2919706841, 2646866425]
ORDER_OF_42 = [7, 4, 2, 5, 3, 6, 8, 9, 0, 1]


def test_a_key_is_the_two_halves_of_its_seed() -> None:
    assert cr.random.key(2**40 + 5).tolist() == [2**8, 5]
    assert cr.random.key(np.int64(3)).tolist() == [0, 3]
    assert cr.random.key(2**64 - 1).tolist() == [2**32 - 1] * 2


def test_draws_of_other_keys_steps_and_places_differ() -> None:
    keys = [KEY, *cr.random.split(KEY, 5), *(cr.random.fold_in(KEY, i) for i in range(5, 10))]
    words = np.concatenate([cr.random.bits(key, (1000,)) for key in keys])
    # 11,000 words of 32 bits: 0.014 pairs are expected to be equal
    assert len(np.unique(words)) >= len(words) - 1


def test_a_key_that_is_split_is_used_up() -> None:
    # As in JAX, the words of one key serve all that is made of it.
    np.testing.assert_array_equal(cr.random.split(KEY, 5)[3], cr.random.fold_in(KEY, 3))
    np.testing.assert_array_equal(
        np.bitwise_xor.reduce(cr.random.split(KEY, 5), axis=1), cr.random.bits(KEY, (5,))
    )


def test_many_numbers_are_the_first_ones_and_more() -> None:
    many = cr.random.bits(KEY, (700_000,))
    np.testing.assert_array_equal(many[:1000], cr.random.bits(KEY, (1000,)))
    graph = cr.trace(lambda key: cr.random.bits(key, (700_000,)), key=KEY)
    np.testing.assert_array_equal(many, graph.run(key=KEY).outputs)


# Their distributions ------------------------------------------------------------------------------


def distance(sample: np.ndarray, distribution: Callable[[np.ndarray], np.ndarray]) -> float:
    """Kolmogorov's: the largest difference of the distribution functions, times sqrt(count)."""
    ordered = np.sort(sample.astype(np.float64).ravel())
    count = len(ordered)
    expected = distribution(ordered)
    steps = np.arange(count + 1) / count
    return float(np.sqrt(count) * max((steps[1:] - expected).max(), (expected - steps[:-1]).max()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_distributions_are_what_their_names_say(dtype: Any) -> None:
    from scipy.stats import norm

    # The 99.9 % point of Kolmogorov's distribution is 1.95; the keys are fixed.
    uniform = cr.random.uniform(KEY, (200, 500), dtype, minval=-1, maxval=3)
    assert distance(uniform, lambda x: (x + 1) / 4) < 1.95
    normal = cr.random.normal(KEY, (200, 500), dtype)
    assert distance(normal, norm.cdf) < 1.95
    assert distance(uniform, lambda x: (x + 1.1) / 4.1) > 1.95  # the test can fail
    assert distance(normal, lambda x: norm.cdf(1.05 * x)) > 1.95
    events = cr.random.bernoulli(KEY, dtype(0.3), (100_000,))
    assert abs(events.mean() - 0.3) < 4 * np.sqrt(0.21 / 100_000)


@pytest.mark.parametrize(("dtype", "digits"), [(np.float32, 23), (np.float64, 52)])
def test_uniform_numbers_are_whole_multiples_below_1(dtype: Any, digits: int) -> None:
    whole = cr.random.uniform(KEY, (100_000,), dtype).astype(np.longdouble) * 2**digits
    np.testing.assert_array_equal(whole, np.floor(whole))
    assert 0 <= whole.min() and whole.max() < 2**digits
    odd = whole % 2
    assert 0.49 < odd.mean() < 0.51


def test_every_order_of_four_is_equally_likely() -> None:
    keys = cr.random.split(KEY, 1200)
    codes = [cr.random.permutation(key, 4) @ [64, 16, 4, 1] for key in keys]
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == 24
    chi_squared = np.sum((counts - 50) ** 2 / 50)
    assert chi_squared < 49.7  # the 99.9 % point for 23 degrees of freedom


# Derivatives --------------------------------------------------------------------------------------


def test_draws_are_differentiable_by_their_limits_and_scales() -> None:
    weights = np.linspace(0.5, 2, 12).reshape(4, 3)
    unit = cr.random.uniform(KEY, (4, 3), np.float64)
    noise = cr.random.normal(KEY, (4, 3), np.float64)

    def J(low: Any, high: Any, scale: Any, key: Any) -> Any:
        u = cr.random.uniform(key, (4, 3), np.float64, minval=low, maxval=high)
        z = scale * cr.random.normal(key, (4, 3), np.float64)
        return np.sum(weights * u) + np.sum(weights * z)

    low, high, scale = np.array([0.1, 0.2, 0.3]), np.float64(2.0), np.ones((4, 1))
    found = cr.grad(J, wrt=("low", "high", "scale"))(low, high, scale, KEY)
    expected = [
        np.sum(weights * (1 - unit), axis=0),
        np.sum(weights * unit),
        np.sum(weights * noise, axis=1, keepdims=True),
    ]
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-13)
    # equal limits are no kink
    (flat,) = cr.grad(J, wrt=("high",))(np.ones(3), np.float64(1.0), scale, KEY)
    np.testing.assert_allclose(flat, np.sum(weights * unit), rtol=1e-13)


def test_the_inverse_of_erf_is_that_of_mpmath() -> None:
    mpmath = pytest.importorskip("mpmath")
    from chainrule.random.distributions import erfinv

    x = np.array([-1 + 2**-24, -0.999, -0.5, -1e-3, 1e-30, 0.1, 0.9, 1 - 2**-23])
    for dtype, rtol in ((np.float64, 4e-15), (np.float32, 2e-7)):
        given = x.astype(dtype)
        expected = [float(mpmath.erfinv(mpmath.mpf(float(one)))) for one in given]
        np.testing.assert_allclose(erfinv(given), expected, rtol=rtol)


# JAX ----------------------------------------------------------------------------------------------


@contextmanager
def jax_random(x64: bool = False) -> Iterator[Any]:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(x64), jax.threefry_partitionable(True):
        yield jax.random


def equal(ours: Any, theirs: Any) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.peers
@pytest.mark.parametrize("seed", [2**31 - 1, pytest.param(0, marks=pytest.mark.exhaustive)])
def test_keys_are_jaxs(seed: int) -> None:
    with jax_random() as random:
        key, theirs = cr.random.key(seed), random.key(seed)
        equal(key, random.key_data(theirs))
        equal(cr.random.split(key), random.key_data(random.split(theirs)))
        equal(cr.random.split(key, 7), random.key_data(random.split(theirs, 7)))
        for data in (0, 12345, 2**32 - 1):
            equal(cr.random.fold_in(key, data), random.key_data(random.fold_in(theirs, data)))
        for count in (1, 10, 5000):
            equal(
                cr.random.permutation(key, count).astype(np.int32),
                random.permutation(theirs, count),
            )


@pytest.mark.peers
@pytest.mark.parametrize("shape", [(40, 5), pytest.param((), marks=pytest.mark.exhaustive)])
def test_draws_are_jaxs(shape: tuple[int, ...]) -> None:
    with jax_random() as random:
        theirs = random.key(7)
        equal(cr.random.bits(KEY, shape), random.bits(theirs, shape))
        equal(cr.random.uniform(KEY, shape), random.uniform(theirs, shape))
        equal(cr.random.bernoulli(KEY, 0.3, shape), random.bernoulli(theirs, 0.3, shape))
        ours = cr.random.uniform(KEY, shape, minval=-3, maxval=5.3)
        # XLA rounds the product and the sum once, NumPy each.
        others = random.uniform(theirs, shape, minval=-3, maxval=5.3)
        np.testing.assert_allclose(ours, others, rtol=0, atol=np.spacing(np.float32(5.3)))
        # XLA's erfinv in float32 is an approximation (Giles 2010).
        np.testing.assert_allclose(
            cr.random.normal(KEY, shape), random.normal(theirs, shape), rtol=2e-5
        )
    with jax_random(x64=True) as random:
        theirs = random.key(7)
        equal(cr.random.uniform(KEY, shape, np.float64), random.uniform(theirs, shape, np.float64))
        p = np.float64(0.3)
        equal(cr.random.bernoulli(KEY, p, shape), random.bernoulli(theirs, p, shape))
        np.testing.assert_allclose(
            cr.random.normal(KEY, shape, np.float64),
            random.normal(theirs, shape, np.float64),
            rtol=1e-13,
        )

"""Where the processor has no AVX2, products are BLAS': the same numbers."""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest

import chainrule as cr
from chainrule.execute.native.products.blas import load_blas
from chainrule.execute.native.runtime import machine
from chainrule.plan.work import ProductWork


@pytest.fixture
def by_blas(native, monkeypatch):
    monkeypatch.setenv("CHAINRULE_WITHOUT", "avx2")


def objective(x: cr.float64["n 40"], W1: cr.float64["40 30"], W2: cr.float64["30 20"]):
    z = x @ W1
    h = np.tanh(z)
    o = h @ W2
    return np.sum(o**2) / x.shape[0]


def test_a_step_calls_it_and_gives_the_same_numbers(by_blas):
    step = cr.training_step(
        objective, wrt=("W1", "W2"), optimizer=cr.sgd(0.1, weight_decay=0.01), executor="native"
    )
    plan = step.plan(n=50)
    calls = [c for work in plan.works if isinstance(work, ProductWork) for c in work.calls]
    assert calls and all(call.tiles is None for call in calls)
    generator = np.random.default_rng(0)
    x, W1, W2 = (generator.normal(size=shape) / 8 for shape in ((50, 40), (40, 30), (30, 20)))
    state = step.init(W1=W1, W2=W2)
    other = cr.training_step(
        objective, wrt=("W1", "W2"), optimizer=cr.sgd(0.1, weight_decay=0.01), executor="reference"
    )
    expected = other.init(W1=W1, W2=W2)
    for _ in range(3):
        found, wanted = step(state, x=x), other(expected, x=x)
        assert found == pytest.approx(wanted, rel=1e-12)
    np.testing.assert_allclose(state["W1"], expected["W1"], rtol=1e-12)


def test_its_threads_are_as_they_were_after_many_calls_at_once(by_blas):
    blas = load_blas()
    if blas.get_threads_address is None or blas.set_threads_address is None:
        pytest.skip("this BLAS has no threads that can be told")
    get = ctypes.CFUNCTYPE(ctypes.c_int)(blas.get_threads_address)
    put = ctypes.CFUNCTYPE(None, ctypes.c_int)(blas.set_threads_address)
    before = get()
    x = np.random.default_rng(0).standard_normal((64, 64))
    square = cr.compile(lambda x: x @ x, executor="native")
    expected = square(x)
    results = []

    def many() -> None:
        for _ in range(500):
            found = square(x)
        results.append(found)

    try:
        put(2)
        threads = [threading.Thread(target=many) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert get() == 2
        for found in results:
            np.testing.assert_array_equal(found, expected)
    finally:
        put(before)


def test_while_a_product_runs_blas_has_one_thread(by_blas, monkeypatch):
    state, seen = {"threads": 4}, []
    get = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: state["threads"])
    put = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda threads: state.update(threads=threads))
    gemm = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 13)(lambda *_: seen.append(dict(state)))
    get_address, put_address, gemm_address = (
        ctypes.cast(one, ctypes.c_void_p).value for one in (get, put, gemm)
    )
    watched = replace(
        load_blas(),
        dgemm=gemm_address or 0,
        get_threads_address=get_address,
        set_threads_address=put_address,
    )
    monkeypatch.setattr(machine, "load_blas", lambda: watched)
    monkeypatch.setattr(machine, "_machines", OrderedDict())
    square = cr.compile(lambda x: np.tanh(x @ x), executor="native")
    for _ in range(3):
        square(np.ones((256, 256)))
        assert seen and all(one == {"threads": 1} for one in seen)
        assert state == {"threads": 4}
        seen.clear()

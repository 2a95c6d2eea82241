"""Products through the addresses equal NumPy's, and SciPy is found as it was."""

import ctypes
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy
from executors import needs_native

from chainrule.errors import EvaluationError
from chainrule.execute.native.products import blas as module
from chainrule.execute.native.products.blas import load_blas

pytestmark = needs_native

REALS = {"s": (np.float32, ctypes.c_float), "d": (np.float64, ctypes.c_double)}
EVERY_REAL = pytest.mark.parametrize("letter", REALS)


def call(address, result, *arguments):
    """Fortran's way: everything by a pointer."""
    given = [
        argument.ctypes.data_as(ctypes.c_void_p)
        if isinstance(argument, np.ndarray)
        else ctypes.byref(ctypes.c_int(argument) if isinstance(argument, int) else argument)
        for argument in arguments
    ]
    return ctypes.CFUNCTYPE(result, *[ctypes.c_void_p] * len(given))(address)(*given)


def matrices(dtype, *shapes):
    random = np.random.default_rng(7)
    return [np.asfortranarray(random.standard_normal(shape).astype(dtype)) for shape in shapes]


@EVERY_REAL
@pytest.mark.parametrize("transposed", [False, True])
def test_gemm_is_a_matrix_product(letter, transposed):
    dtype, real = REALS[letter]
    m, n, k = 33, 70, 129
    a, b, c = matrices(dtype, (m, k), (k, n), (m, n))
    stored = np.asfortranarray(a.T) if transposed else a
    want = 0.5 * a.astype(np.float64) @ b + 2.0 * c
    call(
        getattr(load_blas(), f"{letter}gemm"), None,
        ctypes.c_char(b"T" if transposed else b"N"), ctypes.c_char(b"N"), m, n, k,
        real(0.5), stored, k if transposed else m, b, k, real(2.0), c, m,
    )  # fmt: skip
    # k roundings of products of size about 1
    assert np.abs(c - want).max() <= k * np.finfo(dtype).eps * np.abs(want).max()


@EVERY_REAL
def test_gemv_and_dot_are_products_with_vectors(letter):
    dtype, real = REALS[letter]
    m, n = 33, 70
    a, x, y = matrices(dtype, (m, n), (n,), (m,))
    want = a.astype(np.float64) @ x
    blas = load_blas()
    arguments = [ctypes.c_char(b"N"), m, n, real(1), a, m, x, 1, real(0), y, 1]
    call(getattr(blas, f"{letter}gemv"), None, *arguments)
    assert np.abs(y - want).max() <= n * np.finfo(dtype).eps * np.abs(want).max()
    dot = call(getattr(blas, f"{letter}dot"), real, n, x, 1, x, 1)
    assert dot == pytest.approx(
        np.sum(x.astype(np.float64) ** 2), rel=n * float(np.finfo(dtype).eps)
    )


def test_the_number_of_threads_is_set_and_read():
    blas = load_blas()
    if blas.set_threads_address is None:
        pytest.skip(f"{blas.name} cannot")
    get = ctypes.CFUNCTYPE(ctypes.c_int)(blas.get_threads_address)
    put = ctypes.CFUNCTYPE(None, ctypes.c_int)(blas.set_threads_address)
    before = get()
    assert before >= 1
    try:
        put(1)
        assert get() == 1
    finally:
        put(before)
    assert get() == before


def test_it_says_what_it_is():
    blas = load_blas()
    built_with = scipy.show_config(mode="dicts") or {}
    named = built_with["Build Dependencies"]["blas"]["name"]
    assert (blas.name == "OpenBLAS") == ("openblas" in named)
    if blas.name == "OpenBLAS":
        assert blas.version.startswith("0.")
        assert blas.core
    assert load_blas() is load_blas()


FRESH = """
import json, os, sys
import numpy
before = dict(os.environ)
{first}
from chainrule.execute.native.products.blas import load_blas
blas = load_blas()
alone = "scipy.linalg" not in sys.modules and "scipy.linalg.cython_blas" not in sys.modules
import scipy.linalg
table = scipy.linalg.cython_blas
import scipy.linalg.cython_blas as again
from scipy.linalg import cython_blas as once_more
from scipy.linalg.blas import sgemm
import scipy.linalg.cython_lapack, scipy.sparse.linalg
print(json.dumps(dict(
    alone=alone,
    same=table is again is once_more is sys.modules["scipy.linalg.cython_blas"],
    origin=table.__spec__.name,
    solved=list(scipy.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0])),
    product=sgemm(1.0, [[2.0]], [[3.0]]).tolist(),
    capsules=load_blas.__wrapped__() == blas,
    environment=dict(os.environ) == before,
    core=blas.core,
)))
"""


def fresh(first="", **environment):
    variables = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"} | environment
    arguments = [sys.executable, "-W", "error", "-c", FRESH.format(first=first)]
    done = subprocess.run(arguments, capture_output=True, text=True, env=variables)
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("first", "alone"),
    [("", True), ("import scipy", True), ("import scipy.linalg", False)],
)
def test_scipy_is_not_imported_and_can_be_later(first, alone):
    found = fresh(first)
    assert found["alone"] is alone
    assert found["same"] and found["capsules"] and found["environment"]
    assert found["origin"] == "scipy.linalg.cython_blas"
    assert found["solved"] == [1.0, 1.0]
    assert found["product"] == [[6.0]]


@pytest.mark.slow
def test_the_plain_import_is_what_happens_where_the_shortcut_fails():
    plant = (
        "import chainrule.execute.native.products.blas as blas\n"
        "def fail(name): raise ImportError(name)\n"
        "blas._extension_alone = fail"
    )
    found = fresh(plant)
    assert found["alone"] is False
    assert found["same"] and found["capsules"]


def test_integers_of_another_size_are_refused(monkeypatch):
    monkeypatch.setattr(module, "GEMM", "void (char *, char *, long *, ")
    with pytest.raises(EvaluationError, match=r"this SciPy's sgemm is void .*32-bit integers"):
        load_blas.__wrapped__()

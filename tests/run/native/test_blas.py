"""Products through the addresses equal NumPy's, and SciPy is found as it was."""

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy
from caching import as_nobody
from executors import needs_native

from chainrule.errors import EvaluationError
from chainrule.run.native import blas as module
from chainrule.run.native.blas import core_note, load_blas, load_mkl, load_scipy_blas, mkl_files

pytestmark = needs_native

REALS = {"s": (np.float32, ctypes.c_float), "d": (np.float64, ctypes.c_double)}
WITHOUT_MKL = pytest.mark.skipif(not mkl_files(), reason="the package mkl is not installed")

EVERY_BLAS = pytest.mark.parametrize(
    "load",
    [
        pytest.param(load_scipy_blas, id="scipy"),
        pytest.param(lambda: load_mkl(mkl_files()), id="mkl", marks=WITHOUT_MKL),
    ],
)
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


@EVERY_BLAS
@EVERY_REAL
@pytest.mark.parametrize("transposed", [False, True])
def test_gemm_is_a_matrix_product(load, letter, transposed):
    dtype, real = REALS[letter]
    m, n, k = 33, 70, 129
    a, b, c = matrices(dtype, (m, k), (k, n), (m, n))
    stored = np.asfortranarray(a.T) if transposed else a
    want = 0.5 * a.astype(np.float64) @ b + 2.0 * c
    call(
        getattr(load(), f"{letter}gemm"), None,
        ctypes.c_char(b"T" if transposed else b"N"), ctypes.c_char(b"N"), m, n, k,
        real(0.5), stored, k if transposed else m, b, k, real(2.0), c, m,
    )  # fmt: skip
    # k roundings of products of size about 1
    assert np.abs(c - want).max() <= k * np.finfo(dtype).eps * np.abs(want).max()


@EVERY_BLAS
@EVERY_REAL
def test_gemv_and_dot_are_products_with_vectors(load, letter):
    dtype, real = REALS[letter]
    m, n = 33, 70
    a, x, y = matrices(dtype, (m, n), (n,), (m,))
    want = a.astype(np.float64) @ x
    blas = load()
    arguments = [ctypes.c_char(b"N"), m, n, real(1), a, m, x, 1, real(0), y, 1]
    call(getattr(blas, f"{letter}gemv"), None, *arguments)
    assert np.abs(y - want).max() <= n * np.finfo(dtype).eps * np.abs(want).max()
    dot = call(getattr(blas, f"{letter}dot"), real, n, x, 1, x, 1)
    assert dot == pytest.approx(
        np.sum(x.astype(np.float64) ** 2), rel=n * float(np.finfo(dtype).eps)
    )


@EVERY_BLAS
def test_the_number_of_threads_is_set_and_read(load):
    blas = load()
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
        put(0 if blas.threads_are_local else before)
    assert get() == before


def test_it_says_what_it_is():
    blas = load_scipy_blas()
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
from chainrule.run.native.blas import load_scipy_blas
blas = load_scipy_blas()
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
    capsules=load_scipy_blas() == blas,
    environment=dict(os.environ) == before,
    core=blas.core,
    note=blas.note,
)))
"""


def fresh(first="", **environment):
    variables = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"} | environment
    arguments = [sys.executable, "-W", "error", "-c", FRESH.format(first=first)]
    done = subprocess.run(arguments, capture_output=True, text=True, env=variables)
    assert done.stderr == ""
    return json.loads(done.stdout)


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
    assert found["note"] == ""  # left to itself, OpenBLAS chooses well


def test_the_plain_import_is_what_happens_where_the_shortcut_fails():
    plant = (
        "import chainrule.run.native.blas as blas\n"
        "def fail(name): raise ImportError(name)\n"
        "blas._extension_alone = fail"
    )
    found = fresh(plant)
    assert found["alone"] is False
    assert found["same"] and found["capsules"]


def test_a_core_chosen_by_the_user_stands_and_is_mentioned_if_it_is_slow():
    flags = module.processor_flags(Path("/proc/cpuinfo"))
    if load_scipy_blas().name != "OpenBLAS" or not flags >= module.AVX512:
        pytest.skip("needs OpenBLAS and AVX-512")
    found = fresh(OPENBLAS_CORETYPE="Haswell")
    assert found["core"] == "Haswell"
    assert "unset OPENBLAS_CORETYPE=Haswell in the environment" in found["note"]


def test_the_note_says_how_to_mend_it(monkeypatch, tmp_path):
    wide, narrow = tmp_path / "wide", tmp_path / "narrow"
    wide.write_text(f"processor : 0\nflags\t\t: sse2 avx2 {' '.join(module.AVX512)} sha\n")
    narrow.write_text("processor : 0\nflags\t\t: sse2 avx2 avx512f\n")
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    assert core_note("Haswell", wide) == (
        "OpenBLAS uses its Haswell kernels although this processor has AVX-512, so matrix products "
        "take about twice as long: set OPENBLAS_CORETYPE=SkylakeX in the environment before Python "
        "starts"
    )
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Zen")
    assert "long: unset OPENBLAS_CORETYPE=Zen in" in core_note("Zen", wide)
    for core, file in [
        ("SkylakeX", wide),
        ("", wide),
        ("Haswell", narrow),
        ("Zen", tmp_path / "no"),
    ]:
        assert core_note(core, file) == ""


def test_integers_of_another_size_are_refused(monkeypatch):
    monkeypatch.setattr(module, "GEMM", "void (char *, char *, long *, ")
    with pytest.raises(EvaluationError, match=r"this SciPy's sgemm is void .*32-bit integers"):
        load_scipy_blas()


def test_a_damaged_mkl_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    mkl_files.cache_clear()
    try:
        before = mkl_files()
        (tmp_path / "lib").mkdir()
        damaged = tmp_path / "lib" / "libmkl_rt.so.2"
        damaged.write_bytes(b"not a library")
        mkl_files.cache_clear()
        assert mkl_files() == (damaged, *before)
        assert load_mkl([damaged, tmp_path / "nothing"]) is None
    finally:
        mkl_files.cache_clear()


def test_in_a_home_that_the_user_may_not_enter_there_is_no_mkl(tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    monkeypatch.setattr("site.getuserbase", lambda: str(closed / "base"))
    monkeypatch.setattr("sys.prefix", str(closed))
    with as_nobody():
        assert mkl_files.__wrapped__() == ()

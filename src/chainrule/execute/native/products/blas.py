"""Matrix products: the functions of the BLAS that SciPy brings, by their addresses.

They are Fortran's: every argument by a pointer, integers of 32 bits (`i32`), column-major
matrices, `void` but for the dots:

    sgemm, dgemm(ptr transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    sgemv, dgemv(ptr trans, m, n, alpha, a, lda, x, incx, beta, y, incy)
    sdot, ddot(ptr n, x, incx, y, incy) -> float, double
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from functools import lru_cache
from types import ModuleType
from typing import Any

from chainrule.dataclass import dataclass
from chainrule.errors import EvaluationError

ROUTINES = ("sgemm", "dgemm", "sgemv", "dgemv", "sdot", "ddot")
GEMM = "void (char *, char *, int *, int *, int *, "  # how SciPy describes it, with 32-bit int


@dataclass(frozen=True)
class Blas:
    """A BLAS in this process; fields in small letters are addresses of functions.

    `set_threads_address` is of `void set(i32)` and `get_threads_address` of `i32 get()`; None
    where the library has no such function.  A number of threads set is that of the process.
    `core` is the kind of processor that the kernels were written for, "" where it is not told.
    """

    name: str
    version: str
    core: str
    sgemm: int
    dgemm: int
    sgemv: int
    dgemv: int
    sdot: int
    ddot: int
    set_threads_address: int | None
    get_threads_address: int | None


@lru_cache
def load_blas() -> Blas:
    """The BLAS that SciPy's own functions call, mostly OpenBLAS.

    15 to 30 ms if SciPy was not imported before: of SciPy only one extension module is loaded
    (`import scipy.linalg` takes 110 to 200 ms); a later import of SciPy finds nothing changed.

    EvaluationError where this SciPy's integers are not those of 32 bits.
    """
    module = _cython_module("scipy.linalg.cython_blas")
    capsules: dict[str, object] = module.__pyx_capi__
    if not signature(capsules["sgemm"]).startswith(GEMM):
        raise EvaluationError(
            f"this SciPy's sgemm is {signature(capsules['sgemm'])}, not with 32-bit integers",
            hint='install SciPy from PyPI or conda-forge, or use executor="reference"',
        )
    # Found through the extension module, the functions are of the library that it is linked to:
    # NumPy may have brought a second OpenBLAS into the process.
    linked = ctypes.CDLL(module.__file__)
    configuration = _openblas(linked, "get_config")
    corename = _openblas(linked, "get_corename")
    core = _text(corename) if corename else ""
    sgemm, dgemm, sgemv, dgemv, sdot, ddot = (pointer(capsules[name]) for name in ROUTINES)
    return Blas(
        name="OpenBLAS" if configuration else "BLAS",
        version=_after(_text(configuration), "OpenBLAS") if configuration else "",
        core=core,
        sgemm=sgemm,
        dgemm=dgemm,
        sgemv=sgemv,
        dgemv=dgemv,
        sdot=sdot,
        ddot=ddot,
        **thread_functions(linked),
    )


def thread_functions(linked: ctypes.CDLL) -> dict[str, int | None]:
    """The addresses of what sets and tells how many threads a BLAS uses, in the whole process.

    Those of OpenBLAS, or of MKL, to which conda links SciPy; None for another one.  (MKL's
    `MKL_Set_Num_Threads_Local` would not do: it leaves the threads of our pool as they are.)
    """
    put, get = (_openblas(linked, f"{verb}_num_threads") for verb in ("set", "get"))
    if put is None or get is None:
        put, get = (
            getattr(linked, f"MKL_{name}", None) for name in ("Set_Num_Threads", "Get_Max_Threads")
        )
    found = put is not None and get is not None
    return {
        "set_threads_address": _address(put) if found else None,
        "get_threads_address": _address(get) if found else None,
    }


def exported(name: str) -> dict[str, object]:
    """The functions that a module of SciPy exports, as capsules."""
    return _cython_module(name).__pyx_capi__


def _cython_module(name: str) -> ModuleType:
    """SciPy's table of functions, without the rest of scipy.linalg where it can be."""
    if name not in sys.modules and "scipy.linalg" not in sys.modules:
        try:
            return _extension_alone(name)
        except (ImportError, AttributeError, KeyError):  # a SciPy that is laid out otherwise
            pass
    return importlib.import_module(name)


def _extension_alone(name: str) -> ModuleType:
    """An extension module of a package that is not imported, and does not seem to be after.

    Its entry in `sys.modules` is taken out again: the ordinary import would find it there and
    not set the package's attribute.  That import gives the same module, for Cython makes one.
    """
    package = importlib.util.find_spec("scipy")
    if package is None or not package.submodule_search_locations:
        raise ImportError("scipy is not installed")
    folders = [os.path.join(folder, "linalg") for folder in package.submodule_search_locations]
    found = importlib.machinery.PathFinder.find_spec(name, folders)
    if found is None or not isinstance(found.loader, importlib.machinery.ExtensionFileLoader):
        raise ImportError(f"{name} is not an extension module")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    if "scipy.linalg" not in sys.modules:
        sys.modules.pop(name, None)
    return module


def signature(capsule: object) -> str:
    """How SciPy describes the function of a capsule."""
    get = ctypes.pythonapi.PyCapsule_GetName
    get.argtypes, get.restype = (ctypes.py_object,), ctypes.c_char_p
    return get(capsule).decode()


def pointer(capsule: object) -> int:
    """The address of the function of a capsule."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    return get(capsule, signature(capsule).encode())


def _openblas(linked: ctypes.CDLL, name: str) -> Any:
    """OpenBLAS's function of that name; None where a module is linked to another BLAS.

    That of NumPy's wheels, whose integers have 64 bits, says so at its end.
    """
    for prefix in ("scipy_openblas_", "openblas_"):
        for end in ("", "64_"):
            if hasattr(linked, prefix + name + end):
                return getattr(linked, prefix + name + end)
    return None


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


def _text(function: Any) -> str:
    """What a function `const char *f(void)` says."""
    function.restype = ctypes.c_char_p
    return function().decode()


def _after(text: str, word: str) -> str:
    """The word that follows in the text."""
    words = text.split()
    return words[words.index(word) + 1] if word in words[:-1] else ""

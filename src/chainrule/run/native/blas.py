"""Matrix products: the functions of the BLAS that SciPy brings, or of MKL, by their addresses.

They are Fortran's: every argument by a pointer, integers of 32 bits (`i32`), column-major
matrices, `void` but for the dots:

    sgemm, dgemm(ptr transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    sgemv, dgemv(ptr trans, m, n, alpha, a, lda, x, incx, beta, y, incy)
    sdot, ddot(ptr n, x, incx, y, incy) -> float, double
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.machinery
import importlib.util
import os
import site
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from chainrule.errors import EvaluationError

ROUTINES = ("sgemm", "dgemm", "sgemv", "dgemv", "sdot", "ddot")
GEMM = "void (char *, char *, int *, int *, int *, "  # how SciPy describes it, with 32-bit int

CORE_VARIABLE = "OPENBLAS_CORETYPE"
AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
# What OpenBLAS calls its kernels without AVX-512, where it could have chosen those with.
NARROW_CORES = {"Haswell", "Zen", "Excavator", "Sandybridge", "Nehalem", "Prescott"}


@dataclass(frozen=True)
class Blas:
    """A BLAS in this process; fields in small letters are addresses of functions.

    `set_threads_address` is of `void set(i32)` and `get_threads_address` of `i32 get()`; None
    where the library has no such function.  A number of threads set is that of the calling
    thread alone if `threads_are_local` (MKL; 0 there means: what the process has), or else of
    the whole process.  `core` is the kind of processor that the kernels were written for, ""
    where it is not told.  `note` is empty, or one sentence: why products are slower than they
    could be, and how to mend it.
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
    threads_are_local: bool
    note: str = ""


@lru_cache
def load_blas() -> Blas:
    """MKL where its package is installed in this environment, else the BLAS that SciPy uses.

    15 to 30 ms if SciPy was not imported before: of SciPy only one extension module is loaded
    (`import scipy.linalg` takes 110 to 200 ms); a later import of SciPy finds nothing changed.
    """
    return load_mkl(mkl_files()) or load_scipy_blas()


@lru_cache
def mkl_files() -> tuple[Path, ...]:
    """Where the package `mkl` has put its library in this environment; () if it is not there."""
    found: list[Path] = []
    for folder in (Path(sys.prefix) / "lib", Path(site.getuserbase()) / "lib"):
        with contextlib.suppress(OSError):  # a home that this user may not enter
            found += sorted(folder.glob("libmkl_rt.so*"))
    return tuple(found)


def load_mkl(files: Iterable[Path]) -> Blas | None:
    """MKL from the first of these files that works; None where none does."""
    for file in files:
        try:
            library = ctypes.CDLL(str(file))
            # 0 asks for 32-bit integers; the first use of MKL in the process decides.
            if library.MKL_Set_Interface_Layer(0) & 1:
                return None
            text = ctypes.create_string_buffer(200)
            library.MKL_Get_Version_String(text, len(text))
            sgemm, dgemm, sgemv, dgemv, sdot, ddot = (
                _address(getattr(library, f"{name}_")) for name in ROUTINES
            )
            return Blas(
                name="MKL",
                version=_after(text.value.decode(), "Version").removesuffix("-Product"),
                core="",
                sgemm=sgemm,
                dgemm=dgemm,
                sgemv=sgemv,
                dgemv=dgemv,
                sdot=sdot,
                ddot=ddot,
                set_threads_address=_address(library.MKL_Set_Num_Threads_Local),
                get_threads_address=_address(library.MKL_Get_Max_Threads),
                threads_are_local=True,
            )
        except (OSError, AttributeError):  # damaged, or of a kind that we do not know
            continue
    return None


def load_scipy_blas() -> Blas:
    """The BLAS that SciPy's own functions call, mostly OpenBLAS.

    EvaluationError where this SciPy's integers are not those of 32 bits.
    """
    module = _cython_blas()
    capsules: dict[str, object] = module.__pyx_capi__
    if not _signature(capsules["sgemm"]).startswith(GEMM):
        raise EvaluationError(
            f"this SciPy's sgemm is {_signature(capsules['sgemm'])}, not with 32-bit integers",
            hint='install SciPy from PyPI or conda-forge, or use executor="reference"',
        )
    # Found through the extension module, the functions are of the library that it is linked to:
    # NumPy may have brought a second OpenBLAS into the process.
    linked = ctypes.CDLL(module.__file__)
    configuration = _openblas(linked, "get_config")
    corename = _openblas(linked, "get_corename")
    set_threads = _openblas(linked, "set_num_threads")
    get_threads = _openblas(linked, "get_num_threads")
    core = _text(corename) if corename else ""
    sgemm, dgemm, sgemv, dgemv, sdot, ddot = (_pointer(capsules[name]) for name in ROUTINES)
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
        set_threads_address=_address(set_threads) if set_threads else None,
        get_threads_address=_address(get_threads) if get_threads else None,
        threads_are_local=False,
        note=core_note(core, Path("/proc/cpuinfo")),
    )


def core_note(core: str, cpuinfo: Path) -> str:
    """One sentence where OpenBLAS uses kernels of `core` that this processor has outgrown.

    They were measured at half the speed of those with AVX-512 (125 and 240 GFLOP/s a core in
    float32).  OpenBLAS chooses well by itself (0.3.21 to 0.3.30 were tried on AMD's family 26),
    unless the environment names another core, which is the user's choice and stands.
    """
    if core not in NARROW_CORES or not processor_flags(cpuinfo) >= AVX512:
        return ""
    chosen = os.environ.get(CORE_VARIABLE)
    mend = f"set {CORE_VARIABLE}=SkylakeX" if chosen is None else f"unset {CORE_VARIABLE}={chosen}"
    return (
        f"OpenBLAS uses its {core} kernels although this processor has AVX-512, so matrix "
        f"products take about twice as long: {mend} in the environment before Python starts"
    )


def processor_flags(cpuinfo: Path) -> set[str]:
    """What the first processor in Linux's `/proc/cpuinfo` can do; nothing where it is not told."""
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def _cython_blas() -> ModuleType:
    """SciPy's table of the BLAS functions, without the rest of scipy.linalg where it can be."""
    name = "scipy.linalg.cython_blas"
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


def _signature(capsule: object) -> str:
    get = ctypes.pythonapi.PyCapsule_GetName
    get.argtypes, get.restype = (ctypes.py_object,), ctypes.c_char_p
    return get(capsule).decode()


def _pointer(capsule: object) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.argtypes, get.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    return get(capsule, _signature(capsule).encode())


def _openblas(linked: ctypes.CDLL, name: str) -> Any:
    """OpenBLAS's function of that name; None where SciPy is linked to another BLAS."""
    for prefix in ("scipy_openblas_", "openblas_"):
        if hasattr(linked, prefix + name):
            return getattr(linked, prefix + name)
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

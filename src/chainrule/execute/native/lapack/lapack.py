"""Linear algebra: the functions of LAPACK and BLAS that SciPy brings, by their addresses.

They are Fortran's, with every argument by a pointer and integers of 32 bits, as in `products.blas`.
"""

from __future__ import annotations

from functools import lru_cache

from chainrule.errors import EvaluationError
from chainrule.execute.native.products.blas import exported, pointer, signature

BY_BLAS = ("dtrsm", "dtrsv")
BY_LAPACK = ("dpotrf", "dgetrf", "dgesv", "dgeqrf", "dorgqr", "dsyevd", "dgesdd")
LAPACK_ROUTINES = (*BY_BLAS, *BY_LAPACK)
POTRF = "void (char *, int *, "  # how SciPy describes it, with 32-bit int


@lru_cache
def lapack_addresses() -> dict[str, int]:
    """The address of each of LAPACK_ROUTINES; of SciPy two extension modules are loaded, as for
    `load_blas`.

    EvaluationError where this SciPy's integers are not those of 32 bits.
    """
    blas, lapack = (exported(f"scipy.linalg.cython_{name}") for name in ("blas", "lapack"))
    if not signature(lapack["dpotrf"]).startswith(POTRF):
        raise EvaluationError(
            f"this SciPy's dpotrf is {signature(lapack['dpotrf'])}, not with 32-bit integers",
            hint='install SciPy from PyPI or conda-forge, or use executor="reference"',
        )
    found = {name: pointer(blas[name]) for name in BY_BLAS}
    return found | {name: pointer(lapack[name]) for name in BY_LAPACK}

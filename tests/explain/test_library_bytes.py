"""What C routines take by themselves is what primitives declare: LAPACK, sorting, copies for
BLAS, Fourier transforms."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chainrule.execute.overhead import NUMPY_NBYTES
from chainrule.primitives.linalg.evaluation import gesdd_elements, gesdd_values_elements
from chainrule.primitives.primitive import no_bytes
from chainrule.primitives.registry import PRIMITIVES

HERE = Path(__file__).parent
COMPILER = shutil.which("cc")
CACHED = 1 << 11  # bytes of small arrays that NumPy had before
OBJECTS = 1 << 14  # bytes that Python has for frames and views, and malloc for its own blocks


def measured(folder: Path, *wanted: str) -> list[dict[str, Any]]:
    """What was measured, of these dtypes, of programs or of all, in a process in which malloc
    counts."""
    if sys.platform != "linux" or COMPILER is None:
        pytest.skip("counts the bytes of glibc's malloc: needs Linux and a C compiler")
    library = folder / "counted.so"
    source = HERE / "counted_malloc.c"
    subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", source, "-o", library], check=True)
    found = subprocess.run(
        [sys.executable, str(HERE / "library_memory.py"), *wanted],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "MALLOC_MMAP_THRESHOLD_": str(1 << 30),  # pages of mmap are more than was asked for
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "CHAINRULE_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(
                [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
            ),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in found.stdout.splitlines()]


@pytest.mark.slow
def test_what_operations_on_doubles_and_programs_take_is_declared(tmp_path: Path) -> None:
    """Of programs, values by one executor and gradients by the other."""
    check(measured(tmp_path, "float64", "programs"))


@pytest.mark.exhaustive
def test_what_operations_take_is_declared(tmp_path: Path) -> None:
    check(measured(tmp_path))


def check(lines: list[dict[str, Any]]) -> None:
    check_declared([line for line in lines if "name" in line])
    check_reported([line for line in lines if "name" not in line])


def check_declared(lines: list[dict[str, Any]]) -> None:
    declaring = {one.name for one in PRIMITIVES if one.library_bytes is not no_bytes}
    assert {line["name"] for line in lines} == declaring
    for line in lines:
        assert line["traced"] == line["declared"], line
        error = line["taken"] - line["declared"] - line["library"]
        # how many positions merging takes depends on the order of the elements
        merged = line["library"] / 2 if line["name"] == "argsort" else 0
        # half of some sums is taken by a ufunc, whose buffers reports list as NumPy's
        beside = NUMPY_NBYTES if line["name"] == "half_dft_transpose" else OBJECTS
        assert -merged - CACHED <= error <= beside, line


def check_reported(lines: list[dict[str, Any]]) -> None:
    assert len(lines) >= 20
    for line in lines:
        ordered = line["said"] / 5 if "sort" in line["case"] else 0
        beside = max(line["beside"], NUMPY_NBYTES)
        assert -ordered - CACHED <= line["taken"] - line["said"] <= beside, line


def test_the_work_of_factors_is_what_lapack_asks_for() -> None:
    dgesdd_lwork = pytest.importorskip("scipy.linalg.lapack").dgesdd_lwork
    random = np.random.default_rng(0)
    shapes = [*random.integers(1, 300, (200, 2)), *random.integers(1, (2000, 20), (100, 2))]
    for m, n in [(int(a), int(b)) for a, b in shapes]:
        for rows, columns in ((m, n), (n, m)):
            k = min(m, n)
            factors = int(dgesdd_lwork(rows, columns, compute_uv=1, full_matrices=0)[0])
            values = int(dgesdd_lwork(rows, columns, compute_uv=0, full_matrices=0)[0])
            assert gesdd_elements(rows, columns, 0) == m * n + k * (m + n + 9) + factors
            assert gesdd_values_elements(rows, columns, 0) == m * n + 9 * k + values

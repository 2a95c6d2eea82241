"""What C routines take by themselves is what primitives declare: LAPACK, sorting, BLAS' copies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chainrule.primitives.linalg_evaluation import gesdd_elements, gesdd_values_elements

HERE = Path(__file__).parent
BLAS = 8 << 20  # buffers of OpenBLAS for one thread: reports state them beside the numbers


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self")
def test_what_routines_take_is_declared() -> None:
    paths = [str(HERE), os.environ.get("PYTHONPATH", "")]
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": ":".join(paths)}
    found = subprocess.run(
        [sys.executable, str(HERE / "library_memory.py")],
        env={**os.environ, **alone},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(lines) > 20
    for line in lines:
        assert line["traced"] == line["declared"], line
        whole = line["declared"] + line["library"]
        # pages that LAPACK asks for and does not touch, and memory given back in parts
        assert 0.8 * whole - (1 << 20) <= line["taken"] <= whole + BLAS, line


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

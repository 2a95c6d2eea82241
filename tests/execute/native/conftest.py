"""What tests of numbers run for: every width of vectors that the processor has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from emitted import TARGETS, VECTORS
from executing import FENCES

from chainrule.machine_code.target import host_target

HIDDEN = {"avx512": "", "avx2": "avx512", "sse2": "avx2"}


@contextmanager
def vectors_of(name: str) -> Iterator[str]:
    """By CHAINRULE_WITHOUT, so that all of the library obeys."""
    with pytest.MonkeyPatch.context() as patched:
        if name != VECTORS[0]:  # else the environment is as it was
            patched.setenv("CHAINRULE_WITHOUT", HIDDEN[name])
        assert host_target().vector_nbytes == TARGETS[name].vector_nbytes
        yield name


@pytest.fixture(scope="module", params=VECTORS)
def every_width(request):
    """Native code with AVX-512, then with AVX2, where the processor has both."""
    with vectors_of(request.param) as name:
        yield name


@pytest.fixture(
    scope="module",
    params=[VECTORS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in VECTORS[1:])],
)
def every_width_in_time(request):
    """As `every_width`, for modules that take long: narrower vectors in the slow tier."""
    with vectors_of(request.param) as name:
        yield name


@pytest.fixture
def narrow_vectors():
    """Native code with AVX2, also where the processor has AVX-512."""
    with vectors_of(VECTORS[-1]) as name:
        yield name


@pytest.fixture
def fences(monkeypatch):
    """Graphs run between pages that nobody may touch: a read beside an array ends the process."""
    monkeypatch.setenv(FENCES, "yes")

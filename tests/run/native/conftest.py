"""What tests of numbers run for: every width of vectors that the processor has."""

from __future__ import annotations

import pytest
from emitted import HERE, TARGETS

from chainrule.execute.native.runtime.target import host_target

HIDDEN = {"avx512": "", "avx2": "avx512", "sse2": "avx2"}
WIDTHS = [name for name in HERE if name != "sse2"] or HERE


def _hiding(name):
    with pytest.MonkeyPatch.context() as patched:
        if name != WIDTHS[0]:  # else the environment is as it was
            patched.setenv("CHAINRULE_WITHOUT", HIDDEN[name])
        assert host_target().vector_nbytes == TARGETS[name].vector_nbytes
        yield


@pytest.fixture(scope="module", params=WIDTHS)
def every_width(request):
    """Native code with AVX-512, then with AVX2, where the processor has both.

    By CHAINRULE_WITHOUT, so that all of the library obeys.
    """
    yield from _hiding(request.param)


@pytest.fixture(
    scope="module",
    params=[WIDTHS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in WIDTHS[1:])],
)
def every_width_in_time(request):
    """As `every_width`, for modules that take long: narrower vectors in the slow tier."""
    yield from _hiding(request.param)

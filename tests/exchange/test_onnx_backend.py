"""Every case of ONNX's own backend tests whose operators are read passes on both executors."""

from __future__ import annotations

import pytest
from backend_cases import arrays, cases, difference, imported, modules, results

from chainrule.errors import UnsupportedError

pytestmark = pytest.mark.peers
onnx = pytest.importorskip("onnx")

PARTS = 60
LEAST = 1640  # cases that are read

# Why a case may be refused: a part of the message.
REASONS = (
    "not read:",  # the operator: docs/onnx-operators.md says why
    "is of type",  # bfloat16, float8, int4, text as inputs or results
    " of bfloat16",
    " of float8",
    " of float4",
    " of uint4",
    " of int4",
    " of uint2",
    " of int2",
    "training_mode is on",
    "operator set 1;",
    "version 8 of it",
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.sweep(11)
def test_the_cases_of_onnx_pass(part: int) -> None:
    """Those of every 60th operator."""
    wrong = []
    for name, case in cases(modules()[part::PARTS]).items():
        given, wanted = arrays(case)
        try:
            model, rest = imported(case, given)
        except UnsupportedError as error:
            if not any(reason in str(error) for reason in REASONS):
                wrong.append(f"{name}: {error}")
            continue
        for executor in ("reference", "native"):
            found = difference(case, results(model, rest, executor), wanted)
            if found:
                wrong.append(f"{name} on {executor}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
def test_most_cases_are_read() -> None:
    count = 0
    for case in cases(modules()).values():
        try:
            imported(case, arrays(case)[0])
            count += 1
        except UnsupportedError:
            continue
    assert count >= LEAST

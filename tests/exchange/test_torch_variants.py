"""Of PyTorch's database OpInfo, most differentiable variants come in; the others are listed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chainrule.errors import DataDependentError, InputError, UnsupportedError

variants = pytest.importorskip("torch_variants")

pytestmark = pytest.mark.peers

LIST = Path(__file__).with_name("torch_variants_left_out.txt")
LEFT_OUT = dict(line.split(": ", 1) for line in LIST.read_text(encoding="utf-8").splitlines())
BROUGHT_IN = [op for op in variants.DIFFERENTIABLE if variants.label(op) not in LEFT_OUT]
REFUSED = [
    op
    for op in variants.DIFFERENTIABLE
    if LEFT_OUT.get(variants.label(op), "").startswith(("refused", "random"))
]


def each(ops: list[Any]) -> Any:
    return pytest.mark.parametrize("op", ops, ids=map(variants.label, ops))


def test_the_list_has_variants_alone_and_few():
    known = {variants.label(op) for op in variants.DIFFERENTIABLE}
    assert not set(LEFT_OUT) - known
    assert len(BROUGHT_IN) >= 450


@each(BROUGHT_IN[::197])
def test_the_first_sample_agrees(op: Any):
    assert variants.compared(op, 1)


@pytest.mark.slow
@each(REFUSED[::23])
def test_what_is_left_out_is_refused_by_name(op: Any):
    refuses(op)


@pytest.mark.filterwarnings("ignore:torch.qr is deprecated:UserWarning")  # by PyTorch's samples
@pytest.mark.exhaustive
@each(BROUGHT_IN)
def test_values_and_gradients_agree(op: Any):
    """Of the first five samples, in float64."""
    assert variants.compared(op)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
@pytest.mark.exhaustive
@each(REFUSED)
def test_each_that_is_left_out_is_refused_by_name(op: Any):
    refuses(op)


def refuses(op: Any) -> None:
    with pytest.raises((UnsupportedError, InputError, DataDependentError)):
        variants.compared(op)

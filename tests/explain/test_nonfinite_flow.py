"""Which elements come from which is as NaN spreads: every primitive, one NaN at a time."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.explain.nonfinite.flow import back, forward
from chainrule.primitives.primitive import Primitive, Sample
from chainrule.primitives.registry import PRIMITIVES
from chainrule.testing.samples import cases, sample_arrays, sample_graph

CASES = [(label, one, sample) for label, one, sample in cases(PRIMITIVES) if one.inputs]


@pytest.mark.sweep(11)
@pytest.mark.parametrize(
    ("primitive", "sample"), [one[1:] for one in CASES], ids=[one[0] for one in CASES]
)
def test_nan_spreads_no_further_than_is_said_and_back_is_the_way_forward(
    primitive: Primitive, sample: Sample
) -> None:
    operands = sample_arrays(sample, seed=3)
    graph = sample_graph(primitive, sample, operands)
    ((_, node),) = graph.outputs
    indices = operands[1:]
    for place, one in enumerate(operands):
        if one.dtype.kind != "f" or not one.size:
            continue
        reach = np.zeros((one.size, int(np.prod(node.shape))), bool)
        for number in range(one.size):
            mask = np.zeros(one.shape, bool)
            mask.flat[number] = True
            reach[number] = np.asarray(forward(node, place, mask, operands)).ravel()
            bad = np.where(mask, np.nan, one).astype(one.dtype)
            given = [*operands[:place], bad, *operands[place + 1 :]]
            with np.errstate(all="ignore"):
                try:
                    value = primitive.evaluate(np, *given, **dict(node.params))
                except Exception:  # LAPACK refuses some NaN
                    continue
            spoilt = np.asarray(value != value).ravel()
            assert not (spoilt & ~reach[number]).any()
        for number in range(reach.shape[1]):
            mask = np.zeros(node.shape, bool)
            mask.flat[number] = True
            found = np.broadcast_to(back(node, place, mask, indices), one.shape)
            assert np.array_equal(np.ravel(found), reach[:, number])

"""Replicas that share the optimizer's arrays out have the bits of replicas that each have all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parallel_models import OPTIMIZERS, ROWS
from tensor_models import case
from test_parallel import assert_near, trained
from test_tensor_parallel import options_of

import chainrule as cr


@pytest.mark.slow
@pytest.mark.sweep(46)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", ["network", "layers", "recurrent", "convolutional", "tied"])
def test_a_sharded_optimizer_has_the_bits_of_replicas(model: str, optimizer: str) -> None:
    """Clipping by the norm of all gradients included; but there compiled code has other loops, in
    which other products are fused with sums."""
    for executor in ("reference", "native"):
        step, weights, batch = case(model, optimizer, executor)
        for stages, replicas, ways in ((2, 3, 1), (2, 2, 2)):
            options: dict[str, Any] = {"stages": stages, "replicas": replicas}
            if ways > 1:
                options = options_of(model, stages, replicas, ways)
            plain = trained(cr.parallel(step, micro_batches=6, **options), weights, batch)
            sharded = cr.parallel(step, micro_batches=6, shard_optimizer=True, **options)
            found = trained(sharded, weights, batch)
            if (executor, optimizer) == ("native", "clipped"):
                assert_near(found, plain, 1e-13)
                continue
            assert found[1] == plain[1]
            for name, array in plain[0].items():
                np.testing.assert_array_equal(found[0][name], array, err_msg=name)


def test_a_share_of_the_optimizers_arrays_is_what_a_rank_has() -> None:
    step, *_ = case("layers", "adamw", "reference")
    plain = cr.parallel(step, micro_batches=4, replicas=2).memory(n=ROWS)
    sharded = cr.parallel(step, micro_batches=4, replicas=2, shard_optimizer=True).memory(n=ROWS)
    for one, other in zip(plain.ranks, sharded.ranks, strict=True):
        before, after = one.parts["optimizer state"], other.parts["optimizer state"]
        assert before == 2 * 8 * (48 + 8 + 48 + 6 + 48 + 24) + 8
        assert after == (before - 8) / 2 + 8
    assert sharded.peak_nbytes < plain.peak_nbytes


def test_what_has_no_equal_parts_is_updated_by_all_replicas_alike() -> None:
    step, weights, batch = case("network", "adamw", "reference")
    split = cr.parallel(step, micro_batches=6, replicas=2, shard_optimizer=True)
    cuts = split.split_at(n=ROWS).lying.cuts
    assert "b1_m" not in cuts and "W2_m" not in cuts  # 5 long, and 5 by 5
    assert cuts["W1_m"] == cuts["W1_v"] == (("replicas", 0),)
    plain = trained(cr.parallel(step, micro_batches=6, replicas=2), weights, batch)
    assert trained(split, weights, batch)[1] == plain[1]

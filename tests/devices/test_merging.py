"""Pieces that always run one after the other are one where an executor fuses."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from executors import needs_native
from parallel_models import MODELS, ROWS, case

import chainrule as cr
from chainrule.devices import merging, splitting
from chainrule.devices.check import check_programs
from chainrule.devices.instructions import Program, Run, Send

CUTS = {
    "network": ("h1",),
    "dropping": ("h1",),
    "scaled": ("a",),
    "tied": 2,
    "skipping": ("a",),
    "recurrent": 2,
    "normalised": ("h",),
    "convolutional": ("h1",),
}


def purposes(split: Any, rank: int) -> Counter[str]:
    pieces = split.pieces
    runs = [one for one in split.programs[rank].instructions if isinstance(one, Run)]
    return Counter(pieces[one.piece].purpose for one in runs)


@needs_native
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1", "zb-h2"])
def test_the_last_stage_goes_back_at_once(schedule: str) -> None:
    step, *_ = case("network", "sgd", "native")
    split = cr.parallel(step, micro_batches=6, stages=("h1", "h2"), schedule=schedule)
    made = split.split_at(n=ROWS)
    each = {"forward": 6, "backward": 6, "gradients": 6, "update": 1}
    first = {"forward": 6, "gradients": 6, "update": 1}
    last = {"passes": 6, "gradients": 6, "update": 1}
    if schedule == "gpipe":
        last = each
    assert [dict(purposes(made, rank)) for rank in range(3)] == [first, each, last]
    alone = cr.parallel(step, micro_batches=6, replicas=2).split_at(n=ROWS)
    assert dict(purposes(alone, 1)) == {"passes": 3, "update": 1}
    used = {
        one.piece for rank in made.programs for one in rank.instructions if isinstance(one, Run)
    }
    assert used == set(range(len(made.pieces)))
    plain, *_ = case("network", "sgd", "reference")  # evaluates node by node
    found = cr.parallel(plain, micro_batches=6, replicas=2).split_at(n=ROWS)
    assert dict(purposes(found, 0)) == {"forward": 3, "gradients": 3, "update": 1}


def merged_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference executor has merged pieces, too."""

    class Traits:
        has_kernels = True

    class Executor:
        traits = Traits

    monkeypatch.setattr(splitting, "executor_of", lambda name: Executor)


@pytest.mark.sweep(29)
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1", "interleaved"])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("model", MODELS)
def test_merged_pieces_give_the_same_bits(
    model: str, replicas: int, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, weights, batch = case(model, "adamw", "reference")
    found = []
    for merge in (False, True):
        if merge:
            merged_always(monkeypatch)
        for stages in (1, CUTS[model]):
            split = cr.parallel(
                step, micro_batches=6, stages=stages, replicas=replicas, schedule=schedule
            )
            state = split.init(weights)
            objectives = [float(split(state, batch)) for _ in range(3)]
            assert split.latest is not None
            if schedule != "interleaved":  # of which a last chunk may have nothing to do
                assert ("passes" in purposes(split.latest, split.ranks - 1)) is merge
            check_programs(split.latest.programs)
            found.append((objectives, dict(state)))
    for one, other in zip(found[:2], found[2:], strict=True):
        if model != "convolutional":  # NumPy's products round by the strides of what they read
            assert one[0] == other[0]
        for name, array in one[1].items():
            if model == "convolutional":
                np.testing.assert_allclose(other[1][name], array, rtol=1e-9, atol=1e-12)
            else:
                np.testing.assert_array_equal(other[1][name], array)


def test_what_the_second_piece_alone_reads_is_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    step, *_ = case("network", "sgd", "reference")
    apart = cr.parallel(step, micro_batches=6, stages=("h1",)).split_at(n=ROWS)
    merged_always(monkeypatch)
    split = cr.parallel(step, micro_batches=6, stages=("h1",))
    made = split.split_at(n=ROWS)
    forward = next(one for one in apart.pieces if one.name == "forward 1")
    backward = next(one for one in apart.pieces if one.name == "backward 1")
    passes = next(one for one in made.pieces if one.name == "passes 1")
    assert len(passes.nodes) == len(forward.nodes) + len(backward.nodes)
    assert len(passes.gives) < len(forward.gives) + len(backward.gives)
    used: set[Any] = set()
    for program in made.programs:
        used |= set(program.results)
        for one in program.instructions:
            used |= {*one.reads} if isinstance(one, Run) else set()
            used |= {one.key} if isinstance(one, Send) else set()
    for program in made.programs:
        for one in program.instructions:
            assert not isinstance(one, Run) or used.issuperset(one.gives)
    assert any(span.doing == "passes" for span in split.timeline(n=ROWS).ranks[1])
    assert "P both passes" in str(split.timeline(n=ROWS))
    assert "passes" in split.timeline(n=ROWS).svg()


def test_pieces_that_do_not_always_follow_each_other_stay() -> None:
    def run(piece: int, part: int) -> Run:
        return Run(piece, part, (), ())

    always = Program(0, (), (run(0, 0), run(1, 0), run(0, 1), run(1, 1)), ())
    assert merging._pair([always]) == (0, 1)
    others = [
        (run(0, 0), run(1, 1), run(0, 1), run(1, 0)),  # of other micro-batches
        (run(0, 0), run(0, 1), run(1, 0), run(1, 1)),
        (run(0, 0), run(1, 0), run(1, 1), run(0, 1)),
        (run(0, 0), run(1, 0), run(2, 1), run(1, 1)),
    ]
    for instructions in others:
        assert merging._pair([Program(0, (), instructions, ())]) is None
    assert merging._pair([always, Program(1, (), others[1], ())]) is None

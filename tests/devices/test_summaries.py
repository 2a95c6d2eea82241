"""A split step prints what it is, and says why a value lies where it does."""

from __future__ import annotations

import pytest
from parallel_models import ROWS, case

import chainrule as cr
from chainrule.errors import NameLookupError


def test_a_split_prints_its_stages() -> None:
    step, weights, batch = case("network", "adamw", "reference")
    split = cr.parallel(step, micro_batches=6, stages=("h1", "h2"), replicas=2)
    lines = str(split).splitlines()
    assert lines[0] == "network on 6 ranks: 3 stages x 2 replicas, 6 micro-batches, 1f1b"
    assert lines[1].startswith("  n = 192 (assumed), executor reference: ")
    assert lines[1].endswith(" % bubble")
    cells = [line.split() for line in lines[4:]]
    assert [one[:3] for one in cells] == [["0", "0", "3"], ["1", "1", "4"], ["2", "2", "5"]]
    assert sum(int(one[3]) for one in cells) in (99, 100, 101)
    assert [one[5:] for one in cells] == [
        ["W1,", "b1", *cells[0][7:9], "h1"],
        ["W2", *cells[1][6:8], "h2"],
        ["W3", *cells[2][6:8], "o,", "J"],
    ]
    split(split.init(weights), batch)  # the sizes of the latest step
    assert str(split).splitlines()[1].startswith(f"  n = {ROWS}, executor reference: ")
    peak = split.memory(n=ROWS).ranks[0].peak_nbytes
    assert f"{peak / 1024:.3g} KiB" in str(split).splitlines()[4]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("W1", "W1 lies on stage 0 (ranks 0, 2), the first stage that reads it for h1; it is "
         "updated there"),
        ("W2_m", "W2_m lies where its parameter is: W2 lies on stage 1 (ranks 1, 3)"),
        ("y", "y is data: stage 1 (ranks 1, 3) reads it, and gets the parts of its replica"),
        ("h1", "you said stages=('h1',), and this stage goes from the beginning to h1; it is sent "
         "to stage 1 (ranks 1, 3), which reads it"),
        ("J", "J is computed on stage 1 (ranks 1, 3): you said stages=('h1',), and this stage goes "
         "after h1"),
        ("dJ/do", "a stage does the backward pass of what it does forward, here of J"),
        ("W1_grad_sum", "W1_grad_sum lies on stage 0 (ranks 0, 2), where it is added up"),
        ("W1_grad_sum_next", "computed on stage 0 (ranks 0, 2), where W1_grad_sum lies"),
        ("decay", "each computes it for itself"),
        ("steps", "steps belongs to no parameter: it is updated on stage 0 (ranks 0, 2)"),
    ],
)  # fmt: skip
def test_it_says_why_a_value_lies_where_it_does(name: str, words: str) -> None:
    step, *_ = case("network", "adamw", "reference")
    split = cr.parallel(step, micro_batches=6, stages=("h1",), replicas=2)
    assert words in split.why(name, n=ROWS)
    assert "assumed" in cr.parallel(step, micro_batches=6, stages=("h1",)).why(name)


def test_it_says_what_several_stages_read_and_how_stages_were_cut() -> None:
    step, *_ = case("tied", "sgd", "reference")
    split = cr.parallel(step, micro_batches=6, stages=2)
    assert "it is updated there, and sent to stage 1 (rank 1) at the" in split.why("V", n=ROWS)
    assert "stages are cut where the busiest has least to do" in split.why("h", n=ROWS)
    alone = cr.parallel(step, micro_batches=6)
    assert alone.why("h", n=ROWS) == "h is computed on stage 0 (rank 0): there is one stage"
    with pytest.raises(NameLookupError, match="h9"):
        split.why("h9", n=ROWS)

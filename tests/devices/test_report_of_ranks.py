"""The report page of a split step: that of the step, with the timeline and the bytes of ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from parallel_models import case

import chainrule as cr
from chainrule.errors import InputError


def split_of(**asked: Any) -> tuple[cr.ParallelStep, dict[str, Any], dict[str, Any]]:
    step, weights, batch = case("network", "adamw", "reference")
    return cr.parallel(step, micro_batches=6, **asked), weights, batch


def test_the_page_shows_what_each_rank_does_and_needs(tmp_path: Path) -> None:
    split, _, _ = split_of(stages=("h1",), replicas=2)
    page = cr.report(split, sizes={"n": 24}, path=tmp_path / "page.html")
    assert "createRanks" in (tmp_path / "page.html").read_text()
    found, memory = page.data["ranks"], split.memory(n=24)
    assert found["ranks"] == ["ranks 0, 2", "ranks 1, 3"]
    assert found["peak_nbytes"] == [one.peak_nbytes for one in memory.ranks[:2]]
    for place in (0, 1):
        parts = {row["kind"]: row["nbytes"][place] for row in found["memory"]}
        assert sum(parts.values()) == found["peak_nbytes"][place] <= found["most_nbytes"][place]
        assert parts == {kind: memory.ranks[place].parts[kind] for kind in parts}
    for key in ("timeline", "narrow_timeline"):
        svg = ElementTree.fromstring(found[key])
        assert svg.tag.endswith("svg") and float(svg.attrib["width"]) in (960, 360)
    assert found["text"] == str(split.timeline(n=24))
    json.dumps(page.data, allow_nan=False)
    whole = cr.report(split.parts.whole, sizes={"n": 24}).data
    assert whole["ranks"] is None
    assert {**page.data, "ranks": None} == whole


def test_a_page_with_values_takes_those_of_the_step() -> None:
    split, weights, batch = split_of(stages=2)
    page = cr.report(split, batch, state=split.init(weights))
    assert page.data["has_values"] and page.data["ranks"]["ranks"] == ["rank 0", "rank 1"]
    value = next(one for one in page.data["values"] if one["name"] == "J")
    state = split.init(weights)
    assert float(value["numbers"][0]) == pytest.approx(float(split(state, batch)), rel=1e-8)


def test_without_sizes_there_are_no_bytes_and_no_times() -> None:
    split, _, _ = split_of(stages=2)
    assert cr.report(split).data["ranks"] is None
    with pytest.raises(InputError, match="does not split into 6 equal parts"):
        cr.report(split, sizes={"n": 25})
    assert np.isfinite(cr.report(split, sizes={"n": 12}).data["ranks"]["peak_nbytes"]).all()

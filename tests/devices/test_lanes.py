"""The drawing of a split step: a frame for each stage, and messages between them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from parallel_models import MODELS, case

import chainrule as cr
from chainrule.devices.instructions import Send
from chainrule.errors import InputError, NameLookupError
from chainrule.explain.drawing.layout import place

n = cr.size("n")


def split_of(model: str, stages: Any, replicas: int = 1) -> cr.ParallelStep:
    step, _, _ = case(model, "sgd", "reference")
    return cr.parallel(step, micro_batches=6, stages=stages, replicas=replicas)


def frames(drawing: Any) -> dict[str, set[str]]:
    """The labels of the boxes of the forward pass in each frame."""
    looks, found = drawing.scene.looks, {}
    for group in drawing.scene.figure.forward.groups:
        stack, keys = [group], []
        while stack:
            one = stack.pop()
            keys += one.items
            stack += one.groups
        found[looks[group.key].label.text] = {looks[key].label.text for key in keys}
    return found


def messages(drawing: Any) -> set[tuple[str, str]]:
    """What the thick arrows join: frames are known by their numbers."""
    scene, found = drawing.scene, set()
    for band in scene.bands:
        for link in band.links:
            ends = scene.lane_of.get(link.source), scene.lane_of.get(link.target)
            if None not in ends and ends[0] != ends[1]:
                found.add(tuple(scene.looks[key].label.text for key in (link.source, link.target)))
    return found


def test_every_value_is_in_the_frame_of_its_stage() -> None:
    drawing = split_of("network", ("h1",), replicas=2).draw(n=24)
    found = frames(drawing)
    assert list(found) == ["stage 0: ranks 0, 2", "stage 1: ranks 1, 3"]
    assert {"x", "b1", "W1", "h1", "ℓ2"} <= found["stage 0: ranks 0, 2"]  # the penalty of W1, too
    assert {"y", "W2", "W3", "h2", "o", "J"} <= found["stage 1: ranks 1, 3"]
    told = messages(drawing)
    assert ("h1", "tanh(h1 W2)") in told and ("ℓ2", "ℓ(·) + · × ·") in told and len(told) == 4
    assert "forward → (thick: messages from stage to stage)" in drawing.svg()
    ElementTree.fromstring(drawing.svg())
    in_one_row = replace(drawing, width=None).svg()
    assert in_one_row.count("stroke-width:3.2") == 4
    dot, mermaid = drawing.dot(), drawing.mermaid()
    assert 'label="stage 1: ranks 1, 3"' in dot and dot.count('penwidth="3"') == 4
    assert "stage 1#58; ranks 1#44; 3" in mermaid and mermaid.count("==>") == 4


@pytest.mark.sweep(3)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stages", [2, 3])
def test_every_split_is_drawn_and_thick_arrows_are_messages(model: str, stages: int) -> None:
    """Boxes lie in their frames; where the programs send nothing no arrow is thick."""
    split = split_of(model, stages)
    drawing = split.draw(n=24)
    placement = place(drawing.scene.figure)
    for group in drawing.scene.figure.forward.groups:
        around = placement.groups[group.key]
        for key in group.items:
            box = placement.boxes[key]
            assert around.x <= box.x and box.x + box.width <= around.x + around.width
            assert around.y <= box.y and box.y + box.height <= around.y + around.height
    used = sorted(set(split.split_at(n=24).placed.forward.values()))  # some have nothing to do
    assert list(frames(drawing)) == [f"stage {one}: rank {one}" for one in used]
    sent = {
        one.key.value
        for program in split.split_at(n=24).programs
        for one in program.instructions
        if isinstance(one, Send)
    }
    assert bool(messages(drawing)) == bool(sent)


def test_data_and_what_is_computed_everywhere_are_no_messages() -> None:
    drawing = split_of("skipping", ("a", "b")).draw(n=24)
    links = [link for band in drawing.scene.bands for link in band.links]
    looks = drawing.scene.looks
    reads = {looks[link.target].label.text for link in links if link.source == "value x"}
    assert len(reads) == 2 and "tanh(a W2) + x" in reads
    assert not [pair for pair in messages(drawing) if pair[0] == "x"]


def deep(x: cr.float64[n, 8], Ws: cr.float64[40, 8, 8]) -> Any:
    h = x
    for turn in range(40):
        h = np.tanh(h @ Ws[turn]) + np.sin(h)
    J = np.mean(h**2)
    return J


def test_equal_stages_are_not_drawn_as_one() -> None:
    """What repeats within a stage is one box; the frames stay, also around a single box."""
    step = cr.training_step(deep, "Ws", cr.sgd(0.1), executor="reference")
    split = cr.parallel(step, micro_batches=6, stages=4, replicas=6)
    found = frames(split.draw(n=96))
    assert [re.sub(", .*", "", one) for one in found] == [
        f"stage {one}: ranks {one}" for one in range(4)
    ]
    assert next(iter(found)) == "stage 0: ranks 0, 4, ..., 20"
    assert all(any("h" in box for box in boxes) for boxes in found.values())
    whole = frames(split.draw(n=96, fold="none"))
    assert sum(len(boxes) for boxes in whole.values()) > 40


def test_it_takes_the_options_of_a_drawing(tmp_path: Path) -> None:
    split = split_of("network", ("h1",))
    drawing = split.draw(n=24, phase="forward", shapes=True, theme="dark")
    assert "float64[4, 4]" in drawing.svg()  # of a micro-batch
    drawing.save(tmp_path / "split.svg")
    assert (tmp_path / "split.svg").read_text() == drawing.svg()
    assert split.draw({"n": 48}).scene.title == "Computational graph of network"
    assert "stage 1" in split.draw().svg()  # at sizes that are assumed
    with pytest.raises(InputError, match="fold="):
        split.draw(n=24, fold=3)
    with pytest.raises(InputError, match="nothing to fold is called 'stage 0: rank 0'"):
        split.draw(n=24, fold="stage 0: rank 0")
    with pytest.raises(NameLookupError):
        split.draw(n=24, expand="nothing")


def test_a_graph_without_stages_is_drawn_as_ever() -> None:
    step, _, _ = case("network", "sgd", "reference")
    drawing = step.differentiated.draw()
    assert not drawing.scene.lane_of and "stroke-width:3.2" not in drawing.svg()
    assert "thick" not in drawing.svg()

"""What is no size, no number of ranks, no device and no time is refused, with what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from parallel_models import ROWS, case

import chainrule as cr
from chainrule.errors import InputError
from chainrule.plan import pipeline, split

STEP, WEIGHTS, BATCH = case("network", "sgd", "reference")
SPLIT = cr.parallel(STEP, micro_batches=4, stages=2, replicas=2)
DEVICES = cr.Devices.cpu(2)
NODES: dict[str, Any] = {
    "seconds": [1, 2], "nbytes": [1, 1], "edges": [(0, 1)], "transfer_seconds": [0, 0],
    "devices": 2, "memory_nbytes": 10,
}  # fmt: skip
TIMES: dict[str, Any] = {"stages": 2, "micro_batches": 4, "schedule": "search", "effort": 3}


def parallel(**asked: Any) -> Any:
    return cr.parallel(STEP, **{"micro_batches": 4, **asked})


def searched(**asked: Any) -> Any:
    return cr.parallel(STEP, DEVICES, **{"batch": ROWS, **asked})


def on_paper(**asked: Any) -> Any:
    return cr.plan_parallel(STEP, DEVICES, **{"batch": ROWS, **asked})


def nodes(**changed: Any) -> Any:
    return split(**{**NODES, **changed})


def times(**changed: Any) -> Any:
    each = {"forward": 1.0, "backward": 1.0, "weights": 1.0}
    return pipeline(**{**TIMES, **each, **changed})


BY_NAME = "takes sizes by name, got"
CASES: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: SPLIT.memory(24), f"split.memory {BY_NAME} int", "split.memory(n=256)"),  # type: ignore[arg-type]
    (lambda: SPLIT.timeline("n"), f"split.timeline {BY_NAME} str", "split.timeline(n=256)"),  # type: ignore[arg-type]
    (lambda: SPLIT.split_at([24]), f"split.split_at {BY_NAME} list", "split.split_at(n=256)"),  # type: ignore[arg-type]
    (lambda: SPLIT.draw(24), f"split.draw {BY_NAME} int", "split.draw(n=256)"),  # type: ignore[arg-type]
    (lambda: SPLIT.parts.memory(24), f"step.memory {BY_NAME} int", "step.memory(n=256)"),  # type: ignore[arg-type]
    (lambda: cr.report(SPLIT, sizes=24), "sizes= are integers by name, got int", "sizes={"),  # type: ignore[arg-type]
    (lambda: SPLIT.timeline(n=24, speeds=3), "speeds is int 3", "cr.measured_speeds()"),  # type: ignore[arg-type]
    (lambda: STEP.tradeoff(n=24, speeds="a"), "speeds is str 'a'", "cr.measured_speeds()"),
    (lambda: cr.Devices.cpu(2, speeds=3), "speeds is int 3", "cr.measured_speeds()"),  # type: ignore[arg-type]
    (lambda: SPLIT.why(3), "the name of a value, got int", "split.why('W1')"),  # type: ignore[arg-type]
    (lambda: SPLIT.collect(3), "is its state, got int", "step.init"),  # type: ignore[arg-type]
    (lambda: parallel(stages=1.5), "stages is 1.5", 'stages=2, or stages=("h1", "h2")'),
    (lambda: parallel(stages="h1"), "stages is 'h1'", 'stages=("h1", "h2")'),
    (lambda: parallel(stages={"h1"}), "stages is {'h1'}", 'stages=("h1", "h2")'),
    (lambda: parallel(stages=("h1", 3)), "stages is ('h1', 3)", 'stages=("h1", "h2")'),
    (lambda: searched(stages=1.5), "stages is 1.5", 'stages=("h1", "h2")'),
    (lambda: searched(stages=np.ones(2)), "stages is array([1., 1.])", "1 or more"),
    (lambda: searched(replicas=np.array([1, 2])), "replicas is array([1, 2])", "1 or more"),
    (lambda: searched(replicas="2"), "replicas is '2'", "1 or more"),
    (lambda: searched(batch=-3), "batch is -3", "1 or more"),
    (lambda: on_paper(sharded="yes"), "sharded is 'yes'", "sharded=False"),
    (lambda: on_paper(recomputed=1), "recomputed is 1", "recomputed=True"),
    (lambda: on_paper(schedule="gpipe"), "schedule is 'gpipe'", "1f1b"),
    (lambda: cr.Devices(3, None), "made of groups, and one is int", "cr.Devices.cpu"),  # type: ignore[arg-type]
    (lambda: cr.Devices.parse(3), "parsed from text, got int", "cr.Devices.load"),  # type: ignore[arg-type]
    (lambda: nodes(seconds=3), "seconds is 3", "seconds=[...]"),
    (lambda: nodes(nbytes=None), "nbytes is None", "a list"),
    (lambda: nodes(edges=3), "edges is 3", "a list"),
    (lambda: nodes(backward=3), "backward is 3", "a list"),
    (lambda: nodes(together=3), "together is 3", "a list"),
    (lambda: times(memory_units="a"), "memory_units is 'a'", "a number"),
    (lambda: times(kept_units=None), "kept_units is None", "a number"),
    (lambda: times(seconds="a"), "seconds is 'a'", "a number"),
    (lambda: times(effort=1.5), "effort is 1.5", "an integer"),
    (lambda: times(seed=-1), "seed is -1", "0 or more"),
    (lambda: times(schedule="1f1b").text("a"), "width is 'a'", "1 or more"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_wrong_arguments_are_refused_with_what_to_write(number: int) -> None:
    call, what, hint = CASES[number]
    with pytest.raises(InputError) as caught:
        call()
    assert what in caught.value.what and hint in caught.value.hint

"""What steps on ranks say of what does not fit; their advice is right when followed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from parallel_models import MODELS, ROWS, case

import chainrule as cr
from chainrule.cli import main
from chainrule.devices.planning import measuring
from chainrule.errors import IdleStageWarning, InputError, SizeError


@pytest.fixture(scope="module")
def network() -> tuple[Any, dict[str, Any], dict[str, Any]]:
    return case("network", "adamw", "reference")


@pytest.fixture(scope="module")
def split(network: Any) -> Any:
    return cr.parallel(network[0], micro_batches=4, stages=2)


def raised(kind: type[Exception], call: Any) -> Any:
    with pytest.raises(kind) as caught:
        call()
    return caught.value


@pytest.mark.slow
def test_rows_without_equal_parts_are_advised_as_ranks_take_them(network: Any, split: Any) -> None:
    step, weights, batch = network
    fewer = {name: array[:22] for name, array in batch.items()}
    for call in (lambda: split(split.init(weights), fewer), lambda: split.timeline(n=22)):
        error = raised(InputError, call)
        assert error.what == "a batch with n = 22 does not split into 4 equal parts"
        assert error.hint == "give 20 or 24 rows, or say micro_batches=1 or 2"
    assert cr.parallel(step, micro_batches=2, stages=2).memory(n=22).peak_nbytes
    shared = cr.parallel(step, micro_batches=6, replicas=3)
    error = raised(InputError, lambda: shared.memory(n=33))
    assert error.hint == "give 30 or 36 rows, or say micro_batches=3"
    assert cr.parallel(step, micro_batches=3, replicas=3).memory(n=33).peak_nbytes
    assert raised(InputError, lambda: shared.memory(n=31)).hint == "give 30 or 36 rows"


def test_another_size_is_advised_for_any_call(network: Any) -> None:
    step, *_ = network
    for call in (
        lambda: cr.parallel(step, micro_batches=4, size="m"),
        lambda: cr.parallel(step, cr.Devices.cpu(2), batch=24, size="m"),
        lambda: cr.plan_parallel(step, cr.Devices.cpu(2), batch=24, size="m"),
        lambda: step.micro_batched(4, size="m"),
    ):
        assert raised(InputError, call).hint == "size='n'"


@pytest.mark.parametrize("call", ["memory", "timeline", "split_at", "why", "draw"])
def test_sizes_are_asked_for_by_the_call_that_was_made(split: Any, call: str) -> None:
    take = getattr(split, call)
    given = ("W1",) if call == "why" else ()
    if call not in ("why", "draw"):  # which take some
        error = raised(SizeError, take)
        assert error.what.endswith("of network depends on n, which was not given")
        assert error.hint == f"split.{call}(n=...)"
    for name in ("m", "executor"):
        error = raised(SizeError, lambda name=name: take(*given, n=24, **{name: 3}))
        assert error.what == f"the graph network has no size called {name!r}"
        assert error.hint == "its sizes are: n"
    for wrong in ("24", 2.5, 0, -4, None):
        error = raised(SizeError, lambda wrong=wrong: take(*given, n=wrong))
        assert error.what == f"the size n must be an integer of at least 1, got {wrong!r}"


def test_a_batch_without_names_is_refused(network: Any, split: Any) -> None:
    step, weights, batch = network
    state, parts = step.init(weights), step.micro_batched(2)
    for call in (split, split.trace, step, step.run, parts, parts.run):
        for wrong, what in ((batch["x"], "an array of shape (24, 4)"), ((1, 2), "tuple")):
            error = raised(InputError, lambda call=call, wrong=wrong: call(state, wrong))
            assert error.what == (f"the second argument of a step is its batch by name, got {what}")
    assert raised(InputError, lambda: step(state, np.zeros(0))).hint.startswith("step(state, x=x,")
    assert state.steps == 0


@pytest.mark.parametrize("executor", ["reference", "native"])
def test_an_index_is_told_with_the_rows_of_its_micro_batch(executor: str) -> None:
    step, weights, batch = case("network", "sgd", executor)
    wrong = {**batch, "y": np.where(np.arange(ROWS) == 20, 7, batch["y"])}
    for replicas, rank in ((1, "1 of 2"), (2, "3 of 4")):
        split = cr.parallel(step, micro_batches=4, stages=("h2",), replicas=replicas)
        error = raised(IndexError, lambda split=split: split(split.init(weights), wrong))
        assert "index 7 (at position 2 of the indices)" in error.what
        assert error.__notes__ == [
            "in micro-batch 4 of 4 of the batch, rows 18 to 23 (positions count from 18)",
            f"on rank {rank}",
        ]


@pytest.mark.filterwarnings("default::chainrule.errors.IdleStageWarning")
def test_stages_that_have_nothing_to_do_are_told(network: Any) -> None:
    split = cr.parallel(network[0], micro_batches=4, stages=99)
    with pytest.warns(IdleStageWarning) as caught:
        split.split_at(n=ROWS)
    found = re.search(
        r"of 99 stages of network, (\d+) compute nothing \((\d+) to 98\): .*\n"
        r"  try: stages=(\d+) or fewer",
        str(caught[0].message),
    )
    assert found is not None and int(found[1]) + int(found[3]) == 99
    assert caught[0].filename == __file__
    lines = str(split).splitlines()
    assert lines[-1] == f"{found[1]} stages have nothing to compute"
    assert len(lines) == 4 + int(found[3]) + 1
    fewer = cr.parallel(network[0], micro_batches=4, stages=int(found[3]))
    assert not fewer.split_at(n=ROWS).placed.idle
    assert fewer.timeline(n=ROWS).seconds < 1.01 * split.timeline(n=ROWS).seconds


def test_ranks_of_a_stage_are_listed(network: Any) -> None:
    text = str(cr.parallel(network[0], micro_batches=24, stages=2, replicas=8))
    assert re.search(r"^0 +0 2 \.\.\. 14 ", text, re.MULTILINE)
    assert re.search(r"^1 +1 3 \.\.\. 15 ", text, re.MULTILINE)


def test_numbers_of_the_optimizer_have_a_place(split: Any) -> None:
    assert split.why("learning_rate", n=24) == (
        "learning_rate is a number of the optimizer: rank 0, which updates by it, has it"
    )
    assert split.why("step_size", n=24) == "step_size is computed in the update, on rank 0"
    two = cr.parallel(split.parts.whole, micro_batches=4, stages=("h2",), replicas=2)
    assert two.why("learning_rate", n=24) == (
        "learning_rate is a number of the optimizer: ranks 0, 1, 2, 3, which update by it, have it"
    )


@pytest.mark.sweep(7)
@pytest.mark.parametrize("ways", [2, 3, 5])
@pytest.mark.parametrize("model", MODELS)
def test_paper_has_the_ways_that_ranks_have(model: str, ways: int) -> None:
    """What is planned is not refused, and the advice of a refusal is right."""
    step, *_ = case(model, "sgd", "reference")
    devices = cr.Devices.cpu(8)
    try:
        cr.parallel(step, micro_batches=1, ways=ways).split_at(n=ROWS)
    except InputError as error:
        refused = error
    else:
        assert cr.plan_parallel(step, devices, batch=ROWS, ways=ways).best.way.ways == ways
        return
    words = f"ways={ways}, and no parameter has {ways} equal parts whose products are only added up"
    assert refused.what == words
    paper = raised(InputError, lambda: cr.plan_parallel(step, devices, batch=ROWS, ways=ways))
    assert paper.what == words
    other = re.search(r"ways=(\d+)", refused.hint)
    if other is not None:
        count = int(other[1])
        assert cr.parallel(step, micro_batches=1, ways=count).split_at(n=ROWS)
        assert f"ways={count}" in paper.hint
    axis = re.search(r"split={'(\w+)': (\d)}", refused.hint)
    if axis is not None:
        asked = {axis[1]: int(axis[2])}
        assert cr.parallel(step, micro_batches=1, ways=ways, split=asked).split_at(n=ROWS)
    assert other or axis or "stages=" in refused.hint


def test_no_plan_on_paper_has_ways_that_ranks_refuse() -> None:
    step, *_ = case("recurrent", "sgd", "reference")
    plan = cr.plan_parallel(step, cr.Devices.cpu(8), batch=ROWS)
    assert {one.way.ways for one in plan.ranked} == {1}


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"micro_batches": 7}, "a batch of 21 or 28 rows, or micro_batches=6 or 8"),
        ({"micro_batches": 7, "replicas": 2}, "micro_batches=6 or 8"),
        ({"replicas": 5}, "a batch of 20 or 25 rows"),
        ({"micro_batches": 10, "replicas": 5}, "a batch of 20 or 30 rows"),
    ],
)
def test_numbers_that_do_not_fit_each_other_are_advised(
    network: Any, options: dict[str, int], hint: str
) -> None:
    step, *_ = network
    devices = cr.Devices.cpu(8)
    for plan in (cr.parallel, cr.plan_parallel):
        error = raised(InputError, lambda plan=plan: plan(step, devices, batch=24, **options))
        assert error.hint == hint
        for rows in map(int, re.findall(r"(\d+)(?= or \d+ rows| rows)", hint)):
            assert cr.plan_parallel(step, devices, batch=rows, **options)
        for count in map(int, re.findall(r"micro_batches=(\d+)", hint)):
            assert cr.plan_parallel(step, devices, batch=24, **{**options, "micro_batches": count})


def test_too_few_devices_are_told_on_paper(network: Any) -> None:
    error = raised(
        InputError,
        lambda: cr.plan_parallel(network[0], cr.Devices.cpu(4), batch=24, stages=3, replicas=2),
    )
    assert error.hint == "6 devices, or fewer stages, ways or replicas"


@pytest.mark.parametrize("wrong", [4, -1, "a", 1.0, None])
def test_a_device_that_is_not_there_is_refused(wrong: Any) -> None:
    devices = cr.Devices.cpu(4)
    calls = (devices.name, devices.group_of, lambda one: devices.link(one, 0))
    for call in (*calls, lambda one: devices.link(0, one)):
        error = raised(InputError, lambda call=call: call(wrong))
        assert (
            error.what == f"there is no device {wrong!r}" and error.hint == "a number from 0 to 3"
        )
    assert devices.name(3) == "cpu.3"


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "measured", lambda count: pytest.fail("it measures"))
    for path in (tmp_path / "none" / "a.toml", tmp_path):
        shown = CliRunner().invoke(main, ["devices", "--measure", "-o", str(path)])
        assert shown.exit_code == 1 and f"cannot write to {path}: " in shown.output
    assert not list(tmp_path.iterdir())

"""Ranks update the arrays of the state in place once nothing can fail: all of them, or none."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from executors import needs_native
from parallel_models import OPTIMIZERS, ROWS, case, network

import chainrule as cr
from chainrule import float64
from chainrule.devices import splitting, stages, threads
from chainrule.devices.commits import commits_of
from chainrule.devices.instructions import Await, Key, Program, Receive, Run, Send
from chainrule.devices.pieces import is_everywhere, piece_of
from chainrule.devices.replicas import adding
from chainrule.devices.threads import Mailboxes, Stopped
from chainrule.devices.workers import in_thread
from chainrule.train.optimizers.optimizer import Optimizer, StateArray, scaled
from chainrule.train.step.state import State


@pytest.fixture(autouse=True)
def _no_message_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else compiled code of networks as small as these would lie on one stage."""
    monkeypatch.setattr(stages, "MESSAGE_SECONDS", 0.0)


@pytest.mark.slow
@pytest.mark.sweep(5)
@needs_native
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_arrays_of_the_state_are_updated_in_place(
    optimizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, also where replicas share them; what several pieces read is written last."""
    step, weights, batch = case("network", optimizer, "native")
    whole = step.micro_batched(6)
    put: list[list[str]] = []
    original = State.put

    def noted(self: State, changes: Any) -> None:
        put.append([name for name, _ in changes])
        original(self, changes)

    for count, replicas in ((1, 1), (2, 1), (1, 3), (3, 2)):
        split = cr.parallel(step, micro_batches=6, stages=count, replicas=replicas)
        one, other = split.init(weights), whole.init(weights)
        for _ in range(3):
            with monkeypatch.context() as patched:
                patched.setattr(State, "put", noted)
                objective = split(one, batch)
            np.testing.assert_allclose(objective, whole(other, batch), rtol=1e-12)
        assert one.steps == 3
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12)
    written = {name for names in put for name in names}
    if optimizer != "clipped":  # whose stages tell each other of their gradients after they began
        assert written <= {"steps"}


@needs_native
@pytest.mark.parametrize("replicas", [1, 2])
def test_an_error_on_a_rank_leaves_the_state_as_it_was(replicas: int) -> None:
    step, weights, batch = case("network", "adamw", "native")
    split = cr.parallel(step, micro_batches=4, stages=("h1",), replicas=replicas)
    state = split.init(weights)
    split(state, batch)
    assert split.latest is not None and split.latest.commits.taken
    before = dict(state)
    wrong = {**batch, "y": np.where(np.arange(ROWS) == 20, 7, batch["y"])}
    with pytest.raises(IndexError, match="index 7"):
        split(state, wrong)
    assert state.steps == 1
    for name, array in before.items():
        np.testing.assert_array_equal(state[name], array)


def previous(parameter: Any, gradient: Any, scalars: Any, arrays: Any) -> Any:
    """An array takes over the parameter as it was."""
    moved = parameter - scaled(scalars["rate"], gradient)
    return moved + scaled(scalars["rate"], arrays["other"]), {"other": parameter}


def swapped(parameter: Any, gradient: Any, scalars: Any, arrays: Any) -> Any:
    """Two arrays take over each other, one of them changed."""
    return arrays["other"], {"other": parameter - scaled(scalars["rate"], gradient)}


def alike(parameter: Any, gradient: Any, scalars: Any, arrays: Any) -> Any:
    """Two arrays become one value."""
    moved = parameter - scaled(scalars["rate"], gradient)
    return moved, {"other": moved}


def unmoved(parameter: Any, gradient: Any, scalars: Any, arrays: Any) -> Any:
    """An array stays as it is."""
    return parameter - scaled(scalars["rate"], gradient), {"other": arrays["other"]}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("rule", [previous, swapped, alike, unmoved])
@pytest.mark.parametrize("executor", ["reference", pytest.param("native", marks=needs_native)])
def test_arrays_that_take_over_others_have_their_values_from_before(
    rule: Any, executor: str
) -> None:
    own = Optimizer("own", (("rate", 0.1),), rule, (StateArray("other"),))
    step, weights, batch = case("network", "sgd", executor)
    step = cr.training_step(network, tuple(weights), own, executor=executor)
    for count, replicas in ((2, 2), (1, 3)):
        split = cr.parallel(step, micro_batches=6, stages=count, replicas=replicas)
        one, other = split.init(weights), step.micro_batched(6).init(weights)
        for _ in range(3):
            np.testing.assert_allclose(
                split(one, batch), step.micro_batched(6)(other, batch), rtol=1e-12
            )
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12)


class Interrupted:
    """The wait for a thread, which Ctrl-C interrupts once: before the update, or after it."""

    done = False

    def __init__(self, ended: threading.Event, late: bool) -> None:
        self.ended, self.late = ended, late

    def wait(self) -> None:
        if not Interrupted.done:
            Interrupted.done = True
            if self.late:
                self.ended.wait()
            raise KeyboardInterrupt
        self.ended.wait()


@pytest.mark.parametrize("executor", ["reference", pytest.param("native", marks=needs_native)])
@pytest.mark.parametrize("late", [False, True])
def test_an_interrupted_step_has_been_taken_or_not(
    late: bool, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, weights, batch = case("network", "adamw", executor)
    split = cr.parallel(step, micro_batches=6, stages=("h1",), replicas=2)
    state, other = split.init(weights), split.init(weights)
    split(other, batch)
    monkeypatch.setattr(threads, "in_thread", lambda *of: Interrupted(in_thread(*of), late))
    Interrupted.done = False
    with pytest.raises(KeyboardInterrupt):
        split(state, batch)
    wanted = dict(other) if state.steps else dict(split.init(weights))
    assert state.steps == 1 if late else state.steps in (0, 1)
    for name, array in wanted.items():
        np.testing.assert_array_equal(state[name], array)


def test_all_ranks_go_on_or_none() -> None:
    boxes = Mailboxes(2)
    boxes.stop()
    with pytest.raises(Stopped):
        boxes.commit(0)
    boxes = Mailboxes(2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(boxes.commit, range(2)))
    boxes.stop()  # in vain
    assert not boxes.stopped
    boxes.stop(failed=True)
    assert boxes.stopped


def run(piece: int, reads: tuple[int, ...], gives: tuple[int, ...], part: Any = None) -> Run:
    return Run(piece, part, tuple(Key(n, None) for n in reads), tuple(Key(n, None) for n in gives))


def test_nothing_is_overwritten_that_others_still_read() -> None:
    names, ends = {"W": 0, "V": 1, "t": 2}, {"W": 10, "V": 11, "t": 12, "J": 13}
    first = Program(
        0, (), (run(0, (0,), (5,), 0), run(1, (5, 0, 2), (10,)), run(2, (2,), (12,))), ()
    )
    second = Program(1, (), (run(3, (1,), (6,), 0), run(4, (6, 1, 2), (11, 13))), ())
    found = commits_of([first, second], ends, names)
    assert found.at == (1, 1)
    assert found.taken == {10: 0, 11: 1}  # t is read by each
    sends = Program(0, (), (*first.instructions, Send(Key(10, None), 1)), ())
    receives = Program(1, (), (*second.instructions, Receive(Key(10, None), 0)), ())
    found = commits_of([sends, receives], ends, names)
    assert found.at == (4, 3) and not found.taken
    assert isinstance(first.instructions[0], Run) and Await not in map(type, first.instructions)


@pytest.mark.slow
@needs_native
def test_the_first_replica_updates_on_the_cores_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only it reads is added in its arrays alone; clipping in stages reads sums before."""
    monkeypatch.setenv("CHAINRULE_NUM_THREADS", "4")
    for optimizer, length in (("adamw", 1), ("clipped", 2)):
        step, weights, batch = case("network", optimizer, "native")
        split = cr.parallel(step, micro_batches=4, stages=length, replicas=2)
        one, other = split.init(weights), step.micro_batched(4).init(weights)
        split(one, batch)
        step.micro_batched(4)(other, batch)
        found = split.latest
        assert found is not None and bool(found.commits.sums) is (length == 1)
        at = found.commits.at[0]
        for number, instruction in enumerate(found.programs[0].instructions):
            if isinstance(instruction, Run):
                threads = found.compiled[instruction.piece].threads
                assert threads == (4 if number >= at else 2) // length
        for name in one:
            np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [2, 3])
def test_replicas_add_in_the_order_of_ranks(count: int) -> None:
    def update(W: float64[5], W_sum: float64[5]):
        moved = W - 0.1 * W_sum
        return moved

    graph = cr.trace(update)
    own = [node for node in graph.nodes if node.inputs]
    whole = piece_of(graph, "update", own, [graph["moved"]], is_everywhere(graph.nodes))
    made, of_all = adding(whole, {graph["W_sum"]}, count)
    random = np.random.default_rng(0)
    W, *sums = 9 * random.normal(size=(1 + count, 5))
    named = [f"W_sum of replica {replica}" for replica in range(1, count)]
    own_and_others = of_all[graph["W_sum"]]
    assert list(of_all) == [graph["W_sum"]] and len(own_and_others) == count
    assert own_and_others[0] is made.reads[graph["W_sum"]]
    given = dict(zip(["W", "W_sum", *named], [W, *sums], strict=True))
    run = made.graph.run(given, executor="reference")
    total = sums[0].copy()
    for one in sums[1:]:
        total += one
    assert made.graph.names["moved"] is made.gives[graph["moved"]]
    np.testing.assert_array_equal(run["moved"], W - 0.1 * total)
    assert adding(whole, (), count)[1] == {}


@needs_native
def test_replicas_of_an_update_have_the_bits_of_sums_made_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for optimizer, stages_, replicas in (("adamw", 1, 3), ("momentum", 2, 2)):
        step, weights, batch = case("network", optimizer, "native")
        found = []
        for of_all in (False, True):
            with monkeypatch.context() as patched:
                if of_all:
                    patched.setattr(splitting, "_see_each_other", lambda step: False)
                split = cr.parallel(step, micro_batches=6, stages=stages_, replicas=replicas)
                split.split_at(n=ROWS)
            state = split.init(weights)
            objectives = [split(state, batch) for _ in range(3)]
            assert split.latest is not None and bool(split.latest.shown) is not of_all
            found.append((objectives, dict(state)))
        assert found[0][0] == found[1][0]
        for name, array in found[0][1].items():
            np.testing.assert_array_equal(array, found[1][1][name])

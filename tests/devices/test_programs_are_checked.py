"""Planted faults in programs of ranks are found before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from carrying_models import carrying
from parallel_models import ROWS, case

import chainrule as cr
from chainrule.devices import running, splitting
from chainrule.devices.check import check_programs
from chainrule.devices.given import given_to_ranks
from chainrule.devices.instructions import AllReduce, Clear, Key, Program, Receive, Run, Send
from chainrule.devices.lives import freeing
from chainrule.errors import InvariantError

Change = Callable[[list[Any]], None]


@pytest.fixture(scope="module")
def programs() -> tuple[Program, ...]:
    step, *_ = case("network", "clipped", "reference")
    split = cr.parallel(step, micro_batches=4, stages=2, replicas=2)
    return split.split_at(n=ROWS).programs


def places(instructions: list[Any], kind: type) -> list[int]:
    return [at for at, one in enumerate(instructions) if isinstance(one, kind)]


def drop(kind: type) -> Change:
    return lambda found: found.pop(places(found, kind)[0])


def swap(kind: type) -> Change:
    def change(found: list[Any]) -> None:
        first, second = places(found, kind)[:2]
        found[first], found[second] = found[second], found[first]

    return change


def receive_first(found: list[Any]) -> None:
    """Waits for the last message before it sends the first one."""
    last = places(found, Receive)[-1]
    found.insert(0, found.pop(last))


def twice(kind: type) -> Change:
    def change(found: list[Any]) -> None:
        at = places(found, kind)[0]
        found.insert(at, replace(found[at], frees=()) if kind is not Receive else found[at])

    return change


def another(kind: type, **changes: Any) -> Change:
    def change(found: list[Any]) -> None:
        at = places(found, kind)[0]
        found[at] = replace(found[at], **changes)

    return change


def fewer_sums(found: list[Any]) -> None:
    at = places(found, AllReduce)[0]
    found[at] = replace(found[at], keys=found[at].keys[::-1])


FAULTS: dict[str, tuple[int, Change, str]] = {
    "a message is not sent": (0, drop(Send), "wait for ever: "),
    "a message is not received": (1, drop(Receive), "needs Key|never receives"),
    "a message is received twice": (1, twice(Receive), "wait for ever"),
    "a message is sent twice": (0, twice(Send), "never receives it"),
    "a wait in a circle": (0, receive_first, "wait for ever: rank 0 waits for"),
    "another rank": (0, another(Send, to=9), "rank 0 names rank 9; there is none"),
    "the sender is another one": (1, another(Receive, sender=3), "wait for ever"),
    "a piece does not run": (0, drop(Run), "needs Key"),
    "pieces in another order": (1, swap(Run), "needs Key"),
    "sums are not set to 0": (1, drop(Clear), "needs Key"),
    "no sum": (2, drop(AllReduce), "wait for ever|is at its end"),
    "a sum of others": (0, another(AllReduce, group=(1, 3)), "a group that it is not in"),
    "a sum in another order": (2, fewer_sums, "the order of collectives differs"),
}


def test_programs_that_are_made_fit_together(programs: tuple[Program, ...]) -> None:
    check_programs(programs)
    assert {type(one) for program in programs for one in program.instructions} == {
        Run,
        Send,
        Clear,
        Receive,
        AllReduce,
    }


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(programs: tuple[Program, ...], fault: str) -> None:
    rank, change, told = FAULTS[fault]
    instructions = list(programs[rank].instructions)
    change(instructions)
    wrong = replace(programs[rank], instructions=tuple(instructions))
    with pytest.raises(InvariantError, match=told):
        check_programs([wrong if one.rank == rank else one for one in programs])


def test_a_value_that_nobody_computes_is_not_given(programs: tuple[Program, ...]) -> None:
    """Each run of a piece of the passes is dropped, and what it gave is taken as given."""
    inputs = {key for program in programs for key in program.given}
    check_programs(programs, inputs)
    first = programs[0]
    for at in places(list(first.instructions), Run):
        left = (*first.instructions[:at], *first.instructions[at + 1 :])
        wrong = freeing(0, left, first.results)
        if set(wrong.given) <= inputs:  # nobody reads what it gives, or a sum begins with less
            continue
        with pytest.raises(InvariantError, match=r"rank 0 takes Key.* as given, which is no input"):
            check_programs([wrong, *programs[1:]], inputs)
        break
    else:
        pytest.fail("no rank reads what a piece gives")


@pytest.mark.parametrize(("model", "replicas"), [("averaged", 2), ("centred", 1)])
def test_what_programs_may_take_is_given(
    model: str, replicas: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    may, has = set[Key](), set[Key]()

    def check(programs: Any, inputs: Any) -> None:
        may.update(inputs)
        check_programs(programs, inputs)

    def give(*given: Any) -> Any:
        found = given_to_ranks(*given)
        has.update(found)
        return found

    monkeypatch.setattr(splitting, "check_programs", check)
    monkeypatch.setattr(running, "given_to_ranks", give)
    step, state, batch = carrying(model, "scheduled", "reference")
    split = cr.parallel(step, micro_batches=2, stages=2, replicas=replicas)
    split(split.init(state), batch)
    assert may and may <= has


def test_values_are_freed_once_they_are_not_needed(programs: tuple[Program, ...]) -> None:
    for program in programs:
        there = set(program.given)
        for one in program.instructions:
            match one:
                case Run() | Clear():
                    there |= set(one.gives)
                case Receive():
                    there.add(one.key)
            if isinstance(one, (Run, Send)):
                there -= set(one.frees)
        assert there == set(program.results)

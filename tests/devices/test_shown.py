"""Processes of one machine show each other gradients, and what stages send."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from chainrule.devices.instructions import AllReduce, Key, Program, Receive, Run, Send
from chainrule.devices.messages import MOST_LENT, computed_there, lent
from chainrule.devices.mpi import World
from chainrule.devices.rank import run_program
from chainrule.devices.shown import shown_of
from chainrule.errors import StateError
from chainrule.execute.aligned import PAGE
from chainrule.graph.types import array_type

KEYS = Key(3, None), Key(5, None), Key(7, None)
SUM = AllReduce(KEYS, (1, 4), in_place=True)
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
TYPES = array_type(SINGLE, (3, 5)), array_type(DOUBLE, (0, 2)), array_type(DOUBLE, ())


class Shares:
    """Enough of a split step."""

    shown = frozenset({SUM, AllReduce((Key(9, None),), (0, 3), in_place=True)})
    lent: ClassVar = {}
    values: ClassVar = dict(
        zip([3, 5, 7], [("a", TYPES[0]), ("b", TYPES[1]), ("c", TYPES[2])], strict=True)
    )


class Lending(Shares):
    """A step whose rank 1 sends a matrix to ranks 0 and 4, and rank 4 another one to rank 1."""

    shown: Any = frozenset()
    lent: ClassVar = {(4, KEYS[0]): (1,), (1, KEYS[0]): (0, 4)}


def split() -> Any:
    return Shares()


def world(rank: int, memory: np.ndarray | None) -> Any:
    def block(use: str, ranks: tuple[int, ...], nbytes: int) -> np.ndarray | None:
        return memory

    return SimpleNamespace(rank=rank, block=block, blocks={}, shares_memory=True)


def test_what_a_replica_shows_the_others_see() -> None:
    memory = np.zeros(2 * PAGE, np.uint8)
    first, second = (shown_of(world(rank, memory), split()) for rank in SUM.group)
    for shown in (first, second):
        assert shown.has(SUM) and not shown.has(AllReduce((Key(9, None),), (0, 3), in_place=True))
        for key, type_ in zip(KEYS, TYPES, strict=True):
            own = shown.own[key]
            assert (own.dtype, own.shape) == (type_.dtype, type_.shape)
            assert own.ctypes.data % 8 == 0 and own.flags.c_contiguous
    first.own[KEYS[0]][...] = 1
    second.show(KEYS[0], np.full((3, 5), 2, np.float32))  # from where code has put it
    second.own[KEYS[2]][...] = 4
    second.show(KEYS[2], second.own[KEYS[2]])
    for shown in (first, second):
        assert (shown.arrays[0, 3] == 1).all() and (shown.arrays[1, 3] == 2).all()
        assert (shown.arrays[0, 7], shown.arrays[1, 7]) == (0, 4)


def test_ranks_that_show_nothing_have_nothing() -> None:
    shown = shown_of(world(2, None), split())
    assert not shown.has(SUM) and not shown.own and not shown.arrays


def test_without_memory_to_share_a_step_is_refused() -> None:
    with pytest.raises(StateError) as caught:
        shown_of(world(1, None), split())
    assert str(caught.value).startswith(
        "the ranks (1, 4) find no 8192 bytes of memory to share, for gradients"
    )
    assert "CHAINRULE_TRANSPORT=mpi" in str(caught.value)


def test_stages_read_what_another_one_lends_them() -> None:
    asked: list[tuple[int, ...]] = []
    memory = {ranks: np.zeros(PAGE, np.uint8) for ranks in ((1, 0, 4), (4, 1))}

    def block(use: str, ranks: tuple[int, ...], nbytes: int) -> np.ndarray:
        asked.append(ranks)
        assert (use, nbytes) == ("what one of them sends", PAGE)
        return memory[ranks]

    def world(rank: int, shares_memory: bool) -> Any:
        return SimpleNamespace(rank=rank, block=block, blocks={}, shares_memory=shares_memory)

    worlds = [world(rank, True) for rank in (0, 1, 4)]
    splits: list[Any] = [Lending() for _ in worlds]
    reader, lender, other = map(shown_of, worlds, splits)
    assert asked == [(1, 0, 4), (1, 0, 4), (4, 1), (1, 0, 4), (4, 1)]  # alike on all ranks
    key = KEYS[0]
    assert list(reader.lent) == [(1, key)]
    assert list(lender.lent) == list(other.lent) == [(1, key), (4, key)]
    lender.lent[1, key][...] = 3
    for found in (reader, other):
        assert found.lent[1, key].dtype == SINGLE
        assert (found.lent[1, key] == np.full((3, 5), 3)).all()
    assert not other.lent[4, key].any()
    assert not shown_of(world(1, False), Lending()).lent


def test_steps_of_all_splits_use_the_same_memory() -> None:
    """Also a step that came before one with more: what it showed lay elsewhere."""
    made: list[int] = []

    def shared(ranks: tuple[int, ...], nbytes: int) -> np.ndarray:
        made.append(nbytes)
        return np.zeros(nbytes, np.uint8)

    one: Any = object.__new__(World)
    one.rank, one.shares_memory, one.blocks, one.shared = 1, True, {}, shared
    first, again = Lending(), Lending()
    shown = shown_of(one, first)
    assert made == [PAGE, PAGE] and shown_of(one, first) is shown
    other = shown_of(one, again)
    assert made == [PAGE, PAGE]
    for key, array in shown.lent.items():
        assert np.shares_memory(array, other.lent[key])
    more = one.block("what one of them sends", (1, 0, 4), PAGE + 1)
    assert made == [PAGE, PAGE, 3 * PAGE // 2] and more.nbytes == 3 * PAGE // 2
    moved = shown_of(one, first)
    assert moved is not shown and made[3:] == []
    assert np.shares_memory(moved.lent[1, KEYS[0]], more)


def test_what_ranks_send_is_lent_where_it_is_little() -> None:
    given, made = Key(5, None), Key(4, 0)
    programs = [
        Program(0, (), (Receive(given, 1), Receive(made, 1), Send(Key(3, 1), 1)), ()),
        Program(1, (given,), (Send(given, 0), Send(given, 2), Send(made, 0)), ()),
        Program(2, (), (Receive(given, 1),), ()),
    ]
    one, much = array_type(SINGLE, (3, 5)), array_type(SINGLE, (MOST_LENT // 4 - 14,))
    wanted = {(0, Key(3, 1)): (1,), (1, given): (0, 2), (1, made): (0,)}
    assert lent(programs, {3: one, 4: one, 5: one}) == wanted
    assert lent(programs, {3: one, 4: one, 5: much}) == {(0, Key(3, 1)): (1,)}


def test_what_is_computed_again_is_not_written_where_others_read_it() -> None:
    """Nor what is computed where there is no place for it, or is a result of the rank."""
    first, second, kept = Key(1, 0), Key(2, 0), Key(3, 0)
    run = Run(0, 0, (), (first, second, kept))
    program = Program(0, (), (run, run), (kept,))
    piece: Any = SimpleNamespace(reads={}, gives={"a": "A", "b": "B", "c": "C"})
    given: list[Any] = []

    def code(inputs: Any, into: Any) -> Any:
        given.append(into)
        return {"A": np.ones(3), "B": np.ones(3), "C": np.ones(3), **into}

    lent = {(0, first): np.zeros(3), (0, kept): np.zeros(3), (1, second): np.zeros(3)}
    own = computed_there(program, lent)
    assert own == {first}
    places = {key: lent[0, key] for key in own}
    transport: Any = None
    found = run_program(program, [piece], [code], {}, transport, places=places)
    assert given == [{"A": lent[0, first]}, {}] and given[0]["A"] is lent[0, first]
    assert list(found) == [kept] and list(places) == [first]

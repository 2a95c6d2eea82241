"""What the search for less memory has found is found again by later processes, and checked."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from chainrule.disk import cache, entry
from chainrule.plan import remembered
from chainrule.plan.recomputation.problem import Problem, problem
from chainrule.plan.recomputation.sequence import fault
from chainrule.plan.remembered import Stored, sequences

Fresh = Callable[..., tuple[tuple[int, ...], ...]]
COUNT = 16


def chain(**options: object) -> Problem:
    """Forward propagation, and backward, which reads what forward propagation wrote."""
    reads = [(v - 1, v) for v in range(1, COUNT)]
    reads += [(v, COUNT - 1 - v) for v in range(COUNT // 2 - 1)]
    numbers = {"nbytes": [100] * COUNT, "cost": [10] * COUNT, "budget_nbytes": 0, **options}
    return problem(reads=reads, order=range(COUNT), **numbers)  # pyright: ignore


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv(cache.FOLDER, str(path))
    monkeypatch.delenv(cache.SWITCH, raising=False)
    monkeypatch.setattr(cache, "_generator", lambda: "a version")
    return path


def entry_of(folder: Path) -> Path:
    """The file with sequences: compiled searches are there, too."""
    (found,) = [one for one in folder.iterdir() if b'"lengths"' in one.read_bytes()]
    return found


@pytest.fixture
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing is searched."""

    def ladder(*_: object, **named: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(remembered, "ladder", ladder)


def test_sequences_are_found_again(folder: Path, request: pytest.FixtureRequest) -> None:
    first = sequences(chain())
    assert len(first) > 1 and first[0] == chain().order
    entry_of(folder)
    request.getfixturevalue("once")
    assert sequences(chain()) == first
    assert sequences(chain(budget_nbytes=700)) == first, "the ladder does not ask for the budget"


@pytest.mark.parametrize(
    "other",
    [
        {"nbytes": [100] * (COUNT - 1) + [101]},
        {"cost": [10] * (COUNT - 1) + [11]},
        {"workspace": [0] * (COUNT - 1) + [1]},
        {"kept": [0, COUNT - 1]},
        {"once": [3]},
        {"before": [(0, 13)]},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_numbers_are_another_program(other: dict[str, object]) -> None:
    keys = {remembered._key(one, 300, "machine code") for one in (chain(), chain(**other))}
    assert len(keys) == 2
    assert all(fault(chain(**other), one) is None for one in sequences(chain(**other)))


def test_without_the_cache_it_is_searched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv(cache.SWITCH, "0")
    sequences(chain())
    assert not folder.exists()
    request.getfixturevalue("once")
    with pytest.raises(AssertionError, match="searched again"):
        sequences(chain())


def packed(*found: tuple[int, ...]) -> bytes:
    return b"".join(np.array(one, "<i4").tobytes() for one in found)


PLAIN = tuple(range(COUNT))
HOSTILE = [
    Stored((), b""),
    Stored((COUNT,), packed(PLAIN)[:-1]),
    Stored((COUNT, COUNT), packed(PLAIN)),
    Stored((COUNT, -COUNT), b""),
    Stored((COUNT - 1,), packed(PLAIN[:-1])),
    Stored((COUNT,), packed(PLAIN[::-1])),
    Stored((COUNT,), packed((*PLAIN[:-1], COUNT))),
    Stored((COUNT,), packed((*PLAIN[:-1], -1))),
    Stored((COUNT,), packed((0,) * COUNT)),
    Stored((COUNT, COUNT + 1), packed(PLAIN, (*PLAIN[:-1], 2, COUNT - 2))),
    Stored((COUNT + 1,), packed((0, *PLAIN))),
    Stored((1 << 40,), packed(PLAIN)),
]


@pytest.mark.sweep(5)
@pytest.mark.parametrize("stored", HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_sequence_of_the_program_is_searched_anew(folder: Path, stored: Stored) -> None:
    asked = chain(once=[3])
    first = sequences(asked)
    whole = entry_of(folder).read_bytes()
    cache.store(remembered._key(asked, 300, "machine code"), stored)
    assert entry_of(folder).read_bytes() != whole
    assert sequences(asked) == first
    assert entry_of(folder).read_bytes() == whole


def test_a_damaged_entry_is_searched_anew(folder: Path) -> None:
    first = sequences(chain())
    path = entry_of(folder)
    whole = path.read_bytes()
    for cut in (0, 63, -1):
        path.write_bytes(whole[:cut])
        assert sequences(chain()) == first, cut
        assert path.read_bytes() == whole, cut


@pytest.mark.slow
def test_numbers_of_other_types_are_searched_anew(folder: Path) -> None:
    first = sequences(chain())
    path = entry_of(folder)
    size = entry.HEADER.unpack_from(path.read_bytes())[2]
    begin = entry.HEADER.size
    shown = json.loads(path.read_bytes()[begin : begin + size])
    data = path.read_bytes()[begin + size :]
    for lengths in (None, "24", [24.0], [[24]], [True], {"24": 24}):
        text = json.dumps({**shown, "lengths": lengths}).encode()
        head = entry.MAGIC, entry.FORMAT, len(text), len(data)
        path.write_bytes(entry.HEADER.pack(*head, entry._checksum(*head, text, data)) + text + data)
        assert sequences(chain()) == first


def test_too_many_executions_are_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_EXECUTIONS", COUNT)
    first = sequences(chain())
    files = folder.iterdir() if folder.exists() else ()
    assert not any(b'"lengths"' in one.read_bytes() for one in files)
    assert sequences(chain()) == first


def test_what_python_has_found_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looked less long; where there is machine code, that looks for itself."""
    by_machine, by_python = replace(chain(), nbytes=(50,) * COUNT), chain()
    with monkeypatch.context() as patch:
        patch.setattr(remembered, "native_refusal", lambda: "none here")
        sequences(by_python)
    assert cache.load(remembered._key(by_python, 300, "Python"), Stored, lambda _: True)
    assert not cache.load(remembered._key(by_python, 300, "machine code"), Stored, lambda _: True)
    first = sequences(by_machine)
    with monkeypatch.context() as patch:
        patch.setattr(remembered, "native_refusal", lambda: "none here")
        patch.setattr(remembered, "ladder", None)
        assert sequences(by_machine) == first
        assert sequences(by_python)


@pytest.mark.slow
def test_another_process_does_not_search(folder: Path) -> None:
    script = (
        "import sys\n"
        "from chainrule.disk import cache\n"
        "cache._generator = lambda: 'a version'\n"
        "from test_remembered import chain, sequences\n"
        "print(sequences(chain()), 'llvmlite' in sys.modules)"
    )
    command = [sys.executable, "-c", script]
    done = [
        subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, check=True, text=True
        )
        for _ in range(2)
    ]
    first, second = (one.stdout.rsplit(" ", 1) for one in done)
    assert first[0] == second[0] == str(sequences(chain()))
    assert second[1] == "False\n", "nor does it load LLVM"

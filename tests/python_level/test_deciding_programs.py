"""Traced, compiled and plain NumPy agree on programs that decide in Python, or it is refused."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from deciding_programs import CATCHING, program_of, source_of

import chainrule as cr
from chainrule import float64
from chainrule.errors import ChainruleError, SizeTextWarning
from chainrule.graph.sizes import asked_size
from chainrule.graph.structure import flatten

ROWS = ((1, 1), (1, 3), (2, 2), (3, 1), (4, 5))  # n and m
TYPES = {"x": float64["n 3"], "y": float64["m 3"]}


def arrays(n: int, m: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(10 * n + m)
    return {"x": rng.uniform(-1, 1, (n, 3)), "y": rng.uniform(-1, 1, (m, 3))}


def same(got: Any, expected: Any) -> bool:
    left, right = flatten(got, "out"), flatten(expected, "out")
    if left[1].leaf_names != right[1].leaf_names:
        return False
    pairs = zip(left[0], right[0], strict=True)
    return all(
        np.shape(a) == np.shape(b) and np.allclose(a, b, 1e-9, 1e-12, equal_nan=True)
        for a, b in pairs
    )


class Referee:
    """What became of each comparison with plain NumPy; the text of each disagreement."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    def compare(self, kind: str, seed: int, call: Any, expected: Any, given: Any) -> Any:
        """What the call gives, which agrees with NumPy or is refused."""
        try:
            got = call()
        except (ChainruleError, SizeTextWarning) as error:
            self.counts[f"{kind} refused"] += 1
            if "try:" not in str(error):
                self.wrong.append(f"{kind} says no remedy, {given}:\n{error}\n{source_of(seed)}")
            return None
        except Exception as error:
            if not isinstance(expected, type(error)):  # as NumPy does
                self.wrong.append(f"{kind} raised {error!r}, {given}:\n{source_of(seed)}")
            return None
        if isinstance(expected, Exception):
            self.counts[f"{kind} where NumPy raises"] += 1
        elif expected is None or same(got, expected):
            self.counts[f"{kind} agrees"] += expected is not None
        else:
            text = f"{kind} gives {got}\nand NumPy {expected}, {given}:\n{source_of(seed)}"
            self.wrong.append(text)
        return got


def expected_of(program: Any, given: dict[str, Any]) -> Any:
    try:
        return program(**given)
    except Exception as error:
        return error


def judge(seed: int, referee: Referee) -> None:
    """One program: with named sizes, bound, with the arrays themselves, compiled."""
    program, r = program_of(seed), random.Random(seed)
    k, other = r.randint(1, 3), r.randint(0, 4)
    static = {"flag": r.random() < 0.5, "mode": r.choice("ab")}
    graph = referee.compare(
        "tracing", seed, lambda: cr.trace(program, **TYPES, k=k, **static), None, static
    )
    for place, (n, m) in enumerate(ROWS):
        for number in (k, other) if place < 2 else (k,):
            given = arrays(n, m) | {"k": number}
            said = {"n": n, "m": m, "k": number, "traced with k": k} | static
            expected = expected_of(program, given | static)
            if graph is not None:
                run = lambda given=given: graph.run(**given, executor="reference").outputs  # noqa: E731
                referee.compare("named", seed, run, expected, said)
                names = {one: {"n": n, "m": m}[one] for one in graph.sizes}
                bound = lambda names=names, given=given: (  # noqa: E731
                    graph.bind(**names).run(**given, executor="reference").outputs
                )
                referee.compare("bound", seed, bound, expected, said)
            own = lambda given=given: (  # noqa: E731
                cr.trace(program, **given, **static).run(**given, executor="reference").outputs
            )
            referee.compare("concrete", seed, own, expected, said)
            if place == seed % len(ROWS) and number == k:
                call = lambda given=given: cr.compile(program)(**given, **static)  # noqa: E731
                referee.compare("compiled", seed, call, expected, said)


def judged(seeds: range) -> Referee:
    referee = Referee()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", SizeTextWarning)
        for seed in seeds:
            judge(seed, referee)
    return referee


def check(referee: Referee, programs: int) -> None:
    """No disagreement, and most was compared: a fuzz that checks nothing fails here."""
    assert not referee.wrong, f"{len(referee.wrong)} disagree; the first:\n{referee.wrong[0]}"
    counts = referee.counts
    assert counts["concrete agrees"] > 5 * programs, counts
    assert counts["named agrees"] > 1.5 * programs, counts
    assert counts["bound agrees"] == counts["named agrees"], counts
    assert counts["compiled agrees"] > 0.7 * programs, counts
    assert counts["named refused"] > 0.2 * programs, counts
    assert counts["tracing refused"] < 0.5 * programs, counts


@pytest.mark.slow
def test_programs_that_decide_in_python_agree_with_numpy() -> None:
    check(judged(range(15)), 15)


@pytest.mark.exhaustive
def test_more_programs_agree_with_numpy() -> None:
    check(judged(range(25, 185)), 160)


def check_catching(referee: Referee, programs: int) -> None:
    assert not referee.wrong, f"{len(referee.wrong)} disagree; the first:\n{referee.wrong[0]}"
    counts = referee.counts
    assert counts["concrete agrees"] > 4 * programs, counts
    assert counts["named agrees"] > programs, counts
    assert counts["bound agrees"] == counts["named agrees"], counts
    assert counts["compiled agrees"] > 0.5 * programs, counts
    assert counts["named refused"] > 0.2 * programs, counts
    assert counts["tracing refused"] < 0.7 * programs, counts


@pytest.mark.slow
def test_programs_that_catch_errors_and_ask_for_classes_agree_with_numpy() -> None:
    check_catching(judged(range(CATCHING, CATCHING + 25)), 25)


@pytest.mark.exhaustive
def test_more_programs_that_catch_errors_agree_with_numpy() -> None:
    check_catching(judged(range(CATCHING + 60, CATCHING + 160)), 100)


def is_found(seeds: range) -> bool:
    """Whether one of the programs tells a planted fault: the first is enough."""
    return any(judged(range(seed, seed + 1)).wrong for seed in seeds)


def test_a_comparison_that_forgets_its_condition_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asked_size, "assumed_other", lambda *_: False)
    assert is_found(range(20))


def test_an_integer_that_forgets_its_guard_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from chainrule.frontend.trace import Trace

    monkeypatch.setattr(Trace, "guard", lambda self, node: self.scalars[node])
    assert is_found(range(20))


def test_a_caught_error_that_leaves_no_condition_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from chainrule.frontend.errors import caught

    monkeypatch.setattr(caught, "settle_caught", lambda _: None)
    assert is_found(range(CATCHING, CATCHING + 20))

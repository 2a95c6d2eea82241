"""The bytes of one training step at the peak, beside those of PyTorch and JAX; nothing is timed.

    python benchmarks/memory.py [--cases PATTERN ...] [--json FILE]

Counted alike everywhere: parameters, optimizer state, the batch with its labels, results, and
whatever is in memory when most is.  A training step must need no more than the least of each peer's
ways, and less where the network is an MLP: the status is 1 where it does not, and 2 where it does
as far as it was compared and a peer is missing.  Predictions and functions are shown beside.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import memory_peers as peers
from cases import CASES
from cases.case import Case, Problem
from cases.training import chainrule_step
from report import markdown, note
from run import chosen
from worker import reason_of, versions

import chainrule as cr
from chainrule.explain.memory.report import memory_of_step
from chainrule.explain.memory.run_memory import RunMemory
from chainrule.graph.graph import Graph

PEERS = ("PyTorch", "JAX")
TRAINING, PREDICTION, FUNCTION = "training step", "prediction", "function"
REACHED, NOT_REACHED, NOT_COMPARED = 0, 1, 2
Nbytes = Mapping[str, int]  # by way


@dataclass(frozen=True)
class Row:
    """The peak bytes of one computation, and of what each peer offers for it, by way.

    `absent` says why a way ("JAX: jit") has none.  `below` asks for less than the peers', else as
    much is enough.
    """

    case: str
    title: str
    computes: str
    chainrule: int
    parts: Mapping[str, int]  # of chainrule's
    peers: Mapping[str, Nbytes]
    absent: Mapping[str, str]
    below: bool = False

    def least(self, peer: str) -> int | None:
        """Of the peer's ways; None where none could be counted."""
        return min(self.peers[peer].values(), default=None)

    def ratio(self, peer: str) -> float | None:
        """The peer's bytes over chainrule's: above 1 where chainrule needs less."""
        theirs = self.least(peer)
        return None if theirs is None else theirs / self.chainrule

    @property
    def status(self) -> int:
        """Of the command, if this row were all: only training steps are held to anything."""
        found = [self.least(peer) for peer in PEERS]
        counted = [nbytes for nbytes in found if nbytes is not None]
        if self.computes != TRAINING:
            return REACHED
        if any(self.chainrule > theirs - self.below for theirs in counted):
            return NOT_REACHED
        return REACHED if len(counted) == len(found) else NOT_COMPARED


def rows_of(case: Case) -> list[Row]:
    """What the case computes, in chainrule by the native executor, and in each peer."""
    problem = case.problem()
    (build,) = case.variants["chainrule"].values()
    if not case.trains:
        function = cr.trace(_keywords(build)["function"], *problem.arrays.values())
        run = function_memory(function)
        return [row(case, FUNCTION, run, _functions(case, problem))]
    given = _keywords(build)
    step, _ = chainrule_step(
        problem, given["objective"], given["optimizer"].chainrule(), "native", examples=True
    )
    report = memory_of_step(step, {})
    assert report.training is not None
    return [
        row(case, TRAINING, report.training, _trainings(case, problem)),
        row(case, PREDICTION, report.prediction, _predictions(case, problem)),
    ]


def function_memory(graph: Graph) -> RunMemory:
    """A traced function as `cr.compile` runs it: nothing is left out that it computes."""
    return graph.memory(executor="native").main


Counts = Mapping[str, Mapping[str, Callable[[], int]]]  # by peer, by way


def row(case: Case, computes: str, run: RunMemory, counts: Counts) -> Row:
    """One row: the peers' ways are counted here, one after another."""
    found: dict[str, dict[str, int]] = {peer: {} for peer in PEERS}
    absent: dict[str, str] = {}
    for peer, ways in counts.items():
        for way, count in ways.items():
            try:
                found[peer][way] = count()
            except Exception as error:
                absent[f"{peer}: {way}"] = reason_of(error)
    below = computes == TRAINING and "mlp" in case.name
    parts = {part: nbytes for part, nbytes in run.parts.items() if nbytes}
    return Row(case.name, case.title, computes, run.peak_nbytes, parts, found, absent, below=below)


def _keywords(build: Any) -> Mapping[str, Any]:
    """What a builder of a case was made with: the model, the optimizer."""
    return build.keywords


def _trainings(case: Case, problem: Problem) -> Counts:
    def of_jax(build: Any) -> Callable[[], int]:
        given = _keywords(build)
        return lambda: peers.jax_training_nbytes(problem, given["objective"], given["optimizer"])

    return {"PyTorch": _in_torch(case, problem), "JAX": _each(of_jax, case.variants["JAX"])}


def _functions(case: Case, problem: Problem) -> Counts:
    def of_jax(build: Any) -> Callable[[], int]:
        return lambda: peers.jax_nbytes(_keywords(build)["function"], *problem.arrays.values())

    return {"PyTorch": _in_torch(case, problem), "JAX": _each(of_jax, case.variants["JAX"])}


def _in_torch(case: Case, problem: Problem) -> Mapping[str, Callable[[], int]]:
    def of_torch(build: Any) -> Callable[[], int]:
        return lambda: peers.torch_nbytes(problem, build)

    return _each(of_torch, case.variants["PyTorch"])


def _predictions(case: Case, problem: Problem) -> Counts:
    """PyTorch's ways differ in the optimizer only: one is enough."""
    given = _keywords(next(iter(case.variants["PyTorch"].values())))

    def of_torch() -> int:
        return peers.torch_prediction_nbytes(problem, given["objective"], linear=given["linear"])

    def of_jax(build: Any) -> Callable[[], int]:
        return lambda: peers.jax_prediction_nbytes(problem, _keywords(build)["objective"])

    return {"PyTorch": {"no_grad": of_torch}, "JAX": _each(of_jax, case.variants["JAX"])}


def _each(
    count: Callable[[Any], Callable[[], int]], ways: Mapping[str, Any]
) -> Mapping[str, Callable[[], int]]:
    return {way: count(build) for way, build in ways.items()}


def status_of(rows: Iterable[Row]) -> int:
    """1 where one row is not reached, else 2 where one was not compared, else 0."""
    found = {one.status for one in rows}
    return next((one for one in (NOT_REACHED, NOT_COMPARED) if one in found), REACHED)


def table(rows: Sequence[Row]) -> str:
    """All figures, as Markdown."""
    notes: list[str] = []
    lines = [[*_cells(one, notes), _verdict(one)] for one in rows]
    head = ["case", "computes", "chainrule", *PEERS, "demand"]
    parts = [
        "Peak bytes, of each peer the least of its ways, and in brackets (peer's / chainrule's).",
        markdown(head, lines),
        _ways(rows),
        "\n".join(notes),
    ]
    return "\n\n".join(part for part in parts if part)


def _cells(one: Row, notes: list[str]) -> list[str]:
    cells = [one.title, one.computes, f"{one.chainrule:,}"]
    for peer in PEERS:
        theirs, ratio = one.least(peer), one.ratio(peer)
        if theirs is None or ratio is None:
            why = [text for way, text in one.absent.items() if way.startswith(f"{peer}: ")]
            cells.append(note("; ".join(dict.fromkeys(why)), notes))
        else:
            cells.append(f"{theirs:,} ({ratio:.3f}×)")
    return cells


def _verdict(one: Row) -> str:
    if one.computes != TRAINING:
        return ""
    words = {REACHED: "reached", NOT_REACHED: "NOT REACHED", NOT_COMPARED: "not compared"}
    return f"{'below' if one.below else 'at most'}: {words[one.status]}"


def _ways(rows: Sequence[Row]) -> str:
    """The ways of each peer, where they differ."""
    lines = [
        f"* {one.case}, {one.computes}, {peer}: "
        + ", ".join(f"{way} {nbytes:,}" for way, nbytes in one.peers[peer].items())
        for one in rows
        for peer in PEERS
        if len(set(one.peers[peer].values())) > 1
    ]
    return "Where the ways differ:\n\n" + "\n".join(lines) if lines else ""


def main(arguments: Sequence[str] | None = None, cases: Sequence[Case] = CASES) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=["*"], help="names or patterns such as mlp-*")
    parser.add_argument("--json", type=Path, help="also writes the rows, with every way, there")
    asked = parser.parse_args(arguments)
    names = chosen([case.name for case in cases], asked.cases)
    rows: list[Row] = []
    for case in cases:
        if case.name in names:
            print(f"{case.name} ...", file=sys.stderr, flush=True)
            rows += rows_of(case)
    print(", ".join(f"{name} {version}" for name, version in versions().items()))
    print(table(rows))
    if asked.json:
        found = {"versions": versions(), "rows": [as_json(one) for one in rows]}
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return status_of(rows)


def as_json(one: Row) -> dict[str, Any]:
    """The row, with its ratios and its status."""
    ratios = {peer: one.ratio(peer) for peer in PEERS}
    return {**asdict(one), "ratio_to_chainrule": ratios, "status": one.status}


if __name__ == "__main__":
    sys.exit(main())

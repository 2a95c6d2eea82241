"""The predicted and the measured time of every instruction of the cases, with AVX-512 and without.

    python benchmarks/instruction_times.py [--cases mlp-small kalman] [--threads 1] [--processes 3]

Each process measures in turn (`plan.measured()`).  A line is an instruction that some of them do
not predict within a factor of 1.5 of what they then measure: the medians of both times, the least
and the most that was measured, in microseconds, the first by the second, in how many processes it
is outside, the case, the shapes of what it writes, and what it is.  Then for each process how many
instructions are within the factor, by number and by time; and how many are in none.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from math import fsum
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from run import LEVELS, environment

FACTOR = 1.5
BRIEF = 1000.0  # nanoseconds: those that take less are counted apart
# Nanoseconds, less than which is as much: two ticks of the clock.
NOTHING = 20.0


class Timed(NamedTuple):
    """An instruction of a case in one process, in nanoseconds."""

    case: str
    number: int
    shapes: str
    what: str
    predicted: float
    measured: float

    @property
    def is_close(self) -> bool:
        """Whether it is predicted within the factor."""
        return is_close(self.predicted, self.measured)


def plans(names: list[str], threads: int) -> Iterator[tuple[str, Any]]:
    """The plans of chainrule's first variant of each case."""
    from cases import CASES
    from cases.case import Settings

    for case in CASES:
        if case.name in names or not names:
            build = next(iter(case.variants["chainrule"].values()))
            prepared = build(case.problem(), Settings("native", threads))
            assert prepared.plan is not None
            yield case.name, prepared.plan()


def share(found: list[Timed]) -> str:
    """How many of them are within the factor."""
    close = [one for one in found if one.is_close]
    long = [one for one in found if one.measured >= BRIEF]
    time = fsum(one.measured for one in close) / fsum(one.measured for one in found)
    parts = [
        f"{len(close) / len(found):.0%} of {len(found)} instructions",
        f"{len([one for one in long if one.is_close]) / max(len(long), 1):.0%} of {len(long)} of "
        f"{BRIEF:.0f} ns and more",
        f"{time:.1%} of the time",
    ]
    return ", ".join(parts)


def is_close(predicted: float, measured: float) -> bool:
    """Whether it was predicted within the factor."""
    ratio = max(predicted, NOTHING) / max(measured, NOTHING)
    return 1 / FACTOR <= ratio <= FACTOR


def here(names: list[str], threads: int) -> None:
    """Print what is predicted and measured in this process, a line of JSON for each instruction."""
    from chainrule.plan.text import instructions

    for name, plan in plans(names, threads):
        times = plan.measured()
        rows = zip(times.predicted, times.measured, instructions(plan), plan.computes, strict=True)
        for number, (predicted, measured, (what, _), compute) in enumerate(rows, 1):
            shapes = " ".join("×".join(map(str, node.shape)) or "1" for node in compute.nodes)
            print(json.dumps(Timed(name, number, shapes, what, predicted, measured)), flush=True)


def told(turns: list[list[Timed]], *, every: bool) -> Iterator[str]:
    """What several processes have found, of the same instructions."""
    never = 0
    for same in zip(*turns, strict=True):
        outside = sum(not one.is_close for one in same)
        never += outside == len(same)
        if not every and not outside:
            continue
        measured = sorted(one.measured for one in same)
        pair = median(one.predicted for one in same), median(measured)
        cells = "  ".join(f"{x / 1000:>11,.3f}" for x in (*pair, measured[0], measured[-1]))
        one = same[0]
        yield (
            f"  {cells}  {pair[0] / max(pair[1], 1.0):>6.2f}  {outside}/{len(same)}  {one.case} "
            f"{one.number}  {one.shapes:.60}  {one.what:.80}"
        )
    for case in dict.fromkeys(one.case for one in turns[0]):
        steps = [[one for one in turn if one.case == case] for turn in turns]
        inside = [
            fsum(one.predicted for one in step) / fsum(one.measured for one in step)
            for step in steps
        ]
        longer = ", ".join(f"{x:.2f}" for x in inside)
        yield f"{case}: whole step predicted {longer} times as long"
    for turn in turns:
        yield f"all: {share(turn)}"
    yield f"outside in every process: {never} of {len(turns[0])}"


def main() -> None:
    """Each level in processes of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--levels", nargs="+", default=list(LEVELS), choices=list(LEVELS))
    parser.add_argument("--all", action="store_true", help="every instruction, also those within")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        here(given.cases, given.threads)
        return
    command = [sys.executable, str(Path(__file__)), "--here", "--threads", str(given.threads)]
    if given.cases:
        command += ["--cases", *given.cases]
    turns: dict[str, list[list[Timed]]] = {level: [] for level in given.levels}
    for _ in range(given.processes):
        for level in given.levels:
            variables = environment(given.threads, level)
            del variables["CHAINRULE_CACHE"]
            variables["CHAINRULE_NUM_THREADS"] = str(given.threads)
            done = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE)
            turns[level].append([Timed(*json.loads(row)) for row in done.stdout.splitlines()])
    for level, found in turns.items():
        print(f"{level}, threads: {given.threads}")
        print(*told(found, every=given.all), sep="\n", flush=True)


if __name__ == "__main__":
    main()

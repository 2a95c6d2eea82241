"""The predicted and the measured time of every instruction of the cases, with AVX-512 and without.

    python benchmarks/instruction_times.py [--cases mlp-small kalman] [--threads 1] [--all]

A line is an instruction that is not predicted within a factor of 1.5 of what is then measured
(`plan.measured()`): both times in microseconds, the first by the second, the case, the shapes of
what it writes, and what it is.  Then how many are within it, by number and by time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from math import fsum
from pathlib import Path
from typing import Any

from run import LEVELS, environment

FACTOR = 1.5
BRIEF = 1000.0  # nanoseconds: those that take less are counted apart
NOTHING = 1.0  # of a time: less is as much


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


def share(pairs: list[tuple[float, float]]) -> str:
    """How many of them, predicted and measured, are within the factor."""
    close = [(a, b) for a, b in pairs if is_close(a, b)]
    long = [(a, b) for a, b in pairs if b >= BRIEF]
    parts = [
        f"{len(close) / len(pairs):.0%} of {len(pairs)} instructions",
        f"{len([one for one in long if one in close]) / max(len(long), 1):.0%} of {len(long)} of "
        f"{BRIEF:.0f} ns and more",
        f"{fsum(b for _, b in close) / fsum(b for _, b in pairs):.1%} of the time",
    ]
    return ", ".join(parts)


def is_close(predicted: float, measured: float) -> bool:
    """Whether it was predicted within the factor."""
    ratio = max(predicted, NOTHING) / max(measured, NOTHING)
    return 1 / FACTOR <= ratio <= FACTOR


def here(names: list[str], threads: int, *, every: bool) -> None:
    """Print what is predicted and measured in this process."""
    from chainrule.plan.text import instructions

    found: list[tuple[float, float]] = []
    for name, plan in plans(names, threads):
        times = plan.measured()
        pairs = list(zip(times.predicted, times.measured, strict=True))
        found += pairs
        lines = zip(pairs, instructions(plan), plan.computes, strict=True)
        for number, (pair, (what, _), compute) in enumerate(lines, 1):
            if every or not is_close(*pair):
                cells = "  ".join(f"{one / 1000:>11,.3f}" for one in pair)
                shapes = " ".join("×".join(map(str, node.shape)) or "1" for node in compute.nodes)
                ratio = pair[0] / max(pair[1], NOTHING)
                print(f"  {cells}  {ratio:>6.2f}  {name} {number}  {shapes:.60}  {what:.80}")
        inside = fsum(a for a, _ in pairs) / fsum(b for _, b in pairs)
        print(
            f"{name}: whole step predicted {inside:.2f} times as long; {share(pairs)}", flush=True
        )
    print(f"all: {share(found)}", flush=True)


def main() -> None:
    """Each level in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="+", default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--levels", nargs="+", default=list(LEVELS), choices=list(LEVELS))
    parser.add_argument("--all", action="store_true", help="every instruction, also those within")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        here(given.cases, given.threads, every=given.all)
        return
    for level in given.levels:
        print(f"{level}, threads: {given.threads}", flush=True)
        variables = environment(given.threads, level)
        del variables["CHAINRULE_CACHE"]
        variables["CHAINRULE_NUM_THREADS"] = str(given.threads)
        rest = [one for one in sys.argv[1:] if one != "--levels" and one not in LEVELS]
        command = [sys.executable, str(Path(__file__)), *rest, "--here"]
        subprocess.run(command, env=variables, check=True)


if __name__ == "__main__":
    main()

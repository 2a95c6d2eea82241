"""What less memory costs in time, predicted and measured.

    python benchmarks/budget_time.py [--executor native] [--threads 1] [--programs MLP]

Each program runs in fresh processes, in which the step without a budget and those within budgets
take turns, each with a new state, new scratch memory and a new batch: where arrays lie decides some
percent, and each process has places of its own.  So each process predicts and then measures, and
medians over the processes are compared.  Of the calls of a turn the least counts, both ways; with
one thread its CPU time, so that other processes matter little.

Budgets of `native` are percents of the bytes that the plan without one saves for the backward pass,
those of `reference` of all that a run allocates at its peak: much of that needs no recomputation.
A cell is "estimated, run / measured" extra time in percent: estimated by the record of speeds, run
beforehand on made-up arrays (`measure=True`), and measured by training.  * marks a prediction that
is off by more than 20 % of the measured extra time, and by more than 2 points.  The status is 1
where a prediction by runs is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from budget_programs import PROGRAMS, Program

from chainrule.errors import MemoryLimitError
from chainrule.explain.cost.measured_runs import timed, turn

PERCENTS = (80, 60, 40, 30, 20)
PARTS = (2, 4)  # of a batch
TOLERANCE, POINTS = 0.2, 0.02
HOW = ("estimated", "run")  # predicted


def measured(program: Program, executor: str, percents: Sequence[int], rounds: int):
    """Of each way: what it is, the bytes, and the estimated, run and measured seconds."""
    plain = program.step(executor=executor)
    report = plain.memory(n=program.rows)
    whole = report.main.parts["saved intermediates"]
    if executor == "reference":
        whole = report.main.peak_nbytes - sum(one.type.nbytes for one in report.concrete.inputs)
    steps: dict[str, Any] = {"100": plain}
    reports: dict[str, Any] = {"100": report}
    for percent in percents:
        budget = report.needed_nbytes - whole * (100 - percent) // 100
        step = program.step(executor=executor, memory=budget)
        try:
            within = step.memory(n=program.rows)
        except MemoryLimitError:
            continue
        name = str(percent)
        steps[name], reports[name] = step, within
    for count in PARTS:
        name, step = f"{count} parts", plain.micro_batched(count)
        try:
            parts = step.memory(n=program.rows)
        except Exception as error:
            print(name, error, file=sys.stderr)
            continue
        steps[name], reports[name] = step, parts
    estimated = [one.nanoseconds() for one in reports.values()]
    runs = [one.nanoseconds for one in timed([one.run() for one in reports.values()], estimated)]
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            taken[name].append(turn(partial(_call, step, program)) / 1e9)
    ratios = {
        name: median(a / b for a, b in zip(one, taken["100"], strict=True))
        for name, one in taken.items()
    }
    return [
        {
            "way": name,
            "nbytes": report.needed_nbytes,
            "estimated": by_speeds / 1e9,
            "run": by_runs / 1e9,
            "measured": median(taken[name]),
            "estimated_extra": by_speeds / estimated[0] - 1,
            "run_extra": by_runs / runs[0] - 1,
            "measured_extra": ratios[name] - 1,
        }
        for (name, report), by_speeds, by_runs in zip(reports.items(), estimated, runs, strict=True)
    ]


def _call(step: Any, program: Program) -> Callable[[], Any]:
    state = step.init(params=program.params)
    batch = {name: array.copy() for name, array in program.batch.items()}
    return lambda: step(state, **batch)


def of_processes(found: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The rows with the medians of what each process predicted and measured, and all of these."""
    rows = [dict(one) for one in found[0]]
    for place, row in enumerate(rows):
        for name in (*HOW, "measured"):
            extras = [one[place][f"{name}_extra"] for one in found]
            row[name] = median(one[place][name] for one in found)
            row[f"{name}_extra"], row[f"{name}_extras"] = median(extras), extras
    return rows


def is_off(row: dict[str, Any], how: str) -> bool:
    """Whether the extra time, estimated or run, is beyond what is allowed."""
    predicted, found = row[f"{how}_extra"], row["measured_extra"]
    return abs(predicted - found) > max(POINTS, TOLERANCE * abs(found))


def _predicted(row: dict[str, Any], how: str) -> str:
    return f"{100 * row[f'{how}_extra']:.1f}" + (" *" if is_off(row, how) else "")


def table(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """A line for each program, a cell for each way."""
    plain, *others = rows
    cells = [
        ", ".join(_predicted(one, how) for how in HOW) + f" / {100 * one['measured_extra']:.1f}"
        for one in others
    ]
    absolute = ", ".join(f"{1e3 * plain[how]:.2f}" for how in HOW)
    absolute += f" / {1e3 * plain['measured']:.2f}"
    found = dict(zip((one["way"] for one in others), cells, strict=True))
    ways = [*map(str, PERCENTS), *(f"{count} parts" for count in PARTS)]
    return f"| {name} | {absolute} | " + " | ".join(found.get(way, "–") for way in ways) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--executor", default="native")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--programs", nargs="+", default=[""], help="parts of names")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--json", type=Path, help="save the numbers")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        rows = measured(PROGRAMS[asked.one](), asked.executor, PERCENTS, asked.rounds)
        print(json.dumps(rows))
        return 0
    head = ["program", "ms without a budget", *(f"{one} %" for one in PERCENTS)]
    head += [f"{count} parts" for count in PARTS]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head), flush=True)
    threads = str(asked.threads)
    names = ("CHAINRULE_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, threads)}
    found: dict[str, Any] = {}
    for name in PROGRAMS:
        if not any(part in name for part in asked.programs):
            continue
        command = [sys.executable, __file__, "--one", name, "--executor", asked.executor]
        command += ["--threads", threads, "--rounds", str(asked.rounds)]
        processes = []
        for _ in range(asked.processes):
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                print(done.stderr, file=sys.stderr)
                return 1
            sys.stderr.write(done.stderr)
            processes.append(json.loads(done.stdout.splitlines()[-1]))
        found[name] = of_processes(processes)
        print(table(name, found[name]), flush=True)
    every = [one for rows in found.values() for one in rows[1:]]
    for how in HOW:
        for kind, is_parts in (("budgets", False), ("parts", True)):
            cells = [one for one in every if ("parts" in one["way"]) is is_parts]
            right = sum(not is_off(one, how) for one in cells)
            print(f"\n{how}: {right} of {len(cells)} {kind} within 20 %, or 2 points", end="")
    print()
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1), "utf-8")
    return int(not every or any(is_off(one, "run") for one in every))


if __name__ == "__main__":
    sys.exit(main())

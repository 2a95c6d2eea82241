"""Programs that fit into less memory by computing values again: cost, peak, seconds, lower bound.

    python benchmarks/recomputation.py FOLDER [--seconds 60] [--percents 90 80 70] [--seeds 0]

Every `*.json` of the folder is a program: `order`, `nbytes`, `cost`, and `reads`, pairs (u, v)
where v reads u.  Budgets are percents of the peak of `order`.  Where the README.md of the folder
has a table of published figures (extra cost in percent / memory reached in percent / seconds), they
stand beside ours.  Numbers in brackets are peaks in percent that miss the budget.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from recomputation_baselines import greedily, keep_all, rounded, square_root

from chainrule.errors import MemoryLimitError
from chainrule.plan import recompute
from chainrule.plan.recomputation.problem import Problem, problem
from chainrule.plan.recomputation.sequence import measured

BASELINES = {
    "keep all": keep_all,
    "√n": square_root,
    "greedy": greedily,
    "LP rounding": rounded,
}


def published(folder: Path) -> dict[tuple[str, str], list[str]]:
    """By the name of a program and the percents of a budget, the cells of the README's table."""
    found: dict[tuple[str, str], list[str]] = {}
    name, inside = "", False
    for line in (folder / "README.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| graph | budget |"):
            inside = True
            found["", ""] = cells[2:]
        elif inside and line.startswith("|") and not line.startswith("|---"):
            name = cells[0].lower().replace(" ", "_") or name
            found[name, cells[1]] = cells[2:]
    return found


def percent(part: float, whole: float, digits: int = 2) -> str:
    return f"{100 * part / whole:.{digits}f}"


def baseline(one: Problem, sequence: tuple[int, ...] | None, peak: int) -> str:
    if sequence is None:
        return "none"
    seen = measured(one, sequence)
    extra = percent(seen.cost - one.plain_cost, one.plain_cost)
    missed = seen.peak_nbytes > one.budget_nbytes
    return extra + (f" ({percent(seen.peak_nbytes, peak, 1)})" if missed else "")


def answers(
    given: list[Any], one: Problem, peak: int, seconds: float, seeds: Sequence[int]
) -> list[str]:
    """The cells of ours: extra cost for each seed, lower bound, peak, and the longest time."""
    found, taken = [], []
    for seed in seeds:
        begun = perf_counter()
        try:
            found.append(recompute(*given, one.budget_nbytes, seconds=seconds, seed=seed))
        except MemoryLimitError as error:
            return [f"none: {error.what}", "", "", f"{perf_counter() - begun:.1f}"]
        taken.append(perf_counter() - begun)
    best = min(found, key=lambda answer: answer.cost)
    bound = max(answer.lower_bound for answer in found)
    extras = ", ".join(f"{100 * answer.extra:.3f}" for answer in found)
    return [
        extras + (" (optimal)" if best.cost == bound else ""),
        percent(bound - one.plain_cost, one.plain_cost, 3),
        percent(best.peak_nbytes, peak, 1),
        f"{max(taken):.1f}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each budget")
    parser.add_argument("--percents", type=int, nargs="+", default=[90, 80, 70])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--programs", nargs="+", help="names of files, without .json")
    asked = parser.parse_args()
    paths = sorted(asked.folder.glob("*.json"))
    paths = [path for path in paths if not asked.programs or path.stem in asked.programs]
    if not paths:
        print(f"no *.json in {asked.folder}", file=sys.stderr)
        return 2
    others = published(asked.folder) if (asked.folder / "README.md").is_file() else {}
    titles = others.get(("", ""), [])
    head = ["program", "nodes", "budget %", "extra %", "at least %", "peak %", "seconds"]
    head += [*BASELINES, *titles]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head), flush=True)
    for path in paths:
        numbers = json.loads(path.read_text("utf-8"))
        given = [numbers[key] for key in ("nbytes", "cost", "reads", "order")]
        plain = problem(*given, 0)
        peak = measured(plain, plain.order).peak_nbytes
        for budget in asked.percents:
            one = problem(*given, peak * budget // 100)
            row = [path.stem, str(one.size), str(budget)]
            row += answers(given, one, peak, asked.seconds, asked.seeds)
            row += [baseline(one, way(one), peak) for way in BASELINES.values()]
            row += others.get((path.stem, str(budget)), [""] * len(titles))
            print("| " + " | ".join(row) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Buffers placed in one arena: how near the bound, how soon, and whether that is proved.

    python benchmarks/placement.py FOLDER [--seconds 60] [--capacity NBYTES | --smallest] [--cp-sat]

Every `*.csv` of the folder is an instance in the form of google/minimalloc: the columns lower,
upper (exclusive) and size.  The capacity to be reached is that of the file's name
(`A.1048576.csv`), or `--capacity`; `--smallest` aims at the smallest arena.
"""

import argparse
import csv
import sys
from pathlib import Path
from time import perf_counter

import chainrule as cr


def buffers_of(path: Path) -> list[tuple[int, int, int]]:
    with path.open(encoding="utf-8") as file:
        return [(int(r["lower"]), int(r["upper"]), int(r["size"])) for r in csv.DictReader(file)]


def capacity_of(path: Path) -> int | None:
    """The number in the middle of the file's name, if there is one."""
    number = path.suffixes[0].strip(".") if path.suffixes else ""
    return int(number) if number.isdigit() else None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each instance")
    parser.add_argument("--capacity", type=int)
    parser.add_argument("--smallest", action="store_true", help="aim at no given capacity")
    parser.add_argument("--cp-sat", action="store_true", help="by OR-tools instead")
    asked = parser.parse_args()
    paths = sorted(asked.folder.glob("*.csv"))
    if not paths:
        print(f"no *.csv in {asked.folder}", file=sys.stderr)
        return 2
    print("| instance | buffers | bound | arena | capacity | strategy | seconds | proved |")
    print("|---|---|---|---|---|---|---|---|")
    missed = 0
    for path in paths:
        wanted = buffers_of(path)
        capacity = None if asked.smallest else asked.capacity or capacity_of(path)
        placing = cr.place_buffers
        if asked.cp_sat:
            from cp_sat import place_by_cp_sat as placing
        begun = perf_counter()
        found = placing(wanted, seconds=asked.seconds, capacity=capacity)
        seconds = perf_counter() - begun
        missed += capacity is not None and found.nbytes > capacity
        proved = "optimal" if found.proved_optimal else ""
        if capacity is not None and found.lower_bound > capacity:
            proved = "capacity too small"
        print(
            f"| {path.stem} | {len(wanted)} | {found.lower_bound:,} | {found.nbytes:,} "
            f"| {'' if capacity is None else f'{capacity:,}'} | {found.strategy} "
            f"| {seconds:.2f} | {proved} |",
            flush=True,
        )
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())

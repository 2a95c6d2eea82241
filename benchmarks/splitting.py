"""Splits of published graphs over devices: load, lower bound, seconds, beside published figures.

    python benchmarks/splitting.py FOLDER [--seconds 60]

Every `*.json` of the folder is a graph in the format of "Efficient Algorithms for Device Placement
of DNN Graph Operators" (NeurIPS 2020).  Where the README.md of the folder has a table of published
figures, they stand beside ours.
"""

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from chainrule.plan import split


def graph(path: Path) -> dict[str, Any]:
    """The arguments of `split`."""
    found = json.loads(path.read_text("utf-8"))
    nodes = found["nodes"]
    number = {node["id"]: at for at, node in enumerate(nodes)}
    groups: dict[int, list[int]] = {}
    for at, node in enumerate(nodes):
        groups.setdefault(node["colorClass"], []).append(at)
    transfer = [0.0] * len(nodes)
    for edge in found["edges"]:
        transfer[number[edge["sourceId"]]] = edge["cost"]
    return {
        "seconds": [node["fpgaLatency"] for node in nodes],
        "nbytes": [int(node["size"]) for node in nodes],
        "edges": [(number[edge["sourceId"]], number[edge["destId"]]) for edge in found["edges"]],
        "transfer_seconds": transfer,
        "devices": found["maxFPGAs"],
        "memory_nbytes": int(found["maxSizePerFPGA"]),
        "backward": [at for at, node in enumerate(nodes) if node["isBackwardNode"]],
        "together": list(groups.values()),
        "hosts": found["maxCPUs"],
        "host_seconds": [node["cpuLatency"] for node in nodes],
    }


def published(folder: Path) -> dict[str, list[str]]:
    """By the name of a graph, the optimum, the seconds and the other figures of the README."""
    found = {}
    for line in (folder / "README.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 6:
            found[cells[0]] = cells[3:]
    return found


def answer(numbers: dict[str, Any], seconds: float, contiguous: bool) -> list[str]:
    begun = perf_counter()
    found = split(**numbers, contiguous=contiguous, search_seconds=seconds)
    taken = perf_counter() - begun
    proof = "optimal" if found.proved_optimal else f"at least {found.lower_bound:.4f}"
    return [f"{found.load:.4f} ({proof})", f"{taken:.2f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each split")
    asked = parser.parse_args()
    paths = sorted(asked.folder.glob("*.json"))
    if not paths:
        print(f"no *.json in {asked.folder}", file=sys.stderr)
        return 2
    others = published(asked.folder) if (asked.folder / "README.md").is_file() else {}
    head = ["graph", "nodes", "contiguous", "seconds", "any split", "seconds"]
    head += ["published optimum", "its seconds", "others"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    split(**graph(paths[0]), contiguous=False)  # compiles the searches
    for path in paths:
        numbers = graph(path)
        row = [path.stem, str(len(numbers["seconds"]))]
        row += answer(numbers, asked.seconds, True) + answer(numbers, asked.seconds, False)
        row += others.get(path.stem, [""] * 3)
        print("| " + " | ".join(row) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

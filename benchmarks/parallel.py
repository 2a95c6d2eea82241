"""Steps on two ranks beside one process, beside torch.distributed, and beside what was predicted.

    python benchmarks/parallel.py [--rounds 3] [--seconds 8] [--json FILE]

Two cores, one thread a rank; about five minutes.  Fresh processes take turns, and each does its
jobs in turns.  Figures are ratios of medians: of a round, then of the rounds.  Ranks are threads of
a process, or processes by `chainrule run -n 2`, which share memory, or send all by messages, whose
adding up is to be hidden; where mpiexec or PyTorch is missing, a line says so.  The ideal of a
pipeline of p stages with m micro-batches is (m + p - 1) / (m p) of one process. "Both at once" is
one process beside another that does the same: twice that much of one process is what two ranks
cannot better, as they share memory, caches, and perhaps cores.

The status is 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from chainrule.devices.launcher import THREADS, mpiexec
from chainrule.errors import InputError

HERE = Path(__file__).parent
PARTS, STAGES = 8, 2
SCHEDULES = ("gpipe", "1f1b", "zb-h1", "zb-h2")
TORCH = {"gpipe": "gpipe", "1f1b": "1f1b", "zb-h1": "1f1b", "zb-h2": "1f1b"}
IDEAL = (PARTS + STAGES - 1) / (PARTS * STAGES)
NEAR_IDEAL, REPLICAS, HIDDEN, PREDICTED = 1.08, 1.7, 0.9, 0.15

Figures = dict[str, float]


def environment(threads: int, transport: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if name not in THREADS}
    path = os.pathsep.join([str(HERE), *filter(None, [known.get("PYTHONPATH")])])
    return {
        **known,
        **dict.fromkeys(THREADS, str(threads)),
        "PYTHONPATH": path,
        "CHAINRULE_TRANSPORT": transport,
    }


def printed(*commands: list[str], threads: int, transport: str = "") -> dict[str, Any]:
    """What the first of some processes prints."""
    running = [
        subprocess.Popen(
            command, env=environment(threads, transport), stdout=subprocess.PIPE, text=True
        )
        for command in commands
    ]
    texts = [one.communicate(timeout=300)[0] for one in running]
    if any(one.returncode for one in running):
        raise SystemExit(f"{' '.join(commands[0])} failed")
    return json.loads(next(line for line in texts[0].splitlines() if line.startswith("{")))


def one_round(seconds: float, has_mpi: bool, has_torch: bool) -> dict[str, dict[str, Any]]:
    """All kinds of processes, each once."""
    ours, torch = str(HERE / "parallel_ranks.py"), str(HERE / "parallel_torch.py")
    python, amount = sys.executable, str(seconds)
    found = {
        "alone": printed([python, ours, "alone", amount], threads=1),
        "both at once": printed(*[[python, ours, "alone", amount]] * 2, threads=1),
        "threads": printed([python, ours, "ranks", amount], threads=2),
    }
    if has_mpi:
        run = [python, "-m", "chainrule", "run", "-n", "2"]
        found["processes"] = printed([*run, ours, "ranks", amount], threads=1)
        found["messages"] = printed([*run, ours, "ranks", amount], threads=1, transport="mpi")
    if has_torch:
        found["torch alone"] = printed([python, torch, "alone", amount], threads=1)
        with tempfile.TemporaryDirectory() as folder:
            commands = [
                [python, torch, "ranks", amount, str(rank), "2", str(Path(folder, "meeting"))]
                for rank in range(2)
            ]
            found["torch"] = printed(*commands, threads=1)
    return found


def figures(found: dict[str, dict[str, Any]]) -> Figures:
    """The ratios of one round."""
    at = {
        kind: {name: median(times) for name, times in one["seconds"].items()}
        for kind, one in found.items()
    }
    told, alone = found["threads"]["told"], at["alone"]
    made: Figures = {}
    for kind in ("threads", "processes"):
        if kind not in at:
            continue
        for name, taken in at[kind].items():
            made[f"{kind}: {name}, ms"] = 1e3 * taken
            schedule = name.removeprefix("pipeline, ")
            if schedule in SCHEDULES:
                ideal = IDEAL * alone[f"mlp in {PARTS} parts"]
                made[f"{kind}: {name}, of the ideal"] = taken / ideal
                peer = f"pipeline, {TORCH[schedule]}"
            else:
                whole = alone[name.removeprefix("replicas of the ")]
                made[f"{kind}: {name}, times one rank"] = whole / taken
                peer = name
            if "torch" in at:
                made[f"{kind}: {name}, torch's time"] = at["torch"][peer] / taken
    for name, one in told.items():
        measured = at["threads"][name]
        made[f"threads: {name}, predicted / measured"] = one["predicted"] / measured
        known = one["predicted of a known processor"]
        made[f"threads: {name}, predicted of a known processor / measured"] = known / measured
    for name, one in found.get("messages", {"told": {}})["told"].items():
        if "hidden" in one:  # elsewhere updates add the gradients themselves
            made[f"messages: {name}, ms"] = 1e3 * at["messages"][name]
            made[f"messages: {name}, hidden"] = one["hidden"]
    for name, taken in at["both at once"].items():
        made[f"both at once: {name}, times as long"] = taken / alone[name]
    for kind in ("alone", "torch alone", "torch"):
        for name, taken in at.get(kind, {}).items():
            made[f"{kind}: {name}, ms"] = 1e3 * taken
    return made


def is_reached(name: str, value: float) -> bool | None:
    """Whether a figure is what it must be; None where nothing is asked of it."""
    of_mlp = "replicas of the mlp" in name
    if name.endswith("of the ideal"):
        return value <= NEAR_IDEAL if ": pipeline, 1f1b" in name else None
    if name.endswith("times one rank"):
        return None if of_mlp else value >= REPLICAS
    if name.endswith("torch's time"):
        return value >= 1
    if name.endswith(", predicted / measured"):
        return abs(value - 1) <= PREDICTED if "transformer" not in name else None
    if name.endswith("hidden"):
        return value >= HIDDEN if of_mlp else None
    return None


def processor() -> str:
    """Its name, how many there are, and whether it has AVX-512."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    known = {name.strip(): value.strip() for name, value in lines.items()}
    has = "with" if "avx512f" in known.get("flags", "").split() else "without"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    return (
        f"{known.get('model name', 'unknown processor')}, {os.cpu_count()} processors, {has} "
        f"AVX-512, CHAINRULE_WITHOUT={os.environ.get('CHAINRULE_WITHOUT', '')!r}, load {load:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each process, about")
    parser.add_argument("--json", help="where to write the figures of each round")
    options = parser.parse_args()
    print(processor(), flush=True)
    has_torch = importlib.util.find_spec("torch") is not None
    has_mpi = importlib.util.find_spec("mpi4py") is not None
    try:
        mpiexec()
    except InputError:
        has_mpi = False
    for missing in [name for name, there in (("MPI", has_mpi), ("torch", has_torch)) if not there]:
        print(f"{missing} is missing: nothing is measured with it")
    rounds = [
        figures(one_round(options.seconds, has_mpi, has_torch)) for _ in range(options.rounds)
    ]
    if options.json:
        Path(options.json).write_text(json.dumps(rounds, indent=1))
    missed = 0
    for name in rounds[0]:
        values = [one[name] for one in rounds]
        value = median(values)
        reached = is_reached(name, value)
        missed += reached is False
        words = "" if reached is None else "  reached" if reached else "  MISSED"
        spread = f"{min(values):8.2f} to {max(values):.2f}"
        print(f"{name:75} {value:8.2f} {spread}{words}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()

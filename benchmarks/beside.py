"""What other libraries in the same process cost a training step: torch, jax, and mkl.

    python benchmarks/beside.py [--cases mlp-small mlp-medium transformer-adamw] [--rounds 5]
                                [--threads 2]

torch and jax were used before, and mkl is loaded.  Fresh processes in turns, alone and beside;
prints medians, their ratio (aim: 1.0), the ratio of the best, and how many threads were busy.
A library that is not installed is left out, and the line says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent
BUSY = 0.15  # of the processor time of the busiest thread
PROGRAM = """
import ctypes, glob, importlib, json, os, sys, time
from statistics import median

beside, case_name, threads = json.loads(sys.argv[1])
used = []
for name in beside:
    try:
        if name == "mkl":
            ctypes.CDLL(glob.glob(sys.prefix + "/lib/libmkl_rt.so*")[0])
        else:
            library = importlib.import_module({"jax": "jax.numpy"}.get(name, name))
            float((library.ones((300, 300)) @ library.ones((300, 300)))[0, 0])
        used.append(name)
    except (ImportError, IndexError):
        pass

from cases.case import Settings
from worker import case_called

def seconds_of_threads():
    found = {}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/schedstat") as file:
                found[task] = int(file.read().split()[0]) / 1e9
        except OSError:
            continue
    return found

case = case_called(case_name)
build = next(iter(case.variants["chainrule"].values()))
call = build(case.problem(), Settings("native", threads)).call
end = time.perf_counter() + 0.3
while time.perf_counter() < end:
    call()
before, samples, end = seconds_of_threads(), [], time.perf_counter() + 1.5
while time.perf_counter() < end:
    begin = time.perf_counter()
    call()
    samples.append(time.perf_counter() - begin)
spent = [after - before.get(task, 0) for task, after in seconds_of_threads().items()]
print(json.dumps([median(samples), spent, used]))
"""


def measured(beside: list[str], case: str, threads: int) -> tuple[float, int, list[str]]:
    """Seconds of a step, how many threads were busy, and which libraries were there."""
    variables = {**os.environ, "CHAINRULE_NUM_THREADS": str(threads), "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, json.dumps([beside, case, threads])]
    done = subprocess.run(command, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    seconds, spent, used = json.loads(done.stdout.strip().splitlines()[-1])
    return seconds, sum(one > BUSY * max(spent) for one in spent), used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cases", nargs="+", default=["mlp-small", "mlp-medium", "transformer-adamw"]
    )
    parser.add_argument("--rounds", type=int, default=5, help="processes of each kind [5]")
    parser.add_argument("--threads", type=int, default=2, help="of the step [2]")
    asked = parser.parse_args()
    for case in asked.cases:
        alone, beside = [], []
        for _ in range(asked.rounds):
            alone.append(measured([], case, asked.threads))
            beside.append(measured(["torch", "jax", "mkl"], case, asked.threads))
        seconds = [[one for one, _, _ in kind] for kind in (alone, beside)]
        busy = [max(count for _, count, _ in kind) for kind in (alone, beside)]
        first, second = map(median, seconds)
        best = min(seconds[1]) / min(seconds[0])
        print(
            f"{case}: alone {1e6 * first:,.1f} µs, {busy[0]} threads busy; "
            f"beside {', '.join(beside[0][2]) or 'nothing, which is installed'} "
            f"{1e6 * second:,.1f} µs, {busy[1]} threads busy; "
            f"ratio {second / first:.2f}, of the best {best:.2f}"
        )


if __name__ == "__main__":
    main()

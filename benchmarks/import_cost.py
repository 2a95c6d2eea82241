"""What `import chainrule` costs a program that has imported NumPy, in fresh interpreters.

    python benchmarks/import_cost.py [--runs 11]

Prints the median and the best in seconds, NumPy's own import beside them (aim: 0.15 s).
"""

import argparse
import statistics
import subprocess
import sys

PROGRAM = """
import time
begin = time.perf_counter()
import numpy
middle = time.perf_counter()
import chainrule
print(middle - begin, time.perf_counter() - middle)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=11, help="interpreters to start [11]")
    rows = []
    for _ in range(parser.parse_args().runs):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
        )
        rows.append([float(one) for one in done.stdout.split()])
    for name, seconds in zip(("numpy", "chainrule"), zip(*rows, strict=True), strict=True):
        print(f"{name:10} median {statistics.median(seconds):.3f} s, best {min(seconds):.3f} s")


if __name__ == "__main__":
    main()

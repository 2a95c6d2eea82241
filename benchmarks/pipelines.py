"""How long pipelines wait: the published rates of Qi and others, arXiv 2401.10241, and ours.

    python benchmarks/pipelines.py [--seconds 60]

Numbers, rates and memory of the published models are those of tests/plan/pipelines.  Each cell is
"published: ours", in percent of the time; in brackets our memory in units of a micro-batch.
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

from chainrule.plan import pipeline

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "plan" / "pipelines"))
from published_rates import PUBLISHED

COLUMNS = ("1F1B", "1F1B-I", "ZB-H1", "ZB-H2", "ZB-1p", "ZB-2p")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="of each search, at most")
    options = parser.parse_args()
    print("| p | m | F, µs |", " | ".join(COLUMNS), "| ZB-2p at least | seconds |")
    print("|---" * (len(COLUMNS) + 5) + "|")
    for row in PUBLISHED:
        p, m, f = row.numbers[:3]
        asked = {
            "1F1B": {"schedule": "1f1b"},
            "1F1B-I": {"schedule": "interleaved", "chunks": row.chunks},
            "ZB-H1": {"schedule": "zb-h1"},
            "ZB-H2": {"schedule": "zb-h2"},
        }
        for times in (1, 2):
            limit = {"memory_units": times * p, "kept_units": row.kept_units}
            asked[f"ZB-{times}p"] = {"schedule": "search", "seconds": options.seconds, **limit}
        cells, begin = [], perf_counter()
        for name, published in zip(COLUMNS, row.rates, strict=True):
            found = pipeline(*row.numbers, **asked[name])
            units = max(found.peak_units)
            cells.append(f"{100 * published:.2f}: {100 * found.bubble:.2f} ({units:.4g})")
        cells += [f"{100 * found.lower_bound_bubble:.2f}", f"{perf_counter() - begin:.1f}"]
        print(f"| {p} | {m} | {f} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()

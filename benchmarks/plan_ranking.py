"""The ten best plans of a search, in their predicted order, beside the times that they take.

    python benchmarks/plan_ranking.py [--rounds 3] [--seconds 12] [--json FILE]

Two ranks, which are threads of a process, on two cores; some two minutes.  Each round is a fresh
process for each model, which searches with the measured speeds of its processor, and takes steps by
the plans in turns.  A plan's place is the number of others that take less by more than 3 %.  The
ranking is right in its first three if these have places below three; the status is 1 where it is
not.  Plans are printed with predicted and measured milliseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

CLOSE = 0.03  # times as near as this are the same
FIRST = 3
MODELS = ("mlp", "transformer")


def places(measured: Sequence[float]) -> list[int]:
    """For each plan, how many others are clearly quicker."""
    return [sum(other < one * (1 - CLOSE) for other in measured) for one in measured]


def is_right(measured: Sequence[float]) -> bool:
    """Whether the plans that come first are among the quickest: `measured` is in predicted
    order."""
    return all(place < FIRST for place in places(measured)[:FIRST])


def regret(measured: Sequence[float]) -> float:
    """How many times as long the first plan takes as the quickest."""
    return measured[0] / min(measured)


def measure(model: str, seconds: float) -> dict[str, Any]:
    """The plans of a search, with predicted seconds, and those measured in turns."""
    import parallel_ranks as cases

    import chainrule as cr

    if model == "mlp":
        step = cr.training_step(cases.mlp, ("W1", "W2", "W3", "W4"), cr.sgd(0.1))
        (weights, batch), rows = cases.mlp_arrays(), cases.ROWS
    else:
        step, rows = cases.transformer_step(), cases.BATCH
        weights, batch = cases.transformer_arrays()
    devices = cr.Devices.cpu(2, speeds=cr.measured_speeds())
    found: Any = cr.parallel(step, devices, batch=rows)
    plans = list(found.candidates)
    jobs = {}
    for number, one in enumerate(plans):
        split = cr.parallel(
            step,
            micro_batches=one.micro_batches,
            stages=one.stages,
            replicas=one.replicas,
            ways=one.ways,
            schedule=one.schedule,
            chunks=one.chunks if one.chunks > 1 else None,
            recompute=one.recompute,
            shard_optimizer=one.shard,
        )
        state = split.init(weights)
        jobs[str(number)] = lambda split=split, state=state: split(state, batch)
    times = cases.in_turns(jobs, seconds)
    return {
        "plans": [one.words for one in plans],
        "predicted": [one.seconds for one in plans],
        "measured": [median(times[str(number)]) for number in range(len(plans))],
    }


def told(model: str, rounds: Sequence[dict[str, Any]]) -> tuple[list[str], bool]:
    """The plans as lines, by the medians of rounds that found the same plans; whether their ranking
    is right."""
    first = rounds[0]
    alike = [one for one in rounds if one["plans"] == first["plans"]]
    predicted, measured = (
        [median(values) for values in zip(*(one[name] for one in alike), strict=True)]
        for name in ("predicted", "measured")
    )
    lines = [f"{model}, {len(alike)} of {len(rounds)} rounds found the same plans"]
    for number, words in enumerate(first["plans"]):
        lines.append(
            f"{number + 1:3} {words:66} {1e3 * predicted[number]:8.1f} ms predicted"
            f"{1e3 * measured[number]:8.1f} measured, place {places(measured)[number] + 1}"
        )
    right = is_right(measured)
    words = "right" if right else "WRONG"
    lines.append(
        f"    the first {FIRST} are {words}; the first takes {regret(measured):.2f} times as long "
        f"as the quickest; predicted / measured {median(predicted) / median(measured):.2f}"
    )
    return lines, right


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12.0, help="of each process, about")
    parser.add_argument("--json", help="where to write the figures of each round")
    parser.add_argument("--model", choices=MODELS, help=argparse.SUPPRESS)  # of one process
    options = parser.parse_args()
    if options.model:
        print(json.dumps(measure(options.model, options.seconds)), flush=True)
        return
    from parallel import printed, processor

    print(processor(), flush=True)
    found: dict[str, list[dict[str, Any]]] = {model: [] for model in MODELS}
    for _ in range(options.rounds):
        for model in MODELS:
            command = [sys.executable, __file__, "--model", model, "--seconds"]
            found[model].append(printed([*command, str(options.seconds)], threads=2))
    if options.json:
        Path(options.json).write_text(json.dumps(found, indent=1))
    wrong = 0
    for model, rounds in found.items():
        lines, right = told(model, rounds)
        wrong += not right
        print("\n".join(lines))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

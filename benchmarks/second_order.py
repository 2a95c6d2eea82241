"""What second derivatives take: nodes, operations and time of a network's objective, its gradient,
a Hessian-vector product and the whole Hessian.

    python benchmarks/second_order.py [--rounds 15]

Everything is compiled, and called again and again on the same float32 arrays; the Hessian in parts
is traced anew at each call, as a user calls it.  Prints one table in Markdown for each network:
operations are counted (`graph.cost`), seconds are the median of the medians of all rounds.
"""

import argparse
import platform
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measure import Timing, turn_seconds

import chainrule as cr

NETWORKS = {  # examples, inputs, hidden units, classes
    "small": (32, 20, 64, 10),
    "digits": (256, 64, 32, 10),
}
ROWS = 64


def objective(params: Any, x: Any, y: Any) -> Any:
    h = np.maximum(x @ params["W1"], 0)
    o = h @ params["W2"]
    L = cr.cross_entropy(o, y)
    s = 5e-4 * (np.sum(params["W1"] ** 2) + np.sum(params["W2"] ** 2))
    J = L + s
    return J


def product(params: Any, x: Any, y: Any, v: Any) -> Any:
    """The Hessian times v."""
    return cr.hvp(lambda params: objective(params, x, y), params, v)


def arrays(n: int, d: int, h: int, q: int) -> tuple[Any, ...]:
    """Parameters, examples, labels and a direction."""
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return (random.normal(size=shape) / shape[0] ** 0.5).astype(np.float32)

    params, v = ({"W1": normal(d, h), "W2": normal(h, q)} for _ in range(2))
    return params, normal(n, d), random.integers(0, q, n), v


def measured(sizes: tuple[int, ...], rounds: int) -> list[tuple[str, int, int, float]]:
    """What is computed, its nodes, operations and seconds."""
    params, x, y, v = arrays(*sizes)
    programs = {
        "objective": (objective, (params, x, y)),
        "gradient": (cr.grad(objective), (params, x, y)),
        "Hessian times a vector": (product, (params, x, y, v)),
        "Hessian": (cr.hessian(objective), (params, x, y)),
    }
    graphs = {name: cr.trace(f, *args) for name, (f, args) in programs.items()}
    nodes = {name: len(graph.nodes) for name, graph in graphs.items()}
    flops = {name: int(graph.cost().flops) for name, graph in graphs.items()}
    calls = {}
    for name, (f, args) in programs.items():
        compiled = cr.compile(f)
        calls[name] = lambda compiled=compiled, args=args: compiled(*args)
    name = f"Hessian, rows={ROWS}"
    in_parts = cr.hessian(objective, rows=ROWS)
    bill = in_parts.cost(params, x, y)
    nodes[name], flops[name] = len(bill.graph.nodes), bill.flops
    calls[name] = lambda: in_parts(params, x, y)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            seconds[name].append(turn_seconds(call, Timing()))
    return [(name, nodes[name], flops[name], median(seconds[name])) for name in calls]


def table(rows: list[tuple[str, int, int, float]]) -> str:
    """The rows in Markdown, with ratios to the first."""
    lines = ["| | nodes | operations | of the objective's | time | of the objective's |"]
    lines.append("|---|--:|--:|--:|--:|--:|")
    _, _, least, shortest = rows[0]
    for name, nodes, flops, seconds in rows:
        ratios = _ratio(flops / least), _ratio(seconds / shortest)
        shown = f"{seconds * 1e6:,.0f} µs" if seconds < 1e-3 else f"{seconds * 1e3:,.1f} ms"
        lines.append(f"| {name} | {nodes} | {flops:,} | {ratios[0]} | {shown} | {ratios[1]} |")
    return "\n".join(lines)


def _ratio(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def processor() -> str:
    """The name of the processor, where the system says it."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} CPUs" if names else platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"{processor()}; NumPy {np.__version__}; {rounds} rounds")
    for name, sizes in NETWORKS.items():
        n, d, h, q = sizes
        print(f"\n{name}: n = {n}, d = {d}, h = {h}, q = {q}, {d * h + h * q:,} parameters\n")
        print(table(measured(sizes, rounds)))


if __name__ == "__main__":
    main()

"""What tracing and differentiating cost for each forward node, and whether that stays linear.

    python benchmarks/trace_cost.py [--json FILE]

Programs: a chain, a wide sum, a ladder of diamonds and a stack of transformer blocks, with real
names on, with named sizes and with concrete ones, at growing lengths.  A forward node is one
applied operation (inputs and constants are not counted).  Prints the median of several runs in
microseconds for each forward node, and the ratio of the longest program's to the shortest's.
"""

import argparse
import gc
import json
import statistics
import time
from typing import Any

import numpy as np

import chainrule as cr

n = cr.size("n")


def chain(x: cr.float32[n, 4], length: int):
    for _ in range(length // 2):
        h = np.tanh(x)
        x = h * 0.5
    J = np.sum(x)
    return J


def wide(x: cr.float32[n, 4], length: int):
    total = x
    for _ in range(length // 2):
        h = np.sin(x)
        total = total + h
    J = np.sum(total)
    return J


def diamonds(x: cr.float32[n, 4], length: int):
    for _ in range(length // 3):
        left = np.exp(x)
        right = np.cos(x)
        x = left * right
    J = np.sum(x)
    return J


def attention(x, Wq, Wk, Wv, Wo):
    q, k, v = x @ Wq, x @ Wk, x @ Wv
    scores = q @ np.swapaxes(k, -1, -2) / 8.0
    weights = cr.softmax(scores)
    out = weights @ v @ Wo
    return out


def transformer(x: cr.float32[n, 16, 64], W: cr.float32[64, 64], length: int):
    for _ in range(length // 75):
        a = x + attention(cr.layer_norm(x), W, W, W, W)
        hidden = cr.gelu(cr.layer_norm(a) @ W)
        x = a + hidden @ W
    J = np.mean(x * x)
    return J


PROGRAMS = (chain, wide, diamonds, transformer)


def forward_nodes(graph):
    """The number of applied operations."""
    return sum(1 for node in graph.nodes if node.inputs)


def seconds(function, repeats):
    """The median time of a call, and its last result."""
    times = []
    result: Any = None
    for _ in range(repeats):
        result = None
        gc.collect()
        begin = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - begin)
    return statistics.median(times), result


def measure(program, length, concrete, repeats=5):
    """Microseconds for each forward node, of trace and of backward."""
    examples = {"length": length}
    if concrete:
        examples["x"] = np.zeros((8, 16, 64) if program is transformer else (8, 4), np.float32)
    traced, graph = seconds(lambda: cr.trace(program, **examples), repeats)
    differentiated, step = seconds(lambda: cr.backward(graph, wrt="x"), repeats)
    count = forward_nodes(graph)
    return {
        "program": program.__name__,
        "sizes": "concrete" if concrete else "named",
        "forward_nodes": count,
        "all_nodes": len(step),
        "trace_us": traced / count * 1e6,
        "backward_us": differentiated / count * 1e6,
    }


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", help="also write the rows to this file")
    parser.add_argument("--lengths", type=int, nargs="+", default=[2000, 6000, 20000])
    options = parser.parse_args()
    rows = []
    print(
        f"{'program':<12} {'sizes':<9} {'forward':>8} {'all':>8} "
        f"{'trace µs':>9} {'backward µs':>12}"
    )
    for program in PROGRAMS:
        for concrete in (True, False):
            own = [measure(program, length, concrete) for length in options.lengths]
            for row in own:
                print(
                    f"{row['program']:<12} {row['sizes']:<9} {row['forward_nodes']:>8} "
                    f"{row['all_nodes']:>8} {row['trace_us']:>9.1f} {row['backward_us']:>12.1f}"
                )
            ratios = [own[-1][key] / own[0][key] for key in ("trace_us", "backward_us")]
            print(f"{'':<12} longest / shortest: {ratios[0]:.2f} {ratios[1]:.2f}")
            rows += own
    worst = {key: max(row[key] for row in rows) for key in ("trace_us", "backward_us")}
    print(f"worst: trace {worst['trace_us']:.1f} µs, backward {worst['backward_us']:.1f} µs a node")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()

"""What planning costs, and whether that stays linear.

    python benchmarks/plan_cost.py

Forward and backward propagation of the programs of `trace_cost.py`, at sizes that are integers:
seconds of processor time for a plan of about 2,000 and of about 20,000 nodes, the best of three.
"""

import time
from typing import Any

import trace_cost

import chainrule as cr
from chainrule.plan.planner import plan

PROGRAMS = (trace_cost.chain, trace_cost.wide, trace_cost.diamonds, trace_cost.transformer)
LENGTHS = (700, 7000)  # forward nodes; with the backward pass about three times as many


def graph_of(program: Any, length: int) -> cr.Graph:
    """Forward and backward propagation of a program of this length."""
    forward = cr.trace(program, length=length).bind(n=4)
    wrt = [item.name for item in forward.inputs if item.default is None]
    return cr.backward(forward, wrt=wrt)


def seconds(graph: cr.Graph) -> float:
    """The least of three."""
    results = [node for _, node in graph.outputs]
    taken = []
    for _ in range(3):
        begin = time.process_time()
        plan(graph, results)
        taken.append(time.process_time() - begin)
    return min(taken)


def main() -> None:
    print(f"{'program':<14}{'nodes':>10}{'seconds':>10}{'µs a node':>12}")
    for program in PROGRAMS:
        for length in LENGTHS:
            graph = graph_of(program, length)
            found = seconds(graph)
            each = 1e6 * found / len(graph)
            print(f"{program.__name__:<14}{len(graph):>10,}{found:>10.2f}{each:>12.1f}")


if __name__ == "__main__":
    main()

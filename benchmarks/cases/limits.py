"""Yardsticks: what a computation cannot do without, its matrix products or its memory traffic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from .case import Prepared, Problem, Settings
from .training import chainrule_step


def products_alone(step: Any) -> Any:
    """The plan of a training step (of concrete sizes) with nothing but its products, by BLAS."""
    from chainrule.execute.native.runtime.pool import thread_count
    from chainrule.plan.planner import plan
    from chainrule.plan.work import ProductWork

    graph = step.graph
    after = {part.name: graph.names[part.next_name] for part in step.persistent}
    overwrites = {graph.input(name).node: node for name, node in after.items()}
    results = [node for _, node in graph.outputs]
    # For vectors of 16 bytes no product is computed in tiles.
    whole = plan(graph, results, overwrites, threads=thread_count(), vector_nbytes=16)
    written = [pair for one in whole.computes for pair in zip(one.nodes, one.into, strict=True)]
    pairs = zip(whole.computes, whole.works, strict=True)
    products = [(one, work) for one, work in pairs if isinstance(work, ProductWork)]
    schedule = replace(
        whole.schedule,
        instructions=tuple(one for one, _ in products),
        given={**whole.schedule.given, **dict(written)},
        results=(),
    )
    return replace(whole, schedule=schedule, works=tuple(work for _, work in products))


def matrix_products(step: Any) -> Callable[[], None]:
    """A call that does the matrix products of a training step, and nothing else.

    They are those of its plan, with their scale factors, by BLAS and shared between the same
    threads; what lies between them is left out, and the memory holds small numbers.
    """
    from chainrule.execute.native.artifact import artifact_of
    from chainrule.execute.native.runtime.machine import Machine, address_of
    from chainrule.machine_code.target import host_target

    alone = products_alone(step)
    machine = Machine(artifact_of(alone, {}, host_target()))
    context = machine.new_context()
    random = np.random.default_rng(0)
    numbers = context.scratch.size // 4
    context.scratch[: 4 * numbers].view(np.float32)[:] = random.random(numbers, np.float32) * 0.01
    arrays = []
    given = [n for n, one in alone.schedule.given.items() if one.arena.startswith("given")]
    for slot, node in enumerate(dict.fromkeys(given), machine.first_array):
        if slot < machine.first_array + len(machine.artifact.arenas):
            # Rates next to nothing: parameters that were updated thousands of times with numbers
            # that mean nothing would end as infinities, which are multiplied more slowly.
            scale = 0.01 if node.shape else 1e-15
            arrays.append(np.asarray(random.random(node.shape) * scale, node.dtype))
            context.slots[slot] = address_of(arrays[-1])

    def run() -> None:
        assert arrays  # they stay alive with this function
        machine.call(step.graph, context)

    return run


def matrix_products_seconds(step: Any, repeats: int = 20) -> float:
    """The median seconds that the matrix products of a training step take alone."""
    run = matrix_products(step)
    taken = []
    for _ in range(repeats + 2):
        begin = perf_counter()
        run()
        taken.append(perf_counter() - begin)
    return median(taken[2:])


def matrix_products_of(problem: Problem, settings: Settings, *, objective: Any) -> Prepared:
    """The yardstick: the products of the step that `objective` and the problem's arrays give."""
    import chainrule as cr

    step, _ = chainrule_step(problem, objective, cr.sgd(0.1), "reference", examples=True)
    return Prepared(matrix_products(step), lambda _: {})


def copy_of_same_bytes(problem: Problem, settings: Settings, *, arrays_moved: int) -> Prepared:
    """Reads and writes together as many bytes as `arrays_moved` arrays like the problem's first.

    By PyTorch's copy_, which divides it among the threads.
    """
    import torch

    size = next(iter(problem.arrays.values())).size * arrays_moved // 2
    source, target = torch.ones(size), torch.zeros(size)
    return Prepared(lambda: target.copy_(source), lambda _: {})

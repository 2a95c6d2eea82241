"""Training steps of `executor="xla"` within budgets of bytes, beside `jax.checkpoint` by our plan.

    python benchmarks/xla_budgets.py [--programs mlp transformer] [--parts 0.8 0.6 0.4 0.2]
                                     [--rounds 8]

A part is of the scratch memory that XLA takes without a budget.  The other way differentiates the
same forward nodes by JAX, all of it one `jax.checkpoint` that saves the values our plan keeps; once
as JAX compiles it, and once with barriers kept on a CPU.  All take turns; bytes are XLA's own,
times medians over that of the step without a budget.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from budget_programs import Program, mlp, transformers

from chainrule.errors import MemoryLimitError
from chainrule.execute.executors import in_memory
from chainrule.execute.xla.foreign import Foreign
from chainrule.execute.xla.jax_here import OPTIONS, jax_here, keeping_barriers, tracing, wide
from chainrule.execute.xla.memory import RESULTS, SCRATCH, analysed
from chainrule.execute.xla.tracing import Space
from chainrule.execute.xla.within import ProgramWithin, XlaWithin
from chainrule.graph.graph import Graph
from chainrule.graph.node import topological
from chainrule.graph.parts import Input
from chainrule.plan.work import Work
from chainrule.primitives.sources import constant

PROGRAMS: dict[str, Callable[[], Program]] = {
    "mlp": lambda: mlp(50, 256, 512),
    "transformer": lambda: transformers(4, 128, 64, 16),
}
MB = 1e6


class Steps:
    """The step of a program on the device, compiled in several ways."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.plain = program.step(executor="xla")
        bound = self.plain.graph.bound({"n": program.rows})
        self.graph = in_memory("xla", bound, self.plain.results)
        self.results, self.overwrites = self.plain.results(self.graph)
        found = self.plain.memory(n=program.rows).compiled
        self.scratch = found[SCRATCH]
        self.others = found["arguments"] + found[RESULTS] - found["in place of arguments"]

    def within(self, part: float) -> tuple[int, Any, list[Work]]:
        """The scratch memory of the step within a budget, what takes steps, and its works."""
        nbytes = self.others + int(self.scratch * part)
        step = self.program.step(executor="xla", memory=nbytes)
        made = XlaWithin(nbytes).prepare(self.graph, self.results, self.overwrites)
        assert isinstance(made, ProgramWithin)
        chosen = made.chosen_for(*made.in_place)
        return chosen.code.nbytes[SCRATCH], stepping(step, self.program), list(chosen.works)

    def by_checkpoint(self, works: list[Work], options: Mapping[str, Any]) -> tuple[int, Any]:
        """The same by JAX's derivative, which saves what these works keep for the way back."""
        from jax.ad_checkpoint import checkpoint_name

        jax = jax_here()
        objective = self.graph[self.plain.objective]
        forward = topological([objective])
        numbers = {node: str(place) for place, node in enumerate(forward)}
        written = [node for work in works for node in work.writes]
        kept = [numbers[x] for x in forward if written.count(x) == 1 and x is not objective]
        inputs = {item.name: item.node for item in self.graph.inputs}
        names = list(self.plain.parameters)
        state = self.plain.init(params=self.program.params)
        batch = {inputs[name]: array for name, array in self.program.batch.items()}
        held = [state[name] for name in names]
        known = {x.node: np.asarray(x.default, x.type.dtype) for x in defaults_of(self.graph)}
        known |= {x: x.param("value").array for x in forward if x.primitive is constant}

        def loss(parameters: Any, batch: Any) -> Any:
            space = Space(Foreign())
            found = {**known, **dict(zip(batch_nodes, batch, strict=True))}
            found |= {inputs[name]: one for name, one in zip(names, parameters, strict=True)}
            for node in forward:
                if node not in found:
                    space.evaluate([node], found)
                    found[node] = checkpoint_name(found[node], numbers[node])
            return found[objective]

        batch_nodes = list(batch)
        policy = jax.checkpoint_policies.save_only_these_names(*kept)

        def step(parameters: Any, batch: Any) -> Any:
            with tracing():
                J, found = jax.value_and_grad(jax.checkpoint(loss, policy=policy))(
                    parameters, batch
                )
                rate = np.float32(1e-3)
                return J, [x - rate * g for x, g in zip(parameters, found, strict=True)]

        with wide():
            held = [jax.device_put(one, may_alias=False) for one in held]
            given = list(batch.values())
            options = {**OPTIONS, **options}
            jitted = jax.jit(step, donate_argnums=0, compiler_options=options)
            compiled = jitted.lower(held, given).compile()

        def call() -> float:
            nonlocal held
            with wide():
                J, held = compiled(held, given)
                return float(J)

        return analysed(compiled)[SCRATCH], call


def defaults_of(graph: Graph) -> list[Input]:
    return [item for item in graph.inputs if item.default is not None]


def stepping(step: Any, program: Program) -> Callable[[], float]:
    state = step.init(params=program.params)
    return lambda: float(step(state, program.batch))


def rows(name: str, parts: list[float], rounds: int) -> None:
    steps = Steps(PROGRAMS[name]())
    calls = {"plain": stepping(steps.plain, steps.program)}
    nbytes: dict[str, int] = {"plain": steps.scratch}
    for part in parts:
        try:
            nbytes[f"ours {part}"], calls[f"ours {part}"], works = steps.within(part)
        except MemoryLimitError as error:
            print(f"{name} {part:.0%}: {error.what.splitlines()[0]}")
            continue
        for what, options in (("jax", {}), ("barriers", keeping_barriers())):
            key = f"{what} {part}"
            nbytes[key], calls[key] = steps.by_checkpoint(works, options)
    objectives = {key: [call() for _ in range(2)] for key, call in calls.items()}
    for found in objectives.values():
        np.testing.assert_allclose(found, objectives["plain"], rtol=1e-5)
    taken: dict[str, list[float]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key, call in calls.items():
            begin = perf_counter()
            call()
            taken[key].append(perf_counter() - begin)
    plain = median(taken["plain"])
    print(f"{name}: {steps.scratch / MB:.2f} MB of scratch, {plain * 1e3:.1f} ms")
    for part in parts:
        line = f"  {part:4.0%} {steps.scratch * part / MB:8.2f} MB"
        for what in ("ours", "jax", "barriers"):
            key = f"{what} {part}"
            if key in calls:
                line += f"  {what} {nbytes[key] / MB:7.2f} MB {median(taken[key]) / plain:5.2f}×"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", nargs="*", default=[*PROGRAMS], choices=[*PROGRAMS])
    parser.add_argument("--parts", nargs="*", type=float, default=[0.8, 0.6, 0.4, 0.2])
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    for name in options.programs:
        rows(name, options.parts, options.rounds)


if __name__ == "__main__":
    main()

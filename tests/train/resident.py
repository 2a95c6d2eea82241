"""What a process really takes while it runs within a budget: a line of JSON.

    python resident.py EXECUTOR PROGRAM SHARE [LEAST FULL]

PROGRAM is one of CASES, or "random program 3": the one that is drawn with this seed.  SHARE of the
bytes between LEAST, the least that a run needs, and FULL, what it needs without a budget, are the
budget; both are planned where they are not given.  The
process has run a small program of the same kind before, so that libraries and the compiler, which
do not count, are there.  What is measured is the most resident bytes of each of three calls, above
those before anything was planned.
"""

import ctypes
import gc
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from deep_programs import Deep, blocks, curved, deep, matrix

import chainrule as cr
from chainrule.errors import MemoryLimitError
from chainrule.execute.native.runtime import machine
from chainrule.explain.memory.report import memory_of_graph, memory_of_step

CALLS = 3


def convolutions(x: Any, kernels: Any) -> Any:
    for kernel in kernels:
        x = np.maximum(cr.conv2d(x, kernel, padding=1), 0)
    J = np.mean(x * x)
    return J


def convolutional(channels: int, size: int) -> Deep:
    shape = (channels, channels, 3, 3)
    kernels = [matrix(channels, channels * 9).reshape(shape) for _ in range(4)]
    return Deep(convolutions, "kernels", kernels, (channels, size, size))


def drawn(seed: int) -> Callable[[Any, Any], Any]:
    """A random objective: each layer reads two of the last values, in one of several ways."""

    def objective(x: Any, Ws: Any) -> Any:
        random = np.random.default_rng(seed)
        values = [x]
        for W in Ws:
            h, other = (values[-int(random.integers(1, min(4, len(values)) + 1))] for _ in "xy")
            match int(random.integers(7)):
                case 0:
                    z = np.tanh(h @ W) + other
                case 1:
                    z = cr.gelu(cr.layer_norm(h @ W)) * 0.5 + other
                case 2:
                    z = cr.softmax(h @ W) * other
                case 3:
                    z = np.maximum(h @ W, 0) - np.mean(other, axis=-1, keepdims=True)
                case 4:
                    z = np.sin(h @ W) * np.exp(-(other**2))
                case 5:
                    z = np.where(h > 0, h, other * 0.1) @ W
                case _:
                    z = h @ W / (1 + np.sum(other * other, axis=0))
            values.append(z)
        J = sum(np.mean(np.tanh(value)) for value in values[1:])
        return J

    return objective


class Case(NamedTuple):
    """A program, how many rows it is given, and a small one of its kind."""

    program: Deep
    rows: int
    small: Deep


def random_case(seed: int) -> Case:
    random = np.random.default_rng(seed)
    width, layers = int(random.integers(3, 9)) * 16, int(random.integers(5, 11))
    rows = (1 << 19) // width
    return Case(deep(layers, width, drawn(seed)), rows, deep(layers, 8, drawn(seed)))


CASES: dict[str, Callable[[], Case]] = {
    "few long layers": lambda: Case(deep(4, 128), 60_000, deep(3, 8)),
    "many layers": lambda: Case(deep(24, 256), 2_000, deep(3, 8)),
    "transformer": lambda: Case(blocks(3, 128, 64), 24, blocks(1, 8, 4)),
    "convolutions": lambda: Case(convolutional(16, 32), 32, convolutional(2, 8)),
    "second derivatives": lambda: Case(deep(4, 256, curved), 6_000, deep(2, 8, curved)),
    "gradients of a compiled graph": lambda: Case(deep(8, 200), 8_000, deep(3, 8)),
}
RANDOM = "random program "  # with a seed


class Prepared:
    """A step, or a compiled graph, of a program with so many rows."""

    def __init__(self, name: str, program: Deep, executor: str, memory: int | None) -> None:
        self.program = program
        self.options: dict[str, Any] = {"executor": executor, "memory": memory}
        self.made: Any = None  # a step or a graph
        if "compiled" in name:
            types = {"x": cr.float32["n", *program.row], program.name: program.parameters}
            self.made = cr.backward(cr.trace(program.objective, **types), wrt=program.name)
        else:
            self.made = program.step(**self.options)

    def report(self, rows: int) -> Any:
        options = self.options if isinstance(self.made, cr.Graph) else {}
        return self.made.memory(n=rows, **options)

    def calls(self, x: np.ndarray) -> Callable[[], Any]:
        made, parameters = self.made, self.program.parameters
        if isinstance(made, cr.Graph):
            compiled = made.compile(**self.options)
            return lambda: compiled.run({"x": x, self.program.name: parameters})
        state = self.program.state(made)
        return lambda: made(state, x=x)


def status(key: str) -> int:
    """Bytes of this process, by the system."""
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def most_of(call: Callable[[], Any]) -> int:
    """The most resident bytes during a call."""
    Path("/proc/self/clear_refs").write_text("5")
    call()
    return status("VmHWM")


def least_of(name: str, program: Deep, executor: str, rows: int) -> int:
    """Asked without the ways out that a refusal names: to plan these takes as long again."""
    prepared, sizes = Prepared(name, program, executor, 0), {"n": rows}
    made = prepared.made
    try:
        if isinstance(made, cr.Graph):
            memory_of_graph(made, sizes, **prepared.options)
        else:
            memory_of_step(made, sizes)
    except MemoryLimitError as error:
        return error.needed_nbytes
    raise AssertionError("nothing needs no memory")


def warm_up(name: str, small: Deep, executor: str) -> None:
    """Load what is needed to plan, to compile and to load compiled code."""
    full = Prepared(name, small, executor, None).report(8).needed_nbytes
    try:
        Prepared(name, small, executor, full - 256).report(8)
    except MemoryLimitError:
        pass
    kept = os.environ.get("CHAINRULE_CACHE")
    for switch in "01":
        os.environ["CHAINRULE_CACHE"] = switch
        Prepared(name, small, executor, 1 << 30).calls(small.batch(8))()
        machine._machines.clear()
    os.environ.pop("CHAINRULE_CACHE")
    if kept is not None:
        os.environ["CHAINRULE_CACHE"] = kept


def main(executor: str, name: str, share: float, *known: int) -> None:
    seed = name.removeprefix(RANDOM)
    case = CASES[name]() if seed == name else random_case(int(seed))
    program, rows = case.program, case.rows
    warm_up(name, case.small, executor)
    least, full = known or (
        least_of(name, program, executor, rows),
        Prepared(name, program, executor, None).report(rows).needed_nbytes,
    )
    memory = int(least + (full - least) * share)
    x = program.batch(rows)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = status("VmRSS") - x.nbytes
    if "compiled" in name:
        before -= sum(one.nbytes for one in program.parameters)
    prepared = Prepared(name, program, executor, memory)
    needed = prepared.report(rows).needed_nbytes
    call = prepared.calls(x)
    taken = [most_of(call) - before for _ in range(CALLS)]
    found = {"memory": memory, "least": least, "full": full, "needed": needed, "taken": taken}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), *map(int, sys.argv[4:]))

"""Training steps of `executor="xla"` beside the same step written by hand in JAX (jit, donated).

    python benchmarks/xla.py [--cases mlp-small conv scan ...] [--rounds 8] [--processes 6]
                             [--first-calls 3] [--executor xla]

In each fresh process the ways take turns, forth and back; six processes prepare them in each of
their orders, since where arrays lie may cost 5 %: what is prepared first is slower.  Prints the
median time of each, the median over processes of their median ratios of rounds, with the least and
the greatest, and how long the first call takes in fresh processes, with its ratio.  Both libraries
get the same NumPy batch in each call.  A step of ours gives the objective as a number of NumPy;
`JAX` only waits for its own, `number` makes a float of it, as a loop that prints it does, and
`sent` is JAX with its batch on the device before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import permutations
from math import factorial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from cases import CASES
from cases.case import Case, Problem, Settings
from cases.training import adam, training_variants

import chainrule as cr

HERE = Path(__file__).parent
PARTS = ("chainrule", "JAX", "sent")
WAYS = (*PARTS, "number")


def conv_objective(params, x, y):
    h = cr.relu(cr.conv2d(x, params["K1"], padding=1))
    h = cr.max_pool2d(h, 2)
    h = cr.relu(cr.conv2d(h, params["K2"], padding=1))
    o = np.mean(h, axis=(2, 3)) @ params["W"]
    J = cr.cross_entropy(o, y)
    return J


def jax_conv_objective(params, x, y):
    import jax
    import jax.numpy as jnp

    def conv(x, kernel):
        sides = ((1, 1), (1, 1))
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), sides)

    h = jax.nn.relu(conv(x, params["K1"]))
    window = (1, 1, 2, 2)
    h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, window, window, "VALID")
    h = jax.nn.relu(conv(h, params["K2"]))
    o = h.mean((2, 3)) @ params["W"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(o), y[:, None], axis=1))


def conv_problem(rows: int, channels: int, side: int) -> Problem:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32) / np.float32(3 * shape[-3] ** 0.5)

    params = {"K1": normal(channels, 3, 3, 3), "K2": normal(2 * channels, channels, 3, 3)}
    params["W"] = normal(1, 2 * channels, 10)[0]
    x = random.standard_normal((rows, 3, side, side), dtype=np.float32)
    return Problem({"x": x, "y": random.integers(0, 10, rows)}, params)


def scan_objective(params, xs, y):
    def cell(h, x):
        after = np.tanh(x @ params["Wx"] + h @ params["Wh"])
        return after, None

    h, _ = cr.scan(cell, np.zeros((xs.shape[1], params["Wh"].shape[0]), np.float32), xs)
    J = cr.cross_entropy(h @ params["Wo"], y)
    return J


def jax_scan_objective(params, xs, y):
    import jax
    import jax.numpy as jnp

    def cell(h, x):
        return jnp.tanh(x @ params["Wx"] + h @ params["Wh"]), None

    start = jnp.zeros((xs.shape[1], params["Wh"].shape[0]), jnp.float32)
    h, _ = jax.lax.scan(cell, start, xs)
    o = h @ params["Wo"]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(o), y[:, None], axis=1))


def scan_problem(length: int, rows: int, d: int, width: int) -> Problem:
    random = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return random.standard_normal(shape, dtype=np.float32) / np.float32(shape[0] ** 0.5)

    params = {"Wx": normal(d, width), "Wh": normal(width, width), "Wo": normal(width, 10)}
    xs = random.standard_normal((length, rows, d), dtype=np.float32)
    return Problem({"xs": xs, "y": random.integers(0, 10, rows)}, params)


def own_case(name: str, title: str, problem: Any, ours: Any, theirs: Any) -> Case:
    variants = training_variants(ours, theirs, {"jit": theirs}, adam(1e-3))
    return Case(name=name, title=title, problem=problem, variants=variants, trains=True)


OWN = (
    own_case(
        "conv",
        "two convolutions of 16 and 32 channels on 32×32, batch 32, Adam",
        partial(conv_problem, 32, 16, 32),
        conv_objective,
        jax_conv_objective,
    ),
    own_case(
        "scan",
        "a recurrent net of width 128 over 100 steps, batch 32, Adam",
        partial(scan_problem, 100, 32, 64, 128),
        scan_objective,
        jax_scan_objective,
    ),
)
ALL = {case.name: case for case in (*CASES, *OWN) if case.trains and "JAX" in case.variants}


def prepared(case: Case, part: str, executor: str) -> Any:
    if part == "chainrule":
        build = next(iter(case.variants[part].values()))
    else:
        build = partial(next(iter(case.variants["JAX"].values())), sent=part == "sent")
    return build(case.problem(), Settings(executor, len(os.sched_getaffinity(0))))


def in_turns(name: str, rounds: int, executor: str, number: int) -> dict[str, list[float]]:
    """Seconds of a step by way, a list with one for each round; the libraries have to agree.

    The parts are prepared in their order of this number.
    """
    from measure import Timing, alternate

    order = [*permutations(PARTS)][number]
    built = {part: prepared(ALL[name], part, executor) for part in order}
    one, *others = (part.as_numpy(part.call()) for part in built.values())
    for value, array in one.items():
        for other in others:
            np.testing.assert_allclose(array, other[value], rtol=2e-2, atol=2e-3, err_msg=value)
    calls = {part: built[part].call for part in order}
    by_hand = calls["JAX"]
    calls["number"] = lambda: float(by_hand())  # the same program and memory
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, found in alternate(calls, 1, Timing()).items():
            taken[way] += found
        calls = dict(reversed(calls.items()))
    return taken


def first_call(name: str, part: str, executor: str) -> float:
    """Seconds until the first step of one of them is done, after the imports."""
    from time import perf_counter

    import jax

    jax.numpy.zeros(2).block_until_ready()
    case = ALL[name]
    begin = perf_counter()
    prepared(case, part, executor).call()
    return perf_counter() - begin


def in_a_process(*request: Any) -> Any:
    command = [sys.executable, "-W", "ignore", str(HERE / "xla.py"), "--worker"]
    done = subprocess.run([*command, json.dumps(request)], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def ratio_text(ratios: Sequence[float]) -> str:
    """The median, and the least and the greatest."""
    return f" {median(ratios):6.3f} ({min(ratios):.2f} to {max(ratios):.2f})"


def line(name: str, rounds: int, processes: int, first_calls: int, executor: str) -> str:
    from measure import paired_ratio

    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    ratios: dict[str, list[float]] = {way: [] for way in WAYS[1:]}
    for number in range(processes):
        found = in_a_process("turns", name, rounds, executor, number % factorial(len(PARTS)))
        for way, seconds in found.items():
            taken[way] += seconds
        for way, of_processes in ratios.items():
            of_processes.append(paired_ratio(found[PARTS[0]], found[way]).median)
    first: Mapping[str, list[float]] = {part: [] for part in PARTS[:2]}
    for _ in range(first_calls):
        for part, calls in first.items():
            calls.append(in_a_process("first", name, part, executor))
    text = f"{name:18}" + "".join(f" {median(taken[way]) * 1e6:10.1f}" for way in WAYS)
    text += "".join(map(ratio_text, ratios.values()))
    if first_calls:
        a, b = (median(calls) for calls in first.values())
        text += f" {a:8.2f} {b:8.2f} {a / b:6.2f}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--cases", nargs="*", default=[*ALL], choices=[*ALL], metavar="CASE")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--first-calls", type=int, default=3)
    parser.add_argument("--executor", default="xla")
    options = parser.parse_args()
    if options.worker:
        kind, *rest = json.loads(options.worker)
        print(json.dumps({"turns": in_turns, "first": first_call}[kind](*rest)))
        return
    print(
        f"{'':18} {'step, µs':>10}"
        + "".join(f" {way:>10}" for way in WAYS[1:])
        + "".join(f" {f'to {way}':>21}" for way in WAYS[1:])
        + f" {'first, s':>8} {'JAX':>8} {'ratio':>6}"
    )
    for name in options.cases:
        rounds, processes = options.rounds, options.processes
        print(line(name, rounds, processes, options.first_calls, options.executor), flush=True)


if __name__ == "__main__":
    main()

"""One process of a measurement: one case, all implementations in turns; or one first call.

    python benchmarks/worker.py '{"case": "mlp-small", "implementations": ["PyTorch", "JAX"], ...}'

The environment sets the threads, before anything is imported.  The last line printed is JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from time import perf_counter
from typing import Any

IMPORTS = {
    "chainrule": ("chainrule", "numpy"),
    "PyTorch": ("torch",),
    "torch.compile": ("torch",),
    "JAX": ("jax", "jax.numpy", "numpy"),
    "NumPy": ("numpy",),
}
CHOOSING_ROUNDS = 3  # turns of each variant, before the fastest is measured


def reason_of(error: Exception) -> str:
    """One line that says what went wrong."""
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    first = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {first}"[:200]


def load(implementation: str, threads: int) -> None:
    """Import the library, and give it its threads; raises ImportError where it is not there."""
    for module in IMPORTS[implementation]:
        importlib.import_module(module)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def prepare(case: Any, names: Sequence[str], settings: Any) -> tuple[dict, dict[str, str]]:
    """What is ready by (implementation, variant), and the reason of each that is absent.

    A variant that disagrees with the float64 run is absent.
    """
    from agreement import expected_results, results

    ready, absent = {}, {}
    problem, expected = case.problem(), expected_results(case, settings)
    for name in names:
        if name not in case.variants:
            absent[name] = case.missing[name]
            continue
        for variant, build in case.variants[name].items():
            try:
                load(name, settings.threads)
                prepared = build(problem, settings)
                found = results(case, problem, prepared)
            except Exception as error:
                absent[f"{name}: {variant}"] = reason_of(error)
                continue
            wrong = expected.disagreement(found)
            if wrong is None:
                ready[name, variant] = prepared
            else:
                absent[f"{name}: {variant}"] = f"disagrees: {wrong}"
    return ready, absent


def measure_case(
    case: Any, names: Sequence[str], rounds: int, settings: Any, timing: Any
) -> dict[str, Any]:
    """Seconds by implementation, a list with one for each round, of its fastest variant."""
    from measure import alternate, cpu_seconds_elsewhere

    ready, absent = prepare(case, names, settings)
    chosen, tried = choose(ready, timing)
    calls = {name: ready[name, chosen[name]].call for name in names if name in chosen}
    problem = case.problem()
    for name, build in case.yardsticks.items():
        try:
            calls[name] = build(problem, settings).call
        except Exception as error:
            absent[name] = reason_of(error)
    begin, before = perf_counter(), cpu_seconds_elsewhere()
    seconds = alternate(calls, rounds, timing)
    taken, after = perf_counter() - begin, cpu_seconds_elsewhere()
    elsewhere = None if before is None or after is None else (after - before) / taken
    return {
        "seconds": seconds,
        "cpus_busy_elsewhere": elsewhere,
        "variants": chosen,
        "tried": tried,
        "absent": absent,
    }


def choose(ready: Mapping[tuple[str, str], Any], timing: Any) -> tuple[dict, dict]:
    """The fastest variant of each implementation, and the seconds of those that were compared."""
    from measure import alternate

    chosen: dict[str, str] = {}
    tried: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(name for name, _ in ready):
        variants = {variant: p.call for (owner, variant), p in ready.items() if owner == name}
        if len(variants) > 1:
            samples = alternate(variants, CHOOSING_ROUNDS, timing)
            tried[name] = {variant: median(taken) for variant, taken in samples.items()}
            chosen[name] = min(tried[name], key=lambda variant: tried[name][variant])
        else:
            chosen[name] = next(iter(variants))
    return chosen, tried


def first_call(name: str, case_name: str, executor: str, threads: int) -> dict[str, Any]:
    """Seconds from after the imports to the first result, and those of the imports.

    By the first variant of the case.
    """
    begin = perf_counter()
    try:
        load(name, threads)
        imported = perf_counter()
        from cases.case import Settings  # only now: the cases import chainrule and NumPy

        settings = Settings(executor, threads)
        case = case_called(case_name)
        if name not in case.variants:
            return {"absent": case.missing[name]}
        build = next(iter(case.variants[name].values()))
        problem = case.problem()
        ready = perf_counter()
        build(problem, settings).call()
    except Exception as error:
        return {"absent": reason_of(error)}
    return {"seconds": perf_counter() - ready, "import_seconds": imported - begin}


def case_called(name: str) -> Any:
    from cases import CASES, TINY

    return next(case for case in (*CASES, *TINY) if case.name == name)


def versions() -> dict[str, str]:
    found = {}
    for name in ("chainrule", "torch", "jax", "numpy", "scipy", "llvmlite"):
        if name in sys.modules:
            found[name] = getattr(sys.modules[name], "__version__", "unknown")
    return found


def one_cpu_a_thread(threads: int) -> None:
    """Keep the whole process to as many CPUs as threads; JAX has one thread for each CPU."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def main() -> None:
    request = json.loads(sys.argv[1])
    one_cpu_a_thread(request["threads"])
    names, executor, threads = (request[k] for k in ("implementations", "executor", "threads"))
    if request.get("first_call"):
        answer = first_call(names[0], request["case"], executor, threads)
    else:
        from cases.case import Settings
        from measure import Timing

        case, timing = case_called(request["case"]), Timing(**request["timing"])
        answer = measure_case(case, names, request["rounds"], Settings(executor, threads), timing)
        answer["versions"] = versions()
    print(json.dumps(answer))


if __name__ == "__main__":
    main()

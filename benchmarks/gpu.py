"""Training steps on a GPU: `executor="xla"` beside plain JAX (jit, donated) and torch.compile.

    python benchmarks/gpu.py [--cases mlp transformer] [--dtypes float32 bfloat16] [--rounds 3]
                             [--platform gpu] [--size large]

Each library runs in processes of its own, which take turns.  Prints for each the median time of a
step, how many times the time of chainrule it takes, seconds until the first step is done, and the
most bytes on the device; for chainrule also the bytes that it said before (`step.memory()`).

Each step waits for its objective.  Products of float32 have full precision in all of them (no
TF32).  In bfloat16, parameters and the optimizer are float32, and the objective casts parameters
and inputs to bfloat16.  `--platform cpu` tries it on a CPU, in small sizes; bytes are then unknown.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from cases import deep_mlp, transformer, transformer_objective
from cases.case import Case, Problem, Settings, map_tree
from cases.training import adam, adamw, training_variants
from measure import call_seconds

import chainrule as cr
from chainrule.graph.bytes_text import in_bytes

HERE = Path(__file__).parent
OURS = "chainrule"
PARTS = (OURS, "JAX", "torch.compile")
SIZES: dict[str, dict[str, Any]] = {
    "large": {
        "mlp": {"width": 4096, "depth": 8, "classes": 1000, "rows": 4096},
        "transformer": {"vocabulary": 32768, "length": 512, "width": 1024, "depth": 8, "batch": 16},
    },
    "small": {
        "mlp": {"width": 64, "depth": 4, "classes": 10, "rows": 64},
        "transformer": {"vocabulary": 64, "length": 16, "width": 32, "depth": 2, "batch": 4},
    },
}
STEPS = 3  # after which libraries have to agree


def mlp_problem(width: int, depth: int, classes: int, rows: int) -> Problem:
    random = np.random.default_rng(0)

    def layer(outputs: int) -> dict[str, np.ndarray]:
        W = random.standard_normal((width, outputs), dtype=np.float32)
        return {"W": W * np.float32((2 / width) ** 0.5), "b": np.zeros(outputs, np.float32)}

    parameters = {"hidden": [layer(width) for _ in range(depth)], "output": layer(classes)}
    x = random.standard_normal((rows, width), dtype=np.float32)
    return Problem({"x": x, "y": random.integers(0, classes, rows)}, parameters)


# Objectives in bfloat16: the same, on parameters and inputs that are cast -------------------------


def cast(one):
    return one.astype(cr.bfloat16)


def narrow_mlp(params, x, y):
    J = deep_mlp.objective(map_tree(cast, params), cast(x), y).astype(np.float32)
    return J


def narrow_transformer(params, tokens, targets):
    narrow = transformer_objective.objective(map_tree(cast, params), tokens, targets)
    J = narrow.astype(np.float32)
    return J


def narrow_jax(objective: Callable[..., Any]) -> Callable[..., Any]:
    def narrowed(params: Any, **batch: Any) -> Any:
        import jax.numpy as jnp

        def cast(one: Any) -> Any:
            return one.astype(jnp.bfloat16) if jnp.issubdtype(one.dtype, jnp.floating) else one

        batch = {name: cast(one) for name, one in batch.items()}
        return objective(map_tree(cast, params), **batch).astype(jnp.float32)

    return narrowed


def narrow_torch(objective: Callable[..., Any]) -> Callable[..., Any]:
    def narrowed(params: Any, **batch: Any) -> Any:
        import torch

        def cast(one: Any) -> Any:
            return one.to(torch.bfloat16) if one.is_floating_point() else one

        batch = {name: cast(one) for name, one in batch.items()}
        return objective(map_tree(cast, params), **batch).float()

    return narrowed


def case_of(name: str, dtype: str, size: str) -> Case:
    sizes = SIZES[size][name]
    if name == "mlp":
        ours, problem = deep_mlp.objective, partial(mlp_problem, **sizes)
        theirs, torchs, optimizer = deep_mlp.jax_objective, deep_mlp.torch_objective, adam(1e-3)
    else:
        ours, problem = transformer_objective.objective, partial(transformer.problem, **sizes)
        theirs = partial(transformer.jax_objective, library_attention=False)
        torchs, optimizer = transformer.torch_objective, adamw(1e-3, 1e-2)
    if dtype == "bfloat16":
        ours = narrow_mlp if name == "mlp" else narrow_transformer
        theirs, torchs = narrow_jax(theirs), narrow_torch(torchs)
    variants = training_variants(ours, torchs, {"jit": theirs}, optimizer, linear=True)
    words = ", ".join(f"{what} {number}" for what, number in sizes.items())
    return Case(name, f"{name} in {dtype}: {words}", problem, variants, trains=True)


# One process --------------------------------------------------------------------------------------


def jax_device(platform: str) -> Any:
    """JAX's first device of a platform; exits where there is none."""
    import jax

    try:
        return jax.devices(platform)[0]
    except RuntimeError as error:
        sys.exit(
            f"there is no {platform} here: JAX has {jax.devices()[0].platform} alone "
            f"({str(error).splitlines()[0]})\n  try: pip install 'jax[cuda13]' where there is an "
            "NVIDIA GPU, or --platform cpu, which tries the benchmark on a CPU"
        )


def torch_device(platform: str) -> str:
    """PyTorch's device of a platform; exits where there is none."""
    if platform == "cpu":
        return "cpu"
    import torch

    if not torch.cuda.is_available():
        sys.exit("there is no gpu here: PyTorch sees none\n  try: --parts chainrule JAX")
    return "cuda"


def device_name(part: str, platform: str) -> str:
    if part != "torch.compile":
        return jax_device(platform).device_kind
    import torch

    return torch.cuda.get_device_name() if torch_device(platform) == "cuda" else "cpu"


def most_nbytes(part: str, platform: str) -> int | None:
    """The most bytes that the process has had on its device; None where nobody counts them."""
    if part != "torch.compile":
        return (jax_device(platform).memory_stats() or {}).get("peak_bytes_in_use")
    import torch

    return torch.cuda.max_memory_allocated() if torch_device(platform) == "cuda" else None


def said_nbytes(case: Case) -> int:
    """What chainrule says of a step before one is taken: arguments, further results, scratch."""
    from cases.training import chainrule_step

    build = case.variants[OURS]["training_step"]
    optimizer = build.keywords["optimizer"].chainrule()
    step, _ = chainrule_step(case.problem(), build.keywords["objective"], optimizer, "xla", True)
    found = step.memory().compiled
    return found["arguments"] + found["results"] - found["in place of arguments"] + found["scratch"]


def number(J: Any) -> float:
    """An objective, of any library."""
    return float(J.detach() if hasattr(J, "detach") else J)


def measured(name: str, dtype: str, part: str, platform: str, size: str) -> dict[str, Any]:
    """Seconds of a step and of the first one, bytes, and the objectives of the first steps."""
    import gc

    case, device = case_of(name, dtype, size), device_name(part, platform)
    if part == "JAX":
        import jax

        jax.config.update("jax_default_matmul_precision", "highest")
    threads = len(os.sched_getaffinity(0))
    at = torch_device(platform) if part == "torch.compile" else "cpu"
    build = next(iter(case.variants[part].values()))
    begin = perf_counter()
    prepared = build(case.problem(), Settings("xla", threads, at))
    made = perf_counter()
    objectives = [number(prepared.call())]
    first = perf_counter() - made
    objectives += [number(prepared.call()) for _ in range(STEPS - 1)]
    gc.collect()
    gc.disable()
    call_seconds(prepared.call, 0.2, 3)
    seconds = call_seconds(prepared.call, 1.0, 10)
    return {
        "device": device,
        "seconds": median(seconds),
        "made": made - begin,
        "first": first,
        "most": most_nbytes(part, platform),
        "said": said_nbytes(case) if part == OURS else None,
        "objectives": objectives,
    }


# All processes ------------------------------------------------------------------------------------


def in_a_process(*request: Any) -> dict[str, Any]:
    platform = request[3]
    # Libraries take turns on one device: JAX is not to take all of it at its start.
    variables = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    if platform == "cpu":
        variables["JAX_PLATFORMS"] = "cpu"
    command = [sys.executable, "-W", "ignore", str(HERE / "gpu.py"), "--worker"]
    done = subprocess.run(
        [*command, json.dumps(request)], env=variables, stdout=subprocess.PIPE, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)
    return json.loads(done.stdout.splitlines()[-1])


def table(name: str, dtype: str, options: argparse.Namespace) -> str:
    """The lines of a case; exits where libraries disagree by more than rounding explains."""
    found: dict[str, list[dict[str, Any]]] = {part: [] for part in options.parts}
    for _ in range(options.rounds):
        for part in options.parts:
            found[part].append(in_a_process(name, dtype, part, options.platform, options.size))
    first = found[options.parts[0]][0]
    near = 2e-3 if dtype == "float32" else 5e-2
    lines = [f"{case_of(name, dtype, options.size).title}; {first['device']}"]
    seconds = {part: median(one["seconds"] for one in runs) for part, runs in found.items()}
    for part, runs in found.items():
        np.testing.assert_allclose(
            runs[0]["objectives"], first["objectives"], rtol=near, err_msg=f"{part}: other results"
        )
        ratio = f"{seconds[part] / seconds[options.parts[0]]:6.3f}"
        text = f"  {part:14} {seconds[part] * 1e3:10.3f} ms {ratio}"
        text += f" {median(one['first'] for one in runs):8.2f} s to the first step"
        most, said = runs[0]["most"], runs[0]["said"]
        text += f", {in_bytes(most)} at most" if most is not None else ", bytes are not counted"
        if said is not None:
            text += f" ({in_bytes(said)} said before"
            text += f", {said / most:.3f} times as many)" if most else ")"
        lines.append(text)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument(
        "--cases", nargs="+", default=["mlp", "transformer"], choices=SIZES["large"]
    )
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--parts", nargs="+", default=[*PARTS], choices=PARTS)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each library [3]")
    parser.add_argument("--platform", default="gpu", choices=("gpu", "cpu"))
    parser.add_argument("--size", choices=[*SIZES], help="large on a GPU, small on a CPU")
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measured(*json.loads(options.worker))))
        return
    options.size = options.size or ("large" if options.platform == "gpu" else "small")
    for name in options.cases:
        for dtype in options.dtypes:
            print(table(name, dtype, options), flush=True)


if __name__ == "__main__":
    main()

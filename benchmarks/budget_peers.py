"""Bytes against time beside PyTorch and JAX, which save less by checkpoints.

    python benchmarks/budget_peers.py [--peers torch compile jax] [--models mlp transformer]

A training step by gradient descent in float32, on one CPU.  Every way of a peer runs in a process
of its own, and then chainrule within the bytes that this way has; the CPU time of all threads is
taken, the median of calls.  Peers take each parameter's step as soon as its gradient is there
(PyTorch: post-accumulate hooks), or donate the parameters (JAX).

Bytes are what a step allocates when most is allocated, beside parameters and batch.  PyTorch: the
storages that live, counted at every operation; of compiled code, which hides them, the peak of
resident memory, in a process whose C library gives all arrays back at once.  JAX: temporaries and
outputs by XLA's own analysis, less those in donated arrays.  chainrule: those of the plan.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from budget_programs import Program, mlp, transformers

from chainrule.errors import MemoryLimitError

SECONDS, CALLS = 2.5, 10  # at least
RATE = 1e-3
MODELS: dict[str, Callable[[], Program]] = {
    "mlp": lambda: mlp(50, 256, 512),
    "transformer": lambda: transformers(4, 128, 64, 16),
}
EVERY = {"mlp": (1, 3, 7), "transformer": (1, 2)}  # layers of a checkpoint
SCANNED = {"mlp": (1, 5, 10), "transformer": (1, 2)}  # divisors of the number of layers
BUDGETS = (1.0, 0.7, 0.4, 0.1)  # of torch.compile
# With them, all that is larger than a page or two goes back to the system when it is freed.
BYTES = {"MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_TRIM_THRESHOLD_": "16384"}
POLICIES = (
    "everything_saveable",
    "dots_saveable",
    "dots_with_no_batch_dims_saveable",
    "nothing_saveable",
)


def ways(model: str, peers: list[str]) -> list[tuple[str, ...]]:
    """(library, what, layers of a checkpoint), for each way of the peers."""
    found: list[tuple[str, ...]] = []
    if "torch" in peers:
        found += [("torch", "no checkpoint", "0")]
        found += [("torch", "checkpoint", str(k)) for k in EVERY[model]]
    if "compile" in peers:
        found += [("compile", str(budget), "0") for budget in BUDGETS]
    if "jax" in peers:
        found += [("jax", "no checkpoint", "0")]
        found += [("jax", policy, "1") for policy in POLICIES]
        found += [("jax", "nothing_saveable", str(k)) for k in EVERY[model][1:]]
        found += [("jax", "scan, everything_saveable", "1")]
        found += [("jax", "scan, nothing_saveable", str(k)) for k in SCANNED[model]]
    return found


def cpu_seconds(call: Callable[[], Any]) -> float:
    """The median CPU time of a call."""
    for _ in range(3):
        call()
    found: list[float] = []
    while len(found) < CALLS or sum(found) < SECONDS:
        before = process_time()
        call()
        found.append(process_time() - before)
    return median(found)


# PyTorch


def torch_layers(model: str, params: Any, batch: Any) -> tuple[Any, list[Any], Callable[..., Any]]:
    """What goes in, the layers with their parameters, and the objective of what comes out."""
    import torch
    import torch.nn.functional as F

    if model == "mlp":
        pairs = zip(params["W"], params["b"], strict=True)
        layers = [(lambda h, W, b: torch.tanh(h @ W + b), pair) for pair in pairs]
        return batch["x"], layers, lambda h: ((h - batch["y"]) ** 2).mean()

    def norm(x: Any, one: Any) -> Any:
        return F.layer_norm(x, x.shape[-1:], one["weight"], one["bias"])

    def block(x: Any, one: Any) -> Any:
        n, length, width = x.shape
        parts = (norm(x, one["attention_norm"]) @ one["attention"]["Wqkv"]).split(width, -1)
        q, k, v = (part.view(n, length, 4, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + mixed.transpose(1, 2).reshape(n, length, width) @ one["attention"]["Wout"]
        f = one["feed_forward"]
        hidden = norm(x, one["feed_forward_norm"]) @ f["Win"] + f["bin"]
        return x + F.gelu(hidden, approximate="tanh") @ f["Wout"] + f["bout"]

    def objective(x: Any) -> Any:
        logits = norm(x, params["norm"]) @ params["Whead"]
        return F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten())

    x = F.embedding(batch["tokens"], params["tokens"]) + params["positions"]
    return x, [(block, (one,)) for one in params["blocks"]], objective


def of_torch(model: str, library: str, what: str, every: int) -> dict[str, float]:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map
    from torch.utils.checkpoint import checkpoint

    torch.set_num_threads(1)
    program = MODELS[model]()
    params = tree_map(lambda one: torch.tensor(one, requires_grad=True), program.params)
    batch = {name: torch.tensor(one) for name, one in program.batch.items()}

    def update(one: Any) -> None:
        with torch.no_grad():
            one.add_(one.grad, alpha=-RATE)
        one.grad = None

    for one in tree_leaves(params):
        one.register_post_accumulate_grad_hook(update)

    def objective(params: Any) -> Any:
        h, layers, last = torch_layers(model, params, batch)
        size = max(every, 1)
        for begin in range(0, len(layers), size):
            part = layers[begin : begin + size]

            def run(h: Any, part: Any = part) -> Any:
                for layer, arguments in part:
                    h = layer(h, *arguments)
                return h

            h = checkpoint(run, h, use_reentrant=False) if every else run(h)
        return last(h)

    forward = objective
    if library == "compile":
        import torch._functorch.config as config

        config.activation_memory_budget = float(what)
        forward = torch.compile(objective)

    def step() -> None:
        forward(params).backward()

    step()
    outside = {one.untyped_storage()._cdata for one in (*tree_leaves(params), *batch.values())}
    alive: dict[int, int] = {}
    now = peak = 0

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
            nonlocal now, peak
            out = func(*args, **(kwargs or {}))
            for one in tree_leaves(out):
                if isinstance(one, torch.Tensor):
                    storage = one.untyped_storage()
                    key = storage._cdata
                    if key not in alive and key not in outside:
                        alive[key] = storage.nbytes()
                        now += storage.nbytes()
                        weakref.finalize(storage, gone, key)
            peak = max(peak, now)
            return out

    def gone(key: int) -> None:
        nonlocal now
        now -= alive.pop(key, 0)

    if library == "compile":
        return {"nbytes": resident_nbytes(step), "seconds": cpu_seconds(step)}
    with Counting():
        step()
    return {"nbytes": peak, "seconds": cpu_seconds(step)}


def resident_nbytes(call: Callable[[], Any]) -> int:
    """The most bytes of memory that a call makes resident, with the C library of `BYTES`."""
    call()
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak is that from here on
    before = resident("VmRSS")
    call()
    return resident("VmHWM") - before


def resident(what: str) -> int:
    """A line of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(what))


# JAX


def of_jax(model: str, what: str, every: int) -> dict[str, float]:
    import jax
    import jax.numpy as jnp

    program = MODELS[model]()
    scans, policy = what.startswith("scan, "), what.removeprefix("scan, ")

    def norm(x: Any, one: Any) -> Any:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        scale = jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)
        return centred * scale * one["weight"] + one["bias"]

    def block(x: Any, one: Any) -> Any:
        n, length, width = x.shape
        parts = jnp.split(norm(x, one["attention_norm"]) @ one["attention"]["Wqkv"], 3, axis=-1)
        q, k, v = (part.reshape(n, length, 4, -1) for part in parts)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        causal = jnp.tril(jnp.ones((length, length), bool))
        shares = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf))
        mixed = jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(n, length, width)
        x = x + mixed @ one["attention"]["Wout"]
        f = one["feed_forward"]
        hidden = norm(x, one["feed_forward_norm"]) @ f["Win"] + f["bin"]
        return x + jax.nn.gelu(hidden, approximate=True) @ f["Wout"] + f["bout"]

    def layer(h: Any, one: Any) -> Any:
        return jnp.tanh(h @ one[0] + one[1])

    def objective(params: Any, batch: Any) -> Any:
        if model == "mlp":
            h, pairs = batch["x"], (params["W"], params["b"])
            each = pairs if scans else list(zip(*pairs, strict=True))
        else:
            h, each = params["tokens"][batch["tokens"]] + params["positions"], params["blocks"]
        one_layer = layer if model == "mlp" else block
        size = max(every, 1)

        def run(h: Any, part: Any) -> Any:
            for one in part:
                h = one_layer(h, one)
            return h

        if every:
            run = jax.checkpoint(run, policy=getattr(jax.checkpoint_policies, policy))
        if scans:  # the layers are stacked, and `size` of them are one iteration

            def iterate(h: Any, part: Any) -> Any:
                return run(h, [jax.tree.map(lambda x, n=n: x[n], part) for n in range(size)]), None

            parts = jax.tree.map(lambda x: x.reshape(-1, size, *x.shape[1:]), each)
            h, _ = jax.lax.scan(iterate, h, parts)
        else:
            for begin in range(0, len(each), size):
                h = run(h, each[begin : begin + size])
        if model == "mlp":
            return jnp.mean((h - batch["y"]) ** 2)
        logits = norm(h, params["norm"]) @ params["Whead"]
        at = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["targets"][..., None], axis=-1)
        return -jnp.mean(at)

    def step(params: Any, batch: Any) -> Any:
        loss, gradients = jax.value_and_grad(objective)(params, batch)
        return loss, jax.tree.map(lambda one, g: one - RATE * g, params, gradients)

    params = program.params
    if scans:
        lists = {"W", "b", "blocks"} & set(params)
        stacked = {name: jax.tree.map(lambda *x: np.stack(x), *params[name]) for name in lists}
        params = {**params, **stacked}
    params = jax.tree.map(jnp.asarray, params)
    batch = {name: jnp.asarray(one) for name, one in program.batch.items()}
    compiled = jax.jit(step, donate_argnums=0).lower(params, batch).compile()
    found: Any = compiled.memory_analysis()
    nbytes = found.temp_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes

    def call() -> None:
        nonlocal params
        loss, params = compiled(params, batch)
        loss.block_until_ready()

    return {"nbytes": nbytes, "seconds": cpu_seconds(call)}


# chainrule


def of_ours(model: str, nbytes: int) -> dict[str, float]:
    """The quickest step that allocates at most so many bytes; where there is none, that which
    needs least."""
    program = MODELS[model]()
    step = program.step(executor="native")
    report = step.memory(n=program.rows)
    point = report
    for one in report.tradeoff():
        point = one.report
        if counted(point) <= nbytes:
            break
    within = program.step(executor="native", memory=point.needed_nbytes)
    state = within.init(params=program.params)
    batch = program.batch
    return {
        "nbytes": counted(point),
        "seconds": cpu_seconds(lambda: within(state, **batch)),
    }


def counted(report: Any) -> int:
    """The bytes that are compared."""
    inputs = sum(int(one.type.nbytes) for one in report.concrete.inputs)
    return report.main.peak_nbytes - inputs


def alone(*what: str, environment: Mapping[str, str] = {}) -> Any:
    """The same in a process of its own, on one CPU; a message where it fails."""
    names = ("CHAINRULE_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu"}
    environment = {**os.environ, **dict.fromkeys(names, "1"), **flags, **environment}
    command = [sys.executable, __file__, "--one", *what]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return "no result in 10 minutes"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["failed"])[-1][:100]
    return json.loads(done.stdout.splitlines()[-1])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", nargs="+", default=["torch", "compile", "jax"])
    parser.add_argument("--models", nargs="+", default=[*MODELS])
    parser.add_argument("--json", type=Path, help="save the numbers")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        library, model, what, every = asked.one
        if library == "chainrule":
            found = of_ours(model, int(every))
        elif library == "jax":
            found = of_jax(model, what, int(every))
        else:
            found = of_torch(model, library, what, int(every))
        print(json.dumps(found))
        return 0
    head = ["model", "peer", "MB", "ms", "chainrule MB", "ms", "times as fast"]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head), flush=True)
    rows = []
    for model in asked.models:
        for library, what, every in ways(model, asked.peers):
            theirs = alone(library, model, what, every)
            called = f"torch.compile, budget {what}" if library == "compile" else library
            if library != "compile":
                called += f" {what}" + (f", {every} a checkpoint" if int(every) else "")
            if isinstance(theirs, str):
                print(f"| {model} | {called} | {theirs} | | | | |", flush=True)
                continue
            if library == "compile":
                counted_apart = alone(library, model, what, every, environment=BYTES)
                theirs["nbytes"] = counted_apart["nbytes"]
            ours = alone("chainrule", model, "allocated", str(int(theirs["nbytes"])))
            if isinstance(ours, str):
                raise MemoryLimitError(ours)
            rows.append({"model": model, "peer": called, "theirs": theirs, "ours": ours})
            print(
                f"| {model} | {called} | {theirs['nbytes'] / 1e6:.2f} | "
                f"{1e3 * theirs['seconds']:.1f} | {ours['nbytes'] / 1e6:.2f} | "
                f"{1e3 * ours['seconds']:.1f} | {theirs['seconds'] / ours['seconds']:.2f}"
                + ("" if ours["nbytes"] <= theirs["nbytes"] else " (in more bytes)")
                + " |",
                flush=True,
            )
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What norms of every example's gradient cost beside the gradient, and beside torch.func.

`python benchmarks/example_norms.py`: an MLP and a transformer with tied embeddings.  Times are
medians of alternating calls, bytes those of memory reports; of PyTorch, the growth of the peak of
resident memory in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.advice.noise.each import each_example

ROUNDS = 9
WIDTH, LENGTH, HEADS, WORDS, INNER, LAYERS, ROWS = 128, 64, 4, 512, 512, 2, 32
MLP = {"W1": (784, 512), "b1": (512,), "W2": (512, 512), "b2": (512,), "W3": (512, 10)}
n = cr.size("n")


def mlp(x: cr.float32[n, 784], y: cr.int64[n], W1: Any, b1: Any, W2: Any, b2: Any, W3: Any) -> Any:
    h = np.maximum(x @ W1 + b1, 0)
    h = np.maximum(h @ W2 + b2, 0)
    return cr.cross_entropy(h @ W3, y)


def transformer(t: cr.int64[n, LENGTH], y: cr.int64[n, LENGTH], E: Any, P: Any, blocks: Any) -> Any:
    def split(z: Any) -> Any:
        return np.swapaxes(z.reshape(-1, LENGTH, HEADS, WIDTH // HEADS), 1, 2)

    h = np.take(E, t, axis=0) + P
    for w in blocks:
        z = cr.layer_norm(h, w["g1"], w["b1"])
        q, k, v = (split(z @ w[name]) for name in "qkv")
        o = cr.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + np.swapaxes(o, 1, 2).reshape(-1, LENGTH, WIDTH) @ w["o"]
        z = cr.layer_norm(h, w["g2"], w["b2"])
        h = h + cr.gelu(z @ w["w1"] + w["c1"]) @ w["w2"] + w["c2"]
    return cr.cross_entropy(h @ E.T, y)


def block() -> dict[str, tuple[int, ...]]:
    d = WIDTH
    vectors = {name: (d,) for name in ("g1", "b1", "g2", "b2", "c2")}
    matrices = {name: (d, d) for name in "qkvo"}
    return {**vectors, **matrices, "w1": (d, INNER), "c1": (INNER,), "w2": (INNER, d)}


def drawn(shape: tuple[int, ...]) -> np.ndarray:
    rng = np.random.default_rng(1)
    return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


def program(name: str) -> tuple[Any, tuple[str, ...], dict[str, Any], int]:
    """The graph, its parameters, its arguments and the rows."""
    rng = np.random.default_rng(0)
    if name == "mlp":
        given = {key: drawn(shape) for key, shape in MLP.items()}
        graph = cr.trace(mlp, **{key: cr.float32[shape] for key, shape in MLP.items()})
        batch = {"x": drawn((256, 784)), "y": rng.integers(0, 10, 256)}
        return graph, tuple(MLP), {**batch, **given}, 256
    shapes = block()
    types: Any = {key: cr.float32[shape] for key, shape in shapes.items()}
    graph = cr.trace(
        transformer,
        E=cr.float32[WORDS, WIDTH],
        P=cr.float32[LENGTH, WIDTH],
        blocks=[types] * LAYERS,
    )
    wrt = ("E", "P", *(f"blocks[{i}].{key}" for i in range(LAYERS) for key in shapes))
    words = {key: rng.integers(0, WORDS, (ROWS, LENGTH)) for key in "ty"}
    arrays = {"E": drawn((WORDS, WIDTH)), "P": drawn((LENGTH, WIDTH))}
    blocks = [{key: drawn(shape) for key, shape in shapes.items()} for _ in range(LAYERS)]
    return graph, wrt, {**words, **arrays, "blocks": blocks}, ROWS


def alternating(*calls: Callable[[], object]) -> list[float]:
    """The median seconds of each call."""
    found: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(ROUNDS):
        for times, call in zip(found, calls, strict=True):
            begun = time.perf_counter()
            call()
            times.append(time.perf_counter() - begun)
    return [median(times) for times in found]


def ours(name: str) -> None:
    graph, wrt, given, rows = program(name)
    plain = cr.backward(graph, wrt=wrt)
    norms = each_example(graph, graph.outputs[0][0], wrt, "n").graph
    needs = [one.memory(n=rows, executor="native").needed_nbytes for one in (plain, norms)]
    first, second = (one.compile(executor="native") for one in (plain, norms))
    times = alternating(lambda: first.run(given), lambda: second.run(given))
    print(
        f"{name:12} gradient {times[0] * 1e3:7.1f} ms {needs[0] / 2**20:6.1f} MiB; with norms "
        f"{times[1] / times[0]:.2f} times the time, {needs[1] / needs[0]:.2f} times the bytes"
    )


def theirs(name: str) -> None:
    import resource

    import torch
    from torch.func import grad, vmap
    from torch.nn import functional as F

    _, _, given, _ = program(name)
    batch = [torch.from_numpy(given[key]) for key in (("x", "y") if name == "mlp" else ("t", "y"))]

    def loss_mlp(p: Any, x: Any, y: Any) -> Any:
        h = torch.relu(x @ p["W1"] + p["b1"])
        return F.cross_entropy(torch.relu(h @ p["W2"] + p["b2"]) @ p["W3"], y)

    def loss_transformer(p: Any, t: Any, y: Any) -> Any:
        h = p["E"][t] + p["P"]
        for w in p["blocks"]:
            z = F.layer_norm(h, (WIDTH,), w["g1"], w["b1"])
            q, k, v = (
                (z @ w[name]).reshape(*t.shape, HEADS, WIDTH // HEADS).transpose(-3, -2)
                for name in "qkv"
            )
            o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + o.transpose(-3, -2).reshape(*t.shape, WIDTH) @ w["o"]
            z = F.layer_norm(h, (WIDTH,), w["g2"], w["b2"])
            h = h + F.gelu(z @ w["w1"] + w["c1"]) @ w["w2"] + w["c2"]
        return F.cross_entropy((h @ p["E"].T).flatten(0, -2), y.flatten())

    loss = loss_mlp if name == "mlp" else loss_transformer
    own = {k: v for k, v in given.items() if k not in "xyt"}
    parameters = torch.utils._pytree.tree_map(torch.from_numpy, own)

    def norms() -> Any:
        each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, *batch)
        leaves = torch.utils._pytree.tree_leaves(each)
        return [one.square().flatten(1).sum(1) for one in leaves]

    def whole() -> Any:
        return grad(loss)(parameters, *batch)

    def peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    torch.set_num_threads(2)
    before = peak()
    whole()
    between = peak()
    norms()
    after = peak()
    times = alternating(whole, norms)
    print(
        f"{'':12} PyTorch  {times[0] * 1e3:7.1f} ms {(between - before) / 2**20:6.1f} MiB; "
        f"vmap(grad) {times[1] / times[0]:.2f} times the time, "
        f"{(after - before) / max(between - before, 1):.2f} times the bytes"
    )


def main() -> None:
    if len(sys.argv) == 3:
        {"ours": ours, "theirs": theirs}[sys.argv[1]](sys.argv[2])
        return
    for name in ("mlp", "transformer"):
        for who in ("ours", "theirs"):
            subprocess.run([sys.executable, __file__, who, name], check=False)


if __name__ == "__main__":
    main()

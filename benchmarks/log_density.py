"""The log-density of a Gaussian by its Cholesky factor, with its gradient: chainrule beside peers.

    python benchmarks/log_density.py [--sizes 200 1000] [--rounds 3] [--seconds 2]

In float64.  Each library runs in a process of its own, in turns; prints the median of the medians
of all rounds, in milliseconds, and the ratio to chainrule's.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.float64]


def arrays(n: int) -> Arrays:
    """Values, similarities, means and a scale, for n points in five dimensions."""
    random = np.random.default_rng(0)
    points = random.normal(size=(n, 5))
    squares = ((points[:, None] - points[None]) ** 2).sum(-1)
    return random.normal(size=n), np.exp(-squares / 2), np.zeros(n), np.float64(1.3)


def of_chainrule(y: Any, similar: Any, mean: Any, scale: Any) -> Callable[[], Any]:
    import chainrule as cr

    def log_density(y, similar, mean, scale):
        K = scale * similar + 0.5 * np.eye(similar.shape[0])
        factor = np.linalg.cholesky(K)
        z = np.linalg.solve(factor, y - mean)
        return -0.5 * np.sum(z * z) - np.sum(np.log(np.diagonal(factor)))

    wrt = ("similar", "mean", "scale")
    graph = cr.backward(cr.trace(log_density, y, similar, mean, scale), wrt=wrt)
    compiled = graph.compile(executor="native")
    return lambda: compiled(y=y, similar=similar, mean=mean, scale=scale)


def of_torch(*given: Any) -> Callable[[], Any]:
    import torch

    y, similar, mean, scale = (torch.tensor(one) for one in given)
    noise = 0.5 * torch.eye(len(y), dtype=torch.float64)

    def call() -> Any:
        wrt = [one.detach().requires_grad_() for one in (similar, mean, scale)]
        factor = torch.linalg.cholesky(wrt[2] * wrt[0] + noise)
        right = (y - wrt[1])[:, None]
        z = torch.linalg.solve_triangular(factor, right, upper=False)
        value = -0.5 * (z * z).sum() - factor.diagonal().log().sum()
        return value, *torch.autograd.grad(value, wrt)

    return call


def of_jax(*given: Any) -> Callable[[], Any]:
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jax.scipy.linalg import solve_triangular

    y, similar, mean, scale = (jnp.asarray(one) for one in given)

    def log_density(similar: Any, mean: Any, scale: Any) -> Any:
        factor = jnp.linalg.cholesky(scale * similar + 0.5 * jnp.eye(len(y)))
        z = solve_triangular(factor, y - mean, lower=True)
        return -0.5 * jnp.sum(z * z) - jnp.sum(jnp.log(jnp.diagonal(factor)))

    compiled = jax.jit(jax.value_and_grad(log_density, argnums=(0, 1, 2)))
    return lambda: jax.block_until_ready(compiled(similar, mean, scale))


LIBRARIES = {"chainrule": of_chainrule, "PyTorch": of_torch, "JAX": of_jax}


def measured(library: str, n: int, seconds: float) -> float:
    """The median time of a call in this process, in milliseconds."""
    call = LIBRARIES[library](*arrays(n))
    call(), call()
    times, end = list[float](), perf_counter() + seconds
    while perf_counter() < end or len(times) < 5:
        begin = perf_counter()
        call()
        times.append(perf_counter() - begin)
    return 1e3 * median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 1000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--alone", choices=LIBRARIES, help="one library, in this process")
    options = parser.parse_args()
    if options.alone:
        print(measured(options.alone, options.sizes[0], options.seconds))
        return
    print(f"| n | {' | '.join(LIBRARIES)} |\n|---|{'---|' * len(LIBRARIES)}")
    for n in options.sizes:
        found: dict[str, list[float]] = {library: [] for library in LIBRARIES}
        for _ in range(options.rounds):
            for library in LIBRARIES:
                command = [sys.executable, __file__, "--alone", library, "--sizes", str(n)]
                command += ["--seconds", str(options.seconds)]
                out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found[library].append(float(out))
        times = {library: median(each) for library, each in found.items()}
        shown = [f"{t:.3g} ms ({t / times['chainrule']:.2f}×)" for t in times.values()]
        print(f"| {n} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()

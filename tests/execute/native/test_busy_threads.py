"""While a program runs no more threads are busy than it may use, whatever else is imported."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from executors import needs_native

pytestmark = [
    needs_native,
    pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="the system tells no threads"),
]

# The processor time of each thread of the process, while a network is trained by two of them.
PROGRAM = """
import json, os, threading, time
import numpy as np
import chainrule as cr

{beside}

def seconds():
    found = {{}}
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{{task}}/schedstat") as file:
                found[task] = int(file.read().split()[0]) / 1e9
        except OSError:  # it has just ended
            continue
    return found

def objective(x, v, W1, W2):
    h = np.maximum(x @ W1, 0)
    return np.sum((h @ W2) ** 2) / 512 + np.sum((h @ v) ** 2)

rng = np.random.default_rng(0)
arrays = dict(v=rng.normal(size=384), W1=rng.normal(size=(256, 384)), W2=rng.normal(size=(384, 64)))
x = rng.normal(size=(512, 256))
step = cr.training_step(objective, ("W1", "W2"), cr.sgd(1e-9), executor="native", x=x, **arrays)
given = dict(x=x, v=arrays.pop("v"))
state = step.init(arrays)
step(state, given)
before, steps = seconds(), 0
while True:
    step(state, given)
    steps += 1
    now = seconds()
    spent = sorted((now[task] - before.get(task, 0) for task in now), reverse=True)
    if sum(spent) > 0.3:
        break
print(json.dumps([one for one in spent if one > 0.15 * spent[0]]))
"""
USED = {
    "a spinning thread": """
def spin():
    while True:
        np.sum(np.ones(100_000))

threading.Thread(target=spin, daemon=True).start()
""",
    "torch": """
import torch

torch.ones(300, 300) @ torch.ones(300, 300)
""",
    "jax": """
import jax.numpy

(jax.numpy.ones((300, 300)) @ jax.numpy.ones((300, 300))).block_until_ready()
""",
    "mkl": """
import ctypes, glob, sys

mkl = ctypes.CDLL(glob.glob(sys.prefix + "/lib/libmkl_rt.so*")[0])
""",
}


def busy(*beside, threads=2, **environment):
    """The seconds of the threads that are busy in a process where other things were used."""
    variables = {**os.environ, "CHAINRULE_NUM_THREADS": str(threads), **environment}
    used = "".join(USED[one] for one in beside)
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM.format(beside=used)]
    done = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("without", ["", "avx2"], ids=["in tiles", "by BLAS"])
def test_two_threads_are_busy(without):
    found = busy(CHAINRULE_WITHOUT=without)
    assert len(found) <= 2, found


@pytest.mark.slow
def test_one_thread_is_busy_where_one_is_asked_for():
    assert len(busy(threads=1)) == 1


@pytest.mark.slow
def test_a_thread_more_is_seen():
    assert len(busy("a spinning thread", threads=1)) >= 2


MKL = [*Path(sys.prefix, "lib").glob("libmkl_rt.so*")]


@pytest.mark.peers
@pytest.mark.parametrize("libraries", ["torch jax", "mkl"])
def test_no_other_thread_is_busy_beside_libraries_that_were_used(libraries):
    if libraries == "mkl" and not MKL:
        pytest.skip("the package mkl is not installed")
    if libraries != "mkl":
        libraries = " ".join(filter(importlib.util.find_spec, libraries.split()))
    if not libraries:
        pytest.skip("neither PyTorch nor JAX is installed")
    found = busy(*libraries.split())
    assert len(found) <= 2, found

"""Native training steps in several threads, and the same steps twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from stepping import agree, batch, both, network, typed, weights

import chainrule as cr
from chainrule import float64
from chainrule.train import State, TrainingStep


@pytest.mark.slow
def test_two_threads_step_two_states_of_one_step():
    given = weights(np.float64, True)
    steps = both(network, tuple(given), cr.sgd(0.01, momentum=0.9), **typed(np.float64, True))
    batches = [[batch(np.float64, 4 + who, k) for k in range(20)] for who in range(2)]
    wanted = [steps[1].init(given) for _ in range(2)]
    states = [steps[0].init(given) for _ in range(2)]
    failed: list[BaseException] = []

    def train(step: TrainingStep, state: State, who: int) -> None:
        try:
            for k in range(100):
                step(state, batches[who][k % 20])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=train, args=(steps[0], states[k], k)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    for k in range(2):
        train(steps[1], wanted[k], k)
        agree(states[k], wanted[k], 1e-9)  # 100 steps


def test_what_is_read_while_another_thread_steps_is_after_a_whole_step():
    def objective(w: float64[40000], x: float64[()]):
        J = np.sum(w) * 0 + np.sum(w * x)
        return J

    step = cr.training_step(objective, wrt="w", optimizer=cr.sgd(1.0), executor="native")
    state = step.init(w=np.zeros(40000))
    stop = threading.Event()

    def train() -> None:
        while not stop.is_set():
            step(state, x=np.array(-1.0))

    thread = threading.Thread(target=train)
    thread.start()
    try:
        seen = [state["w"] for _ in range(200)]
        assert state.arrays["w"].shape == (40000,)
    finally:
        stop.set()
        thread.join()
    assert all(np.all(w == w[0]) for w in seen)  # every element is the number of steps
    assert np.array_equal(state["w"], np.full(40000, state.steps))


def test_steps_of_two_threads_on_one_state_are_refused_or_whole():
    given = weights(np.float64, False)
    step = cr.training_step(
        network, ("W1", "W2"), cr.sgd(0.1), executor="native", **typed(np.float64, False)
    )
    state, data = step.init(given), batch(np.float64, 50, 0)
    done: list[int] = []

    def train() -> None:
        count = 0
        for _ in range(300):
            try:
                step(state, x=data["x"].copy(), y=data["y"].copy())
                count += 1
            except cr.errors.StateError:
                pass
        done.append(count)

    threads = [threading.Thread(target=train) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert state.steps == sum(done) > 0
    again = step.init(given)
    for _ in range(state.steps):
        step(again, data)
    for name in given:
        np.testing.assert_array_equal(state[name], again[name])


SAME_BITS = """
import hashlib, sys
import numpy as np, chainrule as cr
def objective(x, y, W1, W2):
    return cr.cross_entropy(np.tanh(x @ W1) @ W2, y)
random = np.random.default_rng(0)
f = np.float32
given = {"W1": random.normal(size=(300, 200)).astype(f)}
given["W2"] = random.normal(size=(200, 50)).astype(f)
x, y = random.normal(size=(256, 300)).astype(f), random.integers(0, 50, 256)
step = cr.training_step(objective, ("W1", "W2"), cr.adamw(), executor="native", x=x, y=y, **given)
def bits():
    state, digest = step.init(given), hashlib.sha256()
    for _ in range(5):
        digest.update(step(state, x=x, y=y).tobytes())
    for name in state.arrays:
        digest.update(state[name].tobytes())
    return digest.hexdigest()
assert bits() == bits() == bits()
print(bits())
"""


@pytest.mark.slow
@pytest.mark.sweep(2)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_steps_give_the_same_bits(threads: int):
    environment = {**os.environ, "CHAINRULE_NUM_THREADS": str(threads)}
    found = {
        subprocess.run(
            [sys.executable, "-W", "error", "-c", SAME_BITS],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 1

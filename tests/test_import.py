"""`import chainrule` is quick, and loads nothing that only some of its users need."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.peers

HEAVY = "rich click safetensors sympy scipy torch jax matplotlib pandas".split()
LOADED = f"import sys, chainrule; print(*[name for name in {HEAVY} if name in sys.modules])"
OWN = """
import sys
import numpy as np
import chainrule as cr
def own():
    loaded = list(sys.modules.items())
    own = {name for name, module in loaded if name.partition(".")[0] == "chainrule"}
    return {name for name in own if not hasattr(sys.modules[name], "__path__")}  # no folders
imported = own()
"""
MLP = """
def objective(x, y, W1: cr.float32["784 256"], b1: cr.float32["256"], W2: cr.float32["256 10"],
              weight_decay=1e-3):
    h = np.maximum(x @ W1 + b1, 0)
    o = np.dot(cr.relu(h), W2)
    L = cr.cross_entropy(o, y) + np.mean(np.square(o)) / np.std(np.exp(np.tanh(h)))
    return L + weight_decay * (np.sum(W1**2) + np.sum(np.clip(W2, -1, 1)))
graph = cr.trace(objective, x=cr.float32["n 784"], y=cr.int64["n"])
cr.backward(graph, wrt=("W1", "b1", "W2"))
print(*own() - imported)
"""
RARE = """
graph = cr.trace(lambda x: np.{function}(x), np.ones((3, 3)))
groups = "late_table", "norms"
print(*[name for name in groups if f"chainrule.numpy.{{name}}" in own()])
"""
THREADS = """
import threading
at_once = threading.Barrier(8)
primitives = []
def first_use(function):
    at_once.wait()
    graph = cr.trace(lambda x: function(x), np.ones((3, 3)))
    primitives.append(graph.outputs[0][1].primitive.name)
calls = [np.sort, np.linalg.det, np.sinh, cr.norm, np.tan, np.flip, np.linalg.inv, np.median]
threads = [threading.Thread(target=first_use, args=(call,)) for call in calls]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(len(primitives))
"""


LOGARITHM = """
graph = cr.trace(lambda z: np.log(cr.sigmoid(z)), np.ones(3))
print(graph.outputs[0][1].primitive.name)
"""


def printed_by(program: str) -> str:
    """What a fresh interpreter prints for a program."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_import_loads_no_heavy_library() -> None:
    assert printed_by(LOADED).split() == []


def test_import_loads_no_part_that_only_some_users_need() -> None:
    # 101 when this was written, 123 now; benchmarks/import_cost.py measures the seconds.
    assert int(printed_by(OWN + "print(len(imported))")) <= 123


def test_a_perceptron_needs_nothing_beyond_what_import_loads() -> None:
    assert printed_by(OWN + MLP).split() == []


@pytest.mark.parametrize(
    ("function", "groups"),
    [
        ("sum", []),
        ("tan", []),
        ("sort", ["late_table"]),
        ("linalg.norm", ["late_table", "norms"]),
    ],
)
def test_a_group_of_functions_is_loaded_with_the_first_of_them(
    function: str, groups: list[str]
) -> None:
    assert printed_by(OWN + RARE.format(function=function)).split() == groups


def test_threads_may_load_what_they_need_at_once() -> None:
    assert printed_by(OWN + THREADS) == "8\n"


def test_every_public_name_can_be_imported() -> None:
    program = "import chainrule as cr\nfrom chainrule import *\n"
    program += "print(*[name for name in cr.__all__ if name not in dir(cr)])\n"
    program += "print(all(eval(name) is getattr(cr, name) for name in cr.__all__))"
    assert printed_by(program) == "\nTrue\n"


@pytest.mark.slow
def test_a_logarithm_of_a_logistic_function_loads_what_it_is_written_with() -> None:
    assert printed_by(OWN + LOGARITHM).strip() == "log_expit"

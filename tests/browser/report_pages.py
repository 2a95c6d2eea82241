"""Reports for the tests in this folder: a network, a deep one, one whose every text is markup."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from report_models import compiled, curvature, gated, recurrent, trained, transformer

import chainrule as cr
from chainrule import float32, int64
from chainrule.explain.report import Report
from chainrule.graph.graph import Graph

LARGE = 20_000  # nodes


def objective(
    x: float32["n 784"],
    y: int64["n"],
    W1: float32["784 256"],
    W2: float32["256 10"],
    weight_decay=1e-3,
):
    z = x @ W1
    h = np.maximum(z, 0)
    o = h @ W2
    L = cr.cross_entropy(o, y)
    s = weight_decay / 2 * (np.sum(W1**2) + np.sum(W2**2))
    J = L + s
    return J


def block(x, W, V):
    h = cr.gelu(cr.layer_norm(x) @ W)
    out = x + h @ V
    return out


def stack(x: float32["n 8"], W: float32["8 16"], V: float32["16 8"], depth: Any = 12):
    for _ in range(depth):
        x = block(x, W, V)
    J = np.mean(x**2)
    return J


def network() -> Graph:
    """The network of the README, with its gradients."""
    return cr.backward(cr.trace(objective), wrt=("W1", "W2"))


def network_inputs(n: int = 256) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        "x": generator.random((n, 784), np.float32),
        "y": generator.integers(0, 10, n),
        "W1": generator.normal(0, 0.05, (784, 256)).astype(np.float32),
        "W2": generator.normal(0, 0.05, (256, 10)).astype(np.float32),
    }


def mlp() -> Report:
    """All that a report can have: values, memory, curves."""
    history = [
        {"step": step, "objective": 2.3 * 0.97**step, "accuracy": 1 - 0.9**step}
        for step in range(200)
    ]
    return cr.report(network(), network_inputs(), history=history)


def budgets() -> Report:
    """A training step with plans for less and less memory."""

    def layers(x: float32["n 32"], Ws: Any):
        h = x
        for W in Ws:
            z = h @ W
            h = np.tanh(z)
        J = np.mean(h * h)
        return J

    weights = [np.eye(32, dtype=np.float32) / 3 for _ in range(4)]
    step = cr.training_step(layers, "Ws", cr.sgd(0.1), Ws=weights, executor="reference")
    return cr.report(step, sizes={"n": 512}, title="budgets", tradeoff=True)


def fused() -> Report:
    """Of compiled code, within budgets: some values are computed on the way to others."""

    def layers(x: float32["n 64"], Ws: Any):
        h = x
        for W in Ws:
            z = h @ W
            h = np.tanh(z) * np.exp(-z * z)
        J = np.mean(h * h)
        return J

    weights = [np.eye(64, dtype=np.float32) / 3 for _ in range(4)]
    step = cr.training_step(layers, "Ws", cr.sgd(0.1), Ws=weights, executor="native")
    return cr.report(step, sizes={"n": 512}, title="fused", tradeoff=True)


def symbolic() -> Report:
    """Neither values nor sizes."""
    return cr.report(network())


def adam() -> Report:
    """A whole training step, with its update and the optimizer's arrays."""
    step = cr.training_step(objective, ("W1", "W2"), cr.adam())
    return cr.report(step, network_inputs(16))


def blocks(depth: int = 12) -> Report:
    """Equal blocks, which can be folded."""
    graph = cr.backward(cr.trace(lambda x, W, V: stack(x, W, V, depth), **_stack_types()), "all")
    return cr.report(graph, _stack_inputs(), title=f"{depth} blocks")


def large() -> Report:
    """At least LARGE nodes, with values."""
    return cr.report(large_graph(), _stack_inputs(), title="20,000 nodes")


def many_blocks() -> Report:
    """3,000 nodes, in equal blocks."""
    return cr.report(_deep(3000 // (len(_deep(3)) - len(_deep(2)))))


def many_names() -> Report:
    """3,000 nodes with names."""
    return names(3000)


def names(count: int) -> Report:
    """As many nodes, and nearly each has a name: as many values and boxes as nodes can have."""

    def program(x: float32["n 8"], W: float32["8 8"]):
        for _ in range(count // 8):
            z = x @ W
            h = np.tanh(z)
            x = x + h
        J = np.mean(x**2)
        return J

    graph = cr.backward(cr.trace(program), wrt="x")
    inputs = {"x": _stack_inputs()["x"], "W": np.eye(8, dtype=np.float32) / 100}
    return cr.report(graph, inputs, title=f"{count:,} nodes with names")


def large_graph() -> Graph:
    per_block = len(_deep(3)) - len(_deep(2))
    return _deep(-(-LARGE // per_block))


def _deep(depth: int) -> Graph:
    def deep(x: float32["n 8"], W: float32["8 16"], V: float32["16 8"]):
        J = stack(x, W, V, depth)
        return J

    return cr.backward(cr.trace(deep), wrt=("W", "V"))


def _stack_types() -> dict[str, Any]:
    return {"x": float32["n 8"], "W": float32["8 16"], "V": float32["16 8"]}


def _stack_inputs() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    return {
        "x": generator.normal(size=(4, 8)).astype(np.float32),
        "W": generator.normal(size=(8, 16)).astype(np.float32) / 8,
        "V": generator.normal(size=(16, 8)).astype(np.float32) / 8,
    }


# Text that does something where it is taken for markup, for LaTeX or for the end of a script.
MARKUP = "<img src=x onerror=document.title='owned'>"
END = "</script><script>document.title='owned'</script>"
QUOTES = "\"'`&amp;<!--"
LATEX = "\\href{javascript:document.title='owned'}{x} $ % # _ ^ } { ~ \\input{/etc/passwd}"
ORDERS = (
    r"x \href{javascript:alert(1)}{y} \includegraphics{https://example.org/z.png} \htmlId{graph}{w}"
)
HOSTILE = {"markup": MARKUP, "end": END, "quotes": QUOTES, "latex": LATEX}
HOSTILE_FILE = "<b onclick=x>\"'&.py"
HOSTILE_SOURCE = f"""
import numpy as np

def objective(params, x):
    a = x @ params[{MARKUP!r}]  # {MARKUP} {END}
    b = np.tanh(a) * params[{END!r}]  # {LATEX}
    J = np.sum(b * params[{QUOTES!r}] + params[{LATEX!r}])  # <!-- {QUOTES}
    return J
"""


def hostile() -> Report:
    """Names, source lines, the name of the file, the title and the curves are markup."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / HOSTILE_FILE
        path.write_text(HOSTILE_SOURCE, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("hostile", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["hostile"] = module
        spec.loader.exec_module(module)
        shapes = {MARKUP: (3, 2), END: (2,), QUOTES: (2,), LATEX: ()}
        generator = np.random.default_rng(0)
        params = {name: generator.normal(size=shape) for name, shape in shapes.items()}
        inputs = {"params": params, "x": generator.normal(size=(5, 3))}
        graph = cr.backward(cr.trace(module.objective, **inputs), wrt="params")
        history = [{"step": step, MARKUP: step * 1.0, END: 2.0} for step in range(3)]
        title = f"{MARKUP}{END}{QUOTES}"
        return cr.report(graph, inputs, history=history, title=title, tradeoff=True)


def orders() -> Report:
    """LaTeX that gives orders, in the place of every formula: as if escaping had failed."""
    made = symbolic()
    values = [dict(value) for value in made.data["values"]]
    for value in values:
        value["latex"] = ORDERS
        if value["equation"]:
            value["equation"] = {**value["equation"], "latex": [ORDERS]}
        value["chain"] = [{**term, "latex": ORDERS} for term in value["chain"]]
    return Report({**made.data, "values": values})


PAGES: dict[str, Callable[[], Report]] = {
    "mlp": mlp,
    "budgets": budgets,
    "fused": fused,
    "symbolic": symbolic,
    "adam": adam,
    "blocks": blocks,
    "large": large,
    "names": lambda: names(LARGE // 2),
    "many_blocks": many_blocks,
    "many_names": many_names,
    "hostile": hostile,
    "orders": orders,
    "transformer": transformer,
    "compiled": compiled,
    "recurrent": recurrent,
    "gated": gated,
    "curvature": curvature,
    "trained": trained,
}

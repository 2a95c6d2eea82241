"""Every graph of the documentation goes to ONNX and back: the same values, the same gradients."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.peers
pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from docs_graphs import (  # noqa: E402
    PAGES,
    disagreement,
    each_input,
    gradient_of,
    graphs_of,
    pages_with_python,
    seeds,
    tolerance_of,
    with_values,
)

import chainrule as cr  # noqa: E402
from chainrule.errors import NotDifferentiableError, UnsupportedError  # noqa: E402
from chainrule.exchange.to_onnx.programs import own_name  # noqa: E402
from chainrule.graph.dtypes import is_bfloat16  # noqa: E402

runtime.set_default_logger_severity(4)

# What is lost on the way, as the page says it, and by which error.
LOST = {
    "your own primitives": r"a function of your own",
    "rules of your own for derivatives": r"a rule of the program that wrote the file",
    "the gradient of a `while_loop` with `max_steps`": r"Loop: its condition must be known",
    "graphs with `bfloat16`": r"is of type bfloat16",
}
QUICK = ("tutorial.md", "gallery.md")
OTHERS = ("control-flow.md", "onnx.md", "nonfinite.md", "course.md")  # slow ones
# Graphs that are too large for a test, or shown because they fail.
WITHOUT_VALUES = {
    "custom-operations.md": 1,
    "devices.md": 1,
    "memory-formulas.md": 1,
    "second-order.md": 2,
}


def marked(page: Path) -> Any:
    if page.name in QUICK:
        return page
    mark = pytest.mark.slow if page.name in OTHERS else pytest.mark.exhaustive
    return pytest.param(page, marks=mark)


def in_onnxruntime(graph: cr.Graph, given: dict[str, Any]) -> list[str]:
    """What differs there, but for what it has no kernel in bfloat16 for."""
    try:
        session = runtime.InferenceSession(graph.to_onnx())
    except runtime.capi.onnxruntime_pybind11_state.NotImplemented:
        if not any(is_bfloat16(node.dtype) for node in graph.nodes):
            raise
        return []
    taken = [*session.get_inputs(), *session.get_overridable_initializers()]
    found = session.run(None, {one.name: given[one.name] for one in taken})
    return _differing(graph, found, graph.run(given), "onnxruntime")


def _differing(graph: cr.Graph, found: list[Any], wanted: Any, where: str) -> list[str]:
    tolerance = tolerance_of(graph)
    pairs = zip(graph.outputs, found, strict=True)
    all_of_them = [(name, disagreement(one, wanted[name], tolerance)) for (name, _), one in pairs]
    return [f"{where}: {name}: {what}" for name, what in all_of_them if what]


def there_and_back(graph: cr.Graph, given: dict[str, Any]) -> tuple[cr.Graph, list[str]]:
    """The graph that comes back, and what it computes otherwise."""
    back = cr.from_onnx(graph.to_onnx(), parameters=each_input(graph)).graph
    found = back.run({item.name: given[item.name] for item in back.inputs})
    outputs = [found[name] for name, _ in graph.outputs]
    return back, _differing(graph, outputs, graph.run(given), "back")


def compared(graph: cr.Graph) -> tuple[str, list[str]]:
    """How far a graph gets, and what differs."""
    made = with_values(graph)
    if made is None:
        return "no values", []
    graph, given = made
    wrong = in_onnxruntime(graph, given)
    back, more = there_and_back(graph, given)
    wrong += more
    if not all(map(own_name, graph.nodes)):  # with an expression, and a derivative of its own
        return "values", wrong
    try:
        gradient = gradient_of(graph)
    except NotDifferentiableError:  # a loop without a limit
        gradient = None
    if gradient is None:
        return "values", wrong
    given = seeds(gradient, given)
    wrong += in_onnxruntime(gradient, given)
    again = gradient_of(back)
    assert again is not None
    found = again.run({item.name: given[item.name] for item in again.inputs})
    there = [(name, node) for name, node in gradient.outputs if name in again]
    lost = len(gradient.outputs) - len(there)  # those of inputs that nothing reads
    wanted, tolerance = gradient.run(given), 10 * tolerance_of(graph)
    for name, _ in there:
        what = disagreement(found[name], wanted[name], tolerance)
        wrong += [f"gradient: {name}: {what}"] if what else []
    return ("gradients" if not lost else "gradients of some"), wrong


def check(graphs: list[cr.Graph]) -> Counter[str]:
    """How many graphs get how far; AssertionError for what differs, or is lost unsaid."""
    found: Counter[str] = Counter()
    wrong = []
    for graph in graphs:
        try:
            how, differing = compared(graph)
        except (UnsupportedError, NotDifferentiableError) as error:
            said = [what for what, pattern in LOST.items() if re.search(pattern, str(error))]
            how, differing = said[0] if said else "unsaid", [] if said else [str(error)]
        found[how] += 1
        wrong += [f"{graph.name}: {one}" for one in differing]
    assert not wrong, "\n".join(wrong)
    return found


@pytest.mark.parametrize(
    "page", [marked(one) for one in pages_with_python()], ids=lambda one: one.name
)
def test_graphs_of_a_page_go_there_and_back(page: Path) -> None:
    found = check(graphs_of(page))
    assert found["no values"] == WITHOUT_VALUES.get(page.name, 0)
    if page.name == "tutorial.md":
        assert found["gradients"] >= 8


def test_what_is_lost_is_said_by_the_page() -> None:
    said = (PAGES.ROOT / "docs" / "onnx.md").read_text("utf-8")
    assert all(what in said for what in LOST)


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With another formula for tanh, onnxruntime and the graph that comes back differ."""
    from chainrule.exchange.to_onnx import expressions

    graph = cr.trace(lambda x: x * 0.5 + cr.sigmoid(x), x=cr.float32["n"])
    assert check([graph]) == {"gradients": 1}
    formula = expressions.formula("1.001 * x")
    monkeypatch.setitem(expressions.FUNCTIONS, "logistic", formula)
    with pytest.raises(AssertionError, match=r"(?s)onnxruntime: .*back: .*gradient: "):
        check([graph])

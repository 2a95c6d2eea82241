"""How messages call a node: the same in every part of the package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import IndexOutOfRangeError
from chainrule.frontend.composite import composite
from chainrule.graph.words import composite_call, composite_of, names_of, operation


@composite(symbol="look")
def looked_up(table: Any, labels: Any, scale: Any = 2.0, weights: Any = (1.0, 2.0)) -> Any:
    """Rows of a table, scaled."""
    return table[labels] * scale * weights[0]


def program(W: Any, labels: Any) -> Any:
    rows = looked_up(W * 2, labels, 2.0, (1.0, 2.0))
    J = np.sum(rows)
    return J


def traced() -> Any:
    types: dict[str, Any] = {"W": cr.float64[4, 3], "labels": cr.int64["n"]}
    return cr.trace(program, **types)


def word(graph: Any) -> Any:
    names = names_of(graph)
    return lambda node: names[node]


def test_a_node_by_the_outermost_call_or_by_its_operation() -> None:
    graph = traced()
    (gather,) = (one for one in graph.nodes if one.primitive.name == "gather")
    total = graph.names["J"]
    assert composite_of(total) is None
    assert composite_call(total, word(graph)) == ""
    assert operation(total, word(graph)) == "sum(rows)"
    assert composite_call(gather, word(graph)) == "looked_up(%1, labels, 2.0, ...)"


def test_an_error_of_a_run_and_the_search_for_nan_use_the_same_words() -> None:
    graph = traced()
    with pytest.raises(IndexOutOfRangeError) as caught:
        graph.run(W=np.ones((4, 3)), labels=np.array([9]), executor="reference")
    assert str(caught.value).startswith("looked_up(..., labels, 2.0, ...): index 9 ")
    found = str(graph.nonfinite(W=np.full((4, 3), 8e307), labels=np.array([1])))
    assert "looked_up(W * 2, labels, 2.0, ...)" in found


def test_a_name_with_a_line_break_stays_on_its_line() -> None:
    def keyed(params: Any, labels: Any) -> Any:
        return np.sum(params["W\nhere"][labels])

    types: Any = {"W\nhere": cr.float64[4, 3]}
    graph = cr.trace(keyed, params=types, labels=cr.int64["n"])
    given: Any = {"W\nhere": np.ones((4, 3))}
    with pytest.raises(IndexOutOfRangeError) as caught:
        graph.run(params=given, labels=np.array([9]), executor="reference")
    assert r"W\nhere" in str(caught.value).splitlines()[0]

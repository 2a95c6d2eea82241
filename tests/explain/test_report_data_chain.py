"""The chain rule of gradients in a report: which terms, as the equation has them, how large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graphs_to_explain import hessian_vector_product
from report_data_checks import by_name, checked
from reports import both, forward
from test_report_data import arrays

import chainrule as cr
from chainrule import float64
from chainrule.explain.report.data import report_data


def chain_of(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return by_name(data)[name]["chain"]


def norm(array: Any) -> float:
    return float(np.linalg.norm(np.asarray(array, np.float64).ravel()))


def test_a_gradient_is_the_sum_of_what_comes_through_each_consumer() -> None:
    data = checked(report_data(both(), arrays()))
    run, names = both().run(arrays()), list(by_name(data))
    first, second = chain_of(data, "dJ/dW2")
    assert (names[first["consumer"]], names[first["upstream"]]) == ("o", "dJ/do")
    assert (names[second["consumer"]], names[second["upstream"]]) == ("s", "dJ/ds")
    through_o, through_s = norm(run["h"].T @ run["dJ/do"]), norm(1e-3 * run["W2"])
    assert first["norm"] == pytest.approx(through_o, rel=1e-5)
    assert second["norm"] == pytest.approx(through_s, rel=1e-5)
    total = through_o + through_s
    assert first["share"] == pytest.approx(through_o / total, rel=1e-5)
    assert second["share"] == pytest.approx(through_s / total, rel=1e-5)


def test_the_terms_are_those_of_the_equation() -> None:
    values = by_name(report_data(both()))
    for name in ("dJ/dW1", "dJ/dW2", "dJ/dh", "dJ/dz", "dJ/do"):
        whole = " + ".join(term["latex"] for term in values[name]["chain"])
        assert f" = {whole} = " in values[name]["equation"]["latex"][0], name
    (term,) = values["dJ/dL"]["chain"]
    assert term["latex"] == r"\frac{\partial J}{\partial L}"


def test_one_term_is_all_of_the_gradient() -> None:
    data = report_data(both(), arrays())
    (term,) = chain_of(data, "dJ/dh")
    assert term["share"] == 1.0
    assert term["norm"] == by_name(data)["dJ/dh"]["stats"]["norm"]


def test_without_values_the_terms_have_no_sizes() -> None:
    for name in ("dJ/dW2", "dJ/dh"):
        for term in chain_of(report_data(both()), name):
            assert term["latex"] and term["norm"] is term["share"] is None


def test_a_run_that_kept_too_little_leaves_sizes_unknown() -> None:
    data = report_data(both().run(arrays(), keep=["dJ/do"]))
    first, second = chain_of(data, "dJ/dW2")  # h is not there; weight_decay is an input, nor is W2
    assert first["norm"] is second["norm"] is None
    data = report_data(both().run(arrays(), keep=["dJ/do", "h"]))
    first, second = chain_of(data, "dJ/dW2")
    assert first["norm"] is not None and second["norm"] is first["share"] is None


def shared(x: float64["n"], w: float64["n"]):
    for _ in range(3):
        x = np.sin(x * w)
    J = np.sum(x)
    return J


def test_a_value_used_several_times_has_a_term_for_each() -> None:
    graph = cr.backward(cr.trace(shared), wrt="w")
    x, w = np.array([0.3, 0.7]), np.array([1.5, -0.5])
    run, data = graph.run(x=x, w=w), checked(report_data(graph, {"x": x, "w": w}))
    names, terms = list(by_name(data)), chain_of(data, "dJ/dw")
    assert [names[term["consumer"]] for term in terms] == ["x_1", "x_2", "x_3"]
    before = x
    for term, name in zip(terms, ("x_1", "x_2", "x_3"), strict=True):
        slope = run[f"dJ/d{name}"] * np.cos(before * w) * before
        assert term["norm"] == pytest.approx(norm(slope), rel=1e-8)
        before = run[name]


def test_what_one_consumer_reads_several_times_is_added_up() -> None:
    def program(x: float64["n"]):
        a = x * np.sin(x) * np.cos(x)
        b = np.exp(x)
        J = np.sum(a) + np.sum(b)
        return J

    x = np.array([0.3, 1.2])
    data = report_data(cr.backward(cr.trace(program), wrt="x"), {"x": x})
    first, second = chain_of(data, "dJ/dx")
    slope = np.sin(x) * np.cos(x) + x * np.cos(x) ** 2 - x * np.sin(x) ** 2
    assert first["norm"] == pytest.approx(norm(slope), rel=1e-8)
    assert second["norm"] == pytest.approx(norm(np.exp(x)), rel=1e-8)


def test_what_is_no_product_of_the_chain_rule_is_not_written_as_one() -> None:
    def program(x: float64["n"], w: float64["n"]):
        h = np.exp(x)
        J = np.sum(h * w) * np.sum(h * x)
        return J

    data = report_data(cr.backward(cr.trace(program), wrt="x"), {"x": np.ones(2), "w": np.ones(2)})
    values, equation = by_name(data), by_name(data)["dJ/dx"]["equation"]["latex"][0]
    through_h, direct = values["dJ/dx"]["chain"]
    assert through_h["latex"].startswith(r"\operatorname{prod}") and through_h["latex"] in equation
    assert direct["latex"] == r"\left.\frac{\partial J}{\partial \mathbf{x}}\right|_{\text{direct}}"
    assert list(values)[direct["consumer"]] == "J" and direct["upstream"] is None
    e = np.exp(np.ones(2))
    assert direct["norm"] == pytest.approx(norm(np.sum(e) * e), rel=1e-8)


def test_what_comes_through_the_inside_of_a_consumer_is_no_product() -> None:
    """A second derivative reads what is inside of L, the cross-entropy, and not through L alone."""
    values = by_name(report_data(hessian_vector_product()))
    (term,) = values["d(dJ/dW1)/do"]["chain"]
    assert term["latex"].endswith(r"\right|_{\text{via } L}")
    assert "prod" not in values["d(dJ/dW1)/do"]["equation"]["latex"][0]
    (term,) = values["d(dJ/dW1)/dz"]["chain"][:1]
    assert term["latex"] in values["d(dJ/dW1)/dz"]["equation"]["latex"][0]


def test_not_finite_terms_have_no_share() -> None:
    given = arrays()
    given["x"][0, 0] = np.nan
    data = checked(report_data(both(), given))
    first, second = chain_of(data, "dJ/dW2")
    assert first["norm"] is None and first["share"] is second["share"] is None
    assert second["norm"] is not None
    (term,) = chain_of(data, "dJ/do")  # of which only the first row is not finite
    assert by_name(data)["dJ/do"]["stats"]["norm"] is not None and term["norm"] is None


def test_of_very_many_terms_the_first_are_listed() -> None:
    def long(x: float64["n"], w: float64["n"]):
        for _ in range(70):
            x = x * w
        J = np.sum(x)
        return J

    graph = cr.backward(cr.trace(long), wrt="w")
    data = checked(report_data(graph, {"x": np.ones(2), "w": np.ones(2)}))
    terms = chain_of(data, "dJ/dw")
    assert len(terms) == 60 and terms[0]["share"] == pytest.approx(1 / 70)
    assert "Of 1 gradient, only the first 60 terms of the chain rule are listed." in data["notes"]


def test_a_graph_without_gradients_has_no_chains() -> None:
    assert all(one["chain"] == [] for one in report_data(forward(), arrays())["values"])

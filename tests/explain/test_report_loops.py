"""Loops and choices in a report: how often, their equations, and all that they give."""

from __future__ import annotations

from typing import Any

import numpy as np
from report_data_checks import by_name, checked

import chainrule as cr
from chainrule import float64
from chainrule.explain.report.data import report_data


def recurrent(
    x: float64["n 2"], y: float64["n"], W: float64["3 3"], U: float64["2 3"], v: float64["3"]
):
    def cell(h, x):
        z = x @ U + h @ W
        h = np.tanh(z)
        return h, h @ v

    h, o = cr.scan(cell, np.zeros(3), x)
    J = np.mean((o - y) ** 2) + np.sum(h**2)
    return J


def arrays(n: int = 6) -> dict[str, Any]:
    random = np.random.default_rng(3)
    shapes = {"x": (n, 2), "y": (n,), "W": (3, 3), "U": (2, 3), "v": (3,)}
    return {name: random.normal(size=shape) for name, shape in shapes.items()}


def names(data: dict[str, Any], ids: list[int]) -> list[str]:
    return [data["values"][one]["name"] for one in ids]


def test_the_results_of_a_scan_say_of_which_loop_they_are() -> None:
    data = checked(report_data(cr.backward(cr.trace(recurrent), wrt=("W", "U", "v")), arrays()))
    values = by_name(data)
    loop = values["o"]["loop"]
    assert (loop["operation"], loop["bodies"]) == ("scan", ["cell"])
    assert (loop["length"], loop["reverse"]) == (6, False)
    assert names(data, loop["results"]) == ["h", "o"]
    assert values["h"]["loop"] == loop and values["J"]["loop"] is None
    assert values["h"]["stats"]["count"] == 3 and values["o"]["stats"]["count"] == 6


def test_the_recurrence_is_written() -> None:
    values = by_name(report_data(cr.trace(recurrent), arrays()))
    loop = values["o"]["loop"]
    assert loop["latex"] and r"\tanh" in " ".join(loop["latex"])
    assert "tanh" in loop["text"]
    assert not any(one in values["h"]["equation"]["latex"] for one in loop["latex"])


def test_the_step_of_the_loop_is_known() -> None:
    data = report_data(cr.trace(recurrent), arrays())
    steps = [one for one in data["steps"] if one["loop"] is not None]
    assert [names(data, [one["loop"]]) for one in steps] == [["h"]]


def test_a_named_size_stays_the_length() -> None:
    data = checked(report_data(cr.trace(recurrent)))
    assert by_name(data)["h"]["loop"]["length"] == "n"


def test_a_loop_backward_a_choice_and_a_while_loop() -> None:
    def program(x: float64["5"]):
        def suffix(total, one):
            return total + one, total

        total, sums = cr.scan(suffix, 0.0, x, reverse=True)
        chosen = cr.cond(total > 0, lambda: total * 2.0, lambda: -total)
        root = cr.while_loop(lambda a: a > 1.0, lambda a: a / 2.0, chosen)
        return sums, root

    data = checked(report_data(cr.trace(program), {"x": np.arange(5.0)}))
    values = by_name(data)
    assert values["sums"]["loop"]["reverse"] is True
    assert values["chosen"]["loop"]["operation"] == "cond"
    assert len(values["chosen"]["loop"]["bodies"]) == 2
    assert values["root"]["loop"]["operation"] == "while"
    assert values["root"]["loop"]["length"] is None

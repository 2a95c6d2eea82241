"""The page says what each iteration of a loop computes: the numbers are those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import thirteen_programs
from report_data_checks import checked

import chainrule as cr
from chainrule import float64
from chainrule.explain.report.data import report_data
from chainrule.explain.report.iterations import MOST_SHOWN

RANDOM = np.random.default_rng(0)


def iterations(data: dict[str, Any], name: str) -> dict[str, Any]:
    [found] = [one["iterations"] for one in data["values"] if one["name"] == name]
    return found


def test_a_gated_unit_at_each_t() -> None:
    n, d, h, steps = 4, 3, 6, 5
    arrays: dict[str, Any] = {"x": RANDOM.normal(size=(steps, n, d)), "y": np.zeros((n, h))}
    for name in ("Wz", "Wr", "W"):
        arrays[name] = RANDOM.normal(size=(d, h))
    for name in ("Uz", "Ur", "U"):
        arrays[name] = RANDOM.normal(size=(h, h))
    for name in ("bz", "br", "b"):
        arrays[name] = RANDOM.normal(size=h)
    data = checked(report_data(thirteen_programs.gru(), arrays))
    found = iterations(data, "last")
    assert found["at"] == list(range(steps))
    told = {one["name"]: one for one in found["values"]}
    assert list(told) == ["s before", "xt", "z", "r", "c", "s after"]
    s = np.zeros((n, h))
    for t, xt in enumerate(arrays["x"]):
        z = 1 / (1 + np.exp(-(xt @ arrays["Wz"] + s @ arrays["Uz"] + arrays["bz"])))
        r = 1 / (1 + np.exp(-(xt @ arrays["Wr"] + s @ arrays["Ur"] + arrays["br"])))
        c = np.tanh(xt @ arrays["W"] + (r * s) @ arrays["U"] + arrays["b"])
        after = (1 - z) * s + z * c
        values = {"s before": s, "xt": xt, "z": z, "r": r, "c": c, "s after": after}
        for name, value in values.items():
            numbers = value.min(), value.max(), value.mean(), np.linalg.norm(value)
            mine = [told[name][key][t] for key in ("min", "max", "mean", "norm")]
            np.testing.assert_allclose(mine, numbers, rtol=1e-8, atol=1e-12)
        s = after
    back = iterations(data, "dL/dWz")
    assert back["at"] == list(range(steps))  # and from the last to the first in the run


def test_long_loops_and_while_loops_are_sampled_and_choices_have_none() -> None:
    def program(x: float64["t"], w: float64[""]):
        s, _ = cr.scan(lambda s, a: (np.tanh(w * s + a), None), 0.0, x)
        k = cr.while_loop(lambda v: v < 100, lambda v: v * 2 + 1, s, max_steps=20)
        J = cr.cond(k > 0, lambda: k * w, lambda: w)
        return J

    graph = cr.trace(program)
    x = RANDOM.normal(size=1000)
    data = checked(report_data(graph, {"x": x, "w": np.float64(0.5)}))
    at = iterations(data, "s")["at"]
    assert len(at) <= MOST_SHOWN and at[0] == 0 and np.unique(np.diff(at)).size == 1
    [v] = [one for one in iterations(data, "k")["values"] if one["name"].endswith("before")]
    mean = np.array(v["mean"])
    np.testing.assert_allclose(mean[1:], mean[:-1] * 2 + 1, rtol=1e-7)
    assert iterations(data, "J") is None
    assert not any(one["iterations"] for one in report_data(graph, sizes={"t": 5})["values"])

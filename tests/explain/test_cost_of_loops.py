"""A loop takes what its steps take, a choice what its larger branch takes."""

from __future__ import annotations

from typing import Any

import numpy as np

import chainrule as cr
from chainrule import float64


def unrolled(x: float64[6, 8, 3], h: float64[8], w: float64[3]) -> Any:
    for row in x:
        h = np.tanh(h + row @ w)
    return h


def scanned(x: float64["t 8 3"], h: float64[8], w: float64[3]) -> Any:
    return cr.scan(lambda h, row: (np.tanh(h + row @ w), None), h, x)[0]


def test_a_loop_takes_what_the_unrolled_one_takes_and_writes_its_result() -> None:
    loop, steps = cr.trace(scanned).cost(t=6), cr.trace(unrolled).cost()
    assert loop.flops == steps.flops
    assert loop.nbytes == steps.nbytes + 8 * 8  # the last state is copied to the result


def test_a_loop_is_counted_in_named_sizes() -> None:
    cost = cr.trace(scanned).cost()
    assert cost.names == ("t",)
    assert cost.at(t=6).nbytes == cr.trace(scanned).cost(t=6).nbytes
    assert cost.at(t=7).flops == 7 * cost.at(t=1).flops


def test_the_gradient_of_a_loop_takes_more_than_the_loop() -> None:
    def objective(x: float64["t 8 3"], h: float64[8], w: float64[3]) -> Any:
        J = np.sum(scanned(x, h, w))
        return J

    forward = cr.trace(objective)
    alone, phases = forward.cost(t=6), cr.backward(forward, wrt="w").cost(t=6).phases
    assert phases["forward"].flops == alone.flops  # what the way back needs of it is kept
    assert 0.5 * alone.flops < phases["backward"].flops < alone.flops
    assert phases["backward"].nbytes > phases["forward"].nbytes > alone.nbytes


def test_iterations_that_are_done_once_are_counted_once() -> None:
    def objective(x: float64["t 8 3"], h: float64[8], w: float64[3]) -> Any:
        J = np.sum(scanned(x, h, w))
        return J

    forward = cr.trace(objective)
    both = cr.backward(forward, wrt="w")
    loops = [one for one in both.cost().nodes if one.operation == "scan"]
    assert len(loops) == 2 and "t" in str(loops[0].flops)
    assert both.cost(t=6).phases["forward"].flops == forward.cost(t=6).flops


def test_a_choice_between_branches_of_different_sizes_has_a_cost() -> None:
    def choice(x: float64["n"], z: float64["m"]) -> Any:
        return cr.cond(x[0] > 0, lambda: np.sum(np.sin(x)), lambda: np.sum(np.cos(z)))

    cost = cr.trace(choice).cost()
    assert "max(" in str(cost)
    several = {n: cr.trace(choice).cost(n=n, m=8) for n in (1, 8, 64)}
    assert several[1].flops == several[8].flops < several[64].flops
    assert several[1].nbytes == several[8].nbytes < several[64].nbytes
    assert cost.at(n=64, m=8).flops == several[64].flops


def test_a_loop_of_unknown_length_counts_one_step_and_its_condition() -> None:
    def root(a: float64[()]) -> Any:
        return cr.while_loop(lambda x: x * x - a > 1e-9, lambda x: (x + a / x) / 2, a)

    (node,) = [one for one in cr.trace(root).cost().nodes if one.operation == "while_"]
    assert node.flops == 3 + 3  # x + a / x, halved; x² - a, compared
    assert node.nbytes > 8

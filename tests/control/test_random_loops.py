"""Random programs as the iteration of a loop, as the branches of a choice, and in a batch: the same
values and derivatives as unrolled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume
from loops import unrolled
from namespaces import traced
from programs import Program, random_programs

import chainrule as cr

LENGTH = 3


def loop_of(program: Program, loop: Any, reverse: bool = False) -> Any:
    """The program again and again, on arrays that depend on its last result and on a slice."""
    function = program.function(traced)

    def looped(start: Any, xs: Any, *arrays: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            J = np.sin(function(*[a * (1 + 0.1 * c) + 0.1 * x for a in arrays]))
            return J, J * x

        last, ys = loop(step, start, xs, reverse=reverse)
        return last + np.sum(np.sin(ys))

    return looped


def given(program: Program, seed: int) -> list[Any]:
    arrays = [np.asarray(one, np.float64) for one in program.arguments(seed, {})]
    return [np.float64(0.3), np.linspace(-1, 1, LENGTH), *arrays]


def agree(got: Any, expected: Any) -> None:
    assume(all(np.isfinite(other).all() for other in expected))
    largest = max(np.max(np.abs(other), initial=1.0) for other in expected)
    assume(largest < 1e9)  # else digits are lost before: 1 - tanh(x)**2 where tanh is nearly 1
    for one, other in zip(got, expected, strict=True):
        assert one.shape == other.shape
        # Sums in another order: what cancels is as far from 0 as its terms are large.
        scale = np.max(np.abs(other), initial=1e-4 * largest)
        assert np.all(np.abs(one - other) <= 1e-9 * scale)


def check(program: Program, seed: int, reverse: bool) -> None:
    arguments = given(program, seed)
    places = range(len(arguments))
    scan, python = (loop_of(program, one, reverse) for one in (cr.scan, unrolled))
    agree(cr.grad(scan, places)(*arguments), cr.grad(python, places)(*arguments))
    moves = tuple(np.cos(one) for one in arguments)
    tangents = [[cr.jvp(f, tuple(arguments), moves)[1]] for f in (scan, python)]
    agree(*tangents)
    second = [
        cr.grad(lambda *a, f=f: sum(np.sum(np.sin(g)) for g in cr.grad(f, places)(*a)), places)(
            *arguments
        )
        for f in (scan, python)
    ]
    agree(*second)


@random_programs(3, empty=False)
def test_a_loop_over_a_random_program(program: Program, seed: int) -> None:
    check(program, seed, bool(seed % 2))


@pytest.mark.exhaustive
@random_programs(20, repeatable=False, empty=False)
def test_many_loops_over_random_programs(program: Program, seed: int) -> None:
    check(program, seed, bool(seed % 2))


@random_programs(4, empty=False)
def test_a_choice_between_random_programs(program: Program, seed: int) -> None:
    function = program.function(traced)
    arguments = given(program, seed)[2:]
    places = range(len(arguments))

    def chosen(*arrays: Any) -> Any:
        first = np.sum(arrays[0])
        return cr.cond(first > 0, function, lambda *a: np.sin(function(*a)), *arrays)

    def expected(*arrays: Any) -> Any:
        return function(*arrays) if taken else np.sin(function(*arrays))

    taken = bool(np.sum(arguments[0]) > 0)
    agree(cr.grad(chosen, places)(*arguments), cr.grad(expected, places)(*arguments))


@random_programs(2, empty=False)
def test_a_batch_of_loops_over_a_random_program(program: Program, seed: int) -> None:
    many = [given(program, seed + k) for k in range(2)]
    places = range(len(many[0]))
    gradient = cr.grad(loop_of(program, cr.scan), places)
    got = cr.vmap(gradient)(*(np.stack(several) for several in zip(*many, strict=True)))
    loop = [gradient(*one) for one in many]
    for place in places:
        agree([got[place]], [np.stack([one[place] for one in loop])])

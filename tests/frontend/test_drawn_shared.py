"""The generators that all share: draws behind other names, in libraries, and of other threads."""

from __future__ import annotations

import functools
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.random as npr
import pytest
from freezing import line_of, told_by

import chainrule as cr

X = np.ones(3)
HIDDEN = [lambda: np.random.normal(size=3)]
PARTS = {"a": functools.partial(np.random.normal, size=3)}
BITS = np.random.PCG64(0)


def under_another_name(x: Any) -> Any:
    return x * npr.rand()


def imported_inside(x: Any) -> Any:
    from numpy.random import normal

    return x * normal(size=3)


def imported_inside_under_another_name(x: Any) -> Any:
    import numpy.random as draws

    return x * draws.rand()


def imported_from_python(x: Any) -> Any:
    import random as draws

    return x * draws.random()


def kept_in_a_variable(x: Any) -> Any:
    generator = npr
    draw = generator.rand
    return x * draw()


def in_a_list(x: Any) -> Any:
    return x + HIDDEN[0]()


def in_a_dict(x: Any) -> Any:
    return x + PARTS["a"]()


def raw_bits(x: Any) -> Any:
    return x + BITS.random_raw() % 5


def of_a_name_that_is_made(x: Any) -> Any:
    return x + getattr(np, "ran" + "dom").normal(size=3)


# the function, what draws, and a text of the line
SHARED: list[tuple[Callable[[Any], Any], str, str]] = [
    (under_another_name, "npr.rand", "npr.rand()"),
    (imported_inside, "normal", "normal(size=3)"),
    (imported_inside_under_another_name, "draws.rand", "draws.rand()"),
    (imported_from_python, "draws.random", "draws.random()"),
    (kept_in_a_variable, "generator.rand", "draw = generator.rand"),
    (in_a_list, "np.random.normal", "HIDDEN = [lambda"),
    (in_a_dict, "np.random", "def in_a_dict"),
    (raw_bits, "BITS.random_raw", "BITS.random_raw() % 5"),
    (of_a_name_that_is_made, "np.random", "def of_a_name_that_is_made"),
]


@pytest.mark.parametrize(("function", "name", "line"), SHARED)
def test_a_draw_under_any_name_is_told(
    function: Callable[[Any], Any], name: str, line: str
) -> None:
    (told,) = told_by(lambda: cr.trace(function, X))
    assert str(told.message).startswith(f"{name} draws while {function.__name__} is traced: ")
    assert told.filename == __file__
    assert line in line_of(told)


def test_the_second_number_of_a_pair_of_normals_is_a_draw() -> None:
    def scaled(x: Any) -> Any:
        return x * npr.standard_normal()

    for _ in range(4):  # the legacy generator keeps one of two numbers for the next call
        assert len(told_by(lambda: cr.trace(scaled, X))) == 1
    gauss = random.gauss

    def scaled_by_python(x: Any) -> Any:
        return x * gauss(0, 1)

    for _ in range(4):
        assert len(told_by(lambda: cr.trace(scaled_by_python, X))) == 1


def test_a_seed_makes_only_its_own_generator_silent() -> None:
    def half_seeded(x: Any) -> Any:
        random.seed(0)
        return x * random.random() * np.random.rand()

    (told,) = told_by(lambda: cr.trace(half_seeded, X))
    assert str(told.message).startswith("np.random.rand draws")


def test_a_thread_of_the_program_itself_draws_for_it() -> None:
    def drawing_elsewhere(x: Any) -> Any:
        found: list[float] = []
        thread = threading.Thread(target=lambda: found.append(np.random.rand()))
        thread.start()
        thread.join()
        return x * found[0]

    (told,) = told_by(lambda: cr.trace(drawing_elsewhere, X))
    assert str(told.message).startswith("np.random.rand draws")


def test_what_another_thread_may_have_drawn_is_silent() -> None:
    begin, end = threading.Event(), threading.Event()

    def drawing() -> None:
        begin.wait()
        np.random.normal()
        random.random()
        end.set()

    def meanwhile(x: Any) -> Any:
        begin.set()
        end.wait()
        return x

    thread = threading.Thread(target=drawing)
    thread.start()
    before = random.getstate()
    assert told_by(lambda: cr.trace(meanwhile, X)) == []
    thread.join()
    assert random.getstate() != before


def test_a_thread_that_waits_hides_no_draw() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    time.sleep(0.1)  # it waits now
    (told,) = told_by(lambda: cr.trace(of_a_name_that_is_made, X))
    end.set()
    thread.join()
    assert str(told.message).startswith("np.random draws")


@pytest.mark.peers
def test_torchs_generators_are_told() -> None:
    torch = pytest.importorskip("torch")
    generator, drop = torch.Generator(), torch.nn.Dropout()

    def own(x: Any) -> Any:
        return x + torch.randn(3, dtype=torch.float64).numpy()

    def given(x: Any) -> Any:
        return x + torch.rand(3, dtype=torch.float64, generator=generator).numpy()

    def in_place(x: Any) -> Any:
        return x + torch.zeros(3, dtype=torch.float64).normal_().numpy()

    def in_place_given(x: Any) -> Any:
        return x + torch.zeros(3, dtype=torch.float64).uniform_(generator=generator).numpy()

    def of_a_layer(x: Any) -> Any:
        return x + drop(torch.ones(3, dtype=torch.float64)).numpy()

    def imported(x: Any) -> Any:
        from torch import nn

        return x + nn.functional.dropout(torch.ones(3, dtype=torch.float64)).numpy()

    def seeded(x: Any) -> Any:
        torch.manual_seed(0)
        return x + torch.randn(3, dtype=torch.float64).numpy()

    def none(x: Any) -> Any:
        return x + torch.ones(3, dtype=torch.float64).numpy()

    for function, name, line in (
        (own, "torch.randn", "torch.randn(3"),
        (given, "torch.rand", "torch.rand(3"),
        (in_place, "torch", "normal_()"),
        (in_place_given, "generator", "uniform_("),
        (of_a_layer, "torch", "drop(torch.ones"),
        (imported, "nn.functional.dropout", "nn.functional.dropout("),
    ):
        (told,) = told_by(lambda function=function: cr.trace(function, X))
        assert str(told.message).startswith(f"{name} draws while {function.__name__} is traced")
        assert line in line_of(told)
    assert told_by(lambda: cr.trace(seeded, X)) == told_by(lambda: cr.trace(none, X)) == []


@pytest.mark.peers
def test_draws_of_scipy_are_told() -> None:
    stats = pytest.importorskip("scipy.stats")
    frozen, generator = stats.norm(), np.random.default_rng(0)

    def by_name(x: Any) -> Any:
        return x + stats.norm.rvs(size=3)

    def of_a_distribution(x: Any) -> Any:
        return x + frozen.rvs(size=3)

    def given(x: Any) -> Any:
        return x + stats.norm.rvs(size=3, random_state=generator)

    def seeded(x: Any) -> Any:
        return x + stats.norm.rvs(size=3, random_state=0)

    for function, name in ((by_name, "np.random"), (of_a_distribution, "np.random")):
        (told,) = told_by(lambda function=function: cr.trace(function, X))
        assert str(told.message).startswith(f"{name} draws while {function.__name__} is traced")
        assert "rvs(size=3)" in line_of(told)
    (told,) = told_by(lambda: cr.trace(given, X))
    assert str(told.message).startswith("generator draws while given is traced")
    assert told_by(lambda: cr.trace(seeded, X)) == []

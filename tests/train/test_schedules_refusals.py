"""Numbers of which no schedule can be made are refused where it is made."""

from __future__ import annotations

import pytest

import chainrule as cr
from chainrule.errors import InputError

schedules = cr.schedules


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (
            lambda: schedules.constant(-1),
            "a learning rate is a finite number of .* 0, got -1",
        ),
        (lambda: schedules.cosine("1", 10), "a learning rate is a finite number .*, got '1'"),
        (lambda: schedules.cosine(0.1, 0), "steps is a finite number of at least 1, got 0"),
        (lambda: schedules.cosine(0.1, 10, -1), "a warm-up is a finite number .*, got -1"),
        (
            lambda: schedules.cosine(0.1, 10, 11),
            "steps includes the warm-up: got warmup=11 of",
        ),
        (lambda: schedules.cosine(0.1, 10, 0, 0.2), "decreases: got floor=0.2 above rate=0.1"),
        (lambda: schedules.step(0.1, 0), "every is a finite number of at least 1, got 0"),
        (
            lambda: schedules.step(0.1, 5, -0.1),
            "a factor is a finite number .*, got -0.1",
        ),
        (lambda: schedules.step(0.1, float("nan")), "every is a finite number .*, got nan"),
        (lambda: schedules.piecewise(0.1, 5), "boundaries are numbers of steps, got 5"),
        (lambda: schedules.piecewise(0.1, []), r"each more than the one before, got \[\]"),
        (lambda: schedules.piecewise(0.1, [5, 5]), r"each more than .* before, got \[5, 5\]"),
        (lambda: schedules.piecewise(0.1, [-5]), "a boundary is a finite number .*, got -5"),
    ],
)
def test_numbers_that_make_no_schedule_are_explained(make, what):
    with pytest.raises(InputError, match=what) as caught:
        make()
    assert caught.value.hint.startswith("cr.schedules.")


def test_a_call_that_does_not_fit_is_told_the_arguments():
    with pytest.raises(InputError) as caught:
        schedules.cosine(0.1)  # type: ignore[call-arg]
    assert caught.value.what == "cr.schedules.cosine was called without steps"
    assert caught.value.hint == "its arguments are: rate, steps, warmup=0, floor=0.0"


@pytest.mark.parametrize("make", [cr.sgd, cr.adam, cr.adamw, cr.rmsprop])
def test_a_function_in_place_of_a_schedule_is_explained(make):
    def halving(step):
        return 0.5**step

    with pytest.raises(InputError) as caught:
        make(halving)
    what = "a learning rate is a number or a schedule, got the function halving"
    assert caught.value.what == what
    assert "cr.schedules.cosine(" in caught.value.hint

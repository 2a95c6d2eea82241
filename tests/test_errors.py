"""Every exception says what happened, in which line of the user's, and what to try."""

import inspect

import programs_refused_running
import programs_refused_tracing
import programs_refused_training
import programs_refused_typing
import programs_warned
import pytest
from provoking import CASES, LABELS, W, X, full_text

from chainrule import errors

assert programs_refused_tracing and programs_refused_typing and programs_refused_running
assert programs_refused_training and programs_warned
IDS = [program.__name__ for _, program in CASES]


def every_kind():
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind)]
    return [kind for kind in kinds if issubclass(kind, Exception)]


def bytes_of_inputs():
    return [array.tobytes() for array in (X, W, LABELS)]


def test_every_exception_is_provoked_here():
    assert {kind for kind, _ in CASES} == set(every_kind())


@pytest.mark.parametrize(("kind", "case"), CASES, ids=IDS)
def test_the_text_says_what_where_and_what_to_try(kind, case):
    before = bytes_of_inputs()
    with pytest.raises(kind) as caught:
        case()
    assert type(caught.value) is kind
    assert str(caught.value) == full_text(case)
    assert bytes_of_inputs() == before


@pytest.mark.parametrize("kind", every_kind(), ids=lambda kind: kind.__name__)
def test_every_exception_says_what_it_is_for(kind):
    assert inspect.getdoc(kind)


def test_wrong_arguments_are_found_before_anything_runs(monkeypatch):
    def run_too_early(*args, **kwargs):
        raise AssertionError("evaluated before the arguments were checked")

    monkeypatch.setattr("chainrule.execute.reference.evaluate", run_too_early)
    found = []
    for kind, provoke in CASES:
        if kind in (errors.InputError, errors.SizeError):
            with pytest.raises(kind):
                provoke()
            found.append(provoke)
    assert len(found) >= 6

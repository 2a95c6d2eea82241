"""Every exception says what happened, in which line of the user's, and what to try."""

import ast
import builtins
import gc
import inspect
from functools import cache
from pathlib import Path

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
SOURCE = Path(errors.__file__).parent
# Exceptions that no user meets: something below catches each.
INSIDE = {
    "DamagedEntryError",
    "Interrupted",
    "NotAffineError",
    "NotComputedError",
    "NotWritten",
    "ObjectError",
    "Stopped",
}
INSIDE |= {"Refused", "TooLong", "UndecidedError", "Unknown"}


@cache
def trees():
    """The syntax trees of all modules, by file; collecting garbage would take the longest."""
    gc.disable()
    try:
        return {file: ast.parse(file.read_text(encoding="utf-8")) for file in SOURCE.rglob("*.py")}
    finally:
        gc.freeze()
        gc.enable()


@cache
def nodes(*kinds):
    """The nodes of these kinds in all modules, with their files."""
    return [
        (file, node)
        for file, tree in trees().items()
        for node in every_node(tree)
        if isinstance(node, kinds)
    ]


@cache
def every_node(tree):
    """All but what is in expressions, which are most of them."""
    found = [tree]
    for node in found:
        found += [one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr)]
    return found


def every_kind():
    kinds = [kind for kind in vars(errors).values() if inspect.isclass(kind)]
    return [kind for kind in kinds if issubclass(kind, Exception)]


def is_exception(name, found=()):
    kind = getattr(builtins, name, None)
    return name in found or (inspect.isclass(kind) and issubclass(kind, BaseException))


def defined():
    """The exceptions that modules other than `errors` define."""
    classes = [node for file, node in nodes(ast.ClassDef) if file.name != "errors.py"]
    known, count = {kind.__name__ for kind in every_kind()}, -1
    found = set()
    while len(found) > count:
        count = len(found)
        for node in classes:
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if any(is_exception(base, known | found) for base in bases):
                found.add(node.name)
    return found


def raised():
    """What is raised or warned of, where it is named there: (name, file:line)."""
    for file, node in nodes(ast.Raise, ast.Expr):
        one, call = None, node.exc if isinstance(node, ast.Raise) else node.value
        if isinstance(node, ast.Raise):
            one = call.func if isinstance(call, ast.Call) else call
        elif isinstance(call, ast.Call) and ast.unparse(call.func).startswith("warnings.warn"):
            one = call.args[1] if len(call.args) > 1 else None
        if isinstance(one, ast.Name) and one.id[0].isupper():
            yield one.id, f"{file}:{node.lineno}"


def caught():
    """The names in all `except` clauses."""
    for _, node in nodes(ast.ExceptHandler):
        if node.type is not None:
            yield from (one.id for one in ast.walk(node.type) if isinstance(one, ast.Name))


def bytes_of_inputs():
    return [array.tobytes() for array in (X, W, LABELS)]


def test_every_exception_is_provoked_here():
    assert {kind for kind, _ in CASES} == set(every_kind())


def test_every_exception_that_a_user_can_meet_is_in_errors():
    assert defined() == INSIDE
    names = {kind.__name__ for kind in every_kind()} | INSIDE
    found = list(raised())
    assert len(found) > 300
    assert [one for one in found if not is_exception(one[0], names)] == []


def test_exceptions_that_are_not_in_errors_are_caught():
    assert INSIDE - set(caught()) == set()


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

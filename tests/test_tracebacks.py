"""What a traceback shows: the user's lines, and none of this library's."""

import os
import pdb
import traceback
import types
import warnings

import numpy as np
import programs_refused_running  # noqa: F401
import programs_refused_tracing  # noqa: F401
import programs_refused_training  # noqa: F401
import programs_refused_typing  # noqa: F401
import pytest
from provoking import CASES

import chainrule as cr
from chainrule import errors
from chainrule.data import minibatches
from chainrule.testing import check_gradients
from chainrule.tracebacks import shorten

X = np.ones((2, 3))
W = np.ones((2, 3))
ROOT = os.path.dirname(cr.__file__)


def f(x, W):
    y = x @ W
    return np.sum(y)


def fine(x, w):
    return np.sum((x * w) ** 2)


def raising(x):
    raise LookupError("of the user's own")


def traced():
    return cr.trace(fine, x=X, w=W)


def step(executor):
    return cr.training_step(traced(), wrt="w", optimizer=cr.sgd(0.1), executor=executor)


def trainer():
    return cr.Trainer(step("reference"), {"w": W}, data=lambda _: [{"x": X[:1]}], progress=False)


def epochs():
    for _ in trainer().epochs(1):
        pass


# What is wrong, and whether it is so within a function of the user's.
WAYS = {
    "trace": (lambda: cr.trace(f, X, W), True),
    "compile": (lambda: cr.compile(f)(X, W), True),
    "grad": (lambda: cr.grad(f)(X, W), True),
    "value_and_grad": (lambda: cr.value_and_grad(f)(X, W), True),
    "grad of a grad": (lambda: cr.grad(lambda x: np.sum(cr.grad(f)(x, W)))(X), True),
    "vjp": (lambda: cr.vjp(f, X, W), True),
    "jvp": (lambda: cr.jvp(f, (X, W), (X, W)), True),
    "hvp": (lambda: cr.hvp(f, (X, W), (X, W)), True),
    "vmap": (lambda: cr.vmap(f)(np.stack([X, X]), np.stack([W, W])), True),
    "jacobian": (lambda: cr.jacobian(f)(X, W), True),
    "hessian": (lambda: cr.hessian(f)(X, W), True),
    "scan": (lambda: cr.scan(lambda c, x: (f(x, W), None), 0.0, np.stack([X, X])), True),
    "cond": (lambda: cr.cond(X[0, 0] > 0, f, f, X, W), True),
    "while_loop": (lambda: cr.while_loop(lambda c: c < 1, lambda c: f(X * c, W), 0.0), True),
    "fori_loop": (lambda: cr.fori_loop(0, 3, lambda i, c: f(X * c, W), 0.0), True),
    "check_gradients": (lambda: check_gradients(lambda x: f(x, W), X), True),
    "run": (lambda: traced().run(x=X[:1], w=W), False),
    "a value of a run": (lambda: traced().run(x=X, w=W)["q"], False),
    "a value of a graph": (lambda: traced()["q"], False),
    "backward": (lambda: cr.backward(traced(), wrt="q"), False),
    "memory": (lambda: traced().memory(q=3), False),
    "bind": (lambda: traced().bind(q=3), False),
    "nonfinite": (lambda: traced().nonfinite(x=X), False),
    "a compiled graph": (lambda: traced().compile()(x=X[:1], w=W), False),
    "a step": (lambda: step("reference")(step("reference").init(w=W), x=X[:1]), False),
    "a native step": (lambda: step("native")(step("native").init(w=W), x=X[:1]), False),
    "init": (lambda: step("native").init(w=W[:1]), False),
    "Trainer.fit": (lambda: trainer().fit(1), False),
    "Trainer.epochs": (epochs, False),
    "evaluate": (lambda: cr.evaluate(traced(), {"w": W}, {"x": X[:, :2]}), False),
    "minibatches": (lambda: minibatches({"x": X, "y": X[:1]}, 2), False),
}


def frames_of(error):
    return traceback.extract_tb(error.__traceback__)


def ours(error):
    return [one for one in frames_of(error) if one.filename.startswith(ROOT)]


@pytest.mark.parametrize("way", WAYS)
def test_a_traceback_has_the_users_lines_alone(way):
    call, is_within = WAYS[way]
    with pytest.raises(errors.ChainruleError) as caught:
        call()
    assert ours(caught.value) == []
    assert all(one.filename == __file__ for one in frames_of(caught.value))
    assert (frames_of(caught.value)[-1].line == "y = x @ W") == is_within
    shown = "".join(traceback.format_exception(caught.value))
    assert ROOT not in shown


@pytest.mark.parametrize("way", ["trace", "compile", "grad", "run", "a native step"])
def test_all_frames_are_shown_when_asked_for(way, monkeypatch):
    monkeypatch.setenv("CHAINRULE_TRACEBACK", "full")
    with pytest.raises(errors.ChainruleError) as caught:
        WAYS[way][0]()
    assert len(ours(caught.value)) > 2


@pytest.mark.parametrize(
    "call", [lambda: cr.trace(raising, X), lambda: cr.grad(raising)(X), lambda: cr.vmap(raising)(X)]
)
def test_what_the_users_function_raises_keeps_its_lines(call):
    with pytest.raises(LookupError, match="of the user's own") as caught:
        call()
    assert ours(caught.value) == []
    assert frames_of(caught.value)[-1].name == "raising"


def test_an_error_of_this_library_keeps_all_frames(monkeypatch):
    def broken(*_):
        raise AttributeError("ours")

    monkeypatch.setattr("chainrule.tracing._graph", types.FunctionType(broken.__code__, vars(cr)))
    with pytest.raises(AttributeError) as caught:
        cr.trace(fine, X, W)
    assert len(ours(caught.value)) >= 2


def test_causes_stay_chained():
    graph = cr.trace(lambda x, i: np.take(x, i), np.ones(3), np.array([1]))
    with pytest.raises(errors.IndexOutOfRangeError) as caught:
        graph.run(x=np.ones(3), i=np.array([7]))
    assert isinstance(caught.value.__cause__, IndexError)
    assert len(traceback.extract_tb(caught.value.__cause__.__traceback__)) <= 1
    assert "index 7" in "".join(traceback.format_exception(caught.value))


def test_debuggers_see_the_frames_that_are_left():
    with pytest.raises(errors.ShapeError) as caught:
        cr.grad(f)(X, W)
    debugger = pdb.Pdb()
    stack, _ = debugger.get_stack(None, caught.value.__traceback__)
    assert stack[-1][0].f_locals["x"].shape == (2, 3)  # the traced array of f


def test_errors_that_are_each_others_cause_come_to_an_end():
    first, second = ValueError(), ValueError()
    try:
        raise first
    except ValueError:
        first.__context__, second.__context__ = second, first
    shorten(first)
    assert frames_of(first)


# Called in the catalogue without the entry point that a user calls, or faults of this library.
ELSEWHERE = {
    "weights_that_are_stored_as_integers",
    "a_data_file_that_is_damaged",
    "a_graph_that_is_none",
    "a_history_that_is_gone",
    "a_run_that_does_not_fit",
    "a_schedule_that_reads_what_is_not_there",
    "a_training_that_diverges",
}


@pytest.mark.parametrize(
    ("kind", "case"), CASES, ids=[f"{case.__module__}.{case.__name__}" for _, case in CASES]
)
def test_the_whole_catalogue_has_the_users_lines_alone(kind, case):
    with warnings.catch_warnings():
        warnings.simplefilter("error" if issubclass(kind, Warning) else "ignore")
        with pytest.raises(kind) as caught:
            case()
    assert len(ours(caught.value)) == 0 or case.__name__ in ELSEWHERE


COMPLEX = {
    "a closed-over number": lambda: cr.trace(lambda x: x * 2j, X),
    "a number on the left": lambda: cr.grad(lambda x: np.sum(2j * x))(X),
    "an argument": lambda: cr.trace(lambda x: x * 2, 1j),
    "an argument of grad": lambda: cr.grad(lambda x: x * 2)(1j),
    "a primal": lambda: cr.jvp(np.sin, (1j,), (1j,)),
    "in a container": lambda: cr.grad(lambda p: p["a"] * 2)({"a": 1j}),
    "what is returned": lambda: cr.trace(lambda x: 1j, X),
    "an input of a run": lambda: cr.trace(np.sin, 1.0).run(x=1j),
    "a choice": lambda: cr.trace(lambda x: np.where(x > 0, 1j, x), X),
    "a dtype": lambda: cr.trace(np.sin, np.complex64(1j)),
}


@pytest.mark.parametrize("case", COMPLEX)
def test_a_complex_number_is_called_complex(case):
    with pytest.raises(TypeError if case != "an input of a run" else ValueError) as caught:
        COMPLEX[case]()
    assert isinstance(caught.value, errors.ChainruleError)
    assert "complex" in caught.value.what
    assert "real" in caught.value.hint and "np.asarray(" not in caught.value.hint


@pytest.mark.parametrize("name", ["jvp", "hvp", "grad", "jacobian", "vmap", "scan"])
def test_a_call_without_arrays_names_the_users_function(name):
    def mine(*_):
        return 2.0

    calls = {
        "jvp": lambda: cr.jvp(mine, (), ()),
        "hvp": lambda: cr.hvp(mine, (), ()),
        "grad": lambda: cr.grad(mine)(),
        "jacobian": lambda: cr.jacobian(mine)(),
        "vmap": lambda: cr.vmap(mine)(),
        "scan": lambda: cr.scan(mine, None, None, length=3),
    }
    with pytest.raises(errors.InputError, match=r"mine was called without any array") as caught:
        calls[name]()
    for internal in ("both", "nested", "derivative", "given", "traceable"):
        assert internal not in str(caught.value).split()

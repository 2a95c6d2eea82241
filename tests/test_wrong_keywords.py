"""A keyword that a call does not take: the message says which is meant, or those that there are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_entries import FUNCTIONS, OPERATORS, objects

import chainrule as cr
from chainrule import float32
from chainrule.errors import ChainruleError, InputError
from chainrule.signatures import ELSEWHERE, OTHER_NAMES, meant

X, Y = np.ones((4, 3), np.float32), np.ones(4, np.float32)


def objective(params, x: float32["n 3"], y: float32["n"]):
    J = np.mean((x @ params["W"] - y) ** 2)
    return J


PARAMS = {"W": np.ones(3, np.float32)}
STRANGE = "keyword_that_nothing_takes"


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ChainruleError) as caught:
        call()
    return str(caught.value)


def is_watched(one: Any) -> bool:
    """Whether the function is an entry, or a composite or a maker with its own."""
    files = ("tracebacks.py", "composite.py", "made.py")
    is_wrapper = inspect.isfunction(one) and hasattr(one, "__wrapped__")
    return is_wrapper and one.__code__.co_filename.endswith(files)


def takes_any(one: Any) -> bool:
    try:
        parameters = inspect.signature(one).parameters.values()
    except (TypeError, ValueError):  # of C
        return True
    return any(p.kind is p.VAR_KEYWORD for p in parameters)


WATCHED = [n for n, one in FUNCTIONS.items() if is_watched(one) and not takes_any(one)]


def test_most_functions_are_watched() -> None:
    assert len(WATCHED) > 120 and {"cr.grad", "cr.training_step", "cr.softmax"} <= {*FUNCTIONS}


@pytest.mark.parametrize("name", WATCHED)
def test_a_public_function_says_which_arguments_it_has(name: str) -> None:
    function: Any = FUNCTIONS[name]
    said = refusal(lambda: function(**{STRANGE: 1}))
    assert STRANGE in said and "its arguments are:" in said, said
    assert all(p in said for p in inspect.signature(function).parameters)


def test_every_method_says_which_arguments_it_has() -> None:
    tried = 0
    for what, one in objects().items():
        for name in [x for x in dir(type(one)) if x[0] != "_" or x in OPERATORS]:
            method = inspect.getattr_static(type(one), name)
            if not is_watched(method) or takes_any(method) or name in OPERATORS:
                continue
            if not method.__code__.co_filename.endswith("tracebacks.py"):
                continue  # no entry: Python says it
            tried += 1
            said = refusal(lambda one=one, name=name: getattr(one, name)(**{STRANGE: 1}))
            assert f"has no argument {STRANGE}" in said and "its arguments are:" in said, what
    assert tried > 20


def step() -> cr.TrainingStep:
    return cr.training_step(objective, "params", cr.sgd(0.1), executor="reference", params=PARAMS)


def trainer(**options: Any) -> cr.Trainer:
    data = {"x": X, "y": Y}
    given: Any = (objective, {"params": PARAMS}, cr.sgd(0.1), data)
    return cr.Trainer(*given, progress=False, executor="reference", **options)


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "cr.adam lr": (lambda: cr.adam(lr=1), "cr.adam has no argument lr\n  try: perhaps learning_r"),  # type: ignore[call-arg]  # pyright: ignore
    "cr.sgd lr": (lambda: cr.sgd(lr=1), "cr.sgd has no argument lr\n  try: perhaps learning_rate;"),  # type: ignore[call-arg]  # pyright: ignore
    "cosine lr": (lambda: cr.schedules.cosine(lr=1), "perhaps rate;"),  # type: ignore[call-arg]  # pyright: ignore
    "momentun": (lambda: cr.sgd(0.1, momentun=1), "perhaps momentum;"),  # type: ignore[call-arg]  # pyright: ignore
    "wd": (lambda: cr.adamw(0.1, wd=1), "perhaps weight_decay;"),  # type: ignore[call-arg]  # pyright: ignore
    "no rate": (lambda: cr.sgd(), "cr.sgd was called without learning_rate\n"),  # type: ignore[call-arg]  # pyright: ignore
    "params of a step": (
        lambda: cr.training_step(objective, params="params", optimizer=cr.sgd(0.1)),  # type: ignore[call-arg]  # pyright: ignore
        "cr.training_step was called without wrt\n  try: perhaps wrt= for params=; its arguments",
    ),
    "lr of a step": (
        lambda: cr.training_step(objective, "params", cr.sgd(0.1), lr=1, params=PARAMS),
        "objective has no parameter for: lr",
    ),
    "backend of a step": (
        lambda: cr.training_step(objective, "params", cr.sgd(0.1), backend="x", params=PARAMS),
        "perhaps executor; its parameters are: params, x, y; those of training_step: wrt, opt",
    ),
    "trace": (lambda: cr.trace(objective, parms=PARAMS), "perhaps params; its parameters are"),
    "grad": (lambda: cr.grad(objective, argnums=0), "cr.grad has no argument argnums\n  try: perh"),  # type: ignore[call-arg]  # pyright: ignore
    "vmap": (lambda: cr.vmap(objective, in_dims=0), "perhaps in_axes;"),  # type: ignore[call-arg]  # pyright: ignore
    "compile": (lambda: cr.compile(objective, static_argnums=0), "each combination of types is"),  # type: ignore[call-arg]  # pyright: ignore
    "a call of a gradient": (
        lambda: cr.grad(objective)(PARAMS, X, yy=Y), "perhaps y; its parameters are: params, x, y"
    ),
    "epochs of a trainer": (lambda: trainer(epochs=3), "try: trainer.fit(10) and trainer.epochs("),
    "lr of a trainer": (lambda: trainer(lr=3), "try: numbers of the optimizer go into cr.adam("),
    "batch of a trainer": (lambda: trainer(batch=3), "perhaps batch_size;"),
    "epochs of fit": (lambda: trainer().fit(epochs=3), "Trainer.fit has no argument epochs\n"),  # type: ignore[call-arg]  # pyright: ignore
    "a number of a step": (
        lambda: step()(step().init(params=PARAMS), x=X, y=Y, lr=1), "perhaps learning_rate; a step"
    ),
    "an input of a step": (lambda: step()(step().init(params=PARAMS), X=X, y=Y), "perhaps x;"),
    "an option of a run": (
        lambda: cr.trace(objective, params=PARAMS).run(params=PARAMS, x=X, y=Y, keeps="named"),
        "perhaps keep; its inputs are: params, x, y",
    ),
    "evaluate": (
        lambda: cr.evaluate(objective, PARAMS, {"x": X}, bs=3),  # type: ignore[call-arg]  # pyright: ignore
        "cr.evaluate has no argument bs\n  try: perhaps batch_size;",
    ),
    "softmax": (lambda: cr.softmax(X, dim=1), "perhaps axis; its arguments are: cr.softmax(x, "),  # type: ignore[call-arg]  # pyright: ignore
    "dropout": (lambda: cr.dropout(X, p=0.5), "perhaps rate; its arguments are"),  # type: ignore[call-arg]  # pyright: ignore
    "traced softmax": (
        lambda: cr.trace(lambda x: cr.softmax(x, dim=1), X), "perhaps axis; its arguments are"  # type: ignore[call-arg]  # pyright: ignore
    ),
    "np.mean": (lambda: cr.trace(lambda x: np.mean(x, axs=1), X), "perhaps axis; its arguments"),  # type: ignore[call-overload]  # pyright: ignore
    "np.sum": (lambda: cr.trace(lambda x: np.sum(x, dim=1), X), "try: NumPy calls it axis"),  # type: ignore[call-overload]  # pyright: ignore
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_keyword_that_is_meant_is_named(mistake: str) -> None:
    call, part = MISTAKES[mistake]
    assert part in refusal(call)


def test_what_a_function_itself_raises_stays_as_it_is() -> None:
    def wrong(x: float32["n"]):
        return len(3)  # type: ignore[arg-type]

    with pytest.raises(TypeError, match="has no len"):
        cr.trace(wrong)
    with pytest.raises(TypeError, match="missing 2 required positional arguments"):
        cr.trace(lambda x: objective(x), X)  # type: ignore[call-arg]


def test_what_is_given_twice_and_too_much_is_told() -> None:
    assert "multiple values for argument 'betas'" in refusal(lambda: cr.adam(1, (0, 0), betas=0))  # type: ignore[misc]  # pyright: ignore
    assert "cr.adam: too many positional" in refusal(lambda: cr.adam(1, 2, 3, 4, 5, 6))  # type: ignore[call-arg]  # pyright: ignore


def test_other_names_are_of_no_argument_that_they_would_hide() -> None:
    for name, ours in OTHER_NAMES.items():
        assert name not in ours
        assert meant(name, [name, *ours]) in ours  # asked only where there is no such argument
    assert not any(value.endswith(".") for value in ELSEWHERE.values())
    with pytest.raises(InputError):
        cr.adam(**{STRANGE: 1})

"""Explains calls with arguments that a public function does not have, or without one it needs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from chainrule.errors import InputError
from chainrule.nearest import nearest

# What other libraries, and people, call an argument: what it may be called here.
OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "accumulation_steps": ("micro_batches", "count"),
    "argnum": ("wrt",),
    "argnums": ("wrt",),
    "array": ("x",),
    "backend": ("executor",),
    "batch": ("batch_size",),
    "batch_axis": ("in_axes",),
    "beta1": ("betas",),
    "beta2": ("betas",),
    "bs": ("batch_size",),
    "callbacks": ("log_every",),
    "checkpoint_dir": ("folder",),
    "ckpt_dir": ("folder",),
    "dataset": ("data",),
    "device": ("executor",),
    "dim": ("axis",),
    "dims": ("axis", "axes"),
    "directory": ("folder",),
    "dir": ("folder",),
    "epoch": ("number",),
    "epochs": ("number",),
    "epsilon": ("eps",),
    "eta_min": ("floor",),
    "f": ("function", "objective"),
    "file": ("path",),
    "filename": ("path",),
    "fn": ("function", "objective"),
    "fun": ("function", "objective"),
    "func": ("function", "objective"),
    "gamma": ("factor",),
    "grad_accum": ("micro_batches", "count"),
    "in_dims": ("in_axes",),
    "initial_params": ("parameters",),
    "input": ("x",),
    "inputs": ("data", "x", "wrt"),
    "keepdim": ("keepdims",),
    "labels": ("y",),
    "learning_rate": ("rate",),
    "loader": ("data",),
    "log_interval": ("log_every",),
    "logdir": ("folder",),
    "loss": ("objective",),
    "loss_fn": ("objective",),
    "lr": ("learning_rate", "rate"),
    "max_epochs": ("number",),
    "max_grad_norm": ("max_norm",),
    "metrics": ("accuracy",),
    "milestones": ("boundaries",),
    "min_lr": ("floor",),
    "model": ("objective",),
    "n": ("number", "count"),
    "n_epochs": ("number",),
    "name": ("output",),
    "num_epochs": ("number",),
    "opt": ("optimizer",),
    "optim": ("optimizer",),
    "optimiser": ("optimizer",),
    "order": ("layout",),
    "out_dims": ("out_axes",),
    "output_dir": ("folder",),
    "outputs": ("output", "of"),
    "p": ("rate",),
    "param": ("wrt", "parameters"),
    "params": ("parameters", "wrt"),
    "patience": ("keep_best",),
    "precision": ("dtype",),
    "respect_to": ("wrt",),
    "rng": ("key",),
    "save_dir": ("folder",),
    "seed": ("key",),
    "size": ("shape",),
    "step_size": ("every",),
    "strides": ("stride",),
    "T_max": ("steps",),
    "target": ("like", "labels"),
    "total_steps": ("steps",),
    "train_data": ("data",),
    "trainable": ("wrt",),
    "val": ("validation",),
    "val_data": ("validation",),
    "valid": ("validation",),
    "validation_data": ("validation",),
    "variables": ("parameters", "wrt"),
    "verbose": ("progress",),
    "warmup_steps": ("warmup",),
    "wd": ("weight_decay",),
    "weights": ("parameters", "weight"),
    "window_size": ("window",),
}
# What is no argument of the call, but somewhere else.
_EPOCHS = "trainer.fit(10) and trainer.epochs(10) take the number of epochs"
_OF_THE_OPTIMIZER = "numbers of the optimizer go into cr.adam(...), cr.sgd(...)"
_BY_TYPES = "each combination of types is compiled by itself, Python values among them"
ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("epoch", "epochs", "max_epochs", "n_epochs", "num_epochs"), _EPOCHS),
    **dict.fromkeys(("lr", "learning_rate", "weight_decay", "wd", "momentum"), _OF_THE_OPTIMIZER),
    **dict.fromkeys(("static_argnums", "static_argnames"), _BY_TYPES),
}
ROOMS = ("random", "schedules", "data", "init", "testing", "transforms")  # of `chainrule`
_HIDDEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def meant(name: object, known: Iterable[str]) -> str:
    """The argument that is most likely meant: one spelled like it, or that other libraries call
    so; "" where none is."""
    names = list(known)
    by_others = [one for one in OTHER_NAMES.get(str(name), ()) if one in names]
    return next(iter([*by_others, *nearest(name, names)]), "")


def perhaps_argument(name: object, known: Iterable[str]) -> str:
    """`"perhaps learning_rate; "`, the beginning of a hint, or ""."""
    found = meant(name, known)
    if found:
        return f"perhaps {found}; "
    return f"{ELSEWHERE[str(name)]}; " if str(name) in ELSEWHERE else ""


def refused_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> InputError | None:
    """What is wrong with the arguments of a call; None where they fit."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a function in C
        return None
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        problem = str(error)
    else:
        return None
    called = public_name(function)
    taken = {name: one for name, one in signature.parameters.items() if name != "self"}
    by_name = [name for name, one in taken.items() if one.kind is not one.POSITIONAL_ONLY]
    by_name = [name for name in by_name if taken[name].kind not in _HIDDEN]
    takes_any = any(one.kind is one.VAR_KEYWORD for one in taken.values())
    strange = [] if takes_any else [name for name in kwargs if name not in by_name]
    missing = _missing(signature, args, kwargs)
    hint = f"its arguments are: {', '.join(_shown(one) for one in taken.values()) or 'none'}"
    if strange:
        left = [name for name in by_name if name not in kwargs]
        return InputError(
            f"{called} has no argument {strange[0]}",
            hint=perhaps_argument(strange[0], left) + hint,
        )
    if missing:
        extra = [name for name in kwargs if name not in by_name]
        instead = [name for name in extra if meant(name, missing)]
        perhaps = f"perhaps {meant(instead[0], missing)}= for {instead[0]}=; " if instead else ""
        return InputError(f"{called} was called without {', '.join(missing)}", hint=perhaps + hint)
    return InputError(f"{called}: {problem}", hint=hint)


def public_name(function: Callable[..., Any]) -> str:
    """How users call a function: `cr.adam`, `cr.schedules.cosine`, `TrainingStep.init`."""
    owner, _, name = getattr(function, "__qualname__", "it").rpartition(".")
    package = sys.modules.get("chainrule")
    if owner and name == "__init__":
        return f"cr.{owner}" if hasattr(package, owner) else owner
    if owner:
        return owner if name == "__call__" else f"{owner}.{name}"
    for room in ("", *ROOMS):
        inside = getattr(package, room, None) if room else package
        found = getattr(inside, name, None) if name in getattr(inside, "__all__", ()) else None
        if found is not None and inspect.unwrap(found) is inspect.unwrap(function):
            return f"cr.{room}.{name}" if room else f"cr.{name}"
    return name


def _missing(
    signature: inspect.Signature, args: Collection[Any], kwargs: Mapping[str, Any]
) -> list[str]:
    """The arguments without a default that the call does not give."""
    by_place = [
        one
        for one in signature.parameters.values()
        if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    given = {one.name for one in by_place[: len(args)]} | set(kwargs)
    return [
        name
        for name, one in signature.parameters.items()
        if name not in given and one.default is one.empty and one.kind not in _HIDDEN
    ]


def _shown(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    if parameter.kind is parameter.VAR_KEYWORD:
        return f"**{parameter.name}"
    default = "" if parameter.default is parameter.empty else f"={parameter.default!r}"
    return f"{parameter.name}{default}"

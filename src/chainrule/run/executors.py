"""The executors by name, and which one runs where none is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import numpy as np

from chainrule.errors import InputError, UnsupportedError
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.run import reference

VARIABLE = "CHAINRULE_EXECUTOR"
EXECUTORS = ("native", "reference")

Evaluate = Callable[
    [Graph, Mapping[Node, np.ndarray], Iterable[Node], Graph | None], dict[Node, np.ndarray]
]


def executor_named(name: str | None) -> str:
    """`name` if there is such an executor; None stands for the default.

    That is what the environment variable CHAINRULE_EXECUTOR says, else "native" where native code
    can be made, else "reference".  InputError for an unknown name.
    """
    asked = name
    if name is None:
        name = os.environ.get(VARIABLE) or _best()
    if name not in EXECUTORS:
        where = "" if asked is not None else f", which the environment variable {VARIABLE} names"
        raise InputError(
            f"there is no executor {name!r}{where}",
            hint=f"one of: {', '.join(map(repr, EXECUTORS))}",
        )
    return name


@lru_cache(maxsize=1)
def _best() -> str:
    from chainrule.run.native.target import native_refusal

    return "reference" if native_refusal() else "native"


def evaluator(executor: str | None, *, strict: bool = False) -> Evaluate:
    """The function that evaluates the nodes of a concrete graph.

    `strict` (of "native") refuses nodes that have no native kernel.  What compiles is imported
    here, when it is first asked for.
    """
    if executor_named(executor) == "reference":
        if strict:
            raise InputError(
                "strict=True is about native kernels, and the executor is the reference",
                hint='executor="native", or leave strict=True out',
            )
        return reference.evaluate
    try:
        from chainrule.run.native.evaluate import evaluate
    except ImportError as error:
        from chainrule.run.native.target import native_refusal

        raise UnsupportedError(
            native_refusal() or str(error), hint='executor="reference" runs everywhere'
        ) from error
    if not strict:
        return evaluate
    return lambda graph, inputs, keep, traced=None: evaluate(
        graph, inputs, keep, traced, strict=True
    )

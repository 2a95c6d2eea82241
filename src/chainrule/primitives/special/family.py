"""The family of functions that SciPy evaluates in float64, in blocks of elements."""

from __future__ import annotations

import dis
import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from chainrule.graph.node import Node
from chainrule.primitives.arithmetic import named
from chainrule.primitives.families import SHAPES, batch_pointwise, same_type
from chainrule.primitives.notation import Latex
from chainrule.primitives.primitive import Library, Map, Partials, Primitive, Rule, Sample
from chainrule.primitives.python import Python, Writing, Written
from chainrule.primitives.special import special_evaluation

BLOCK = 2048  # elements that `blockwise` computes at a time


@cache
def _source(function: Callable[..., Any]) -> str:
    """The text of a function, without types that are not known where it is written."""
    text = inspect.getsource(function)
    return re.sub(
        r": (Wide|int|np\.ndarray|Callable\[\.\.\., Wide\])| -> (Wide|np\.ndarray)", "", text
    )


def _written(function: Callable[..., Any], writing: Writing) -> str:
    """The name of a function in the source, after those that it calls."""
    for one in dis.get_instructions(function):
        called = vars(special_evaluation).get(one.argval) if one.opname == "LOAD_GLOBAL" else None
        if inspect.isfunction(called):  # not an attribute of that name: `special.erfc` in erfc
            _written(called, writing)
    return writing.helper(_source(function))


def special(
    name: str,
    doc: str,
    *partials: Rule,
    nbytes: tuple[int, int],
    least: Callable[[Node, int], int] = lambda out, count: 0,
    inputs: tuple[str, ...] = ("x",),
    domains: tuple[tuple[float, float], ...] = ((-2.0, 2.0),),
    more: tuple[tuple[float, float], ...] = (),
    latex: Latex | None = None,
    kernel: str = "",
    defined: tuple[float, float] | None = None,
    kink: Callable[..., Any] | None = None,
    selected: tuple[Rule, ...] = (),
    **params: int,
) -> Primitive:
    """An elementwise function of `special_evaluation`, computed in float64.

    `nbytes` is what each element of a block takes beside the result, and what all of them take
    together; `least` is what a block of `count` elements takes at least; `more` are further
    domains.
    """
    function = getattr(special_evaluation, name)

    def evaluate(xp: Any, *arrays: Any, **params: int) -> Any:
        if xp is not np:  # only JAX shares this evaluation, and has not all of them
            found = evaluate(np, *map(np.asarray, arrays), **params)
            return xp.asarray(found)
        return special_evaluation.blockwise(function, *arrays, **params)

    def write(out: Node, writing: Writing, *operands: Written) -> Written:
        texts = [_written(function, writing), *(one.text for one in operands)]
        texts += [f"{key}={value}" for key, value in out.params]
        return Written(
            f"{writing.helper(_source(special_evaluation.blockwise))}({', '.join(texts)})"
        )

    items = tuple(params.items())
    samples = [Sample((shape,) * len(inputs), domains, items) for shape in SHAPES]
    samples += [Sample(((5,),) * len(inputs), (domain,) * len(inputs), items) for domain in more]
    return Primitive(
        name=name,
        doc=doc,
        inputs=inputs,
        result_type=same_type,
        evaluate=evaluate,
        derivative=Partials(partials, selected),
        batch=batch_pointwise,
        kernel=Map(kernel) if kernel else Library(),
        c_order=True,
        flops=lambda out: 20 * out.type.size,
        latex=latex or named(name),
        samples=tuple(samples),
        scratch=lambda out, x, *others: max(
            _block_nbytes(x.size, *nbytes), least(out, min(x.size, BLOCK))
        ),
        defined=defined,
        kink=kink,
        python=Python(write, noun=name),
    )


def _block_nbytes(size: int, each: int, once: int) -> int:
    return each * min(size, BLOCK) + once if size else 0

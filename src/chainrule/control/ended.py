"""The primitive `ended`: the values of a loop with a bound, which it must not have reached."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.errors import StepLimitError
from chainrule.graph.node import Node
from chainrule.graph.sizes import Size
from chainrule.graph.types import ArrayType
from chainrule.primitives.movement import add_batch_axis
from chainrule.primitives.primitive import (
    ATOM,
    Latex,
    Library,
    Linear,
    Primitive,
    Sample,
    no_flops,
)
from chainrule.primitives.python import Python, Writing, Written
from chainrule.primitives.reduce import sum_

COUNT = np.dtype(np.int64)
SOURCE = '''
def ended(x, left, loop, steps):
    """x; an error where the condition of the loop still holds after the last step it may make."""
    if left:
        raise ValueError(f"{loop} has not ended after max_steps={steps}")
    return x
'''


def _type(x: ArrayType, left: ArrayType, *, loop: str, steps: int) -> ArrayType:
    if left.dtype != COUNT or left.shape:
        raise TypeError(f"what is left is one int64, got {left}")
    return x


def _evaluate(xp: Any, x: Any, left: Any, *, loop: str, steps: int) -> Any:
    if left:
        raise StepLimitError(
            f"{loop} has not ended after max_steps={steps:,} steps: its condition still holds",
            hint="give a larger max_steps, if it would end then\n"
            "(without max_steps= it goes on until it ends, but has no reverse mode)",
        )
    return np.array(x)


def _again(g: Any, out: Node, x: Node, left: Node) -> Any:
    """A derivative is that of the values only where the loop has ended, too."""
    return ended(g, left, **dict(out.params))


def _batch(size: int | Size, inputs: tuple[Node, ...], batched: tuple[bool, ...], out: Node) -> Any:
    """No example may be left."""
    x: Any = inputs[0] if batched[0] else add_batch_axis(inputs[0], size)
    left: Any = sum_(inputs[1], axes=(0,)) if batched[1] else inputs[1]
    return ended(x, left, **dict(out.params))


def _python(out: Node, writing: Writing, x: Written, left: Written) -> Written:
    loop, steps = out.param("loop"), out.param("steps")
    return Written(f"{writing.helper(SOURCE)}({x.text}, {left.text}, {loop!r}, {steps})")


def _sample(*shape: int) -> Sample:
    params = (("loop", "while_loop(step)"), ("steps", 3))
    return Sample((shape, ()), ((-2.0, 2.0), "int:1"), params)


ended = Primitive(
    name="ended",
    doc="x, values of a loop that has ended; an error where its condition is left to hold.",
    inputs=("x", "left"),
    result_type=_type,
    evaluate=_evaluate,
    derivative=Linear((_again, None)),
    batch=_batch,
    kernel=Library("ended"),
    flops=no_flops,
    latex=Latex(r"{x}|_{{{left} = 0}}", ATOM, (ATOM, 0)),
    samples=(_sample(), _sample(3), _sample(2, 0)),
    python=Python(_python, noun="ended"),
)

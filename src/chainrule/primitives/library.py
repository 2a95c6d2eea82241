"""Elementary functions that every executor computes with NumPy, so random draws have the same bits.

Compiled code has a logarithm of its own, which differs in the last bit for one number in five.
"""

from __future__ import annotations

from typing import Any

from chainrule.graph.node import Node
from chainrule.primitives.families import SHAPES, batch_pointwise, same_type
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Library, Partials, Primitive, Rule, Sample, every_axis
from chainrule.primitives.python import calls


def _by_numpy(function: str, partial: Rule, domain: tuple[float, float]) -> Primitive:
    """A function of NumPy's as a whole, never computed in a loop with others."""

    def evaluate(xp: Any, x: Any) -> Any:
        return getattr(xp, function)(x)

    def flops(out: Node) -> Any:
        return 10 * out.type.size

    return Primitive(
        name=f"library_{function}",
        doc=f"The same as {function}, by NumPy on every executor: for random draws.",
        inputs=("x",),
        result_type=same_type,
        evaluate=evaluate,
        derivative=Partials((partial,)),
        batch=batch_pointwise,
        kernel=Library(),
        flops=flops,
        independent=every_axis,
        latex=Latex(rf"\{function}({{x}})", ATOM, (0,)),
        samples=tuple(Sample((shape,), (domain,)) for shape in SHAPES),
        python=calls(function, ("x",)),
    )


library_log = _by_numpy("log", lambda out, x: 1 / x, (0.3, 2.0))
library_tan = _by_numpy("tan", lambda out, x: 1 + out * out, (-1.2, 1.2))

LIBRARY = (library_log, library_tan)

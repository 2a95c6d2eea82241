"""Small bodies with which tests try the primitives of control flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from chainrule.control.bodies import body_of
from chainrule.graph.body import Body
from chainrule.graph.types import array_type
from chainrule.primitives import arithmetic, logic
from chainrule.primitives.primitive import Sample
from chainrule.primitives.sources import full_like, input_

FLOAT = np.dtype(np.float64)
ANY = (-2.0, 2.0)


def _variables(*shapes: tuple[int, ...]) -> list[Any]:
    return [input_(index=i, type=array_type(FLOAT, one)) for i, one in enumerate(shapes)]


def _sample(shapes: Any, domains: Any = None, **params: Any) -> Sample:
    items = tuple(sorted(params.items()))
    return Sample(shapes, domains or (ANY,) * len(shapes), items)


def accumulating(length: int) -> Sample:
    """c becomes tanh(c) x; each c² is kept."""
    c, x = _variables((2,), (2,))
    body = body_of(
        "accumulate", [("c", c), ("x", x)], [("c_next", arithmetic.tanh(c) * x), ("y", c * c)], {}
    )
    return _sample(
        ((2,), (length, 2)),
        body=body,
        carries=1,
        constants=0,
        dtype=FLOAT,
        length=length,
        reverse=False,
    )


def filtering(length: int, *, reverse: bool) -> Sample:
    """c becomes sin(w c) + x, which is kept, too."""
    w, c, x = _variables((), (), ())
    new = arithmetic.sin(w * c) + x
    inputs = [("w", w), ("c", c), ("x", x)]
    body = body_of("filter", inputs, [("c_next", new), ("y", new)], {"h": new})
    return _sample(
        ((), (), (length,)),
        body=body,
        carries=1,
        constants=1,
        dtype=FLOAT,
        length=length,
        reverse=reverse,
    )


def choosing() -> Sample:
    """sin(x) y, or x² and y."""
    bodies: list[Body] = []
    for name in ("product", "square"):
        x, y = _variables((2,), (2,))
        outputs = [arithmetic.sin(x) * y, x] if name == "product" else [x * x, y]
        bodies.append(
            body_of(name, [("x", x), ("y", y)], [("a", outputs[0]), ("b", outputs[1])], {})
        )
    return _sample(
        ((), (2,), (2,)), ("bool", ANY, ANY), dtype=FLOAT, if_true=bodies[0], if_false=bodies[1]
    )


def repeating(limit: int | None) -> Sample:
    """c becomes tanh(w c) / 2 while c² is larger than 0.1."""
    w, c = _variables((), ())
    inputs = [("w", w), ("c", c)]
    holds = logic.greater(c * c, full_like(c, 0.1))
    condition = body_of("large", inputs, [("holds", holds)], {})
    body = body_of("shrink", inputs, [("c_next", arithmetic.tanh(w * c) * 0.5)], {})
    return _sample(
        ((), ()),
        body=body,
        carries=1,
        condition=condition,
        constants=1,
        limit=limit,
        dtype=FLOAT,
    )


def unwinding() -> Sample:
    """d becomes d (1 - tanh(w c)²) w / 2, back through the iterations of `repeating`."""
    w, c, d = _variables((), (), ())
    inputs = [("w", w), ("c", c)]
    holds = logic.greater(c * c, full_like(c, 0.1))
    condition = body_of("large", inputs, [("holds", holds)], {})
    new = arithmetic.tanh(w * c)
    step = body_of("shrink", inputs, [("c_next", new * 0.5)], {})
    slope = (1 - new * new) * w * 0.5
    body = body_of("shrink_cotangent", [*inputs, ("d", d)], [("d_next", d * slope)], {})
    return _sample(
        ((), (), ()),
        body=body,
        carries=1,
        condition=condition,
        constants=1,
        limit=50,
        states=1,
        step=step,
        dtype=FLOAT,
    )

"""Has small programs executed on a CPU by the thread that calls them.

JAX hands a program to another thread, and waits for it: 30 to 50 µs a call where both had gone to
sleep.  XLA's runtime for CPUs executes what may call Python back in the calling thread, lest it
wait for itself.  So a small program is given a call of Python on which nothing depends: the
compiler drops it, and the program stays one of those.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from chainrule.execute.xla.jax_here import jax_here
from chainrule.graph.node import Node
from chainrule.primitives.primitive import Given

# Two milliseconds of products on two cores of a Zen 4.  From here on the other thread costs nothing
# that can be measured, and a training loop makes its next batch meanwhile.
MOST_FLOPS = 1 << 28
FLOPS_OF_ELEMENT = 8  # of a product take as long as writing one element


def is_for_caller(nodes: Iterable[Node]) -> bool:
    """Whether a program that evaluates these nodes is to be executed by the thread that calls it.

    Not where JAX keeps compiled programs in files: it keeps none that may call Python.
    """
    jax = jax_here()
    if jax.default_backend() != "cpu" or jax.config.jax_compilation_cache_dir is not None:
        return False
    flops = 0
    for node in nodes:
        if not isinstance(node.primitive.kernel, Given):
            flops += int(node.primitive.flops(node)) + FLOPS_OF_ELEMENT * int(node.type.size)
        if flops > MOST_FLOPS:
            return False
    return True


def for_caller(value: Any) -> Any:
    """The value; a traced program that gives it is executed by the thread that calls it."""
    jax = jax_here()
    never = jax.pure_callback(_never, jax.ShapeDtypeStruct((), np.bool_))
    return jax.lax.select(never, value, value)


def _never() -> np.ndarray:
    return np.array(False)

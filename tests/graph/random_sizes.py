"""Random sizes in the names n, m and d, and numbers for these."""

import operator

from hypothesis import strategies as st

from chainrule.graph.sizes.size_values import evaluate
from chainrule.graph.sizes.sizes import maximum, minimum, sizes

n, m, d = sizes("n m d")

OPERATIONS = {
    operator.add: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    operator.floordiv: operator.floordiv,
    operator.mod: operator.mod,
    minimum: min,
    maximum: max,
}

operations = st.sampled_from(list(OPERATIONS))

environments = st.fixed_dictionaries({name: st.integers(1, 12) for name in "nmd"})


def combine(operands):
    def apply(operation, a, b):
        try:
            return operation(a, b)
        except ZeroDivisionError:
            return a

    return st.builds(apply, operations, operands, operands)


leaves = st.one_of(st.sampled_from([n, m, d]), st.integers(-6, 6))

values = st.recursive(leaves, combine, max_leaves=8)


def value_of(a, env):
    """The value of a, or None where it divides by zero."""
    try:
        return evaluate(a, env)
    except ZeroDivisionError:
        return None

"""Rewrite rules: each has a name and two functions, so a test can try both sides of every rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.graph.dtypes import dtype_kind, finfo
from chainrule.graph.node import Node
from chainrule.primitives import arithmetic, logic, movement, reduce
from chainrule.primitives.primitive import Map, Primitive
from chainrule.primitives.sources import full, full_like, is_uniform, uniform
from chainrule.transforms.choices import chosen_once, known_choice
from chainrule.transforms.pieces import joined_pads, unpadded

A = arithmetic
M = movement
F64 = np.dtype(np.float64)


@dataclass(frozen=True)
class Rule:
    """`after(node)` is the simpler form of a node of one of the primitives `roots`, None where the
    rule does not apply; `before(x, y)` gives instances to which it applies, made of two float64
    values of shape (2, 3).  `ulps` bounds how far the two sides differ where no value on the way
    overflows or underflows (0: everywhere equal, though -0 may become 0)."""

    name: str
    roots: tuple[Primitive, ...]
    before: Callable[[Any, Any], list[Node]]
    after: Callable[[Node], Node | None]
    ulps: int = 0


def value_of(node: Node) -> Any:
    """The number of a uniform constant, else None."""
    return node.param("value") if node.primitive is full else None


def _is(node: Node, value: float) -> bool:
    return node.primitive is full and node.param("value") == value


def _neutral(value: float, both: bool) -> Callable[[Node], Node | None]:
    def after(node: Node) -> Node | None:
        x, y = node.inputs
        if _is(y, value):
            return x
        return y if both and _is(x, value) else None

    return after


def _fold(node: Node) -> Node | None:
    """An elementwise operation on uniform constants is one."""
    if not node.inputs or not all(map(is_uniform, node.inputs)):
        return None
    operands = [np.asarray(value_of(x), x.type.dtype) for x in node.inputs]
    with np.errstate(all="ignore"):
        value = np.asarray(node.primitive.evaluate(np, *operands, **dict(node.params)))
    return full(value=value.astype(node.type.dtype).item(), type=node.type)


def _moved_uniform(node: Node) -> Node | None:
    """A uniform constant in another shape is one."""
    x = node.inputs[0]
    return full(value=value_of(x), type=node.type) if is_uniform(x) else None


def _same(node: Node) -> Node | None:
    """A change of shape or dtype that changes nothing."""
    x = node.inputs[0]
    return x if x.type == node.type and node.primitive is not M.transpose else None


def _merged(node: Node) -> Node | None:
    """Two reshapes, or two broadcasts, are one."""
    x = node.inputs[0]
    if x.primitive is not node.primitive:
        return None
    return node.primitive(x.inputs[0], shape=node.type.shape)


def _merged_transposes(node: Node) -> Node | None:
    outer = node.param("permutation")
    if outer == tuple(range(len(outer))):
        return node.inputs[0]
    x = node.inputs[0]
    if x.primitive is not M.transpose:
        return None
    inner = x.param("permutation")
    merged = tuple(inner[axis] for axis in outer)
    if merged == tuple(range(len(merged))):
        return x.inputs[0]
    return M.transpose(x.inputs[0], permutation=merged)


def _double_negative(node: Node) -> Node | None:
    x = node.inputs[0]
    return x.inputs[0] if x.primitive is A.negative else None


def _known_truth(node: Node) -> Node | None:
    """One of the operands, where the other is the same everywhere."""
    decides = node.primitive is logic.logical_or
    for known, other in (node.inputs, node.inputs[::-1]):
        if known.primitive is full:
            return known if value_of(known) == decides else other
    return None


def _small_power(node: Node) -> Node | None:
    exponent = node.param("exponent")
    if exponent == 1:
        return node.inputs[0]
    return full_like(node, 1) if exponent == 0 else None


def _uniform_power(node: Node) -> Node | None:
    x, y = node.inputs
    if _is(y, 1):
        return x
    return full_like(node, 1) if _is(y, 0) else None


def _scalar(node: Node) -> Node | None:
    """The 0-d value of which every element of the node is a copy; None if it is not uniform."""
    if is_uniform(node):
        return uniform(value_of(node), node.type.dtype)
    if node.primitive is M.broadcast_to and not node.inputs[0].type.shape:
        return node.inputs[0]
    return None


def _gathered_factors(node: Node) -> Node | None:
    """a (b x) is (a b) x where a and b are uniform; scalars are multiplied first."""
    if not node.type.shape or dtype_kind(node.type.dtype) != "f":
        return None
    for one, other in (node.inputs, node.inputs[::-1]):
        factor = _scalar(one)
        if factor is None or other.primitive is not A.multiply:
            continue
        for inner, rest in (other.inputs, other.inputs[::-1]):
            second = _scalar(inner)
            if second is None or _scalar(rest) is not None:
                continue
            if not (is_uniform(factor) and is_uniform(second)):
                if not (_is_mild(factor) or _is_mild(second)):
                    continue
                both = A.multiply(factor, second)
                return A.multiply(M.broadcast_to(both, shape=rest.type.shape), rest)
            known = _product(factor, second)
            if _is_normal(known, node.type.dtype):
                return A.multiply(full_like(rest, known), rest)
    return None


def _is_mild(x: Node) -> bool:
    """Whether a product with this known number is as good as safe from overflow and underflow."""
    roomy = x.type.dtype.itemsize >= 4
    return roomy and is_uniform(x) and 2**-20 <= abs(value_of(x)) <= 2**20


def _is_normal(value: float, dtype: np.dtype) -> bool:
    """Whether neither overflow nor underflow has made the value what it is."""
    limits = finfo(dtype)
    return bool(limits.smallest_normal <= abs(value) <= limits.max)


def _product(x: Node, y: Node) -> Any:
    dtype = x.type.dtype
    with np.errstate(all="ignore"):
        return np.multiply(np.asarray(value_of(x), dtype), np.asarray(value_of(y), dtype)).item()


def _cancelled(node: Node) -> Node | None:
    """(a / c) c is a, also where a / c is cast to another dtype in between."""
    for one, other in (node.inputs, node.inputs[::-1]):
        if not is_uniform(other):
            continue
        quotient = one.inputs[0] if _rounds_once(one) else one
        if quotient.primitive is not A.divide or not is_uniform(quotient.inputs[1]):
            continue
        divisor = value_of(quotient.inputs[1])
        if divisor == value_of(other) and np.isfinite(divisor) and divisor != 0:
            whole = quotient.inputs[0]
            return whole if one is quotient else logic.cast(whole, **dict(one.params))
    return None


def _rounds_once(node: Node) -> bool:
    """Whether it is a cast to a float no wider: one that hides how its input was rounded."""
    if node.primitive is not logic.cast or dtype_kind(node.type.dtype) != "f":
        return False
    return node.type.dtype.itemsize <= node.inputs[0].type.dtype.itemsize


def _negated(node: Node) -> Node | None:
    """x times -1 is -x."""
    for one, other in (node.inputs, node.inputs[::-1]):
        if _is(one, -1):
            return A.negative(other)
    return None


def _times_reciprocal(node: Node) -> Node | None:
    """x times 1 / y is x / y."""
    for one, other in (node.inputs, node.inputs[::-1]):
        if one.primitive is A.divide and _is(one.inputs[0], 1):
            return A.divide(other, one.inputs[1])
    return None


def _sum_over_nothing(node: Node) -> Node | None:
    return node.inputs[0] if not node.param("axes") else None


def _chosen_twice(x: Any, y: Any) -> list[Node]:
    condition = logic.less(x, y)
    opposite = logic.logical_not(condition)
    return [
        logic.where(condition, logic.where(condition, x, y), x + y),
        logic.where(condition, x + y, x * logic.where(condition, x, y)),
        logic.where(opposite, logic.where(condition, x, y) * y, x),
        logic.where(condition, A.negative(logic.where(opposite, x, y)), x),
    ]


_MAPS = tuple(
    p
    for p in (*A.ARITHMETIC, *logic.LOGIC)
    if isinstance(p.kernel, Map) and p is not A.stop_gradient
)


def _column(x: Any) -> Any:
    return reduce.sum_(x, axes=(1,))


RULES: tuple[Rule, ...] = (
    Rule("fold uniform constants", _MAPS, lambda x, y: [full_like(x, 2.0) * 3.0], _fold),
    Rule(
        "move a uniform constant",
        (M.reshape, M.transpose, M.broadcast_to),
        lambda x, y: [M.transpose(full_like(x, 2.0), permutation=(1, 0))],
        _moved_uniform,
    ),
    Rule("x times 1", (A.multiply,), lambda x, y: [x * 1.0, 1.0 * x], _neutral(1, both=True)),
    Rule("x over 1", (A.divide,), lambda x, y: [x / 1.0], _neutral(1, both=False)),
    Rule("x plus 0", (A.add,), lambda x, y: [x + 0.0, 0.0 + x], _neutral(0, both=True)),
    Rule("x minus 0", (A.subtract,), lambda x, y: [x - 0.0], _neutral(0, both=False)),
    Rule("x times -1", (A.multiply,), lambda x, y: [x * -1.0, -1.0 * x], _negated),
    Rule(
        "two negatives", (A.negative,), lambda x, y: [A.negative(A.negative(x))], _double_negative
    ),
    Rule(
        "power 0 or 1",
        (A.integer_power,),
        lambda x, y: [A.integer_power(x, exponent=0), A.integer_power(x, exponent=1)],
        _small_power,
    ),
    Rule(
        "power of a uniform 0 or 1",
        (A.power,),
        lambda x, y: [A.power(x, full_like(x, 0)), A.power(x, full_like(x, 1))],
        _uniform_power,
    ),
    Rule(
        "known choice",
        (logic.where,),
        lambda x, y: [
            logic.where(uniform(True, np.dtype(bool), x.type.shape), x, y),
            logic.where(logic.less(x, y), x, x),
        ],
        known_choice,
    ),
    Rule(
        "chosen once",
        (logic.where,),
        _chosen_twice,
        chosen_once,
    ),
    Rule(
        "known truth",
        (logic.logical_and, logic.logical_or),
        lambda x, y: [
            kind(*pair)
            for kind in (logic.logical_and, logic.logical_or)
            for known in (uniform(k, np.dtype(bool), x.type.shape) for k in (True, False))
            for pair in ((known, logic.less(x, y)), (logic.less(x, y), known))
        ],
        _known_truth,
    ),
    Rule(
        "nothing changes",
        (M.reshape, M.broadcast_to, logic.cast, A.identity),
        lambda x, y: [
            M.reshape(x, shape=x.type.shape),
            M.broadcast_to(x, shape=x.type.shape),
            logic.cast(x, dtype=F64, weak=False),
            A.identity(x),
        ],
        _same,
    ),
    Rule(
        "two moves",
        (M.reshape, M.broadcast_to),
        lambda x, y: [
            M.reshape(M.reshape(x, shape=(6,)), shape=(3, 2)),
            M.broadcast_to(M.broadcast_to(_column(x), shape=(4, 2)), shape=(5, 4, 2)),
        ],
        _merged,
    ),
    Rule(
        "two transposes",
        (M.transpose,),
        lambda x, y: [
            M.transpose(M.transpose(x, permutation=(1, 0)), permutation=(1, 0)),
            M.transpose(x, permutation=(0, 1)),
        ],
        _merged_transposes,
    ),
    Rule(
        "gather uniform factors",
        (A.multiply,),
        lambda x, y: [
            3.0 * (x * 0.7),
            M.broadcast_to(reduce.sum_(y, axes=(0, 1)), shape=x.type.shape) * (2.0 * x),
        ],
        _gathered_factors,
        ulps=2,
    ),
    Rule(
        "cancel a divisor",
        (A.multiply,),
        lambda x, y: [
            (x / 3.0) * 3.0,
            logic.cast(x / 2.0, dtype=np.dtype(np.float32), weak=False) * 2.0,
        ],
        _cancelled,
        ulps=2,
    ),
    Rule(
        "times a reciprocal",
        (A.multiply,),
        lambda x, y: [x * (1.0 / y), (1.0 / y) * x],
        _times_reciprocal,
        ulps=2,
    ),
    Rule(
        "join pieces",
        (A.add,),
        lambda x, y: [
            M.pad(x, start=(0, 0), step=(1, 1), shape=(4, 3))
            + M.pad(y, start=(2, 0), step=(1, 1), shape=(4, 3)),
            M.pad(x, start=(0, 4), step=(1, 1), shape=(2, 8))
            + M.pad(y, start=(0, 1), step=(1, 1), shape=(2, 8)),
        ],
        joined_pads,
    ),
    Rule(
        "pad with nothing",
        (M.pad,),
        lambda x, y: [M.pad(x, start=(0, 0), step=(1, 1), shape=x.type.shape)],
        unpadded,
    ),
    Rule(
        "sum over no axes",
        (reduce.sum_,),
        lambda x, y: [reduce.sum_(x, axes=())],
        _sum_over_nothing,
    ),
)

RULES_BY_ROOT: dict[Primitive, tuple[Rule, ...]] = {
    root: tuple(rule for rule in RULES if root in rule.roots)
    for root in {root for rule in RULES for root in rule.roots}
}

"""Finds the cause of NaN and inf from the primitive and its operands, and what to try."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, isfinite, isinf, isnan, log

import numpy as np

from chainrule.explain.nonfinite.borders import BORDERS, at_border, steep_at_border, without_cause
from chainrule.explain.nonfinite.case import EPS, Case, Cause
from chainrule.explain.nonfinite.logarithms import (
    SOFTMAX,
    better_logarithm,
    better_logarithm_of_rest,
)
from chainrule.explain.nonfinite.phrases import Names, bracketed, number, phrase
from chainrule.explain.nonfinite.roots import is_sum_of_exponentials, root, spread_of
from chainrule.graph.dtypes import finfo
from chainrule.graph.node import Node
from chainrule.primitives import arithmetic as a
from chainrule.primitives.cumulative import cumprod, cumsum, recurrence
from chainrule.primitives.fourier import FOURIER
from chainrule.primitives.hyperbolic import cosh, sinh
from chainrule.primitives.indexing import scatter_add
from chainrule.primitives.library import library_log
from chainrule.primitives.linalg.linalg import LINALG
from chainrule.primitives.logarithms import exp2, log2, log10
from chainrule.primitives.logic import cast
from chainrule.primitives.primitive import Primitive
from chainrule.primitives.products import contract, matmul
from chainrule.primitives.products_of_elements import prod
from chainrule.primitives.reduce import max_, sum_
from chainrule.primitives.rounding import floor_divide
from chainrule.primitives.sources import full, size_value
from chainrule.primitives.special import special
from chainrule.primitives.trigonometric import hypot
from chainrule.primitives.windows import fold_windows

MASKED = "leave at least one position of each row unmasked, or mask with a large finite number"
SMALLER_STEP = "a smaller learning rate, or cr.clip_by_global_norm(optimizer, 1.0)"
BASES = {log2: 2, log10: 10}
STEEP = (a.sqrt, a.log, a.log1p, log2, log10, library_log, special.xlogy)  # infinitely, at an edge
EXPONENTIALS = {a.exp: 1.0, a.expm1: 1.0, exp2: log(2), sinh: 1.0, cosh: 1.0}  # logs of the bases
# Of finite numbers these are finite: what is infinite is more than the dtype holds.
MIXING = frozenset(  # many elements into one
    {
        *(sum_, prod, cumsum, cumprod, recurrence, scatter_add, matmul, contract, fold_windows),
        *LINALG,
        *FOURIER,
    }
)
ENTIRE = MIXING | {
    *(a.add, a.subtract, a.multiply, a.divide, a.power, a.integer_power, hypot, floor_divide),
    *(
        special.erfcx,
        special.erfcx_slope,
        special.erfcx_derivative,
        special.log_ndtr,
        special.log_erfc,
        special.xlogy,
        special.entr,
    ),
}
GROWN = 1e3  # an absolute value that parameters hardly have before training diverges


def cause_of(case: Case) -> Cause | None:
    """The cause of a fault that was computed; None where it is no classical one."""
    if case.derived is not None and case.left_out:
        return _left_out(case, case.derived)
    cause = RULES.get(case.node.primitive, at_border)(case) or _general(case)
    if case.derived is None or not case.derived_was_bad:
        return cause
    before = f"{phrase(case.derived, case.names)} was not finite in the forward pass either"
    return Cause(f"{cause.because}; {before}", cause.hint)


def _left_out(case: Case, derived: Node) -> Cause:
    """A derivative that np.where leaves out only after something has mixed it with others."""
    function, *names = derived.primitive.name, *(phrase(one, case.names) for one in derived.inputs)
    *others, name = names
    safe = ", ".join([*others, f"np.where({name} > 0, {name}, 1)"])
    call = f"np.{function}({safe})" if hasattr(np, function) else f"{function}({safe})"
    return Cause(
        f"np.where leaves {function} out there, but its derivative comes back through an operation "
        "that mixes elements: a matrix product, a convolution, a running sum, linear algebra",
        f"an argument that is safe everywhere in the inner function, such as\n{call},\n"
        "inside the outer np.where",
    )


def _log(case: Case) -> Cause | None:
    function, name = case.node.primitive.name, case.name(0)
    edge = -1 if case.node.primitive is a.log1p else 0
    x = case.operands[0]
    if x > edge:
        return None
    safe = f"np.{function}(np.maximum({name}, eps)) {EPS}"
    steep = steep_at_border(case, case.derived) if case.derived is not None else None
    if steep is not None:
        return steep
    if x < edge:
        return Cause(f"{function} of a number below {edge} is NaN", f"{name} above {edge}: {safe}")
    because = f"{function} of {edge} is -inf"
    what, better = _better(case.node, case.names)
    return Cause(f"{because}: here, of {what}", better) if what else Cause(because, safe)


def _better(node: Node, names: Names) -> tuple[str, str]:
    """What the logarithm that the node computes is of, and what to write in its place."""
    found = better_logarithm_of_rest if node.primitive is a.log1p else better_logarithm
    what, call = found(node.inputs[-1], names)
    if not what or call is SOFTMAX:
        return what, call
    if node.primitive in BASES:
        call = f"{bracketed(call)} / np.log({BASES[node.primitive]})"
    if node.primitive is special.xlogy:
        call = f"{bracketed(phrase(node.inputs[0], names))} * {bracketed(call)}"
    return what, f"{call}, which does not round to log(0)"


def _xlogy(case: Case) -> Cause | None:
    y, name = case.operands[1], case.name(1)
    if y > 0:
        return None
    safe = f"cr.xlogy({case.name(0)}, np.maximum({name}, eps)) {EPS}"
    if y < 0:
        return Cause("the log of a number below 0 is NaN", f"{name} above 0: {safe}")
    because = "the log of 0 is -inf"
    what, better = _better(case.node, case.names)
    return Cause(f"{because}: here, of {what}", better) if what else Cause(because, safe)


def _sqrt(case: Case) -> Cause | None:
    if not case.operands[0] < 0:
        return None
    x = case.name(0)
    return Cause(
        "the square root of a negative number is NaN",
        f"np.sqrt(np.where({x} > 0, {x}, 0)); a variance computed as the mean of squared\n"
        "distances is never negative",
    )


def _divide(case: Case) -> Cause | None:
    x, y = case.operands
    if isinf(x) and isinf(y):
        return Cause("inf / inf is NaN", f"where a mask made both infinite, {MASKED}")
    if y != 0:
        return None
    if case.derived is not None:
        steep = _steep(case, case.derived) if case.derived.primitive in STEEP else None
        steep = steep or steep_at_border(case, case.derived)
        if steep is not None:
            return steep
    divisor = root(case.node.inputs[1])
    if divisor.primitive in (full, size_value):
        return Cause(
            f"{number(x)} / 0 is {number(case.fault.values[0])}; the divisor is no variable",
            "at least one element in a mean, more than ddof of them in a variance",
        )
    kind = f"{number(x)} / 0 is {number(case.fault.values[0])}"
    below, name = case.beneath(1), case.name(1)
    if is_sum_of_exponentials(below):
        return Cause(f"{kind}: every exponential of the sum is 0, as where all are masked", MASKED)
    spread = spread_of(below)
    if spread:
        better = "add a small eps below the root, np.sqrt(... + eps), as cr.layer_norm does"
        return Cause(f"{kind}: here, by a {spread} of 0", better)
    return Cause(
        kind,
        f"add a small eps to {name}, or choose before dividing:\n"
        f"np.where({name} == 0, 0, x / np.where({name} == 0, 1, {name}))",
    )


def _steep(case: Case, derived: Node) -> Cause:
    """A division by 0 in the derivative of a logarithm or a square root."""
    function = derived.primitive.name
    edge = -1 if derived.primitive is a.log1p else 0
    because = f"the derivative of {function} at {edge} is inf"
    spread = spread_of(derived)
    if spread:
        better = "np.linalg.norm" if spread == "norm" else "np.std"
        return Cause(
            f"{because}: here, of a {spread} of 0",
            f"{better}, whose derivative at 0 is 0, or add a small eps below the root",
        )
    if derived.primitive is not a.sqrt:
        what, better = _better(derived, case.names)
        if what:
            return Cause(f"{because}: here, of {what}", better)
    x = phrase(derived.inputs[-1], case.names)
    if derived.primitive is special.xlogy:
        return Cause(because, f"np.maximum({x}, eps) in place of {x}, {EPS}")
    return Cause(because, f"np.{function}({x} + eps) or np.{function}(np.maximum({x}, eps)), {EPS}")


def _power(case: Case) -> Cause | None:
    x, name = case.operands[0], case.name(0)
    y = case.operands[1] if len(case.operands) > 1 else case.node.param("exponent")
    if x < 0 and y != floor(y):
        return Cause(
            f"a negative number to the power {number(y)} is NaN",
            f"np.abs({name}) or np.maximum({name}, 0) as the base",
        )
    if x != 0 or y >= 0:
        return None
    steep = steep_at_border(case, case.derived) if case.derived is not None else None
    if steep is not None:
        return steep
    because = f"0 to the power {number(y)} is inf"
    if case.derived is not None and case.derived.primitive in (a.power, a.integer_power):
        because += ", in the derivative of a power"
    return Cause(because, f"{name} + eps or np.maximum({name}, eps) as the base, {EPS}")


def _exp(case: Case) -> Cause | None:
    if not isfinite(case.operands[0]):
        return None
    limit = log(float(finfo(case.node.dtype).max)) / EXPONENTIALS[case.node.primitive]
    if case.node.primitive in (sinh, cosh):
        limit += log(2)
        name, x = case.node.primitive.name, case.name(0)
        because = f"{name} overflows {case.node.dtype} beyond ±{limit:.1f}"
        most = ceil(limit) - 1
        return Cause(because, f"np.{name}(np.clip({x}, -{most}, {most}))")
    function, name = case.node.primitive.name, case.name(0)
    largest = number(case.fault.statistics[0].greatest)
    better = "cr.softmax, cr.log_softmax or cr.logsumexp, which subtract the largest first,"
    if case.beneath(0).primitive is a.negative:
        better = "cr.sigmoid for 1 / (1 + exp(-x)),"
    return Cause(
        f"{function} overflows {case.node.dtype} above {limit:.1f}; the largest argument is "
        f"{largest}",
        f"{better}\nor np.{function}(np.minimum({name}, {ceil(limit) - 1}))",
    )


def _multiply(case: Case) -> Cause | None:
    if not (any(map(isinf, case.operands)) and 0 in case.operands):
        return None
    return Cause("0 · inf is NaN", "np.where to leave an inf out: multiplying it by 0 does not")


def _add(case: Case) -> Cause | None:
    if not all(map(isinf, case.operands)):
        return None
    if case.node.primitive is a.subtract and case.beneath(1).primitive is max_:
        return Cause("inf - inf is NaN: all of a row are -inf, as where all are masked", MASKED)
    return Cause("inf - inf is NaN", "mask with a large finite number in place of inf")


def _cast(case: Case) -> Cause | None:
    if not isfinite(case.operands[0]):
        return None
    name, wide = case.name(0), case.node.inputs[0].dtype
    return Cause(_limit(case.node.dtype), f"keep {name} in {wide}, or scale it down first")


RULES: dict[Primitive, Callable[[Case], Cause | None]] = {
    a.log: _log,
    a.log1p: _log,
    log2: _log,
    log10: _log,
    library_log: _log,
    special.xlogy: _xlogy,
    a.sqrt: _sqrt,
    a.divide: _divide,
    a.power: _power,
    a.integer_power: _power,
    **dict.fromkeys(EXPONENTIALS, _exp),
    a.multiply: _multiply,
    a.add: _add,
    a.subtract: _add,
    cast: _cast,
    **BORDERS,
}


def _limit(dtype: np.dtype) -> str:
    return f"{dtype} holds numbers up to {float(finfo(dtype).max):,.6g}"


def _general(case: Case) -> Cause:
    """Overflow, a NaN of an operation that was given an inf, or what can be said of any."""
    primitive, dtype = case.node.primitive, case.node.dtype
    if isnan(case.fault.values[0]):
        if any(map(isinf, case.operands)):
            said = f"{primitive.name} is NaN where it meets this inf"
            return Cause(said, "a large finite number for inf")
        if primitive not in MIXING:
            return without_cause(case)
        said = "numbers on the way overflow, and inf - inf and 0 · inf are NaN"
        return Cause(f"{said}: {_limit(dtype)}", "scale the numbers down")
    if primitive not in ENTIRE:
        return without_cause(case)
    because = f"overflow: {_limit(dtype)}"
    if dtype == np.float16:
        return Cause(because, "compute in float32: .astype(np.float32)")
    if case.updates:
        return Cause(because, SMALLER_STEP)
    name, largest = max(case.parameters, key=lambda one: one[1], default=("", 0.0))
    if largest < GROWN:
        wider = ", or compute in float64" if dtype != np.float64 else ""
        return Cause(because, f"scale the numbers down{wider}")
    because += f"; the largest element of a parameter is |{name}| = {number(largest)}"
    return Cause(because, f"{SMALLER_STEP}, where training let it grow")

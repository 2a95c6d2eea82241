"""`check_gradients` compares derivatives of any order with finite differences, in both modes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass, replace
from chainrule.errors import ChainruleError, GradientCheckError, InputError, KinkWarning
from chainrule.functional import jvp, vjp
from chainrule.graph.dtypes import finfo
from chainrule.testing.arguments import Wrt, flat_call
from chainrule.testing.differences import EPS, Slope, largest, slopes
from chainrule.testing.kinks import kinks
from chainrule.tracebacks import entry, warn_user
from chainrule.tracing import function_name, trace

MODES = ("forward", "reverse")

# Forward and reverse mode compute one number in two orders of summation: only rounding separates
# them, and AGREEMENT = 4e6 eps leaves room for ill-conditioned functions.  Outputs of a narrower
# dtype are rounded to it: 64 of its own eps.
AGREEMENT = 1e-9

# A finite difference that may be off by more than this part of the derivative would let a rule
# that is wrong by 0.1 % pass; it proves nothing, and the check says so.
DECIDED = 1e-4

# An analytic derivative below this part of the function is what rounding leaves of a zero; finite
# differences have confirmed it if they see a zero to within ZERO of the function.
RESIDUE = 1000 * EPS
ZERO = 1e-8

Leaves = list[np.ndarray]


@dataclass(frozen=True)
class _Check:
    """A function of a list of float64 arrays that returns such a list, and where to check it."""

    function: Callable[[Any], list[Any]]
    shown: str
    names: list[str]
    point: Leaves
    seed: int
    generator: np.random.Generator
    rtol: float
    magnitude: float = 0.0
    derived: tuple[str, ...] = ()  # the modes of the derivatives already taken, innermost first


@dataclass(frozen=True)
class _Direction:
    """A direction in the space of the arguments: which argument moves, and how."""

    name: str
    number: int
    arrays: Leaves


@entry
def check_gradients(
    f: Callable[..., Any],
    *args: Any,
    order: int = 2,
    modes: Iterable[str] = MODES,
    seed: int | None = None,
    rtol: float = 1e-6,
    wrt: Wrt = None,
) -> None:
    """Compare the derivatives of `f` at `args` with finite differences, up to `order`.

    Arguments are arrays, numbers and containers of them; floats are taken in float64 and
    differentiated (only those of the arguments that `wrt` names or counts, if given), everything
    else is passed through.  Along a random direction in each argument and along joint ones,

    * forward mode is compared element by element, reverse mode in a random combination of the
      outputs, with `rtol` times the number plus the finite difference's own error bound;
    * if both modes are checked, <u, J v> and <Jᵀ u, v> must agree to rounding;
    * order 2 (and more) is the same check of the derivative itself, in every mode.

    No absolute tolerance: a derivative of 1e-9 is checked as closely as one of 1.  NaN fails,
    and so does a point where finite differences cannot decide.  Raises GradientCheckError
    naming the argument, the numbers and the seed (drawn anew for each call unless given); warns
    (KinkWarning) where the function or a derivative that is checked jumps at the point, or is
    infinite, because of operations that are at a kink there.
    """
    chosen = tuple(modes)
    if order < 1 or not chosen or any(mode not in MODES for mode in chosen):
        raise InputError(
            f"check_gradients(order={order}, modes={chosen})",
            hint='order is at least 1, modes are "forward", "reverse" or both',
        )
    check = _first(f, args, wrt, seed, rtol)
    _warn_of_kinks(check, order)
    _check(check, order, chosen)


def _warn_of_kinks(check: _Check, order: int) -> None:
    own = replace(check, generator=np.random.default_rng(check.seed))
    direction = _random_like(own, check.point, scaled=True)
    found = kinks(check.function, check.point, direction, order)
    if not found:
        return
    names = dict.fromkeys(one.primitive.name for one in found)
    said = ChainruleError(
        f"{check.shown} is checked at a kink of {' and '.join(names)}: the derivative there is a "
        "convention, and the second one need not be that of either side",
        where=found[0].origin.describe(),
        hint="move the point away from it; docs/conventions.md lists the conventions",
    )
    warn_user(str(said), KinkWarning)


@entry
def check_modes_agree(f: Callable[..., Any], *args: Any, seed: int | None = None) -> None:
    """<u, J v> = <Jᵀ u, v>: the part of `check_gradients` that holds at kinks too."""
    check = _first(f, args, None, seed, 0.0)
    values = _values(check)
    directions, seeds = list(_directions(check)), _random_like(check, values, scaled=False)
    forward, reverse = _forward(check, directions), _reverse(check, seeds)
    _compare_modes(check, directions, forward, reverse, seeds, largest(values))


def _first(
    f: Callable[..., Any], args: tuple[Any, ...], wrt: Wrt, seed: int | None, rtol: float
) -> _Check:
    """The check of `f` itself."""
    call = flat_call(f, args, wrt)
    drawn = _new_seed() if seed is None else seed
    return _Check(
        function=call.function,
        shown=function_name(f),
        names=call.names,
        point=call.point,
        seed=drawn,
        generator=np.random.default_rng(drawn),
        rtol=rtol,
    )


def _new_seed() -> int:
    """Another one in each call."""
    return int(np.random.SeedSequence().generate_state(1)[0])


# One order -----------------------------------------------------------------------------------


def _check(check: _Check, order: int, modes: tuple[str, ...]) -> None:
    graph = trace(check.function, check.point)

    def function(point: Leaves) -> Leaves:
        return graph.run({"point": point}, keep="outputs").outputs

    values = function(check.point)
    if not values:
        raise InputError(
            f"{check.shown} returns no floating-point value", hint="return what is differentiated"
        )
    check = replace(check, magnitude=max(check.magnitude, largest(values)))
    directions = list(_directions(check))
    seeds = _random_like(check, values, scaled=False)
    numeric = [slopes(function, check.point, d.arrays, check.magnitude) for d in directions]
    forward = _forward(check, directions) if "forward" in modes else []
    reverse = _reverse(check, seeds) if "reverse" in modes else []
    for direction, tangents, found in zip(directions, forward, numeric, strict=False):
        for index, (tangent, slope) in enumerate(zip(tangents, found, strict=True)):
            _compare(check, "forward", direction, tangent, slope, f"output {index}")
    if reverse:
        for direction, found in zip(directions, numeric, strict=True):
            slope = Slope(
                np.asarray(_inner(seeds, [s.value for s in found])),
                np.asarray(_inner(_absolute(seeds), [s.error for s in found])),
            )
            cotangent = np.asarray(_inner(reverse, direction.arrays))
            _compare(check, "reverse", direction, cotangent, slope, "the outputs' combination")
    if forward and reverse:
        _compare_modes(check, directions, forward, reverse, seeds, check.magnitude)
    if order > 1:
        for mode in modes:
            _check(_derivative(check, mode, directions[-1].arrays, seeds), order - 1, modes)


def _derivative(check: _Check, mode: str, direction: Leaves, seeds: Leaves) -> _Check:
    """The check of the derivative: along the direction, or of the outputs' combination by each
    argument, in units of its size; both are then of the size of the function."""
    inner, scales = check.function, [_size(x) for x in check.point]

    def forward(point: Any) -> list[Any]:
        return list(jvp(inner, (point,), (direction,))[1])

    def reverse(point: Any) -> list[Any]:
        cotangents = vjp(inner, point)[1](seeds)[0]
        return [g * scale for g, scale in zip(cotangents, scales, strict=True)]

    function = forward if mode == "forward" else reverse
    return replace(check, function=function, derived=(*check.derived, mode))


def _forward(check: _Check, directions: list[_Direction]) -> list[Leaves]:
    """The tangents of the outputs along each direction."""

    def pushed(point: Any, tangents: Any) -> list[Any]:
        return list(jvp(check.function, (point,), (tangents,))[1])

    graph = trace(pushed, check.point, check.point)
    given = [{"point": check.point, "tangents": d.arrays} for d in directions]
    return [graph.run(arguments, keep="outputs").outputs for arguments in given]


def _reverse(check: _Check, seeds: Leaves) -> Leaves:
    """The cotangents of the arguments for these cotangents of the outputs."""

    def pulled(point: Any, seeds: Any) -> list[Any]:
        return list(vjp(check.function, point)[1](seeds)[0])

    graph = trace(pulled, check.point, seeds)
    return graph.run({"point": check.point, "seeds": seeds}, keep="outputs").outputs


def _values(check: _Check) -> Leaves:
    return trace(check.function, check.point).run({"point": check.point}).outputs


def _directions(check: _Check) -> Iterator[_Direction]:
    """One direction in each argument, so that an error can name it, and one in all together."""
    for index, (name, leaf) in enumerate(zip(check.names, check.point, strict=True)):
        if leaf.size:
            arrays = [np.zeros_like(x) for x in check.point]
            arrays[index] = _random_like(check, [leaf], scaled=True)[0]
            yield _Direction(name, index, arrays)
    together = _random_like(check, check.point, scaled=True)
    yield _Direction(" and ".join(check.names), len(check.point), together)


def _random_like(check: _Check, arrays: Leaves, *, scaled: bool) -> Leaves:
    """Normal numbers in the arrays' shapes; if `scaled`, of the size of their elements, so that a
    step along them is small relative to the argument, whatever its unit."""
    normal = check.generator.standard_normal
    return [np.asarray(normal(x.shape) * (_size(x) if scaled else 1.0)) for x in arrays]


def _size(array: np.ndarray) -> float:
    """The root of the mean square of the elements; 1 where that says nothing."""
    high = largest([array])
    if not high:
        return 1.0
    return high * float(np.sqrt(np.nanmean(np.square(array / high))))


# Comparisons ---------------------------------------------------------------------------------


def _inner(left: Leaves, right: Leaves) -> float:
    with np.errstate(all="ignore"):
        return float(sum(np.sum(a * b, dtype=np.float64) for a, b in zip(left, right, strict=True)))


def _absolute(arrays: Leaves) -> Leaves:
    return [np.abs(array) for array in arrays]


def _compare(
    check: _Check, mode: str, direction: _Direction, got: np.ndarray, slope: Slope, of: str
) -> None:
    """Raise unless the analytic derivative is within the tolerance of the numeric one."""
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(got), np.abs(slope.value))
        excess = np.abs(got - slope.value) - (check.rtol * size + slope.error)
        right = excess <= 0  # NaN is not
    if not np.all(right & np.isfinite(slope.error)):
        bad = np.where(np.isfinite(excess), excess, np.inf)
        place = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise _failure(check, mode, direction, got[place], slope, place, of)
    scale, error = largest([size]), largest([slope.error])
    is_zero = largest([got]) <= RESIDUE * check.magnitude and error <= ZERO * check.magnitude
    if error > DECIDED * scale and not is_zero:
        place = np.unravel_index(int(np.argmax(slope.error)), slope.error.shape)
        raise _failure(check, mode, direction, got[place], slope, place, of, decided=False)


def _compare_modes(
    check: _Check,
    directions: list[_Direction],
    forward: list[Leaves],
    reverse: Leaves,
    seeds: Leaves,
    magnitude: float,
) -> None:
    total = sum(float(np.abs(u).sum()) for u in seeds)
    eps = max(float(finfo(t.dtype).eps) for tangents in forward for t in tangents)
    tolerance = max(AGREEMENT, 64 * eps)
    for direction, tangents in zip(directions, forward, strict=True):
        left, right = _inner(seeds, tangents), _inner(reverse, direction.arrays)
        size = _inner(_absolute(seeds), _absolute(tangents))
        size += _inner(_absolute(reverse), _absolute(direction.arrays))
        if not abs(left - right) <= tolerance * size + RESIDUE * total * magnitude:
            raise GradientCheckError(
                f"{_what(check, direction)}: forward and reverse mode disagree "
                f"(order {len(check.derived) + 1})\n"
                f"  forward: <u, J v> = {left!r}\n  reverse: <J^T u, v> = {right!r}\n"
                f"  along direction {direction.number} of seed={check.seed}",
                hint="the tangent rule or the transpose of one primitive is wrong;\n"
                'modes=("forward",) and modes=("reverse",) tell which',
            )


def _what(check: _Check, direction: _Direction) -> str:
    derived = "".join(f"the {mode} derivative of " for mode in reversed(check.derived))
    return f"{derived}{check.shown} with respect to {direction.name}"


def _failure(
    check: _Check,
    mode: str,
    direction: _Direction,
    got: Any,
    slope: Slope,
    place: tuple[Any, ...],
    of: str,
    *,
    decided: bool = True,
) -> GradientCheckError:
    shown = f" at element {[int(i) for i in place]}" if place else ""
    number, error = float(slope.value[place]), float(slope.error[place])
    what = "the derivative is not what finite differences give"
    hint = (
        "check the derivative rule of the primitives involved, one at a time;\n"
        "if they are right: is the point at a kink, or is f random, or rounded to float32?"
    )
    if not decided or not np.isfinite(number):
        what = "finite differences cannot decide"
        hint = (
            "move the point away from kinks and from the border of the domain;\n"
            "give arguments of similar magnitude; subtract a large constant from the value"
        )
    return GradientCheckError(
        f"{_what(check, direction)}: {what} ({mode} mode, order {len(check.derived) + 1})\n"
        f"  analytic: {float(got)!r}\n  numeric:  {number!r} (± {error:.1e})\n"
        f"  in {of}{shown}, along direction {direction.number} of seed={check.seed}",
        hint=f"check_gradients(..., seed={check.seed}) repeats this;\n{hint}",
    )

"""Loops and choices as JAX has them: they are compiled once, however often a body is done.

These are methods of a `Space`, of which bodies are evaluated by `space.body`: that gives whether
the body failed, which a while loop carries to its end; a scan whose body cannot fail has nothing
of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from chainrule.execute.xla.jax_here import jax_here
from chainrule.graph.body import Body, inner_nodes
from chainrule.primitives.primitive import Gather, Library

if TYPE_CHECKING:
    from chainrule.execute.xla.tracing import Space


def scan(
    space: Space,
    body: Body,
    fixed: Sequence[Any],
    states: Sequence[Any],
    slices: Sequence[Any],
    length: int,
    reverse: bool,
) -> tuple[list[Any], list[Any]]:
    """The last states, and every iteration's further outputs along a new first axis."""
    count = len(states)

    def iterate(carry: Any, rows: Any) -> Any:
        flags, before = carry
        wrong, outputs = space.body(body, [*fixed, *before, *rows])
        noted = [] if wrong is False else [wrong]
        if flags:
            flags, noted = [flags[0] | wrong], []
        return (flags, outputs[:count]), (noted, outputs[count:])

    flags = [_false()] if _is_doubtful(body) else []
    (flags, after), (noted, stacks) = jax_here().lax.scan(
        iterate, (flags, list(states)), tuple(slices), length=length, reverse=reverse
    )
    for wrong in (*flags, *noted):
        space.fail(wrong.any())
    return after, stacks


def _is_doubtful(body: Body) -> bool:
    """Whether iterations carry a flag from the beginning: those with indices or linear algebra.
    Where another one may fail, the flags of all are kept, which takes longer."""
    nodes = (*body.graph.nodes, *inner_nodes(body.graph))
    return any(isinstance(node.primitive.kernel, Gather | Library) for node in nodes)


def cond(
    space: Space, predicate: Any, if_true: Body, if_false: Body, operands: Sequence[Any]
) -> list[Any]:
    """The outputs of the body that the predicate chooses."""

    def branch(body: Body) -> Any:
        def evaluated(*arrays: Any) -> Any:
            failed, outputs = space.body(body, arrays)
            return (_traced(failed), *outputs)

        return evaluated

    failed, *outputs = jax_here().lax.cond(predicate, branch(if_true), branch(if_false), *operands)
    space.fail(failed)
    return outputs


def while_loop(
    space: Space,
    condition: Body,
    body: Body,
    fixed: Sequence[Any],
    states: Sequence[Any],
    limit: int | None,
) -> list[Any]:
    """The states after the iterations, as many as the condition holds for; more than `limit` are a
    failure."""
    _, after, _ = _forth(space, condition, body, fixed, states, limit, ())
    return after


def unwind(
    space: Space,
    condition: Body,
    body: Body,
    back: Body,
    fixed: Sequence[Any],
    states: Sequence[Any],
    gone: Sequence[Any],
    limit: int,
    segment: int,
    read: Collection[int],
) -> list[Any]:
    """What is carried back through the iterations of a while loop.

    The loop is done with the states at the beginning of each segment kept; then, from the last
    segment on, they are done again, and those of the numbers in `read` kept for each iteration.
    """
    jax = jax_here()
    kept = -(-limit // segment)
    starts = [jax.numpy.zeros((kept, *x.shape), x.dtype) for x in (states if read else ())]
    number, _, starts = _forth(space, condition, body, fixed, states, limit, starts, segment)
    rows = {i: jax.numpy.zeros((segment, *states[i].shape), states[i].dtype) for i in sorted(read)}

    def again(first: Any, count: Any) -> Any:
        """The states before each iteration of a segment."""

        def step(i: Any, carry: Any) -> Any:
            failed, state, rows = carry
            rows = {place: one.at[i].set(state[place]) for place, one in rows.items()}
            wrong, state = space.body(body, [*fixed, *state])
            return failed | wrong, state, rows

        state = [one[first // segment] for one in starts]
        failed, _, found = jax.lax.fori_loop(0, count, step, (_false(), state, rows))
        return failed, found

    def one_segment(carry: Any) -> Any:
        failed, first, gone = carry
        count = jax.numpy.minimum(segment, number - first)
        found, wrong = rows, _false()
        if read:
            wrong, found = again(first, count)

        def step(i: Any, carry: Any) -> Any:
            failed, gone = carry
            place = count - 1 - i
            before = [found[j][place] if j in found else one for j, one in enumerate(states)]
            wrong, gone = space.body(back, [*fixed, *before, *gone])
            return failed | wrong, gone

        failed, gone = jax.lax.fori_loop(0, count, step, (failed | wrong, gone))
        return failed, first - segment, gone

    last = (number - 1) // segment * segment  # of no iterations: below 0
    failed, _, after = jax.lax.while_loop(
        lambda carry: carry[1] >= 0, one_segment, (_false(), last, list(gone))
    )
    space.fail(failed)
    return after


def _forth(
    space: Space,
    condition: Body,
    body: Body,
    fixed: Sequence[Any],
    states: Sequence[Any],
    limit: int | None,
    starts: Sequence[Any],
    segment: int = 1,
) -> tuple[Any, list[Any], Sequence[Any]]:
    """The number of iterations, the last states, and `starts` with those before each segment."""
    jax = jax_here()

    def holds(state: Sequence[Any]) -> tuple[Any, Any]:
        failed, (found,) = space.body(condition, [*fixed, *state])
        return _traced(failed), found

    def goes_on(carry: Any) -> Any:
        failed, on, number, _, _ = carry
        going = on & ~failed
        return going if limit is None else going & (number < limit)

    def step(carry: Any) -> Any:
        failed, _, number, state, starts = carry
        place = number // segment
        first = number % segment == 0
        starts = [
            one.at[place].set(jax.numpy.where(first, now, one[place]))
            for one, now in zip(starts, state, strict=False)
        ]
        wrong, state = space.body(body, [*fixed, *state])
        lost, on = holds(state)
        return failed | wrong | lost, on, number + 1, state, starts

    failed, on = holds(states)
    begin = (failed, on, jax.numpy.zeros((), "int64"), list(states), list(starts))
    failed, on, number, after, starts = jax.lax.while_loop(goes_on, step, begin)
    space.fail(failed | on)  # it holds at the limit
    return number, after, starts


def _false() -> Any:
    return _traced(False)


def _traced(failed: Any) -> Any:
    return jax_here().numpy.asarray(failed, bool)

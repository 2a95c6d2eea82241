"""`grad`, `value_and_grad`, `vjp`, `jvp`, `hvp`: derivatives as functions that return numbers."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any

from chainrule.errors import NotDifferentiableError
from chainrule.execute.executors import executor_named
from chainrule.frontend.naming import user_frame
from chainrule.frontend.results import nodes_of
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced
from chainrule.functional.arguments import (
    Wrt,
    parameters_of,
    require_function,
    seeds_of_floats,
    trace_in,
)
from chainrule.functional.calls import Call, gradient_in_trace, like
from chainrule.functional.made import Pull, makes_a_function
from chainrule.functional.numbers import on_numbers_too, vjp_of_numbers
from chainrule.graph.structure import flatten
from chainrule.tracebacks import entry
from chainrule.tracing import function_name, output_node, refuse_contradicting
from chainrule.transforms.vjp import summed_seeds


@makes_a_function
def value_and_grad(
    function: Callable[..., Any],
    wrt: Wrt = None,
    *,
    has_aux: bool = False,
    executor: str | None = None,
) -> Callable[..., Any]:
    """Returns a function that computes (value, gradient) of the scalar `function`.

    `wrt` names or counts the arguments to differentiate, by default the first; several give a
    tuple of gradients.  A gradient has the containers, shapes and dtypes of its argument.  With
    `has_aux`, `function` returns (value, aux), and the result is ((value, aux), gradient).
    The function is traced again at every call, and compiled once for each structure; `executor`
    is "native" (the default where native code can be made) or "reference".  Raises ShapeError
    where the value is not a scalar.
    """

    def in_trace(building: Trace, frame: FrameType | None, args: Any, kwargs: Any) -> Any:
        value, gradient = gradient_in_trace(building, function, wrt, has_aux, frame, args, kwargs)
        if frame is not None:
            for node, place in nodes_of(gradient):
                building.name_result(node, user_frame(frame), ((1, 2), *place))
        return value, gradient

    return on_numbers_too(function, in_trace, executor)


@makes_a_function
def grad(
    function: Callable[..., Any],
    wrt: Wrt = None,
    *,
    has_aux: bool = False,
    executor: str | None = None,
) -> Callable[..., Any]:
    """Returns a function that computes the gradient of the scalar `function`; see `value_and_grad`.

    With `has_aux`, it returns (gradient, aux).  Works to any order: `grad(grad(f))`.
    """

    def in_trace(building: Trace, frame: FrameType | None, args: Any, kwargs: Any) -> Any:
        value, gradient = gradient_in_trace(building, function, wrt, has_aux, frame, args, kwargs)
        if frame is not None and not has_aux:
            for node, place in nodes_of(gradient):
                building.name_result(node, user_frame(frame), place)
        return (gradient, value[1]) if has_aux else gradient

    return on_numbers_too(function, in_trace, executor)


@entry
def jvp(
    function: Callable[..., Any], primals: Any, tangents: Any, *, executor: str | None = None
) -> tuple[Any, Any]:
    """Returns (value, tangent): the function at `primals`, and its derivative along `tangents`.

    `primals` is a tuple of arguments (or one argument), `tangents` has the same containers,
    shapes and float dtypes.  Forward mode: one pass, whatever the number of outputs.
    """
    return _pushed(function, primals, tangents, executor, lambda value, tangent: (value, tangent))


def _pushed(
    function: Callable[..., Any],
    primals: Any,
    tangents: Any,
    executor: str | None,
    given: Callable[[Any, Any], Any],
) -> tuple[Any, Any]:
    """(value, tangent); the caller's code stores `given` of both, whose parts get its names."""
    require_function(function)
    args = primals if isinstance(primals, tuple) else (primals,)
    directions = tangents if isinstance(tangents, tuple) else (tangents,)
    refuse_contradicting(function, dict(zip(parameters_of(function), args, strict=False)))

    def in_trace(building: Trace, frame: FrameType | None, pair: Any, _: Any) -> Any:
        values, moves = pair
        call = Call(building, function, values, {}, range(len(values)))
        value, tangent = call.pushed(moves, frame)
        if frame is not None:
            for node, place in nodes_of(given(value, tangent)):
                building.name_result(node, user_frame(frame), place)
        return value, tangent

    def both(primals: Any, tangents: Any) -> Any:
        raise AssertionError("replaced by in_trace")

    both.__name__ = function_name(function)
    return on_numbers_too(both, in_trace, executor)(args, directions)


@entry
def hvp(
    function: Callable[..., Any], primals: Any, tangents: Any, *, executor: str | None = None
) -> Any:
    """Returns the Hessian of the scalar `function` times `tangents`, by forward over reverse mode.

    Costs a few gradients, never forms the Hessian.  The result has the containers of `primals`
    (a tuple of arguments, or one argument).  Where an operation of the user's has no rule for
    forward mode, it is reverse over reverse.
    """
    args = primals if isinstance(primals, tuple) else (primals,)
    gradient = grad(function, wrt=range(len(args)), executor=executor)

    def given(_: Any, product: Any) -> Any:
        return product if isinstance(primals, tuple) else product[0]

    try:
        product = _pushed(gradient, args, tangents, executor, given)[1]
    except NotDifferentiableError as error:
        directions = tangents if isinstance(tangents, tuple) else (tangents,)
        try:
            product = vjp(gradient, *args, executor=executor)[1](directions)
        except NotDifferentiableError:
            raise error from None
    return given(None, product)


@entry
def vjp(
    function: Callable[..., Any], *primals: Any, executor: str | None = None
) -> tuple[Any, Callable[[Any], Any]]:
    """Returns (value, pull): the function at `primals`, and pull(seed), a tuple of cotangents.

    `seed` has the containers and shapes of the value (what it has for integers counts for
    nothing).  The forward pass runs once; `pull` reads the values that it saved and may be called
    many times.
    """
    require_function(function)
    building = trace_in(primals, {})
    if building is not None:
        call = Call(building, function, primals, {}, range(len(primals)))
        leaves, structure = flatten(call.result, "value")
        nodes = [
            output_node(building, leaf, name)
            for leaf, name in zip(leaves, structure.leaf_names, strict=True)
        ]

        def pull_traced(seed: Any) -> tuple[Any, ...]:
            building.refuse_leaked(*nodes)
            leaves, floats = seeds_of_floats(seed, nodes)
            seeds = like(building, leaves, floats, "seed")
            return tuple(call.pulled(summed_seeds(floats, seeds), None))

        return structure.unflatten([Traced(n, building) for n in nodes]), Pull(entry(pull_traced))
    return vjp_of_numbers(function, primals, executor_named(executor))

"""Arguments against the inputs of a graph: their dtypes and axes, and the named sizes they show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.errors import ChainruleError, InputError, SizeError
from chainrule.execute.casting import widened, widens
from chainrule.graph.dtypes import dtype_kind, in_python, stored_as
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node
from chainrule.graph.parts import Input
from chainrule.graph.plain import refuse_subclass
from chainrule.graph.sizes import size_values, sizes


def bound_to(graph: Graph, given: Mapping[str, Any]) -> tuple[Graph, dict[Node, np.ndarray]]:
    """The graph at the sizes that the arrays show, and the arrays by its input nodes.

    `given` are the inputs, by their own names.  Raises InputError or SizeError as
    `execute.run_graph`.
    """
    values = {item.name: checked(graph, item, given) for item in graph.inputs}
    concrete = graph.bound(sizes_from(graph, values))
    return concrete, {item.node: values[item.name] for item in concrete.inputs}


def checked(graph: Graph, item: Input, given: Mapping[str, Any]) -> np.ndarray:
    """The value of one input as an array of its dtype and number of axes, or InputError.

    Integers that its dtype has, too, are cast, with a CastWarning.
    """
    expected = item.type
    if item.name not in given:
        if item.default is None:
            raise InputError(
                f"the input {item.name} of {graph.name} was not given; expected {expected}",
                where=item.node.origin.describe(),
                hint=f"graph.run(..., {item.name}=...)",
            )
        return np.asarray(item.default, expected.dtype)
    value = given[item.name]
    scalar = isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)
    array = _array(graph, item, value)
    _check_guard(graph, item, value)
    fits = array.dtype == expected.dtype
    if scalar and not array.shape:  # a Python number takes the input's dtype, as NEP 50 says
        fits = dtype_kind(expected.dtype) == "f" or array.dtype.kind == expected.dtype.kind
        fits = fits and not (isinstance(value, bool) and expected.dtype.kind != "b")
        array = array.astype(expected.dtype) if fits else array
    elif expected.weak:
        fits = np.can_cast(array.dtype, expected.dtype, "same_kind") and array.dtype.kind != "b"
        array = array.astype(expected.dtype) if fits else array
    widening = not fits and widens(array.dtype, expected.dtype)
    if not (fits or widening) or array.ndim != expected.ndim:
        raise _wrong_type(graph, item, value, array)
    for axis, (got, wanted) in enumerate(zip(array.shape, expected.shape, strict=True)):
        if isinstance(wanted, int) and got != wanted:
            raise _wrong_type(graph, item, value, array, axis)
    return widened(graph, item, array) if widening else array


def swapped_nbytes(given: Mapping[Node, Any]) -> dict[Node, int]:
    """The bytes of the arrays that are made of those in another byte order, or of fewer bits, by
    their inputs."""
    return {
        node: one.size * node.dtype.itemsize
        for node, one in given.items()
        if type(one) is np.ndarray
        and (not one.dtype.isnative or (one.dtype != node.dtype and widens(one.dtype, node.dtype)))
    }


def _check_guard(graph: Graph, item: Input, value: Any) -> None:
    for guard in graph.guards:
        if guard.name == item.name and np.any(np.asarray(value) != guard.value):
            raise InputError(
                f"{graph.name} was traced with {item.name} = {guard.value!r}, which the program "
                f"used as a Python number; got {value!r}",
                where=guard.origin.describe(),
                hint=f"trace it again with {item.name}={value!r}",
            )


def _array(graph: Graph, item: Input, value: Any) -> np.ndarray:
    """The value as a NumPy array of numbers, or InputError."""
    if type(value) is np.ndarray and value.dtype.isnative and dtype_kind(value.dtype) in "biufc":
        return value  # the place in the source is not looked up: that takes 20 µs
    refuse_subclass(value, f"the input {item.name} of {graph.name}", item.node.origin.describe())
    try:
        array = np.asarray(value)
    except ChainruleError:  # of a traced array
        raise
    except ValueError:  # a ragged list
        array = np.empty((), object)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    array = stored_as(array, item.type.dtype)
    if dtype_kind(array.dtype) in "biufc":
        return array
    shown = repr(value)
    raise InputError(
        f"the input {item.name} of {graph.name} must be {item.type}, "
        f"got {shown if len(shown) <= 40 else shown[:37] + '...'}",
        where=item.node.origin.describe(),
        hint="give a NumPy array or a number",
    )


def _wrong_type(
    graph: Graph, item: Input, value: Any, array: np.ndarray, axis: int | None = None
) -> InputError:
    expected = item.type
    got = f"{array.dtype.name}{list(array.shape)}"
    at = f" (axis {axis})" if axis is not None else ""
    hint = "check the order of the axes and which array is passed under which name"
    if array.dtype != expected.dtype:
        name = in_python(expected.dtype)
        is_array = isinstance(value, (np.ndarray, np.generic))
        hint = f"{item.name}.astype({name})" if is_array else f"np.asarray({item.name}, {name})"
        hint = f"convert it: {hint}"
    if array.dtype.kind == "c":
        hint = f"graphs have no complex numbers: pass {item.name}.real and {item.name}.imag as two "
        hint += "arguments, or np.abs of it"
    return InputError(
        f"the input {item.name} of {graph.name} must be {expected}, got {got}{at}",
        where=item.node.origin.describe(),
        hint=hint,
    )


def sizes_from(graph: Graph, values: Mapping[str, np.ndarray]) -> dict[str, int]:
    """The named sizes that the shapes of the inputs show; SizeError where two disagree."""
    found: dict[str, int] = {}
    shown_by: dict[str, tuple[str, int]] = {}
    pending = [
        (item, axis, size)
        for item in graph.inputs
        for axis, size in enumerate(item.type.shape)
        if isinstance(size, sizes.Size)
    ]
    progress = True
    while pending and progress:
        progress, later = False, []
        for item, axis, size in pending:
            got = values[item.name].shape[axis]
            expected = size_values.evaluate(size, found)
            if isinstance(expected, int):
                if expected != got:
                    raise _disagreement(graph, item, axis, size, values, expected, shown_by)
                progress = True
                continue
            solved = size_values.solve(size, got, found)
            if solved is None and len(sizes.names(expected)) == 1:
                raise _disagreement(graph, item, axis, size, values, expected, shown_by)
            if solved is None:
                later.append((item, axis, size))
                continue
            for name in solved:
                shown_by[name] = item.name, axis
            found.update(solved)
            progress = True
        pending = later
    if pending:
        item, axis, size = pending[0]
        raise SizeError(
            f"the sizes in {size} (axis {axis} of {item.name}) cannot be read off the inputs",
            hint="bind them first: graph.bind("
            + ", ".join(f"{n}=..." for n in sorted(sizes.names(size)))
            + ")",
        )
    return found


def _disagreement(
    graph: Graph,
    item: Input,
    axis: int,
    size: Any,
    values: Mapping[str, np.ndarray],
    expected: Any,
    shown_by: Mapping[str, tuple[str, int]],
) -> SizeError:
    got = values[item.name].shape[axis]
    by = {name: shown_by[name] for name in sorted(sizes.names(size)) if name in shown_by}
    because = "; ".join(f"{name} from {one} (axis {at})" for name, (one, at) in by.items())
    wanted = f"{size} = {expected}" if isinstance(expected, int) else f"{size}, at least 1"
    return SizeError(
        f"axis {axis} of the input {item.name} of {graph.name} must be {wanted}"
        + (f" ({because})" if because else "")
        + f", got {got}",
        where=item.node.origin.describe(),
        hint=_way_out(item.name, axis, values, expected, by),
    )


def _way_out(
    name: str,
    axis: int,
    values: Mapping[str, np.ndarray],
    expected: Any,
    by: Mapping[str, tuple[str, int]],
) -> str:
    """What to do where a size of `name` is not what other inputs, or its type, ask for."""
    shape = values[name].shape
    if not by:
        if shape[axis] == 0:
            return f"leave an empty {name} out; a size that may be 0 is a literal 0 in the type"
        return f"give {name} a size on axis {axis} that its type can have"
    parties = [(name, axis, expected), *((one, at, shape[axis]) for one, at in by.values())]
    is_plain = len(by) == 1 and all(values[one].shape[at] == expected for one, at in by.values())
    for one, at, wanted in parties if is_plain else ():
        other = values[one]
        if other.ndim == 2 and other.shape[1 - at] == wanted != other.shape[at]:
            return f"perhaps {one} is transposed, {list(other.shape)}: pass {one}.T"
    several = ", ".join(f"axis {at} of {one}" for one, at, _ in parties)
    return f"give arrays that agree on {', '.join(by)}: {several}"

"""The primitive `scan`: runs a body repeatedly, with a carried state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.control.cost import SCAN, flops, over
from chainrule.control.evaluate_body import in_c_order, program_of, result_of, store
from chainrule.control.numpy_source import scan_python
from chainrule.control.packing import packed_type, result_types, stacked_type, strong
from chainrule.control.samples import accumulating, filtering
from chainrule.control.scan_batch import batch
from chainrule.control.scan_rules import cotangents, tangent
from chainrule.control.whole import has_loops, scanned
from chainrule.graph.body import Body
from chainrule.graph.node import Node
from chainrule.graph.sizes.sizes import Size
from chainrule.graph.types import ArrayType
from chainrule.primitives.notation import ATOM, Latex
from chainrule.primitives.primitive import Joint, Primitive
from chainrule.primitives.python import Python
from chainrule.schedule.plain import iteration_nbytes


def _type(
    *types: ArrayType,
    body: Body,
    carries: int,
    constants: int,
    dtype: np.dtype,
    length: int | Size,
    reverse: bool,
) -> ArrayType:
    inputs = [item.type for item in body.graph.inputs]
    outputs = [node.type for _, node in body.graph.outputs]
    whole = inputs[: constants + carries]
    whole += [stacked_type(one, length) for one in inputs[constants + carries :]]
    if len(types) != len(whole) or any(
        strong(given) != strong(one) for given, one in zip(types, whole, strict=True)
    ):
        raise TypeError(f"the body takes {_shown(whole)}, got {_shown(types)}")
    before = inputs[constants : constants + carries]
    if before != outputs[:carries]:
        raise TypeError(f"the body changes {_shown(before)} to {_shown(outputs[:carries])}")
    if any(one.dtype != dtype for one in outputs[carries:]):
        raise TypeError(f"the body stacks {_shown(outputs[carries:])}, not {dtype}")
    return packed_type(dtype, result_types(body, carries, dtype, length))


def _shown(types: Any) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _evaluate(
    xp: Any,
    *arrays: Any,
    body: Body,
    carries: int,
    constants: int,
    dtype: np.dtype,
    length: int,
    reverse: bool,
) -> Any:
    """One iteration after another; the carries of the dtype and the stacked outputs lie in the
    result from the beginning."""
    if has_loops(xp):
        params = {"constants": constants, "dtype": dtype, "length": length, "reverse": reverse}
        return scanned(xp, *arrays, body=body, carries=carries, **params)
    program = program_of(body, xp, length, over(body, constants, carries))
    fixed = [in_c_order(one) for one in arrays[:constants]]
    slices = arrays[constants + carries :]
    types = [node.type for _, node in body.graph.outputs]
    flat = result_of(xp, packed_type(dtype, result_types(body, carries, dtype, length)))
    start, parts = 0, []
    for one in result_types(body, carries, dtype, length):
        parts.append(flat[start : start + one.size].reshape(one.shape))
        start += one.size
    own = iter(parts)
    states = [
        next(own) if one.dtype == dtype else np.empty(one.shape, one.dtype)
        for one in types[:carries]
    ]
    stacks = [*own]
    store(states, arrays[constants : constants + carries])
    row_of = [_rows(one) for one in slices]
    for step in range(length - 1, -1, -1) if reverse else range(length):
        found = program([*fixed, *states, *[row(step) for row in row_of]])
        store([*states, *(one[step : step + 1] for one in stacks)], found)
        del found
    return flat


def _rows(array: np.ndarray) -> Callable[[int], np.ndarray]:
    """What gives the row of an iteration, in C order: a view, or copies in one array."""
    if not len(array) or array[0, ...].flags.c_contiguous:
        return lambda step: array[step, ...]
    row = np.empty(array.shape[1:], array.dtype)

    def copied(step: int) -> np.ndarray:
        row[...] = array[step]
        return row

    return copied


def _scratch(out: Node, *operands: np.ndarray) -> int:
    body, carries, constants = (out.param(key) for key in ("body", "carries", "constants"))
    taken = sum(one.nbytes for one in operands[:constants] if not one.flags.c_contiguous)
    types = [node.type for _, node in body.graph.outputs[:carries]]
    taken += sum(int(one.nbytes) for one in types if one.dtype != out.dtype)
    if not out.param("length"):
        return taken
    rows = [one[0, ...] for one in operands[constants + carries :]]
    taken += sum(one.nbytes for one in rows if not one.flags.c_contiguous)
    return taken + iteration_nbytes(body)


scan = Primitive(
    name="scan",
    doc="The body done for each slice, on the carries that it changes; all results in one array.",
    inputs=("x",),
    result_type=_type,
    evaluate=_evaluate,
    derivative=Joint(tangent, cotangents, selects=True),
    batch=batch,
    kernel=SCAN,
    as_stored=True,
    flops=flops,
    latex=Latex(r"\operatorname{{scan}}_{{{body}}}({x})", ATOM, (0,)),
    samples=(
        accumulating(0),
        accumulating(1),
        accumulating(3),
        filtering(3, reverse=False),
        filtering(2, reverse=True),
    ),
    variadic=True,
    scratch=_scratch,
    python=Python(scan_python, noun="scanned"),
)

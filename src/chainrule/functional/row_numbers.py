"""Computes Jacobians and Hessians on numbers: all rows in one run, or some at a time."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass
from chainrule.errors import InputError
from chainrule.execute.run import run_graph
from chainrule.frontend.functions.elementwise import as_node
from chainrule.frontend.traced import Traced
from chainrule.functional.arguments import check_call, input_arrays, parameters_of, trace_in
from chainrule.functional.bill import Bill, refuse_beyond
from chainrule.functional.numbers import run_on
from chainrule.functional.rows import Layout, Rows, Wanted
from chainrule.graph.graph import Graph
from chainrule.tracing import function_name, traced_anew

FIRST = np.int64(0)
NUMBERS = "give arrays, or types with numbers for their sizes"
INSTEAD = {
    "Jacobian": "cr.jvp(f, x, v) and cr.vjp(f, x) multiply it by a vector, and never form it",
    "Hessian": "cr.hvp(f, x, v) multiplies it by a vector, and never forms it",
}


@dataclass(frozen=True, eq=False)
class Program:
    """The graph of all rows, or of `count` of them from the one on that its input `first` says."""

    graph: Graph
    function: Callable[..., Any]
    layout: Layout
    count: int
    first: str
    in_parts: bool


class OnNumbers:
    """What a call on numbers gives, and what it takes."""

    def __init__(
        self, function: Callable[..., Any], wanted: Wanted, rows: int | None, word: str
    ) -> None:
        self.function, self.wanted, self.rows = function, wanted, rows
        self.title = f"the {word} of {function_name(function)}"
        self.instead = INSTEAD[word]

    def result(self, _: Any, args: Any, kwargs: Any, executor: str) -> Any:
        """The whole matrix, or MemoryLimitError before anything is allocated."""
        program = self._program(args, kwargs, self.rows)

        def in_parts(rows: int) -> Bill:
            return self._bill(self._program(args, kwargs, rows), executor)

        refuse_beyond(self._bill(program, executor), in_parts, self.instead)
        if self.rows is None:
            found = run_on(program.graph, program.function, args, kwargs, executor).outputs
        else:
            found = _in_parts(program, args, kwargs, executor)
        return found if self.wanted.has_aux else found[0]

    def cost(self, args: Any, kwargs: Any, executor: str) -> Bill:
        """What a call takes; arguments may be types."""
        check_call(self.function, args, kwargs)
        return self._bill(self._program(args, kwargs, self.rows), executor)

    def _bill(self, program: Program, executor: str) -> Bill:
        layout = program.layout
        counts = (layout.count, layout.width, program.count, layout.nbytes)
        rows, width, at_once, nbytes = map(int, counts)
        return Bill(
            self.title, rows, width, at_once, nbytes, program.in_parts, executor, program.graph
        )

    def _program(self, args: Any, kwargs: Any, rows: int | None) -> Program:
        function, made = self.function, []
        names = {*parameters_of(function), *kwargs}
        name = next(n for n in ("first_row" + "_" * k for k in range(99)) if n not in names)

        def traceable(*args: Any, **kwargs: Any) -> Any:
            first = kwargs.pop(name, None)
            building = trace_in(args, kwargs)
            if building is None:
                raise InputError(
                    f"{function_name(function)} was called without any array or number to trace",
                    hint="pass NumPy arrays or Python numbers",
                )
            found = Rows(building, function, self.wanted, args, kwargs)
            layout = found.layout
            if not isinstance(layout.count, int) or not isinstance(layout.width, int):
                rows_text = f"{layout.count} rows of {layout.width} numbers"
                raise InputError(
                    f"the shape of {self.title} is not known: {rows_text}", hint=NUMBERS
                )
            if first is None:
                count = layout.count
                blocks = {k: Traced(node, building) for k, node in found.blocks().items()}
                result = layout.container(blocks)
            else:
                assert rows is not None
                count = min(rows, layout.count)
                batch = found.batch(count, as_node(building, first))
                result = [Traced(node, building) for node in batch]
            made.append((layout, count))
            return result, found.aux

        functools.update_wrapper(traceable, function)
        more = {} if rows is None else {name: FIRST}
        if more:
            _add_parameter(traceable, name)
        graph = traced_anew(traceable, args, {**kwargs, **more})
        if graph.sizes:
            raise InputError(
                f"what {self.title} takes depends on {', '.join(graph.sizes)}", hint=NUMBERS
            )
        return Program(graph, traceable, *made[0], first=name, in_parts=bool(more))


def _add_parameter(function: Any, name: str) -> None:
    """Give the function a further keyword, where its signature is looked at."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    place = len(parameters)
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
        place -= 1
    parameters.insert(place, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY))
    function.__signature__ = signature.replace(parameters=parameters)


def _in_parts(program: Program, args: Any, kwargs: Any, executor: str) -> tuple[Any, Any]:
    """All rows, `count` at a time, each written into the result; and the last aux.

    The last part has rows beyond the last one where they do not divide evenly: they are zero.
    """
    layout, count, graph = program.layout, program.count, program.graph
    inputs = input_arrays(graph, program.function, args, {**kwargs, program.first: FIRST})
    blocks = {
        (i, j): np.empty(
            (*given.shape, *seeded.shape) if layout.columns else (*seeded.shape, *given.shape),
            given.dtype,
        )
        for i, seeded in enumerate(layout.seeded)
        for j, given in enumerate(layout.given)
    }
    aux = None
    for first in range(0, max(int(layout.count), 1), max(count, 1)):
        arguments = {**inputs, program.first: np.int64(first)}
        run = run_graph(graph, arguments, keep="outputs", flat=True, executor=executor)
        parts, aux = run.outputs
        for (i, j), block in blocks.items():
            _write(layout, block, i, parts[j], first)
    return layout.container(blocks), aux


def _write(layout: Layout, block: np.ndarray, i: int, part: np.ndarray, first: int) -> None:
    """Put those rows of a part that are of the i-th array into its block."""
    start, size = layout.starts[i], layout.seeded[i].size
    low, high = max(first, start), min(first + len(part), start + size)
    if low >= high:
        return
    rows = part[low - first : high - first].reshape(high - low, -1)
    if layout.columns:
        block.reshape(-1, size)[:, low - start : high - start] = rows.T
    else:
        block.reshape(size, -1)[low - start : high - start] = rows

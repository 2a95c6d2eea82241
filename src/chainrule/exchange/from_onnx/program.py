"""Runs the calls of an ONNX file on traced arrays, and computes at once what is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chainrule.errors import ChainruleError, DataFileError, UnsupportedError
from chainrule.exchange.from_onnx.blocks import DEEPEST, Block, Reference
from chainrule.exchange.from_onnx.call import SMALL, Call, has_sizes, tidy
from chainrule.exchange.from_onnx.functions import Functions
from chainrule.exchange.from_onnx.table import OF_SIZES, TABLE, TOGETHER
from chainrule.exchange.from_onnx.tensors import plain
from chainrule.frontend.by_hand import named, scope
from chainrule.frontend.trace import Trace
from chainrule.frontend.traced import Traced

MOST_CALLS = 50_000  # results; functions may call functions, so that a small file can mean many
MOST_BYTES = 1 << 28  # of arrays that are computed while a file is read
MOST_AXES = 64  # of an array, as NumPy has it


class Program:
    """The calls of one file, run within one trace."""

    def __init__(self, trace: Trace, functions: Functions, file: str) -> None:
        self.trace, self.functions, self.file = trace, functions, file
        self.calls = self.nbytes = 0

    def run(
        self, block: Block, given: Mapping[str, Any], depth: int = 0, *, is_named: bool = True
    ) -> list[Any]:
        """The outputs of a block; `given` has its inputs and what it takes from around it."""
        if depth > DEEPEST:
            raise DataFileError(f"{block.name!r} is nested more than {DEEPEST} times")
        values = {**given, **block.known}
        for call in block.calls:
            self.calls += max(len(call.outputs), 1)
            if self.calls > MOST_CALLS:
                raise DataFileError(f"the file means more than {MOST_CALLS} operations")
            place = {"file": self.file, "line": call.number, "function": call.shown}
            with scope(call.scope, **place):
                operands = [self._value(name, values, call) for name in call.inputs]
                results = self._results(call, operands, values, depth)
                self._bound(call, results)
                for name, result in zip(call.outputs, results, strict=False):
                    if name:
                        values[name] = result
            for name in call.outputs:
                if is_named and isinstance(values.get(name), Traced) and name.isprintable():
                    values[name] = named(values[name], name)
        return [self._value(name, values, None) for name in block.outputs]

    def _bound(self, call: Call, results: Sequence[Any]) -> None:
        """Refuses what no array can be, and arrays that are too many to be computed meanwhile."""
        for one in results:
            if isinstance(one, (Traced, np.ndarray)) and one.ndim > MOST_AXES:
                raise DataFileError(f"{call.shown} makes an array of {one.ndim} axes")
            if isinstance(one, np.ndarray) and one.base is None:
                self.nbytes += one.nbytes
        if self.nbytes > MOST_BYTES:
            raise DataFileError(
                f"the file computes more than {MOST_BYTES >> 20} MiB of constants",
                hint="onnxruntime or onnxsim can fold them: read the model that they save",
            )

    def _value(self, name: str, values: Mapping[str, Any], call: Call | None) -> Any:
        if not name:
            return None
        if name not in values:
            of = f"{call.shown} reads" if call is not None else "the graph returns"
            raise DataFileError(f"{of} the value {name!r}, which nothing makes")
        value = values[name]
        if isinstance(value, np.ndarray) and value.size > SMALL and plain(value) is value:
            return Traced(self.trace.constant(value, name), self.trace)
        return value

    def _results(
        self, call: Call, operands: Sequence[Any], values: Mapping[str, Any], depth: int
    ) -> list[Any]:
        function = TABLE.get((call.domain, call.operator))
        if function is None or (call.domain, call.operator) in self.functions.own:
            return self._of_function(call, operands, depth)
        one = _copied(call)
        one.trace = self.trace
        one.bodies = self._bodies(values, depth)
        operands = [_in_plain_types(one, place, x) for place, x in enumerate(operands)]
        meets = call.operator in TOGETHER and any(isinstance(x, Traced) for x in operands)
        if any(map(has_sizes, operands)) and (meets or call.operator not in OF_SIZES):
            operands = [one.traced(x) if has_sizes(x) else x for x in operands]
        while operands and operands[-1] is None:
            operands = operands[:-1]
        try:
            with np.errstate(all="ignore"):
                found = function(one, *operands)
                results = [tidy(x) for x in (found if isinstance(found, tuple) else [found])]
        except ChainruleError:
            raise
        except MemoryError:
            raise UnsupportedError(f"{call.shown} needs more memory than there is") from None
        except RecursionError:
            raise DataFileError(f"{call.shown} is nested too deeply") from None
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise DataFileError(
                f"{call.shown} of {', '.join(map(_shown, operands)) or 'nothing'} cannot be "
                f"computed: {what}",
                hint="check the file: its operands or attributes do not go together",
            ) from error
        missing = [name for name in call.outputs[len(results) :] if name]
        if missing:
            raise UnsupportedError(f"{call.shown} has no output for {', '.join(missing)}")
        return results

    def _bodies(self, values: Mapping[str, Any], depth: int) -> Callable[..., list[Any]]:
        def run(block: Block, *arguments: Any) -> list[Any]:
            if len(arguments) != len(block.inputs):
                raise DataFileError(
                    f"the graph {block.name!r} takes {len(block.inputs)} arrays, and is given "
                    f"{len(arguments)}"
                )
            given = {**values, **dict(zip(block.inputs, arguments, strict=True))}
            return self.run(block, given, depth + 1)

        return run

    def _of_function(self, call: Call, operands: Sequence[Any], depth: int) -> list[Any]:
        function, defaults = self.functions.body(call, operands)
        given = dict(zip(function.inputs, operands, strict=False))
        given |= dict.fromkeys(function.inputs[len(operands) :])
        calls = tuple(_resolved(one, {**defaults, **call.attributes}) for one in function.calls)
        block = dataclasses.replace(function, calls=calls)
        omitted = {name for name, value in given.items() if value is None}
        block = _without(block, omitted)
        results = iter(self.run(block, given, depth + 1, is_named=False))
        return [next(results, None) if name else None for name in call.outputs]


def _copied(call: Call) -> Call:
    """The call, for the trace that runs."""
    found = Call(call.operator, call.domain, call.name, call.attributes, call.inputs, call.outputs)
    found.scope, found.number, found.version = call.scope, call.number, call.version
    found.note = call.note
    return found


# Operands of bfloat16, int4 and the like that are read: those that become another type.
READ_NARROW = {("Cast", 0), ("CastLike", 0), ("DequantizeLinear", 0), ("DequantizeLinear", 2)}


def _in_plain_types(call: Call, place: int, x: Any) -> Any:
    """The operand in a type of NumPy's own."""
    if not isinstance(x, np.ndarray) or x.dtype == object or plain(x) is x:
        return x
    if (call.operator, place) in READ_NARROW:
        return plain(x)
    raise UnsupportedError(
        f"{call.shown} of {x.dtype.name}",
        hint="numbers of this type are read where they are cast or dequantised",
    )


def _resolved(call: Call, attributes: Mapping[str, Any]) -> Call:
    """A call of a function's body, with the attributes of the function; also in its graphs."""
    found: dict[str, Any] = {}
    for name, value in call.attributes.items():
        if isinstance(value, Reference):
            if value.name in attributes:
                found[name] = attributes[value.name]
        elif isinstance(value, Block):
            calls = tuple(_resolved(one, attributes) for one in value.calls)
            found[name] = dataclasses.replace(value, calls=calls)
        else:
            found[name] = value
    copy = _copied(call)
    copy.attributes = found
    return copy


def _without(block: Block, omitted: set[str]) -> Block:
    """The block whose calls omit what is not given."""
    if not omitted:
        return block
    calls = []
    for call in block.calls:
        copy = _copied(call)
        copy.inputs = tuple("" if name in omitted else name for name in call.inputs)
        calls.append(copy)
    return dataclasses.replace(block, calls=tuple(calls))


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, (list, tuple)):
        return f"a sequence of {len(value)}"
    if isinstance(value, Traced):
        return str(value.node.type)
    return f"{value.dtype}[{', '.join(map(str, value.shape))}]"

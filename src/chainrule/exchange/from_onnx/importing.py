"""`from_onnx`: a model in an ONNX file as a `Model`."""

from __future__ import annotations

import keyword
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.errors import (
    DataFileError,
    InputError,
    QuantisedWeightsWarning,
    UnsupportedError,
)
from chainrule.exchange.from_onnx.blocks import Block, Reader, require_text
from chainrule.exchange.from_onnx.call import Call
from chainrule.exchange.from_onnx.functions import Functions
from chainrule.exchange.from_onnx.operators.quantised import dequantize
from chainrule.exchange.from_onnx.program import MOST_AXES, Program
from chainrule.exchange.from_onnx.table import STATIC, TABLE
from chainrule.exchange.from_onnx.tensors import Tensors, plain
from chainrule.exchange.from_onnx.types import numbers
from chainrule.exchange.model import Compute, Model
from chainrule.exchange.package import onnx_package
from chainrule.frontend.trace import Trace
from chainrule.graph.dtypes import dtype_kind
from chainrule.graph.sizes.sizes import size
from chainrule.graph.types import ArrayType, array_type
from chainrule.tracebacks import entry

OLDEST, NEWEST = 7, 28
SHOWN = 12  # operators that an error lists


@entry
def from_onnx(
    source: str | os.PathLike[str] | bytes,
    /,
    *,
    parameters: str | Iterable[str] = "weights",
    sizes: Mapping[str, int] | None = None,
    values: Mapping[str, Any] | None = None,
    types: Mapping[str, ArrayType] | None = None,
) -> Model:
    """Reads an ONNX model, of operator sets 7 to 28, from a path or from bytes.

    `parameters` says which floating-point arrays of the file are parameters of the graph, the
    others are constants: "weights" (tensors of several elements, without statistics and numbers
    that operators need to know; Constant nodes in a file without tensors), "all", or names.
    `sizes` gives numbers to named dimensions (`{"batch": 1}`), `values` fixed arrays to inputs that
    must be known, such as shapes, and `types` other types to inputs
    (`{"x": cr.float32["n 3 224 224"]}`).

    Weights that are stored quantised are dequantised, with a QuantisedWeightsWarning.  Operators
    that are not read are refused all at once, by UnsupportedError, with their nodes counted;
    DataFileError for a file that is damaged, cyclic, or not what it claims.  Nothing in a file is
    executed.  Needs the package onnx.
    """
    onnx = onnx_package("cr.from_onnx")
    proto, folder, file = _parsed(onnx, source)
    versions = _versions(proto)
    tensors = Tensors(onnx, folder)
    reader = Reader(onnx, tensors)
    block = reader.whole(proto.graph, versions)
    functions = Functions(onnx, proto, reader, versions)
    block = dequantised(block, file)
    _refuse_unknown(block, functions, file)
    fixed = {name: _fixed(name, value) for name, value in (values or {}).items()}
    strange = fixed.keys() - set(block.inputs)
    if strange:
        raise InputError(
            f"values= fixes {', '.join(sorted(strange))}, which {file} has no input for",
            hint=f"its inputs are {', '.join(block.inputs) or 'none'}",
        )
    given = _types_of(proto, block, sizes or {}, types or {}, fixed)
    chosen = _chosen(block, parameters, reader.constants)
    known = {name: array for name, array in block.known.items() if name not in chosen}
    block = Block(
        block.name, tuple(given), block.outputs, {**known, **fixed}, block.calls, block.free
    )
    name = _identifier(Path(file.strip("<>")).stem if folder else block.name)
    compute = _computing(block, functions, file)
    model = Model(name, given, chosen, {}, compute, block.outputs, source=f"the file {file}")
    assert model.graph  # made here, so that what is wrong with the file is an error of this call
    return model


def _identifier(name: str) -> str:
    """An identifier like this name."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII) or "model"
    return word if word.isidentifier() and not keyword.iskeyword(word) else f"model_{word}"


def _computing(block: Block, functions: Functions, file: str) -> Compute:
    """The calls of a file as the program of a `Model`."""

    def array(value: Any, name: str, helper: Call) -> Any:
        if value is None:
            raise UnsupportedError(f"the output {name!r} has no value")
        if isinstance(value, list):
            return [array(one, name, helper) for one in value]
        return helper.traced(value)

    def compute(
        trace: Trace, inputs: list[Any], arrays: Mapping[str, Any], key: Any
    ) -> tuple[Any, dict[str, Any]]:
        given = dict(zip(block.inputs, inputs, strict=True))
        found = Program(trace, functions, file).run(block, {**given, **arrays})
        helper = Call("Identity", "", "", {}, (), ())
        helper.trace = trace
        pairs = zip(block.outputs, found, strict=True)
        results = {name: array(value, name, helper) for name, value in pairs}
        return (results if len(results) > 1 else next(iter(results.values()))), {}

    return compute


def _fixed(name: str, value: Any) -> Any:
    """A value that an input is given once and for all; sequences are lists."""
    if isinstance(value, (list, tuple)):
        return [_fixed(name, one) for one in value]
    array = np.asarray(value)
    if dtype_kind(array.dtype) not in "fiubV":
        raise UnsupportedError(
            f"the value of the input {name!r} is of type {array.dtype}, no numbers",
            hint="numbers are read, text is not",
        )
    return array


def _parsed(onnx: Any, source: Any) -> tuple[Any, Path | None, str]:
    """The message in the file, the folder in which it lies, and how messages call the file."""
    folder, file = None, "<model>"
    if isinstance(source, (bytes, bytearray, memoryview)):
        text = bytes(source)
    elif hasattr(source, "SerializeToString"):
        text = source.SerializeToString()
    else:
        path = Path(source)
        folder, file = path.parent, f"<{path.name}>"
        try:
            text = path.read_bytes()
        except OSError as error:
            raise DataFileError(
                f"{path} cannot be read: {error.strerror or error}",
                hint="give the path of an ONNX file",
            ) from None
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(text)
    except Exception:  # DecodeError of protobuf, which is not imported here
        raise DataFileError(
            f"{file} is no ONNX model: it cannot be parsed", hint="the file is damaged, or was cut"
        ) from None
    if not proto.graph.output:
        raise DataFileError(f"{file} is no ONNX model, or one without outputs")
    return proto, folder, file


def _versions(proto: Any) -> dict[str, int]:
    versions: dict[str, int] = {}
    for one in proto.opset_import:
        domain = "" if one.domain == "ai.onnx" else one.domain
        if versions.setdefault(domain, one.version) != one.version:
            raise DataFileError(f"the model names two operator sets of the domain {domain!r}")
    main = versions.setdefault("", NEWEST)
    if not OLDEST <= main <= NEWEST:
        raise UnsupportedError(
            f"the model is of operator set {main}; {OLDEST} to {NEWEST} are read",
            hint="onnx.version_converter.convert_version(model, 18) makes another of it",
        )
    return versions


def _refuse_unknown(block: Block, functions: Functions, file: str) -> None:
    """All operators that are not read, at once."""
    unknown: Counter[str] = Counter()
    places: dict[str, int] = {}
    for one in (block, *functions.own.values()):
        for call in one.every_call():
            if (call.domain, call.operator) in TABLE or functions.has(call):
                continue
            name = f"{call.domain}.{call.operator}" if call.domain else call.operator
            unknown[name] += 1
            places.setdefault(name, call.number)
    if not unknown:
        return
    listed = [
        f"{name} ({count} node{'s' * (count > 1)}, the first is number {places[name]})"
        for name, count in unknown.most_common(SHOWN)
    ]
    more = f", and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
    raise UnsupportedError(
        f"{len(unknown)} operator{'s' * (len(unknown) > 1)} of {file} "
        f"{'are' if len(unknown) > 1 else 'is'} not read: {', '.join(listed)}{more}",
        hint="the page docs/onnx-operators.md lists all operators, and why some are not read",
    )


def _types_of(
    proto: Any,
    block: Block,
    sizes: Mapping[str, int],
    types: Mapping[str, ArrayType],
    fixed: Mapping[str, Any],
) -> dict[str, ArrayType]:
    """The types of the inputs that a run is given."""
    found: dict[str, ArrayType] = {}
    words: dict[str, str] = {}
    for one in proto.graph.input:
        if one.name not in block.inputs or one.name in fixed:
            continue
        if one.name in types:
            found[one.name] = types[one.name]
            continue
        if one.type.WhichOneof("value") != "tensor_type":
            raise UnsupportedError(
                f"the input {one.name!r} is no array",
                hint="fix its value, if it is known: values={...}",
            )
        tensor = one.type.tensor_type
        shape = []
        if len(tensor.shape.dim) > MOST_AXES:
            raise DataFileError(f"the input {one.name!r} has {len(tensor.shape.dim)} axes")
        for axis, dim in enumerate(tensor.shape.dim):
            require_text(dim.dim_param)
            own = f"{one.name}_{axis}"
            name = dim.dim_param if re.search(r"[0-9A-Za-z]", dim.dim_param) else own
            if dim.HasField("dim_value"):
                if dim.dim_value < 0 and not dim.dim_param:
                    shape.append(_size(name, sizes, words))
                    continue
                shape.append(dim.dim_value)
            else:
                shape.append(_size(name, sizes, words))
        if not tensor.HasField("shape"):
            raise UnsupportedError(
                f"the input {one.name!r} has no shape in the file",
                hint=f'say it: types={{{one.name!r}: cr.float32["n 3"]}}',
            )
        dtype = numbers(tensor.elem_type, f"the input {one.name!r}")
        found[one.name] = array_type(dtype, tuple(shape))
    return found


def _size(name: str, sizes: Mapping[str, int], words: dict[str, str]) -> Any:
    """The size of a named dimension: its number, or an identifier like its name, and like none of
    those of others (`words`)."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_")
    is_taken = word in ("", "min", "max") or keyword.iskeyword(word) or word[:1].isdigit()
    word = f"n_{word}" if is_taken else word
    while words.setdefault(word, name) != name:  # n*2 after n+2
        word += "_"
    for one in (name, word):
        if one in sizes:
            return int(sizes[one])
    return size(word)


def _chosen(
    block: Block, parameters: str | Iterable[str], constants: set[str]
) -> dict[str, np.ndarray]:
    """The arrays that are parameters."""
    floats = {name: array for name, array in block.known.items() if dtype_kind(array.dtype) == "f"}
    if parameters == "all":
        return floats
    if not isinstance(parameters, str):
        names = list(parameters)
        strange = [name for name in names if name not in floats]
        if strange:
            raise InputError(
                f"the model has no floating-point arrays {', '.join(map(repr, strange))}",
                hint=f"it has {', '.join(map(repr, list(floats)[:SHOWN])) or 'none'}",
            )
        return {name: floats[name] for name in names}
    if parameters != "weights":
        raise InputError(
            f"parameters={parameters!r} is not known",
            hint='"weights", "all", or a list of names, which may be empty',
        )
    known = {
        name
        for call in block.every_call()
        for place, name in enumerate(call.inputs)
        if place in STATIC.get(call.operator, ())
    }
    found = {name: one for name, one in floats.items() if one.size > 1 and name not in known}
    tensors = {name: one for name, one in found.items() if name not in constants}
    return tensors or found  # some files have all arrays as Constant nodes


def dequantised(block: Block, file: str) -> Block:
    """The block whose quantised weights are the floats that they stand for."""
    known, calls, count = dict(block.known), [], 0
    for call in block.calls:
        names = [name for name in call.inputs if name]
        if call.operator == "DequantizeLinear" and all(name in known for name in names):
            operands = [plain(known[name]) if name else None for name in call.inputs]
            try:
                known[call.outputs[0]] = np.asarray(dequantize(call, *operands))
            except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
                raise DataFileError(f"{call.shown} cannot be computed: {error}") from None
            count += 1
        else:
            calls.append(call)
    if not count:
        return block
    rest = Block(block.name, block.inputs, block.outputs, {}, tuple(calls), block.free)
    read = {name for call in rest.every_call() for name in call.inputs} | set(block.outputs)
    known = {name: one for name, one in known.items() if name in read}
    warnings.warn(
        f"{count} quantised array{'s' * (count > 1)} of {file} read as floats, and trained as such",
        QuantisedWeightsWarning,
        stacklevel=4,
    )
    return Block(block.name, block.inputs, block.outputs, known, tuple(calls), block.free)

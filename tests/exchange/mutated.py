"""Reads mutated ONNX files in a process of its own; says what ends as it must not.

`python mutated.py FIRST COUNT`: each file is read within ten seconds, and ends in a model or in an
error of chainrule's.  With `cases` at the end, these are backend cases with odd numbers.  The last
line is the largest memory of the process in MiB.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from onnx_models import F, helper, mlp, model, node, onnx, tensor, text, value

import chainrule as cr

SECONDS = 10
ODD = [-1, 0, 1, 2, 7, 64, 1 << 16, 1 << 20, 1 << 28, 1 << 31, 1 << 40]
ODD += [(1 << 63) - 1, -(1 << 63)]
OPERATORS = (
    "Reshape Expand Tile Pad Slice Concat Split Gather Range ConstantOfShape Resize Conv MaxPool "
    "Loop Scan If TopK OneHot EyeLike CumSum Einsum LSTM MatMul Transpose Squeeze Unsqueeze"
).split()


def shapes() -> Any:
    """Many operators whose operands say shapes."""
    nodes = [
        node("Shape", "x", "s"),
        node("Concat", "s two", "t", axis=0),
        node("Expand", "x0 t", "a"),
        node("Tile", "a reps", "b"),
        node("Pad", "b pads", "c"),
        node("Slice", "c starts ends axes", "d"),
        node("Reshape", "d flat", "e"),
        node("ConstantOfShape", "two", "f"),
        node("Range", "zero many one", "g"),
        node("Unsqueeze", "x axes", "u"),
        node("Resize", "u - scales", "h", mode="nearest"),
        node("Conv", "u w", "k", kernel_shape=[1, 1]),
    ]
    tensors = [
        tensor("two", np.array([2])),
        tensor("x0", np.ones((1, 1, 1), np.float32)),
        tensor("reps", np.array([1, 2, 1])),
        tensor("pads", np.array([0, 0, 0, 0, 0, 1])),
        tensor("starts", np.array([0])),
        tensor("ends", np.array([2])),
        tensor("axes", np.array([1])),
        tensor("flat", np.array([-1])),
        tensor("zero", np.int64(0)),
        tensor("many", np.int64(9)),
        tensor("one", np.int64(1)),
        tensor("scales", np.array([1, 1, 2, 2], np.float32)),
        tensor("w", np.ones((2, 1, 1, 1), np.float32)),
    ]
    outputs = [value(name, None) for name in "efghk"]
    return model(nodes, [value("x", [2, 3])], outputs, tensors)


def loops() -> Any:
    inputs = [value("i", [], 7), value("go", [], 9), value("c", [3])]
    outputs = [value("going", [], 9), value("d", [3]), value("row", [3])]
    inner = [node("Identity", "go", "going"), node("Add", "c c", "d"), node("Neg", "d", "row")]
    body = helper.make_graph(inner, "body", inputs, outputs)
    return model(
        [node("Loop", "many - x", "y rows", body=body), node("LSTM", "z w r", "h", hidden_size=2)],
        [value("x", [3]), value("z", [4, 1, 3])],
        [value("y", None), value("rows", None), value("h", None)],
        [
            tensor("many", np.int64(4)),
            tensor("w", np.ones((1, 8, 3), np.float32)),
            tensor("r", np.ones((1, 8, 2), np.float32)),
        ],
    )


def mutated(number: int) -> bytes:
    """The file of this number: bytes or fields of a model changed at random."""
    rng = random.Random(number)
    made = rng.choice([mlp, shapes, loops])()
    for _ in range(rng.randint(1, 3)):
        with contextlib.suppress(ValueError, TypeError):  # what was changed cannot be read
            _change(made, rng)
    content = bytearray(text(made))
    kind = number % 8
    if kind == 1:
        for _ in range(rng.randint(1, 20)):
            content[rng.randrange(len(content))] = rng.randrange(256)
    elif kind == 2:
        start = rng.randrange(len(content))
        del content[start : start + rng.randint(1, 64)]
    elif kind == 3:
        start, stop = sorted(rng.randrange(len(content)) for _ in range(2))
        content[rng.randrange(len(content)) : 0] = content[start:stop]
    return bytes(content)


def _change(made: Any, rng: random.Random) -> None:
    graph = made.graph
    one = rng.choice(graph.node)
    array = rng.choice(graph.initializer)
    match rng.randrange(8):
        case 0:
            one.op_type = rng.choice(OPERATORS)
        case 1 if one.input:
            names = [name for other in graph.node for name in other.output]
            one.input[rng.randrange(len(one.input))] = rng.choice([*names, array.name, "", "?"])
        case 2:
            found = onnx.numpy_helper.to_array(array) if array.data_type < 12 else np.ones(1)
            new = np.array(rng.choice(ODD)).astype(found.dtype)
            wide = np.full(found.shape, new) if found.ndim else new
            array.CopyFrom(onnx.numpy_helper.from_array(np.asarray(wide), array.name))
        case 3 if array.dims:
            array.dims[rng.randrange(len(array.dims))] = rng.choice(ODD)
        case 4:
            array.data_type = rng.randrange(30)
        case 5:
            name = rng.choice(["axis", "axes", "perm", "kernel_shape", "strides", "body", "to"])
            number = rng.choice(ODD)
            one.attribute.append(helper.make_attribute(name, rng.choice([number, [number] * 3])))
        case 6:
            dims = rng.choice(graph.input).type.tensor_type.shape.dim
            if dims:
                dims[0].dim_value = rng.choice(ODD)
        case 7:
            made.opset_import[0].version = rng.choice([*ODD, 9, 11, 13, 21])


@cache
def backend_cases() -> list[Any]:
    """The node cases of ONNX's own backend tests."""
    loader: Any = importlib.import_module("onnx.backend.test.loader")
    return sorted(loader.load_model_tests(kind="node"), key=lambda one: one.name)


def of_cases(number: int) -> bytes:
    """A backend case with odd shapes and attributes, and some inputs known, with odd numbers."""
    rng = random.Random(number)
    case = rng.choice(backend_cases())
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    declared = list(made.graph.input)
    del made.graph.input[:]
    for one, given in zip(declared, case.data_sets[0][0], strict=False):
        array = given if isinstance(given, np.ndarray) else np.empty(0, object)
        is_integer = array.dtype.kind in "iu"
        if array.dtype.kind in "fiub" and rng.random() < (0.8 if is_integer else 0.15):
            made.graph.initializer.append(tensor(one.name, _odd(array, rng, is_integer)))
            continue
        for dim in one.type.tensor_type.shape.dim if one.type.HasField("tensor_type") else ():
            if rng.random() < 0.25:
                dim.dim_value = abs(rng.choice(ODD[:-1]))
            elif rng.random() < 0.15:
                dim.dim_param = rng.choice("abc")
        made.graph.input.append(one)
    for one in made.graph.node:
        for attribute in one.attribute:
            if rng.random() < 0.3:
                _make_odd(attribute, rng)
    return text(made)


def _odd(array: np.ndarray, rng: random.Random, is_integer: bool) -> np.ndarray:
    array = array.copy()
    for _ in range(rng.choice([0, 1, array.size]) if array.size else 0):
        number = rng.choice(ODD if is_integer else [np.nan, np.inf, 1e30, -1, 0])
        with np.errstate(all="ignore"):
            array.reshape(-1)[rng.randrange(array.size)] = np.array(number).astype(array.dtype)
    return array


def _make_odd(attribute: Any, rng: random.Random) -> None:
    kinds = onnx.AttributeProto
    if attribute.type == kinds.INT:
        attribute.i = rng.choice(ODD)
    elif attribute.type == kinds.INTS and attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(ODD)
    elif attribute.type == kinds.FLOAT:
        attribute.f = rng.choice([float("nan"), float("inf"), 0, -1, 1e30])


def main(first: int, count: int, make: Callable[[int], bytes]) -> None:
    def late(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, late)
    warnings.simplefilter("ignore")
    read = 0
    for number in range(first, first + count):
        content = make(number)
        signal.alarm(SECONDS)
        begin = time.perf_counter()
        try:
            cr.from_onnx(content)
            read += 1
        except cr.errors.ChainruleError:
            pass
        except BaseException as error:
            seconds = time.perf_counter() - begin
            print(f"file {number}: {type(error).__name__}: {error} after {seconds:.1f} s")
        finally:
            signal.alarm(0)
    print(f"read {read}")
    print(_peak_nbytes() >> 20)


def _peak_nbytes() -> int:
    """Of this program: getrusage tells what the process had before it, too."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


__all__ = ["F", "mutated"]

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), of_cases if sys.argv[3:] else mutated)

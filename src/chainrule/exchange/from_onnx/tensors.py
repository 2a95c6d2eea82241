"""Reads the tensors of an ONNX file as arrays, after checking what they claim."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.errors import DataFileError, UnsupportedError
from chainrule.exchange.from_onnx.types import DTYPES
from chainrule.graph.dtypes import dtype_kind

LARGEST_SPARSE = 1 << 24  # elements of a sparse tensor that is made dense
_TYPED = ("float_data", "double_data", "int32_data", "int64_data", "uint64_data")


class Tensors:
    """Reads tensors; `folder` is where a file lies whose tensors may be in others beside it."""

    def __init__(self, onnx: Any, folder: Path | None) -> None:
        self.onnx, self.folder = onnx, folder

    def array(self, tensor: Any) -> np.ndarray:
        """The array; DataFileError where the file has not what it says."""
        name, kind = tensor.name, tensor.data_type
        types = self.onnx.TensorProto
        if kind in (types.STRING, types.COMPLEX64, types.COMPLEX128, types.UNDEFINED):
            word = types.DataType.Name(kind) if kind in types.DataType.values() else str(kind)
            raise UnsupportedError(
                f"the tensor {name!r} is of type {word}",
                hint="tensors of numbers are read: integers, booleans, floating point",
            )
        if kind not in types.DataType.values():
            raise DataFileError(f"the tensor {name!r} has the unknown type {kind}")
        dims = [int(one) for one in tensor.dims]
        if any(one < 0 for one in dims) or len(dims) > 32:
            shown = f"{dims[:8]} and so on" if len(dims) > 8 else dims
            raise DataFileError(f"the tensor {name!r} has the shape {shown}")
        count = math.prod(dims)
        bits = _bits(self.onnx, kind)
        nbytes = (count * bits + 7) // 8
        if tensor.data_location == types.EXTERNAL:
            return self._external(tensor, dims, nbytes)
        held = len(tensor.raw_data)
        if tensor.HasField("raw_data"):
            if held != nbytes:
                raise DataFileError(
                    f"the tensor {name!r} of shape {dims} has {held} bytes, not {nbytes}",
                    hint="the file is damaged, or was cut",
                )
        else:
            least = nbytes // 16
            held = max(len(getattr(tensor, one)) for one in _TYPED)
            if held < least:
                raise DataFileError(f"the tensor {name!r} of shape {dims} has {held} numbers")
        return self._decoded(tensor, dims)

    def _decoded(self, tensor: Any, dims: list[int]) -> np.ndarray:
        try:
            found = self.onnx.numpy_helper.to_array(tensor)
        except Exception as error:  # of whatever kind: protobuf, NumPy, ml_dtypes
            raise DataFileError(
                f"the tensor {tensor.name!r} of shape {dims} cannot be read: {error}"
            ) from None
        return found

    def _external(self, tensor: Any, dims: list[int], nbytes: int) -> np.ndarray:
        """From a file beside the model, which is no other one."""
        name = tensor.name
        entries = {one.key: one.value for one in tensor.external_data}
        location = entries.get("location", "")
        if self.folder is None:
            raise DataFileError(
                f"the tensor {name!r} lies in another file, {location!r}",
                hint="give the path of the model instead of its bytes",
            )
        path = _beside(self.folder.resolve(), location)
        if path is None:
            raise DataFileError(
                f"the tensor {name!r} lies in {location[:200]!r}, which is no file beside the model"
            )
        try:
            offset = int(entries.get("offset", "0"))
            length = int(entries.get("length", nbytes))
        except ValueError:
            raise DataFileError(f"the tensor {name!r} has no place in {location!r}") from None
        if length != nbytes or offset < 0 or offset + nbytes > path.stat().st_size:
            raise DataFileError(
                f"the tensor {name!r} of shape {dims} needs {nbytes} bytes, and {location!r} has "
                f"not so many at {offset}"
            )
        try:
            return self._read(path, offset, tensor, dims, nbytes)
        except (MemoryError, OSError, ValueError) as error:
            raise DataFileError(
                f"the tensor {name!r} of {nbytes:,} bytes cannot be read: "
                f"{error or 'there is not so much memory'}"
            ) from None

    def _read(
        self, path: Path, offset: int, tensor: Any, dims: list[int], nbytes: int
    ) -> np.ndarray:
        """Once into memory; types that NumPy has not, as the package reads them."""
        dtype = DTYPES.get(tensor.data_type)
        if dtype is not None and sys.byteorder == "little":
            return np.fromfile(path, dtype, math.prod(dims), offset=offset).reshape(dims)
        copy = self.onnx.TensorProto()
        copy.CopyFrom(tensor)
        copy.ClearField("external_data")
        copy.data_location = self.onnx.TensorProto.DEFAULT
        with path.open("rb") as file:
            file.seek(offset)
            copy.raw_data = file.read(nbytes)
        return self._decoded(copy, dims)

    def dense(self, sparse: Any) -> np.ndarray:
        """A sparse tensor as an array with its zeros."""
        dims = [int(one) for one in sparse.dims]
        if any(one < 0 for one in dims) or math.prod(dims) > LARGEST_SPARSE:
            raise UnsupportedError(f"the sparse tensor {sparse.values.name!r} of shape {dims}")
        values, indices = self.array(sparse.values), self.array(sparse.indices)
        found = np.zeros(math.prod(dims), values.dtype)
        try:
            if indices.size and indices.min() < 0:
                raise ValueError("an index is negative")
            if indices.ndim == 2:
                indices = np.ravel_multi_index(tuple(indices.T), tuple(dims))
            found[indices] = values
        except (ValueError, IndexError, TypeError) as error:
            raise DataFileError(f"the sparse tensor {sparse.values.name!r}: {error}") from None
        return found.reshape(dims)


def _beside(folder: Path, location: str) -> Path | None:
    """The file in the folder, or None for one elsewhere, or for none."""
    if not location or "\0" in location:
        return None
    try:
        path = (folder / location).resolve()
        return path if path.is_relative_to(folder) and path.is_file() else None
    except OSError:
        return None


def plain(array: np.ndarray) -> np.ndarray:
    """The array in a type of NumPy's own: bfloat16 and narrower floats as float32, integers of
    four bits and less as those of eight."""
    if array.dtype == object or (dtype_kind(array.dtype) in "fiub" and array.dtype.isbuiltin == 1):
        return array
    name = array.dtype.name
    if name.startswith("uint"):
        return array.astype(np.uint8)
    return array.astype(np.int8 if name.startswith("int") else np.float32)


def _bits(onnx: Any, kind: int) -> int:
    types = onnx.TensorProto
    name = types.DataType.Name(kind)
    for ending, bits in (("INT2", 2), ("INT4", 4), ("FLOAT4E2M1", 4)):
        if name.endswith(ending):
            return bits
    return onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize * 8

"""Reads the tensors of a file that `torch.save` wrote, without running anything of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.errors import DataFileError, InputError
from chainrule.exchange.pytorch.installed import imported_torch

_ZIP, _PICKLE, _MEMBER = b"PK\x03\x04", b"\x80\x02", b"data.pkl"
_BEGINNING = 4096  # bytes; the program that makes the tensors is the first member of the archive


def is_of_torch(path: Path) -> bool:
    """Whether the file is one of `torch.save`, in its archive or in its older form."""
    with path.open("rb") as file:
        begin = file.read(_BEGINNING)
    return (begin.startswith(_ZIP) and _MEMBER in begin) or begin.startswith(_PICKLE)


def read_torch_file(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a state_dict by name; those in containers by path (`model.fc.weight`).

    With `torch.load(weights_only=True)`, which makes tensors and plain values alone.  Tensors of
    bfloat16 become float32; numbers and text beside the tensors are left out.

    Raises DataFileError without PyTorch, and for a file that has other objects or no tensors.
    """
    try:
        torch = imported_torch("load_weights")
    except InputError as error:
        raise DataFileError(
            f"{path} is a file of torch.save, which is read by PyTorch: {error.what}",
            hint="pip install torch; or, where PyTorch is, write it as safetensors: "
            'safetensors.torch.save_file(module.state_dict(), "net.safetensors")',
        ) from error
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file, or one of other objects, makes of it
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        raise DataFileError(
            f"PyTorch does not read {path} with weights_only=True: {first}",
            hint="a file of torch.save(module.state_dict(), path); a whole module is no file of "
            "weights, and reading it would run what is in it",
        ) from error
    arrays: dict[str, np.ndarray] = {}
    pending: list[tuple[str, Any]] = [("", found)]
    while pending:
        name, value = pending.pop()
        if isinstance(value, torch.Tensor):
            arrays[name or "tensor"] = _array(torch, value, name, path)
        elif isinstance(value, Mapping):
            pending += [(_joined(name, key), one) for key, one in reversed([*value.items()])]
        elif isinstance(value, (list, tuple)):
            pending += [(_joined(name, place), one) for place, one in reversed([*enumerate(value)])]
    if not arrays:
        raise DataFileError(
            f"{path} has no tensors: it is {type(found).__name__}",
            hint="a file of torch.save(module.state_dict(), path)",
        )
    return arrays


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _array(torch: Any, tensor: Any, name: str, path: Path) -> np.ndarray:
    tensor = tensor.detach().float() if tensor.dtype is torch.bfloat16 else tensor.detach()
    try:
        return np.array(tensor.numpy())
    except (TypeError, RuntimeError) as error:
        raise DataFileError(
            f"{name} of {path} is {tensor.dtype}, {tensor.layout}: NumPy has no such arrays",
            hint="save it as a dense tensor of float32",
        ) from error

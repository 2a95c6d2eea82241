"""Reads the tensors of a file that `torch.save` wrote, without running anything of it."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.errors import DataFileError, InputError
from chainrule.exchange.pytorch.installed import imported_torch

_ZIP, _PICKLE, _MEMBER = b"PK\x03\x04", b"\x80\x02", b"data.pkl"
_BEGINNING = 4096  # bytes; the program that makes the tensors is the first member of the archive

# What a small file may become: a tensor may repeat its numbers, and tensors may share them.
_TIMES, _ALWAYS = 8, 64 << 20  # as often its bytes, and so many bytes whatever it has
_DEEPEST, _MOST = 64, 1 << 18  # containers in one another, and parts of all together


def is_of_torch(path: Path) -> bool:
    """Whether the file is one of `torch.save`, in its archive or in its older form."""
    with path.open("rb") as file:
        begin = file.read(_BEGINNING)
    return (begin.startswith(_ZIP) and _MEMBER in begin) or begin.startswith(_PICKLE)


def read_torch_file(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a state_dict by name; those in containers by path (`model.fc.weight`).

    With `torch.load(weights_only=True)`, which makes tensors and plain values alone.  Tensors of
    bfloat16 become float32; numbers and text beside the tensors are left out.

    Raises DataFileError without PyTorch, for a file that has other objects or no tensors, and for
    one that would take far more memory than it has bytes, or has two tensors of one name.
    """
    try:
        torch = imported_torch("load_weights")
    except InputError as error:
        raise DataFileError(
            f"{path} is a file of torch.save, which is read by PyTorch: {error.what}",
            hint="pip install torch; or, where PyTorch is, write it as safetensors: "
            'safetensors.torch.save_file(module.state_dict(), "net.safetensors")',
        ) from error
    _refuse_packed(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file, or one of other objects, makes of it
        raise DataFileError(
            f"PyTorch does not read {path} with weights_only=True: {_reason(error)}",
            hint="a file of torch.save(module.state_dict(), path); a whole module is no file of "
            "weights, and reading it would run what is in it",
        ) from error
    arrays: dict[str, np.ndarray] = {}
    left = _TIMES * path.stat().st_size + _ALWAYS
    for name, tensor in _tensors(torch, found, path):
        if name in arrays:
            raise DataFileError(
                f"two tensors of {path} are called {name!r}",
                hint="torch.load reads them in their containers",
            )
        left -= tensor.numel() * tensor.element_size()
        if left < 0:
            raise DataFileError(
                f"the tensors of {path} repeat their numbers: from {name} on they take more than "
                f"{_TIMES} times the bytes of the file",
                hint="save tensors that own their numbers: tensor.clone()",
            )
        arrays[name] = _array(torch, tensor, name, path)
    if not arrays:
        raise DataFileError(
            f"{path} has no tensors: it is {type(found).__name__}",
            hint="a file of torch.save(module.state_dict(), path)",
        )
    return arrays


def _refuse_packed(path: Path) -> None:
    """An archive of torch.save has its members as they are; packed ones could be of any size."""
    try:
        with zipfile.ZipFile(path) as archive:
            claimed = sum(one.file_size for one in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError):
        return  # PyTorch says what is wrong, or it is no archive
    if claimed > path.stat().st_size:
        raise DataFileError(
            f"{path} has {path.stat().st_size:,} bytes and claims to hold {claimed:,}",
            hint="torch.save compresses nothing: save the state_dict again",
        )


def _reason(error: Exception) -> str:
    """What PyTorch says, without its advice to read the file unsafely."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    found = re.search(r"GLOBAL ([\w.]+)", text)
    if found:
        return f"it holds {found.group(1)}, and not tensors alone"
    first = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    return first.partition(". ")[0]


def _tensors(torch: Any, found: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Every tensor and its name; containers may hold one another, or themselves."""
    pending: list[tuple[str, Any, int]] = [("", found, 0)]
    count = 0
    while pending:
        name, value, depth = pending.pop()
        parts: list[tuple[Any, Any]] = []
        if isinstance(value, torch.Tensor):
            yield name or "tensor", value
        elif isinstance(value, Mapping):
            parts = [*value.items()]
        elif isinstance(value, (list, tuple)):
            parts = [*enumerate(value)]
        count += len(parts)
        if depth > _DEEPEST or count > _MOST:
            raise DataFileError(
                f"the containers of {path} hold themselves, or more than {_MOST:,} parts",
                hint="a file of torch.save(module.state_dict(), path)",
            )
        pending += [(_joined(name, key), one, depth + 1) for key, one in reversed(parts)]


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _array(torch: Any, tensor: Any, name: str, path: Path) -> np.ndarray:
    tensor = tensor.detach().float() if tensor.dtype is torch.bfloat16 else tensor.detach()
    try:
        return np.array(tensor.numpy(force=True))
    except (TypeError, RuntimeError, MemoryError) as error:
        raise DataFileError(
            f"{name} of {path} is {tensor.dtype}, {tensor.layout}: NumPy has no such arrays",
            hint="save it as a dense tensor of float32",
        ) from error

"""Saves and loads weights: arrays by name, as safetensors with a checksum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.data.torch_file import is_of_torch, read_torch_file
from chainrule.errors import DataFileError, InputError, UnsupportedError
from chainrule.frontend.leaf_types import refuse_strange_container
from chainrule.graph.dtypes import bfloat16, dtype_kind
from chainrule.graph.plain import refuse_subclass
from chainrule.graph.structure import Structure, flatten
from chainrule.graph.types import type_of
from chainrule.tracebacks import entry
from chainrule.train.checkpoints import file
from chainrule.train.checkpoints.durable import write_durably
from chainrule.version import VERSION

SCHEMA = "chainrule.weights/1"
PARAMETERS = "parameters"  # among the notes of a trainer's checkpoints: which arrays these are


@entry
def save_weights(path: str | Path, parameters: Mapping[str, Any]) -> Path:
    """Writes arrays, or containers of arrays, to a safetensors file; returns its path.

    Parts of containers are called by their path (`params.layer1.W`).  The file is there as a
    whole, or what was there before still is.  InputError for what is no array; DataFileError where
    the file cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path = Path(path)
    arrays = _arrays(parameters)
    text = json.dumps({"schema": SCHEMA, "version": VERSION})
    entry = json.dumps({"rest": text, "sha256": file.checksum(text, arrays)}, sort_keys=True)
    try:
        write_durably(path, lambda beside: save_file(arrays, beside, {file.ENTRY: entry}))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataFileError(
            f"the weights {path} cannot be written: {reason}",
            hint="a folder that is there and that you may write to, with free space",
        ) from error
    return path


@entry
def load_weights(path: str | Path, like: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Reads the arrays of a safetensors file, by name, into new memory; or those of a file of
    `torch.save` (`net.pt`) that holds a state_dict, by `torch.load(weights_only=True)`.  Arrays of
    bfloat16 become float32, but for those that `save_weights` or a checkpoint has written.

    With `like`, which is what `save_weights` takes (`{"params": params}`), in such containers.
    Of a checkpoint of a `Trainer` the parameters, without what the optimizer keeps; of another
    checkpoint all arrays.  A checksum that the file has is checked; nothing of it is run.

    Raises DataFileError, which says what is wrong, for a file that is missing, damaged, cut off or
    of another kind, and for one without the arrays that `like` has, or with others.
    """
    from safetensors import safe_open

    path = Path(path)
    if not path.is_file():
        raise DataFileError(
            f"{path} is a folder, and no file of weights"
            if path.is_dir()
            else f"there is no file of weights {path}",
            hint="a .safetensors file, as save_weights and checkpoints write them",
        )
    if is_of_torch(path):
        found = read_torch_file(path)
        return found if like is None else _in_containers(path, found, like)
    try:
        with safe_open(path, framework="numpy") as opened:
            metadata = opened.metadata() or {}
            kinds = {name: opened.get_slice(name).get_dtype() for name in opened.keys()}
            narrow = [name for name, kind in kinds.items() if kind == "BF16"]
            strange = {name: kind for name, kind in kinds.items() if kind.startswith(("F8", "F4"))}
            plain = kinds.keys() - {*narrow, *strange}
            arrays = {name: opened.get_tensor(name) for name in kinds if name in plain}
            if narrow and file.ENTRY in metadata:
                bfloat16()  # safetensors knows it by name where ml_dtypes has been imported
                arrays |= {name: opened.get_tensor(name) for name in narrow}
            else:
                arrays |= _widened(path, narrow) if narrow else {}
    except UnsupportedError:
        raise
    except Exception as error:  # whatever a damaged file makes of it
        raise DataFileError(
            f"the weights {path} cannot be read: {error}",
            hint="a .safetensors file, or a copy of it that is whole",
        ) from error
    for name, kind in strange.items():
        raise DataFileError(
            f"{name} of {path} is of type {kind}: NumPy has no such arrays",
            hint="save it as float32 or bfloat16",
        )
    arrays = {name: arrays[name] for name in kinds}
    rest, checksum = _entry(metadata)
    if checksum is not None and file.checksum(rest, arrays) != checksum:
        raise DataFileError(
            f"the weights {path} are damaged: the checksum differs",
            hint="an intact copy",
        )
    names = _parameters(rest)
    found = {name: arrays[name] for name in (names or arrays) if name in arrays}
    return found if like is None else _in_containers(path, found, like)


def _widened(path: Path, names: list[str]) -> dict[str, np.ndarray]:
    """Tensors of bfloat16, whose bits are the upper half of those of float32.

    The file is one that safetensors has checked: a length, so many bytes of JSON, and the data.
    """
    found = {}
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        for name in names:
            begin, end = header[name]["data_offsets"]
            file.seek(8 + length + begin)
            bits = np.frombuffer(file.read(end - begin), "<u2").astype(np.uint32) << 16
            found[name] = bits.view(np.float32).reshape(header[name]["shape"])
    return found


def _in_containers(
    path: Path, found: Mapping[str, np.ndarray], like: Mapping[str, Any]
) -> dict[str, Any]:
    """The arrays in the containers of `like`, which has just these, of the same shapes."""
    taken = _arrays(like)
    for name in dict.fromkeys([*taken, *found]):
        shown = [str(type_of(one[name])) if name in one else "none" for one in (found, taken)]
        if name not in found or name not in taken or found[name].shape != taken[name].shape:
            raise DataFileError(
                f"the weights {path} do not fit: of {name}, the file has {shown[0]}, "
                f"like= has {shown[1]}",
                hint="load_weights(path) without like= gives all arrays by name",
            )
    wrapped: dict[str, Any] = {}
    for root, value in like.items():
        _, structure = _taken_apart(value, root)
        wrapped[root] = structure.unflatten([found[name] for name in structure.leaf_names])
    return wrapped


def _arrays(parameters: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if not isinstance(parameters, Mapping):
        raise InputError(
            f"weights are arrays by name, got {type(parameters).__name__}",
            hint='cr.save_weights(path, {"W1": W1, "W2": W2})',
        )
    found: dict[str, np.ndarray] = {}
    file.check_names(parameters)
    for root, value in parameters.items():
        leaves, structure = _taken_apart(value, root)
        for name, leaf in zip(structure.leaf_names, leaves, strict=True):
            refuse_subclass(leaf, name)
            array = np.asarray(leaf, order="C")
            if dtype_kind(array.dtype) not in "biuf":
                raise InputError(
                    f"{name} is no array of numbers: {type(leaf).__name__}",
                    hint="weights are NumPy arrays",
                )
            if name in found:
                raise InputError(
                    f"two arrays are called {name!r}, but names in a file are unique",
                    hint="other names; parts of containers are called by their path",
                )
            found[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    file.check_names(found)
    return found


def _taken_apart(value: Any, root: str) -> tuple[list[Any], Structure]:
    """The arrays of a container; its text, bools and functions are part of it, and not saved."""
    leaves, structure = flatten(value, root)
    fixed = {}
    for name, leaf in zip(structure.leaf_names, leaves, strict=True):
        is_number = isinstance(leaf, (int, float, complex)) and not isinstance(leaf, bool)
        is_array = hasattr(leaf, "__array__") and not isinstance(leaf, np.bool_)
        if name != root and not is_number and not is_array:
            refuse_strange_container(leaf, name)
            fixed[name] = leaf
    named = zip(structure.leaf_names, leaves, strict=True)
    return [leaf for name, leaf in named if name not in fixed], structure.fixing(fixed)


def _entry(metadata: Mapping[str, str]) -> tuple[str, str | None]:
    """The text of our metadata, and the checksum; ("", None) in a file that is not ours."""
    try:
        entry = json.loads(metadata.get(file.ENTRY, ""))
    except (ValueError, RecursionError):
        return "", None
    if not isinstance(entry, dict):
        return "", None
    rest, checksum = entry.get("rest"), entry.get("sha256")
    if isinstance(rest, str) and isinstance(checksum, str):
        return rest, checksum
    return "", None


def _parameters(rest: str) -> list[str] | None:
    """Which arrays of a checkpoint are parameters; None where it does not say so."""
    try:
        names = json.loads(rest)["notes"][PARAMETERS]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if is_list else None

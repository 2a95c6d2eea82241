"""Writes a checkpoint as one file: arrays in safetensors, the rest in JSON, with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass, field
from chainrule.errors import DataFileError, InputError, UnsupportedError
from chainrule.graph.dtypes import bfloat16
from chainrule.train.checkpoints.durable import write_durably
from chainrule.train.checkpoints.signature import Signature
from chainrule.train.step.state import State
from chainrule.train.step.step import TrainingStep

SCHEMA = "chainrule.checkpoint/1"
ENTRY = "chainrule"  # the one entry of the metadata


@dataclass(frozen=True)
class Checkpoint:
    """What was saved: all arrays of a state by name, how many steps it had, and `notes`.

    `notes` is what the training wants to find again (epoch, key, position in the data), as JSON
    has it; `score` is what was to be as small as possible, None where nothing was said.
    """

    arrays: Mapping[str, np.ndarray]
    steps: int
    notes: Mapping[str, Any]
    score: float | None
    signature: Signature
    version: str
    path: Path = field(compare=False)

    def restore(self, step: TrainingStep) -> State:
        """A state of this step with these arrays; see `TrainingStep.restore`."""
        return step.restore(self.arrays, steps=self.steps)


def write(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    steps: int,
    notes: Mapping[str, Any],
    score: float | None,
    signature: Signature,
    version: str,
) -> None:
    """Write a checkpoint; it is at `path` as a whole, or what was there before still is.

    InputError for notes that JSON does not have; DataFileError where the disk does not take it.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    rest = {
        "schema": SCHEMA,
        "version": version,
        "steps": steps,
        "score": score,
        "notes": dict(notes),
        "signature": signature.json(),
    }
    text = _json(rest)
    check_names(arrays)
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    entry = json.dumps({"rest": text, "sha256": checksum(text, whole)}, sort_keys=True)
    try:
        write_durably(path, lambda beside: save_file(whole, beside, {ENTRY: entry}))
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataFileError(
            f"the checkpoint {path} cannot be written: {reason}",
            hint="free space on the disk, or another folder; earlier checkpoints are as they were",
        ) from error


def _json(rest: Mapping[str, Any]) -> str:
    try:
        return json.dumps(rest, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the notes of a checkpoint are not what JSON has: {error}",
            hint="dicts, lists, strings, finite numbers, booleans and None; arrays belong to the "
            "state",
        ) from error


def check_names(names: Iterable[Any]) -> None:
    """InputError for a name that an array in a safetensors file cannot have."""
    for name in names:
        if not isinstance(name, str):
            why = f"a name is a string, got {type(name).__name__}"
        elif name == "__metadata__":
            why = "safetensors keeps that name for its own"
        elif any("\ud800" <= letter <= "\udfff" for letter in name):
            why = "it has half of a surrogate pair, which UTF-8 does not"
        else:
            continue
        raise InputError(
            f"an array called {name!r} cannot be saved: {why}",
            hint='another name, such as "W1"',
        )


def checksum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the text, and of names, types and bytes of the arrays in the order of names."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\n{name!r} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def score_of(path: Path) -> float | None:
    """The score in a checkpoint, whose arrays are not read; DataFileError where it is damaged."""
    return _rest(path, _entry(path)["rest"])["score"]


def read(path: Path) -> Checkpoint:
    """The checkpoint in a file.

    DataFileError, which says what is wrong, for a file that is missing, damaged, truncated or no
    checkpoint.  Memory is bounded by the size of the file.
    """
    from safetensors import safe_open

    entry = _entry(path)
    text = entry["rest"]
    rest = _rest(path, text)
    try:
        with safe_open(path, framework="numpy") as file:
            if any(file.get_slice(name).get_dtype() == "BF16" for name in file.keys()):
                bfloat16()  # safetensors knows it by name where ml_dtypes has been imported
            arrays = {name: file.get_tensor(name) for name in file.keys()}
    except UnsupportedError:
        raise
    except Exception as error:  # whatever a damaged file makes of it
        raise _damaged(path, str(error)) from error
    if checksum(text, arrays) != entry["sha256"]:
        raise _damaged(path, "the checksum differs")
    try:
        signature = Signature.read(rest["signature"])
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if set(arrays) != set(signature.arrays):
        raise _damaged(path, "it does not have the arrays that it says it has")
    ordered = {name: arrays[name] for name in signature.arrays}
    return Checkpoint(
        ordered,
        rest["steps"],
        rest["notes"],
        rest["score"],
        signature,
        rest["version"],
        path,
    )


def _entry(path: Path) -> dict[str, str]:
    """The two texts of the metadata."""
    from safetensors import safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
    except FileNotFoundError as error:
        raise DataFileError(f"there is no checkpoint {path}", hint="its path") from error
    except Exception as error:  # whatever a damaged file makes of it
        raise _damaged(path, str(error)) from error
    try:
        entry = json.loads(metadata.get(ENTRY, ""))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "it has no metadata of a checkpoint") from error
    if not isinstance(entry, dict) or not all(isinstance(entry.get(k), str) for k in _TEXTS):
        raise _damaged(path, "it has no metadata of a checkpoint")
    return entry


_TEXTS = ("rest", "sha256")
_TYPES = {
    "steps": int,
    "notes": dict,
    "score": (int, float, type(None)),
    "version": str,
    "signature": dict,
}


def _rest(path: Path, text: str) -> dict[str, Any]:
    try:
        rest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its JSON cannot be read: {error}") from error
    if not isinstance(rest, dict) or rest.get("schema") != SCHEMA:
        found = rest.get("schema") if isinstance(rest, dict) else rest
        raise DataFileError(
            f"{path} is no checkpoint that this version reads: its schema is {found!r}",
            hint=f"a file of the schema {SCHEMA!r}, or the version of chainrule that wrote it",
        )
    for key, type_ in _TYPES.items():
        value = rest.get(key, ...)
        if not isinstance(value, type_) or isinstance(value, bool):
            raise _damaged(path, f"its {key} is {'missing' if value is ... else repr(value)}")
    return rest


def _damaged(path: Path, why: str) -> DataFileError:
    return DataFileError(
        f"the checkpoint {path} is damaged: {why}", hint="the checkpoint before, or a copy"
    )

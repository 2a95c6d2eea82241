"""Training curves: the history of a run, from a JSON Lines file or a list of dicts."""

from __future__ import annotations

import json
import math
import operator
import os
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from chainrule.errors import InputError
from chainrule.explain.report.plain import text

MOST_POINTS = 2000
History = str | os.PathLike[str] | Iterable[Mapping[str, Any]]
EXAMPLE = '{"step": 1, "objective": 2.31}'


def curves_of(history: History) -> tuple[dict[str, Any], list[str]]:
    """The `curves` of a page, and notes about what was averaged or left out.

    `history` is the path of a JSON Lines file, or dicts; each has "step", an integer, and numbers
    by the names of their curves.  InputError, with file and line, for what is none of this.  The
    last line of a file may be cut off: who wrote it may have been stopped.
    """
    notes: list[str] = []
    if isinstance(history, (str, os.PathLike)):
        rows = _read(Path(history), notes)
    elif isinstance(history, Iterable) and not isinstance(history, Mapping):
        rows = [_checked(row, f"entry {at} of the history") for at, row in enumerate(history)]
    else:
        raise InputError(
            f"history= is {type(history).__name__}, neither a path nor a list of dicts",
            hint=f"the path of a JSON Lines file, or dicts such as {EXAMPLE}",
        )
    names = dict.fromkeys(
        name for row in rows for name, value in row.items() if name != "step" and _is_number(value)
    )
    steps: list[float] = [operator.index(row["step"]) for row in rows]
    series = {name: [_point(row.get(name)) for row in rows] for name in names}
    if len(rows) > MOST_POINTS:
        notes.append(
            f"The history has {len(rows):,} entries; each of the {MOST_POINTS:,} points of its "
            "curves is the mean of those in its place."
        )
        edges = [at * len(rows) // MOST_POINTS for at in range(MOST_POINTS + 1)]
        spans = [slice(a, b) for a, b in pairwise(edges)]
        steps = [_mean(steps[span]) or 0.0 for span in spans]
        series = {name: [_mean(values[span]) for span in spans] for name, values in series.items()}
    shown = [{"label": text(name), "values": values} for name, values in series.items()]
    return {"x": {"label": "step", "values": steps}, "series": shown}, notes


def _read(path: Path, notes: list[str]) -> list[Mapping[str, Any]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read the history {path}: {getattr(error, 'strerror', None) or error}",
            hint=f"history= is the path of a JSON Lines file, each line such as {EXAMPLE}",
        ) from error
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"line {number} of {path}"
        try:
            row = json.loads(line)
        except ValueError as error:
            if number == len(lines):  # no new line at its end: it was being written
                notes.append(f"The last line of {path.name} is cut off, and was left out.")
                break
            raise _damaged(where, f"is no JSON: {error}") from error
        rows.append(_checked(row, where))
    return rows


def _checked(row: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise _damaged(where, f"is {type(row).__name__}, not an object")
    step = row.get("step")
    if isinstance(step, bool) or not hasattr(step, "__index__"):
        raise _damaged(where, 'has no "step"' if step is None else f'has "step": {step!r}')
    return row


def _damaged(where: str, what: str) -> InputError:
    return InputError(
        f"{where} {what}",
        hint=f'each entry is an object with an integer "step" and numbers: {EXAMPLE}',
    )


def _is_number(value: Any) -> bool:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    is_scalar = kind in ("f", "i", "u") and getattr(value, "ndim", 1) == 0
    return is_scalar or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _point(value: Any) -> float | None:
    """A number of a curve; None (a gap) for what is missing, NaN or infinite."""
    if not _is_number(value):
        return None
    try:
        found = float(value)
    except OverflowError:  # an integer of more than 308 digits
        return None
    return found if math.isfinite(found) else None


def _mean(values: list[Any]) -> float | None:
    numbers = [one for one in values if one is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None

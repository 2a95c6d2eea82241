"""Reads the images for `chainrule predict`: rows of 64 numbers, checked as they are used."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from chainrule.data import read
from chainrule.data.digits import LARGEST_PIXEL
from chainrule.dataclass import dataclass
from chainrule.errors import DataFileError

SIDE = 8  # pixels
FEATURES = SIDE * SIDE
BY = f"rows of {FEATURES} numbers, or of {SIDE} x {SIDE}"


@dataclass(frozen=True, eq=False)
class Images:
    """The parts of an array [n, 64], side by side: one array, or 64 columns.

    `names` are those of the columns of a table; None of an array, whose columns have numbers.
    `pixels` says that they are integers from 0 to 16, else they are floats from 0 to 1.
    """

    path: Path
    parts: tuple[np.ndarray, ...]
    names: tuple[str, ...] | None
    pixels: bool

    def __len__(self) -> int:
        return len(self.parts[0])

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Some rows, float32[n, 64] from 0 to 1; DataFileError where a number is none of these."""
        cut = [part[start:stop] for part in self.parts]
        found = cut[0].reshape(-1, FEATURES) if self.names is None else np.stack(cut, axis=1)
        largest = LARGEST_PIXEL if self.pixels else 1
        with np.errstate(invalid="ignore"):
            bad = ~((found >= 0) & (found <= largest))
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            raise self._refusal(start + row, column, found[row, column])
        return found.astype(np.float32) / np.float32(largest)

    def _refusal(self, row: int, column: int, value: object) -> DataFileError:
        name = f" ({self.names[column]!r})" if self.names is not None else ""
        where = f"{self.path}: row {row}, column {column}{name}, both from 0, is {value}"
        if self.pixels:
            return DataFileError(
                f"{where}, and integers are pixels between 0 and {LARGEST_PIXEL}",
                hint="give images of another range as floats, divided by their largest value",
            )
        return DataFileError(
            f"{where}, and floats are between 0 (paper) and 1 (ink)",
            hint=f"divide by the largest pixel: {LARGEST_PIXEL} in the source of the digits; or "
            "integers",
        )


def images_of(path: Path) -> Images:
    """The images in a file, by what its name says it is; DataFileError where it has none."""
    found = read(path)
    if isinstance(found, dict):
        found = _chosen(path, found)
    if isinstance(found, dict):
        parts, names = tuple(found.values()), tuple(found)
    else:
        parts, names = (found,), None
        is_image = found.shape[1:] in ((FEATURES,), (SIDE, SIDE))
        if not is_image:
            raise DataFileError(
                f"{path}: an array of shape {list(found.shape)} is not {BY}",
                hint=f"an array [n, {FEATURES}], also for a single image",
            )
    if not len(parts[0]):
        raise DataFileError(f"{path}: there are no rows to predict", hint=BY)
    for part, name in zip(parts, names or ("the array",), strict=True):
        if part.dtype.kind not in "iuf":
            shown = repr(str(part[0])) if part.dtype.kind == "U" else part.dtype.name
            what = f"column {name!r}" if names else name
            raise DataFileError(
                f"{path}: {what} is not of numbers: row 0 has {shown}",
                hint=f"{BY}, without labels",
            )
    return Images(path, parts, names, all(part.dtype.kind in "iu" for part in parts))


def _chosen(path: Path, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray] | np.ndarray:
    """The array of images among several, or all 64 columns of a table."""
    wide = {name: array for name, array in arrays.items() if array.ndim > 1}
    if "x" in wide:
        return wide["x"]
    if len(wide) == 1:
        return next(iter(wide.values()))
    lengths = {len(array) for array in arrays.values() if array.ndim == 1}
    if not wide and len(arrays) == FEATURES and len(lengths) == 1:
        return arrays
    listed = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
    short = listed if len(listed) <= 200 else listed[:200] + " ..."
    raise DataFileError(
        f"{path}: {len(arrays)} arrays or columns, not {BY}: {short}",
        hint=f"one array of images, or several of which one is called x; or {FEATURES} columns, "
        "without labels",
    )

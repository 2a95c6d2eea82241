"""The handwritten digits that ship with the package: 1797 images of 8 × 8 pixels, and their labels.

Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998, DOI 10.24432/C50P49, licence CC BY 4.0; as carried by scikit-learn
(BSD-3-Clause).  `scripts/make_digits.py` remakes the file from there.
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

import numpy as np
from numpy.typing import NDArray

from chainrule.dataclass import dataclass
from chainrule.errors import DataFileError, InputError
from chainrule.tracebacks import entry

CONTENT_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
"""Of the bytes of `images`, uint8[1797, 8, 8], followed by those of `labels`, uint8[1797]."""

LARGEST_PIXEL = 16


@dataclass(frozen=True, eq=False)
class Digits:
    """Images and their labels, row by row.

    `images` is float32[1797, 64] in 0..1 (0 is paper, 1 is ink), each row an image's 8 rows in
    turn; `labels` is int64[1797], an index into `names`.
    """

    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    names: tuple[str, ...]


@entry
def digits() -> Digits:
    """Returns all 1797 digits, in the order of the source, in new arrays.

    Raises `DataFileError` if the file is missing or is not the one that was shipped.
    """
    return read_digits(files("chainrule.data") / "digits.npz")


def read_digits(file: Traversable) -> Digits:
    """As `digits`, from a given file; its content has to be the shipped one."""
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            images, labels = arrays["images"], arrays["labels"]
    except Exception as error:  # one changed byte makes NumPy and zipfile raise any of ten kinds
        raise _damaged(file, f"{type(error).__name__}: {error}") from error
    found = content_sha256(images, labels)
    if found != CONTENT_SHA256:
        raise _damaged(file, f"SHA-256 of the content is {found}, expected {CONTENT_SHA256}")
    return Digits(
        images=images.reshape(len(images), -1).astype(np.float32) / LARGEST_PIXEL,
        labels=labels.astype(np.int64),
        names=tuple(str(digit) for digit in range(10)),
    )


def content_sha256(images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> str:
    """The hexadecimal SHA-256 of the bytes of `images`, then `labels`, in C order."""
    return hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()


def train_test_split(
    count: int, test_fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`(train_indices, test_indices)`: 0..count-1 shuffled and cut, `round(count * test_fraction)`
    of them for testing.

    The same arguments give the same split on every machine and with every NumPy: it is made from
    raw PCG64 output, which NumPy promises not to change (NEP 19; it promises no such thing of
    `Generator.permutation`).  Raises `InputError` where one side would be empty.
    """
    test_count = round(count * test_fraction)
    if not 0 < test_count < count:
        raise InputError(
            f"train_test_split: {test_fraction} of {count} rows is {test_count} for testing and "
            f"{count - test_count} for training, but both need at least one",
            hint="choose test_fraction between 0 and 1 so that neither side is empty",
        )
    order = np.argsort(np.random.PCG64(seed).random_raw(count), kind="stable")
    return order[test_count:], order[:test_count]


def _damaged(file: Traversable, reason: str) -> DataFileError:
    return DataFileError(
        f"the digits in {file} cannot be read: {reason}",
        hint="install the package again: pip install --force-reinstall --no-deps chainrule",
    )

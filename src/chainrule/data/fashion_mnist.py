"""Fashion-MNIST: 70,000 images of 28 × 28 pixels, of ten kinds of clothing.

Source: H. Xiao, K. Rasul, R. Vollgraf, "Fashion-MNIST: a novel image dataset for benchmarking
machine learning algorithms", arXiv:1708.07747, 2017; licence MIT.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from chainrule.data.files import damaged
from chainrule.data.idx import read_idx
from chainrule.dataclass import dataclass
from chainrule.errors import DataFileError
from chainrule.tracebacks import entry

URL = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
PACKAGE = Path("/usr/share/datasets/fashion-mnist")  # of Debian: dataset-fashion-mnist
EXTRA = "pip install 'chainrule[download]'"
SIDE = 28
NAMES = (
    "t-shirt", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """One file: its name, the MD5 that its publishers give for it, and the SHA-256 of what is in
    it when it is unpacked."""

    name: str
    md5: str
    content_sha256: str


FILES = (
    Source(
        "train-images-idx3-ubyte.gz",
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    Source(
        "train-labels-idx1-ubyte.gz",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    ),
    Source(
        "t10k-images-idx3-ubyte.gz",
        "bef4ecab320f06d8554ea6380940ec79",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    Source(
        "t10k-labels-idx1-ubyte.gz",
        "bb300cfdad3c16e7a12a480ee83cd310",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
)


@dataclass(frozen=True, eq=False)
class FashionMNIST:
    """Training and test images with their labels, row by row.

    Images are float32[n, 784] in 0..1 (0 is background), each row an image's 28 rows in turn;
    labels are int64[n], indices into `names`.  There are 60,000 to train and 10,000 to test.
    """

    train_images: NDArray[np.float32]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.float32]
    test_labels: NDArray[np.int64]
    names: tuple[str, ...]


@entry
def fashion_mnist(
    folder: str | os.PathLike[str] | None = None, *, download: bool = False
) -> FashionMNIST:
    """Reads Fashion-MNIST from the four IDX files in a folder, compressed or not.

    Without a folder they are looked for where the Debian package dataset-fashion-mnist has them,
    then in the user's cache.  With `download`, files that are nowhere are fetched into the cache
    (or into `folder`) by `pooch`, and checked.  Raises DataFileError for a file that is missing,
    damaged, or of other shapes.
    """
    place = _place(folder, download)
    images, labels, test_images, test_labels = (_read(place, source) for source in FILES)
    for name, rows, classes in (("train", images, labels), ("t10k", test_images, test_labels)):
        _check(place, name, rows, classes)
    return FashionMNIST(
        train_images=_scaled(images),
        train_labels=labels.astype(np.int64),
        test_images=_scaled(test_images),
        test_labels=test_labels.astype(np.int64),
        names=NAMES,
    )


def cache_folder() -> Path:
    """Where downloaded files are kept, by the environment."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    base = given if os.path.isabs(given) else os.path.expanduser("~/.cache")
    return Path(base, "chainrule-data", "fashion-mnist")


def _place(folder: str | os.PathLike[str] | None, download: bool) -> Path:
    """The folder that has all files."""
    tried = [Path(folder)] if folder is not None else [PACKAGE, cache_folder()]
    for place in tried:
        if all(_found(place, source) for source in FILES):
            return place
    if download:
        place = tried[-1]
        for source in FILES:
            if not _found(place, source):
                fetch(source, place)
        return place
    missing = [source.name for source in FILES if not _found(tried[-1], source)]
    raise DataFileError(
        f"Fashion-MNIST was not found: no {', '.join(missing)} in "
        + " and ".join(str(place) for place in tried),
        hint="apt-get install dataset-fashion-mnist (Debian, Ubuntu);\n"
        f"or let it be downloaded: download=True, --download ({EXTRA});\n"
        "or name the folder that has the files: folder=..., --data-dir FOLDER",
    )


def _found(place: Path, source: Source) -> Path | None:
    """The file, packed or not."""
    for name in (source.name, source.name.removesuffix(".gz")):
        if (place / name).is_file():
            return place / name
    return None


def _read(place: Path, source: Source) -> np.ndarray:
    path = _found(place, source)
    assert path is not None
    return read_idx(path)


def fetch(source: Source, place: Path, url: str = URL) -> Path:
    """Download one file into a folder, whole or not at all; raise DataFileError unless it is the
    one that was published."""
    try:
        import pooch
    except ImportError as error:
        raise DataFileError(
            "downloading Fashion-MNIST needs pooch, which is not installed", hint=EXTRA
        ) from error
    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(url + source.name, f"md5:{source.md5}", source.name, place)
    except ValueError as error:  # pooch keeps nothing of a file whose hash is wrong
        raise DataFileError(
            f"{url}{source.name} differs from the published file: its MD5 is not {source.md5}",
            hint="try again later; or take the files from elsewhere, and name their folder: "
            "folder=..., --data-dir FOLDER",
        ) from error
    except OSError as error:  # those of requests, too
        raise DataFileError(
            f"{url}{source.name} cannot be downloaded: {_reason(error)}",
            hint="check the connection; without one: apt-get install dataset-fashion-mnist, or "
            "copy the four files into a folder, and name it: folder=..., --data-dir FOLDER",
        ) from error
    path = place / source.name
    content = hashlib.sha256(_unpacked(path)).hexdigest()
    if content != source.content_sha256:
        path.unlink()
        raise DataFileError(
            f"{url}{source.name} differs from the published content: SHA-256 {content}",
            hint="take the files from elsewhere: apt-get install dataset-fashion-mnist",
        )
    return path


def _unpacked(path: Path) -> bytes:
    import gzip

    return gzip.decompress(path.read_bytes())


def _reason(error: OSError) -> str:
    shown = str(error)
    return shown if len(shown) <= 160 else f"{shown[:157]}..."


def _check(place: Path, name: str, images: np.ndarray, labels: np.ndarray) -> None:
    if images.dtype != np.uint8 or images.ndim != 3 or images.shape[1:] != (SIDE, SIDE):
        got = f"{images.dtype.name}{list(images.shape)}"
        raise damaged(place, f"the {name} images are {got}, not uint8[n, {SIDE}, {SIDE}]")
    if labels.shape != images.shape[:1]:
        raise damaged(place, f"{len(images)} {name} images have labels of shape {labels.shape}")
    if len(labels) and labels.max() >= len(NAMES):
        raise damaged(place, f"a {name} label is {labels.max()}, the largest is {len(NAMES) - 1}")


def _scaled(images: np.ndarray) -> NDArray[np.float32]:
    scaled = images.reshape(len(images), SIDE * SIDE).astype(np.float32)
    scaled /= np.float32(255)  # in place: to train there are 188 MB
    return scaled

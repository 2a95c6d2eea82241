"""Fashion-MNIST: from a folder, from the Debian package, and downloaded from a local server."""

from __future__ import annotations

import gzip
import hashlib
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from chainrule.data import fashion_mnist
from chainrule.data import fashion_mnist as function
from chainrule.data.fashion_mnist import FILES, NAMES, PACKAGE, Source, cache_folder, fetch
from chainrule.errors import DataFileError

IMAGES = np.arange(3 * 784, dtype=np.uint8).reshape(3, 28, 28)
LABELS = np.array([0, 9, 4], np.uint8)


def idx(array: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, array.ndim])
    return head + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def written(folder: Path, arrays: tuple[np.ndarray, ...] = (), packed: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for source, array in zip(
        FILES, arrays or (IMAGES, LABELS, IMAGES[:2], LABELS[:2]), strict=True
    ):
        name = source.name if packed else source.name.removesuffix(".gz")
        content = idx(array)
        (folder / name).write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.mark.parametrize("packed", [True, False])
def test_a_folder_of_idx_files_is_read(tmp_path: Path, packed: bool) -> None:
    data = fashion_mnist(written(tmp_path, packed=packed))
    assert (data.train_images.dtype, data.train_images.shape) == (np.float32, (3, 784))
    assert np.array_equal(
        data.train_images, IMAGES.reshape(3, 784).astype(np.float32) / np.float32(255)
    )
    assert (data.train_labels.dtype, data.train_labels.tolist()) == (np.int64, [0, 9, 4])
    assert data.test_images.shape == (2, 784) and len(data.test_labels) == 2
    assert data.names == NAMES and len(set(NAMES)) == 10


@pytest.mark.skipif(not PACKAGE.is_dir(), reason="apt-get install dataset-fashion-mnist")
def test_the_debian_package_has_what_was_published() -> None:
    data = fashion_mnist()
    assert data.train_images.shape == (60_000, 784) and data.test_images.shape == (10_000, 784)
    assert np.bincount(data.train_labels).tolist() == [6000] * 10
    assert np.bincount(data.test_labels).tolist() == [1000] * 10
    for source in FILES:
        content = gzip.decompress((PACKAGE / source.name).read_bytes())
        assert hashlib.sha256(content).hexdigest() == source.content_sha256


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ((IMAGES[:, :27], LABELS, IMAGES, LABELS), "the train images are uint8[3, 27, 28]"),
        ((IMAGES, LABELS[:2], IMAGES, LABELS), "3 train images have labels of shape (2,)"),
        ((IMAGES, LABELS, IMAGES, LABELS + 1), "a t10k label is 10, the largest is 9"),
    ],
)
def test_files_of_another_form_are_refused(
    tmp_path: Path, arrays: tuple[np.ndarray, ...], text: str
) -> None:
    with pytest.raises(DataFileError) as caught:
        fashion_mnist(written(tmp_path, arrays))
    assert text in str(caught.value)


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / FILES[3].name).unlink()
    with pytest.raises(DataFileError) as caught:
        fashion_mnist(tmp_path)
    assert f"no {FILES[3].name} in {tmp_path}" in str(caught.value)
    assert FILES[0].name not in str(caught.value)
    assert "apt-get install dataset-fashion-mnist" in str(caught.value)


class Quiet(SimpleHTTPRequestHandler):
    requests: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requests.append(self.path)
        super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server of small files of the same form."""
    folder = written(tmp_path / "published")
    Quiet.requests.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_address[1]}/"
        httpd.shutdown()
        thread.join()


def sources(tmp_path: Path) -> tuple[Source, ...]:
    """What the small files should be."""
    found = []
    for one in FILES:
        packed = (tmp_path / "published" / one.name).read_bytes()
        content = hashlib.sha256(gzip.decompress(packed)).hexdigest()
        found.append(Source(one.name, hashlib.md5(packed).hexdigest(), content))
    return tuple(found)


@pytest.fixture
def published(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Source, ...]:
    """The module, as if the small files were those that were published."""
    pytest.importorskip("pooch")
    module = sys.modules["chainrule.data.fashion_mnist"]
    found = sources(tmp_path)
    monkeypatch.setattr(module, "FILES", found)
    monkeypatch.setattr(module, "PACKAGE", tmp_path / "nowhere")
    monkeypatch.setattr(module, "fetch", partial(fetch, url=server))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return found


@pytest.mark.slow
def test_files_are_downloaded_once_into_the_cache(published: tuple[Source, ...]) -> None:
    data = function(download=True)
    assert data.train_labels.tolist() == [0, 9, 4]
    assert sorted(path.name for path in cache_folder().iterdir()) == sorted(
        source.name for source in published
    )
    assert len(Quiet.requests) == 4
    function(download=True)
    function()
    assert len(Quiet.requests) == 4


@pytest.mark.slow
def test_nothing_is_downloaded_unasked(published: tuple[Source, ...]) -> None:
    with pytest.raises(DataFileError, match="download=True, --download"):
        function()
    assert Quiet.requests == [] and not cache_folder().exists()


@pytest.mark.slow
def test_a_file_with_another_hash_is_refused_and_not_kept(
    server: str, published: tuple[Source, ...], tmp_path: Path
) -> None:
    wrong = Source(published[0].name, "0" * 32, published[0].content_sha256)
    with pytest.raises(DataFileError) as caught:
        fetch(wrong, tmp_path / "got", server)
    assert "differs from the published file: its MD5 is not 00000" in str(caught.value)
    assert list((tmp_path / "got").iterdir()) == []


@pytest.mark.slow
def test_a_file_with_other_content_is_refused_and_not_kept(
    server: str, published: tuple[Source, ...], tmp_path: Path
) -> None:
    wrong = Source(published[0].name, published[0].md5, "0" * 64)
    with pytest.raises(DataFileError, match="differs from the published content: SHA-256"):
        fetch(wrong, tmp_path / "got", server)
    assert list((tmp_path / "got").iterdir()) == []


def test_without_a_connection_it_says_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("pooch")
    with pytest.raises(DataFileError) as caught:
        fetch(FILES[0], tmp_path / "got", "http://127.0.0.1:9/")
    text = str(caught.value)
    assert "http://127.0.0.1:9/train-images-idx3-ubyte.gz cannot be downloaded" in text
    assert "without one: apt-get install dataset-fashion-mnist" in text
    assert list((tmp_path / "got").iterdir()) == []


@pytest.mark.slow
def test_a_missing_file_on_the_server_is_told(server: str, tmp_path: Path) -> None:
    pytest.importorskip("pooch")
    with pytest.raises(DataFileError, match="cannot be downloaded: 404"):
        fetch(Source("gone.gz", "0" * 32, ""), tmp_path / "got", server)


def test_without_pooch_it_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataFileError, match=r"pip install 'chainrule\[download\]'"):
        fetch(FILES[0], tmp_path, "http://127.0.0.1:9/")

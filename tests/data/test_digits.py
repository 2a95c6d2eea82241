import zipfile
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from chainrule.data import digits, train_test_split
from chainrule.data.digits import content_sha256, read_digits
from chainrule.errors import DataFileError, InputError

SHIPPED = files("chainrule.data") / "digits.npz"


def test_the_content_is_the_one_of_the_source():
    # Of scikit-learn 1.9.1's digits.csv.gz, computed apart from this package.
    with SHIPPED.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    assert (images.shape, labels.shape) == ((1797, 8, 8), (1797,))
    assert (images.dtype, labels.dtype) == (np.uint8, np.uint8)
    assert content_sha256(images, labels) == (
        "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
    )


def test_digits_are_rows_of_ink_between_0_and_1():
    data = digits()
    assert (data.images.dtype, data.images.shape) == (np.float32, (1797, 64))
    assert (data.images.min(), data.images.max()) == (0, 1)
    assert (data.labels.dtype, data.labels.shape) == (np.int64, (1797,))
    # The counts that the source states for its test set (optdigits.names).
    assert np.bincount(data.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert data.names == tuple("0123456789")


def test_the_first_row_is_a_zero_with_a_hole_in_it():
    data = digits()
    ink = data.images[0].reshape(8, 8)
    assert data.names[data.labels[0]] == "0"
    assert ink[3:5, 3].max() == 0 and ink[3:5, 2].min() >= 0.5 and ink[3:5, 5].min() >= 0.5


def test_each_call_gives_arrays_of_its_own():
    digits().images[:] = 9
    assert digits().images.max() == 1


def test_the_files_bytes_do_not_depend_on_the_day_they_were_made():
    with SHIPPED.open("rb") as stream, zipfile.ZipFile(stream) as archive:
        dates = {entry.date_time for entry in archive.infolist()}
    assert dates == {(1980, 1, 1, 0, 0, 0)}


def test_the_readme_in_the_folder_names_source_and_licence():
    text = (files("chainrule.data") / "README.md").read_text(encoding="utf-8")
    for fact in ("E. Alpaydin, C. Kaynak", "10.24432/C50P49", "CC BY 4.0", "scikit-learn"):
        assert fact in text


def damage(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


@pytest.mark.parametrize("place", [0, 60, 5_000, 20_000, 45_390])
def test_a_changed_byte_is_explained(tmp_path: Path, place: int):
    file = tmp_path / "digits.npz"
    file.write_bytes(damage(SHIPPED.read_bytes(), place))
    with pytest.raises(DataFileError, match=r"digits\.npz cannot be read") as caught:
        read_digits(file)
    assert "pip install --force-reinstall" in caught.value.hint


@pytest.mark.slow
def test_no_changed_byte_is_met_with_other_data_or_another_error(tmp_path: Path):
    file = tmp_path / "digits.npz"
    content = SHIPPED.read_bytes()
    ends = [*range(0, 120), *range(len(content) - 250, len(content))]
    for place in (*ends, *range(120, len(content) - 250, 997)):
        file.write_bytes(damage(content, place))
        try:
            read_digits(file)  # checks the content: bytes such as a date may change
        except DataFileError:
            pass


@pytest.mark.parametrize("length", [0, 1, 100, 30_000, 45_393])
def test_a_file_cut_short_is_explained(tmp_path: Path, length: int):
    file = tmp_path / "digits.npz"
    file.write_bytes(SHIPPED.read_bytes()[:length])
    with pytest.raises(DataFileError, match=r"digits\.npz cannot be read"):
        read_digits(file)


def test_a_missing_file_is_explained(tmp_path: Path):
    with pytest.raises(DataFileError, match="FileNotFoundError"):
        read_digits(tmp_path / "digits.npz")


def test_other_content_in_a_sound_archive_is_explained(tmp_path: Path):
    file = tmp_path / "digits.npz"
    np.savez_compressed(file, images=np.zeros((3, 8, 8), np.uint8), labels=np.zeros(3, np.uint8))
    with pytest.raises(DataFileError, match=r"SHA-256 of the content is .*, expected 87ff0c9e"):
        read_digits(file)
    np.savez_compressed(file, pictures=np.zeros(3))
    with pytest.raises(DataFileError, match="KeyError"):
        read_digits(file)


def test_a_file_that_asks_for_pickle_is_refused(tmp_path: Path):
    file = tmp_path / "digits.npz"
    objects = np.array([{"any": "object"}], dtype=object)
    np.savez(file, images=objects, labels=objects)
    with pytest.raises(DataFileError, match="allow_pickle=False"):
        read_digits(file)
    with file.open("wb") as stream:
        np.save(stream, np.zeros(3))
    with pytest.raises(DataFileError, match="TypeError"):
        read_digits(file)


def test_a_split_has_every_row_once():
    train, test = train_test_split(1797, 0.2, seed=3)
    assert (len(train), len(test)) == (1438, 359)
    assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(1797))


def test_a_split_is_the_same_for_the_same_seed_and_another_for_another():
    train, test = train_test_split(10, 0.3, seed=0)
    # These very numbers: the split must not change with the version of NumPy.
    assert (test.tolist(), train.tolist()) == ([3, 2, 1], [8, 6, 0, 7, 4, 5, 9])
    assert train_test_split(1000, 0.5, seed=1)[0].tolist() != (
        train_test_split(1000, 0.5, seed=2)[0].tolist()
    )


@pytest.mark.parametrize("fraction", [0, 0.01, 0.99, 1, 1.5, -0.1])
def test_a_split_with_an_empty_side_is_explained(fraction: float):
    with pytest.raises(InputError, match=f"{fraction} of 10 rows is .* both need at least one"):
        train_test_split(10, fraction, seed=0)

"""What a report says of an array: statistics, histogram, elements, pictures."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_data_checks import by_name, checked

import chainrule as cr
from chainrule import float32
from chainrule.explain.report import statistics
from chainrule.explain.report.data import report_data
from chainrule.explain.report.pictures import Pictures
from chainrule.explain.report.plain import element, known, number, text
from chainrule.explain.report.statistics import (
    elements_data,
    histogram_data,
    statistics_data,
    summary_of,
)

DTYPES = ["float16", "float32", "float64", "int8", "int64", "uint32", "uint64", "bool"]


def some(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    drawn = 40 * np.random.default_rng(seed).standard_normal(shape)
    return (drawn > 0 if dtype == "bool" else np.abs(drawn)).astype(dtype)


def stats_of(array: np.ndarray) -> dict[str, Any]:
    return statistics_data(summary_of(array))


def picture_of(array: np.ndarray, **options: Any) -> dict[str, Any]:
    found = Pictures().picture(array, summary_of(array), **options)
    assert found is not None
    return found


def levels(picture: dict[str, Any]) -> np.ndarray:
    pixels = np.frombuffer(base64.b64decode(picture["bytes"]), np.uint8)
    return pixels.reshape(picture["height"], picture["width"])


def values_in(picture: dict[str, Any]) -> np.ndarray:
    """What the pixels mean; NaN for those that are marked as not finite."""
    pixels = levels(picture).astype(np.float64)
    low, high = picture["low"], picture["high"]
    return np.where(pixels == 255, np.nan, low + pixels / 254 * (high - low))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 9), (3, 1, 4)])
def test_statistics_are_those_of_numpy(dtype: str, shape: tuple[int, ...]) -> None:
    array = some(dtype, shape)
    wide, found = array.astype(np.float64), stats_of(array)
    wanted = {
        "min": wide.min(), "max": wide.max(), "mean": wide.mean(), "std": wide.std(),
        "norm": np.linalg.norm(wide.ravel()), "rms": np.sqrt(np.mean(wide**2)),
    }  # fmt: skip
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=1e-8, abs=1e-12), name
    assert found["zeros"] == int((wide == 0).sum()) and found["count"] == array.size
    assert found["nan"] == found["infinite"] == 0


def test_large_arrays_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = some("float32", (37, 29)) - 20
    whole[3, 4:6] = np.nan, -np.inf
    wanted = summary_of(whole)
    monkeypatch.setattr(statistics, "PIECE", 100)
    found = summary_of(whole)
    for name in ("least", "greatest", "zeros", "nan", "infinite", "counts", "count"):
        assert getattr(found, name) == getattr(wanted, name)
    for name in ("mean", "deviation", "norm"):
        assert getattr(found, name) == pytest.approx(getattr(wanted, name), rel=1e-12)
    for other in (np.asfortranarray(whole), whole[::-1], whole.T):
        assert summary_of(other).counts == wanted.counts


def test_what_is_not_finite_is_counted_and_left_out() -> None:
    array = np.array([np.nan, 3.0, -np.inf, 0.0, np.inf, np.nan], np.float32)
    found = stats_of(array)
    assert (found["nan"], found["infinite"], found["count"], found["zeros"]) == (2, 2, 6, 1)
    assert (found["min"], found["max"], found["mean"], found["norm"]) == (0.0, 3.0, 1.5, 3.0)
    assert elements_data(array) == ["NaN", 3.0, "-inf", 0.0, "inf", "NaN"]
    histogram = histogram_data(summary_of(array))
    assert histogram is not None and sum(histogram["counts"]) == 2
    nothing = stats_of(np.full(3, np.nan))
    assert [nothing[name] for name in ("min", "max", "mean", "std", "norm", "rms")] == [None] * 6
    assert nothing["nan"] == 3


def test_arrays_without_elements() -> None:
    found = stats_of(np.zeros((0, 3)))
    assert found["count"] == 0 and found["mean"] is None
    assert elements_data(np.zeros((0, 3))) == []
    assert histogram_data(summary_of(np.zeros((0, 3)))) is None
    assert Pictures().picture(np.zeros((0, 3)), summary_of(np.zeros((0, 3)))) is None


@pytest.mark.parametrize("unit", [1e-310, 1e-200, 1.0, 1e200, 1.7e308])
def test_very_small_and_very_large_numbers(unit: float) -> None:
    array = np.linspace(-1, 1, 60 * 70).reshape(60, 70) * unit
    found, histogram = stats_of(array), histogram_data(summary_of(array))
    assert found["std"] == pytest.approx(np.std(array / unit) * unit, rel=1e-6)
    assert histogram is not None and sum(histogram["counts"]) == array.size
    assert max(histogram["counts"]) - min(histogram["counts"]) <= 1
    picture = picture_of(array)
    assert (levels(picture) != 255).all() and levels(picture)[-1, -1] == 254


@given(st.lists(st.floats(width=32), min_size=1, max_size=16))
@settings(max_examples=60, deadline=None)
def test_float32_elements_read_back_the_same(numbers: list[float]) -> None:
    array = np.array(numbers, np.float32)
    again = json.loads(json.dumps(elements_data(array), allow_nan=False))
    words = {"NaN": math.nan, "inf": math.inf, "-inf": -math.inf}
    back = np.array([words.get(one, one) for one in again], np.float32)
    np.testing.assert_array_equal(back, array)
    assert (np.signbit(back) == np.signbit(array))[array == 0].all()


@given(st.floats() | st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=60, deadline=None)
def test_other_elements_read_back_the_same(value: float) -> None:
    scalar = np.float64(value) if isinstance(value, float) else np.int64(value)
    found = json.loads(json.dumps(element(scalar), allow_nan=False))
    np.testing.assert_equal(type(scalar)(found if found != "inf" else math.inf), scalar)


def test_elements_of_other_dtypes() -> None:
    assert elements_data(np.array([[True], [False]])) == [True, False]
    assert elements_data(np.array([2**53, 2**53 + 1])) == [2**53, str(2**53 + 1)]
    assert elements_data(np.array([0.1, 65504], np.float16)) == [
        0.1,
        65500.0,
    ]  # which is 65504 in float16
    assert elements_data(np.array(0.1, np.float32)) == [0.1]
    assert elements_data(np.zeros(17)) is None


def test_computed_numbers_are_short_and_json() -> None:
    assert number(0.1 + 0.2) == 0.3 and number(1 / 3) == 0.333333333
    assert [number(one) for one in (math.nan, math.inf, -math.inf)] == ["NaN", "inf", "-inf"]
    assert known(math.nan) is None
    assert text("a\nb\x1b\ud800") == r"a\nb\x1b\ud800"


def test_a_histogram_counts_what_numpy_counts() -> None:
    array = np.random.default_rng(3).integers(0, 240, 5000).astype(np.float64) + 0.5
    array[:2] = 0.0, 240.0
    found = histogram_data(summary_of(array))
    assert found is not None and (found["low"], found["high"]) == (0.0, 240.0)
    assert found["counts"] == np.histogram(array, 24)[0].tolist()
    assert histogram_data(summary_of(np.full(9, 2.5))) is None


def test_a_small_matrix_is_its_own_picture() -> None:
    array = some("float32", (5, 9))
    picture = picture_of(array)
    assert (picture["width"], picture["height"]) == (9, 5)
    assert (picture["low"], picture["high"]) == (number(array.min()), number(array.max()))
    assert np.abs(values_in(picture) - array).max() <= (array.max() - array.min()) / 254
    assert picture["caption"] == "5 × 9"


@pytest.mark.parametrize("shape", [(49, 48), (100, 7), (3, 500), (256, 785)])
@pytest.mark.parametrize("spoiled", [False, True])
def test_a_large_matrix_is_means_of_blocks(shape: tuple[int, int], spoiled: bool) -> None:
    array = some("float64", shape) - 30
    if spoiled:
        array[1, 3], array[2, 6] = np.nan, np.inf
    picture = picture_of(array)
    tall, wide = (-(-length // 48) for length in shape)
    assert (picture["height"], picture["width"]) == (-(-shape[0] // tall), -(-shape[1] // wide))
    assert max(picture["height"], picture["width"]) <= 48
    wanted = np.array(
        [
            [array[i : i + tall, j : j + wide].mean() for j in range(0, shape[1], wide)]
            for i in range(0, shape[0], tall)
        ]
    )
    wanted[~np.isfinite(wanted)] = np.nan
    tolerance = (picture["high"] - picture["low"]) / 254
    np.testing.assert_allclose(values_in(picture), wanted, rtol=0, atol=tolerance)
    assert picture["caption"].endswith(f"each pixel is the mean of {tall} × {wide} elements")


def test_numbers_around_zero_have_zero_in_the_middle_and_lines_of_zeros_are_told() -> None:
    array = np.array([[0, 3, 0], [0, 0, 0], [0, -1, 0.5]])
    picture = picture_of(array)
    assert (picture["low"], picture["high"], picture["centred"]) == (-3, 3, True)
    assert (levels(picture)[array == 0] == 127).all()
    assert picture["caption"] == "3 × 3; row 1 and column 0 are 0" and picture["block"] == [1, 1]
    assert picture_of(np.abs(array))["centred"] is False
    assert picture_of(np.array([[1, 0], [1, 0]]))["caption"] == "2 × 2; column 1 is 0"
    assert "are 0" not in picture_of(np.zeros((3, 3)))["caption"]
    assert picture_of(some("float64", (100, 50)))["block"] == [3, 2]


def test_vectors_are_strips_and_higher_arrays_show_one_matrix() -> None:
    strip = picture_of(np.arange(20.0))
    assert (strip["width"], strip["height"], strip["caption"]) == (20, 1, "20 elements")
    cube = np.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5)
    first = picture_of(cube)
    assert np.abs(values_in(first) - cube[0, 0]).max() < 0.1
    assert first["caption"] == "[0, 0, :, :] of 2 × 3 × 4 × 5"
    flat = picture_of(np.full((3, 3), 2.5))
    assert (flat["low"], flat["high"]) == (2.5, 2.5) and not levels(flat).any()
    mask = picture_of(np.eye(3, dtype=bool))
    assert (levels(mask) == 254 * np.eye(3)).all()


@pytest.mark.parametrize("shape", [(10, 64), (10, 8, 8), (3, 784), (1, 3600)])
def test_rows_that_are_images_are_shown_as_images(shape: tuple[int, ...]) -> None:
    array = some("float32", shape)
    side = math.isqrt(array[0].size)
    picture = picture_of(array, images=True)
    block = -(-side // 28)
    shown = -(-side // block)
    image = array[0].reshape(side, side).astype(np.float64)
    blocks = [image[i : i + block] for i in range(0, side, block)]
    wanted = [[one[:, j : j + block].mean() for j in range(0, side, block)] for one in blocks]
    found = values_in(picture)[:shown, :shown]
    assert np.abs(found - wanted).max() <= (picture["high"] - picture["low"]) / 254
    rows = "row 0" if shape[0] == 1 else f"rows 0-{min(shape[0], 8) - 1}"
    assert picture["caption"].startswith(f"{rows} of {shape[0]} × ")
    assert picture["caption"].endswith(f"each as an image of {side} × {side}")
    assert "image" not in picture_of(array)["caption"]


def test_rows_that_are_no_images_are_a_heat_map() -> None:
    for shape in [(10, 63), (10, 49), (64,), (2, 3, 8, 8), (9, 8, 7)]:
        assert "image" not in picture_of(some("float32", shape), images=True)["caption"]


def test_pictures_take_no_more_bytes_than_they_may() -> None:
    pictures, array = Pictures(budget=100), some("float32", (8, 8))
    made = [pictures.picture(array, summary_of(array)) for _ in range(5)]
    assert [one is not None for one in made] == [True, True, False, False, False]
    assert list(pictures.notes()) == [
        "3 values have no picture: all pictures together take at most 100 bytes."
    ]


def program(x: float32["n 64"], w: float32["64"], empty: float32["0 3"], one: float32["1"]):
    h = x * w
    e = empty * 2
    u = one + 1
    r = np.sqrt(h)
    J = np.sum(r) + np.sum(e) + np.sum(u)
    return J


def test_values_of_every_kind_in_one_report() -> None:
    graph = cr.backward(cr.trace(program), wrt=("w", "one"))
    x = some("float32", (12, 64)) - 5
    x[0, 0] = np.inf
    inputs = {"x": x, "w": np.ones(64, np.float32), "empty": np.zeros((0, 3), np.float32),
              "one": np.ones(1, np.float32)}  # fmt: skip
    data = checked(report_data(graph, inputs))
    values, run = by_name(data), graph.run(inputs)
    assert values["J"]["numbers"] == ["NaN"] and values["J"]["stats"]["mean"] is None
    assert values["r"]["stats"]["nan"] == int(np.isnan(run["r"]).sum()) > 0
    assert values["h"]["stats"]["infinite"] == 1
    assert (levels(values["h"]["picture"]) == 255).sum() == 1
    assert values["e"]["numbers"] == [] and values["u"]["numbers"] == [2.0]
    assert "image" in values["x"]["picture"]["caption"]
    assert "image" not in values["h"]["picture"]["caption"]
    for name in run:
        with np.errstate(all="ignore"):
            assert values[name]["stats"] == stats_of(run[name])


def test_what_is_looked_at_most_has_its_picture_first() -> None:
    graph = cr.backward(cr.trace(program), wrt=("x", "w"))
    inputs = {"x": np.ones((12, 64), np.float32), "w": np.ones(64, np.float32),
              "empty": np.zeros((0, 3), np.float32), "one": np.ones(1, np.float32)}  # fmt: skip
    data = checked(report_data(graph, inputs, picture_nbytes=800))
    values = by_name(data)
    assert values["x"]["picture"] and values["dJ/dx"]["picture"] and not values["h"]["picture"]
    assert any("have no picture" in note for note in data["notes"])

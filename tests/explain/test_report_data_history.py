"""The history of a training as curves: a JSON Lines file, or dicts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from report_data_checks import checked
from reports import both

from chainrule.errors import InputError
from chainrule.explain.report.data import report_data


def curves(history: Any) -> dict[str, Any]:
    found = report_data(both(), history=history)["curves"]
    assert found is not None
    return found


def series(history: Any) -> dict[str, list[Any]]:
    return {one["label"]: one["values"] for one in curves(history)["series"]}


def refusal(history: Any) -> str:
    with pytest.raises(InputError) as caught:
        report_data(both(), history=history)
    return str(caught.value)


ROWS = [
    {"step": 1, "objective": 2.5, "accuracy": 0.1, "note": "begun", "ok": True},
    {"step": 2, "objective": 2.0},
    {"step": 4, "objective": math.nan, "accuracy": 0.5},
]


def test_numbers_are_series_and_what_is_missing_is_a_gap() -> None:
    assert curves(ROWS)["x"] == {"label": "step", "values": [1, 2, 4]}
    assert series(ROWS) == {"objective": [2.5, 2.0, None], "accuracy": [0.1, None, 0.5]}


def test_a_file_is_read_as_the_dicts_are(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS) + "\n", "utf-8")
    assert curves(path) == curves(str(path)) == curves(ROWS) == curves(iter(ROWS))
    data = checked(report_data(both(), history=path))
    assert not any("cut off" in note for note in data["notes"])


def test_numbers_of_numpy_are_numbers() -> None:
    rows = [{"step": np.int64(3), "objective": np.float32(0.5), "count": np.int32(7)}]
    assert series(rows) == {"objective": [0.5], "count": [7.0]}
    checked(report_data(both(), history=rows))


def test_no_history_and_an_empty_one() -> None:
    assert report_data(both())["curves"] is None
    assert series([{"step": 1, "J": 10**400}]) == {"J": [None]}
    assert curves([]) == {"x": {"label": "step", "values": []}, "series": []}


def test_a_last_line_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text('{"step": 1, "J": 2.0}\n{"step": 2, "J": 1.5}\n{"step": 3, "J"', "utf-8")
    data = checked(report_data(both(), history=path))
    assert data["curves"]["x"]["values"] == [1, 2]
    assert "The last line of history.jsonl is cut off, and was left out." in data["notes"]
    with path.open("a", encoding="utf-8") as file:
        file.write("\n")  # a line that was written to its end is damaged, not cut off
    assert f"line 3 of {path} is no JSON" in refusal(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"step": 2, "J"', "is no JSON"),
        ("[1, 2]", "is list, not an object"),
        ('{"J": 1.0}', 'has no "step"'),
        ('{"step": 1.5}', 'has "step": 1.5'),
        ('{"step": true}', 'has "step": True'),
    ],
)
def test_damaged_lines_are_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(f'{{"step": 1, "J": 2.0}}\n{line}\n{{"step": 3}}\n', "utf-8")
    text = refusal(path)
    assert f"line 2 of {path} {said}" in text
    assert 'each entry is an object with an integer "step"' in text


def test_damaged_entries_are_named(tmp_path: Path) -> None:
    assert 'entry 1 of the history has no "step"' in refusal([{"step": 1}, {"J": 2.0}])
    assert "entry 0 of the history is int, not an object" in refusal([3])
    path = tmp_path / "there is none.jsonl"
    assert f"cannot read the history {path}: No such file" in refusal(path)
    assert "history= is int, neither a path nor a list of dicts" in refusal(3)
    assert "history= is dict, neither a path nor a list of dicts" in refusal({"step": 1})
    assert "cannot read the history" in refusal("a\0b.jsonl")


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(b'{"step": 1}\n\xff\xfe\n{"step": 3}\n')
    assert f"line 2 of {path} is no JSON" in refusal(path)


def test_a_long_history_is_averaged() -> None:
    rows = [{"step": at, "J": float(at % 2)} for at in range(8000)]
    rows[5]["J"] = math.inf
    data = checked(report_data(both(), history=rows))
    x, (one,) = data["curves"]["x"]["values"], data["curves"]["series"]
    assert len(x) == len(one["values"]) == 2000
    assert x[:3] == [1.5, 5.5, 9.5] and one["values"][0] == 0.5
    assert one["values"][1] == pytest.approx(1 / 3)  # without the one that is infinite
    assert any("8,000 entries" in note for note in data["notes"])
    assert curves(rows[:2000])["x"]["values"] == list(range(2000))

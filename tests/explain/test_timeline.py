"""The bytes in use by instruction, as data and as a picture."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from reports import EITHER, both, deep, forward, nasty, step

from chainrule.errors import InputError
from chainrule.explain.memory.picture import MOST_COLUMNS, PAINTS, columns, ticks
from chainrule.explain.memory.run_memory import PADDING
from chainrule.explain.memory.timeline import Moment

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    """The words of a picture, which is well formed."""
    return [one.text or "" for one in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@EITHER
def test_at_the_peak_the_moment_has_the_parts_of_the_phase(executor: str) -> None:
    for report in (step(executor).memory(n=7), nasty().memory(n=3, executor=executor)):
        run = report.main
        moment = run.timeline[run.peak_instruction]
        assert {**moment.nbytes, PADDING: moment.unused_nbytes} == run.parts
        assert sum(run.parts.values()) == run.peak_nbytes
        assert run.timeline[0].unused_nbytes == (run.usage.scratch_nbytes or 0)


@EITHER
def test_every_moment_has_the_bytes_of_the_values_that_are_there(executor: str) -> None:
    run = both().memory(n=16, executor=executor).main
    assert len(run.timeline) == run.usage.count + 1
    for number, moment in enumerate(run.timeline):
        alive = [one for one in run.usage.alive_at(number) if not one.in_place]
        wanted = sum(life.nbytes for life in alive) + run.usage.workspaces[number]
        assert (moment.number, moment.live_nbytes) == (number, wanted)
    assert max(one.live_nbytes for one in run.timeline) == run.peak_nbytes - run.padding_nbytes


def test_moments_are_called_as_what_they_write() -> None:
    timeline = forward().memory(n=16, executor="reference").prediction.timeline
    assert timeline[0].label == "start" and timeline[0].writes == ()
    labels = [one.label for one in timeline]
    assert labels.index("z") < labels.index("h") < labels.index("o")


@EITHER
def test_the_picture_says_what_it_shows(executor: str) -> None:
    report = step(executor).memory(n=16)
    run, svg = report.main, report.timeline_svg()
    root, words = ElementTree.fromstring(svg), texts(svg)
    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None and description is not None
    assert title.text == f"Memory of objective, training, n = 16, executor {executor}"
    assert f"{run.peak_nbytes:,} bytes at instruction {run.peak_instruction}" in (
        description.text or ""
    )
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert sum(word.startswith(f"peak: {run.peak_nbytes:,} bytes") for word in words) == 1
    for kind, nbytes in run.parts.items():
        assert not nbytes or kind in words
    assert {"forward", "backward", "instruction", "0"} <= set(words)


def test_the_areas_end_where_the_bytes_do() -> None:
    report = both().memory(n=16, executor="reference")
    run = report.main
    (area,) = re.findall(r'<path d="M([^"]*)L[^"]*Z" fill="#7a4fa3"', report.timeline_svg())
    heights = [float(one) for one in re.findall(r"(?:^[\d.]+ |V)([\d.]+)", area)]
    below = [kind for kind in PAINTS][: list(PAINTS).index("saved intermediates") + 1]
    stacked = [sum(moment.nbytes.get(kind, 0) for kind in below) for moment in run.timeline]
    assert min(heights) == pytest.approx(376 - 280 * max(stacked) / run.peak_nbytes, abs=0.06)


def test_two_pictures_on_one_page_do_not_share_patterns() -> None:
    report = step().memory(n=16)
    pictures = report.timeline_svg("training"), report.timeline_svg("prediction")
    first, second = (set(re.findall(r'id="([^"]+)"', svg)) for svg in pictures)
    assert first and second and not first & second
    for svg, ids in zip(pictures, (first, second), strict=True):
        assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= ids


def test_names_are_text_in_the_picture() -> None:
    svg = nasty().memory(n=4, executor="reference").timeline_svg()
    root = ElementTree.fromstring(svg)
    assert "<script" not in svg and not list(root.iter(f"{SVG}script"))
    svg.encode()


def test_of_moments_that_share_a_column_the_fullest_is_drawn() -> None:
    full = 1003
    moments = [Moment(place, (), {"x": int(place == full)}, 0) for place in range(5 * MOST_COLUMNS)]
    drawn = columns(moments)
    assert len(drawn) == MOST_COLUMNS and drawn[full // 5] == (moments[full], full // 5 * 5 + 5)


@pytest.mark.slow
def test_a_long_graph_has_a_column_for_each_pixel_and_its_peak() -> None:
    report = deep(300).memory(n=4, executor="reference")
    run = report.main
    drawn = columns(run.timeline)
    assert len(run.timeline) > MOST_COLUMNS >= len(drawn)
    assert (
        max(moment.live_nbytes for moment, _ in drawn)
        == run.usage.live_nbytes[run.peak_instruction]
    )
    assert len(report.timeline_svg()) < 600_000


@pytest.mark.parametrize("most", [1, 7, 999, 1024, 1025, 5000, 4_646_964, 10**9, 10**14])
def test_the_axis_has_a_few_round_numbers(most: int) -> None:
    found = ticks(most)
    assert found[0] == 0 and found[-1] <= most and 2 <= len(found) <= 9
    assert len({after - before for before, after in pairwise(found)}) <= 1


def test_a_picture_is_saved_as_a_whole(tmp_path: Path) -> None:
    report = step().memory(n=16)
    report.save_timeline(tmp_path / "a.svg")
    report.save_timeline(str(tmp_path / "b.SVG"), "prediction")
    assert (tmp_path / "a.svg").read_text("utf-8") == report.timeline_svg("training")
    assert (tmp_path / "b.SVG").read_text("utf-8") == report.timeline_svg("prediction")
    (tmp_path / "c.svg").mkdir()
    with pytest.raises(InputError, match=r"cannot write to .*c\.svg"):
        report.save_timeline(tmp_path / "c.svg")
    assert {one.name for one in tmp_path.iterdir()} == {"a.svg", "b.SVG", "c.svg"}


def test_other_files_and_other_phases_are_refused(tmp_path: Path) -> None:
    report = forward().memory(n=16, executor="reference")
    with pytest.raises(InputError) as caught:
        report.save_timeline("figures/memory.png")
    assert str(caught.value) == (
        "the timeline is an SVG picture, and cannot be written to "
        f"{Path('figures/memory.png')}\n"
        f"  try: a file whose name ends in .svg: {Path('figures/memory.svg')}"
    )
    with pytest.raises(InputError) as caught:
        report.timeline_svg("training")
    assert str(caught.value) == (
        "the report of objective has no run 'training'\n  try: one of: 'prediction'"
    )

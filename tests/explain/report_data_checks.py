"""What is true of the data of every report: complete, consistent, and JSON."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from itertools import pairwise, zip_longest
from typing import Any

from chainrule.explain.memory.report import MemoryReport

Data = dict[str, Any]

PARTS = set(
    "schema version title subtitle has_values facts notes sources values steps memory tradeoff "
    "ranks advice curves drawing".split()
)
VALUE = {
    "name": str, "label": str, "latex": str, "kind": str, "pass": str, "shape": list, "dtype": str,
    "nbytes": (int, str), "equation": (dict, type(None)), "chain": list,
    "gradient": (int, type(None)), "of": (int, type(None)), "reads": list, "read_by": list,
    "loop": (dict, type(None)), "iterations": (dict, type(None)), "kept_because": str, "why": str,
    "zeros": list, "dead": str,
    "source": (dict, type(None)), "scope": str,
    "stored": (bool, type(None)), "view_of": str,
    "made_at": (int, type(None)), "last_needed_at": (int, type(None)), "life": (dict, type(None)),
    "stats": (dict, type(None)), "numbers": (list, type(None)), "histogram": (dict, type(None)),
    "picture": (dict, type(None)),
}  # fmt: skip
KINDS = set("input parameter variable gradient parameter-gradient state update constant".split())
STATISTICS = set("min max mean std norm rms zeros nan infinite count".split())
STEP = {
    "title": str, "circle": str, "value": (int, type(None)), "pass": str,
    "loop": (int, type(None)), "instruction": (int, type(None)),
    "fullest_instruction": (int, type(None)), "live_nbytes": (int, type(None)), "writes": list,
    "adds": list, "reads": list, "part_of": (int, type(None)), "frees": list,
}  # fmt: skip
MEMORY = set(
    "executor keep peak_nbytes peak_instruction peak_step unit count parts lives rest live "
    "prediction_peak_nbytes".split()
)
WEIGHED = set(
    "needed_nbytes peak_nbytes nanoseconds extra extra_flops in_loops adds drops count "
    "kinds".split()
)
REPEATED = set("values parts_of label sources from_parts steps times nanoseconds nbytes".split())
LOOP = set("operation bodies length limit reverse latex text results reads inside".split())
GIVEN = {"input", "parameter", "state", "constant"}


def checked(data: Data) -> Data:
    """The data, once everything that is true of every report has been found true of it."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False)
    assert json.loads(text.encode()) == data
    assert set(data) == PARTS
    assert data["schema"] == "chainrule.report/1"
    _check_values(data)
    _check_sources(data)
    _check_steps(data)
    if data["memory"] is not None:
        _check_memory(data)
    return data


def by_name(data: Data) -> dict[str, Data]:
    """The values by their names."""
    return {one["name"]: one for one in data["values"]}


def _check_values(data: Data) -> None:
    values = data["values"]
    assert len(by_name(data)) == len(values)
    for at, one in enumerate(values):
        assert one.keys() == VALUE.keys()
        for key, types in VALUE.items():
            assert isinstance(one[key], types), (one["name"], key, one[key])
        assert one["kind"] in KINDS and one["label"] and one["latex"]
        assert len(set(one["reads"])) == len(one["reads"])
        for other in one["reads"]:
            assert at in values[other]["read_by"]
        for other in one["read_by"]:
            assert at in values[other]["reads"]
        if one["kind"] in GIVEN and one["of"] is None:
            assert one["equation"] is None and one["reads"] == []
        elif one["equation"] is not None:
            assert one["equation"]["number"] >= 1 and all(one["equation"]["latex"])
        if one["gradient"] is not None:
            assert values[one["gradient"]]["of"] is not None
        assert (one["of"] is None) == (one["kind"] not in ("gradient", "parameter-gradient"))
        assert one["of"] is not None or one["chain"] == []
        _check_chain(one, len(values))
        if one["loop"] is not None:
            assert set(one["loop"]) == LOOP and at in one["loop"]["results"]
        _check_numbers(one)


def _check_chain(one: Data, count: int) -> None:
    for term in one["chain"]:
        assert set(term) == {"latex", "consumer", "upstream", "step", "norm", "share"}
        assert term["consumer"] in range(count)
        assert term["upstream"] is None or term["upstream"] in range(count)
    shares = [term["share"] for term in one["chain"]]
    if shares and None not in shares and len(shares) < 60:
        assert abs(sum(shares) - 1) < 1e-6


def _check_numbers(one: Data) -> None:
    stats, histogram, picture = one["stats"], one["histogram"], one["picture"]
    if stats is None:
        assert one["numbers"] is histogram is picture is None
        return
    assert set(stats) == STATISTICS
    size = 1
    for length in one["shape"]:
        size *= length
    assert stats["count"] == size
    assert (one["numbers"] is not None) == (size <= 16)
    assert one["numbers"] is None or len(one["numbers"]) == size
    if histogram is not None:
        assert len(histogram["counts"]) == 24
        assert sum(histogram["counts"]) == size - stats["nan"] - stats["infinite"]
        assert histogram["counts"][0] and histogram["counts"][-1]
    if picture is not None:
        assert len(base64.b64decode(picture["bytes"])) == picture["width"] * picture["height"]


def _check_sources(data: Data) -> None:
    for one in data["values"]:
        place = one["source"]
        if place is None:
            continue
        lines = data["sources"][place["file"]]["lines"]
        if lines and place["column"] is not None:
            first, last = place["column"]
            assert 0 <= first < last <= len(lines[str(place["line"])])


def _check_steps(data: Data) -> None:
    values, steps, count = data["values"], data["steps"], len(data["values"])
    circles = [one["key"] for one in data["drawing"]["items"] if one["form"] == "circle"]
    assert Counter(one["circle"] for one in steps) == Counter(circles)
    for one in steps:
        assert one.keys() == STEP.keys()
        for key, types in STEP.items():
            assert isinstance(one[key], types), (one["title"], key)
    computed = {at for at, one in enumerate(values) if one["kind"] not in GIVEN}
    written = {value: at for at, one in enumerate(steps) for value in one["writes"]}
    writes = Counter(value for one in steps for value in one["writes"])
    wrong = (writes - Counter(computed)) + (Counter(computed) - writes)
    assert not steps or not wrong, [values[one]["name"] for one in wrong]
    for at, one in enumerate(steps):
        for value in one["writes"]:  # what a value is made from is there before it
            for read in values[value]["reads"]:
                assert written.get(read, -1) <= at, (values[value]["name"], values[read]["name"])
        for value in one["frees"]:
            assert written[value] <= at and value in range(count)
            assert values[value]["stored"] or values[value]["view_of"]
    _check_terms(data)
    freed = Counter(value for one in steps for value in one["frees"])
    assert all(times == 1 for times in freed.values())
    if data["memory"] is None:
        assert all(one["instruction"] is one["live_nbytes"] is None for one in steps)
        return
    _check_spans(data)


def _check_terms(data: Data) -> None:
    """A step that makes a term of a gradient says so, and the last one of them writes it."""
    steps = data["steps"]
    for at, one in enumerate(data["values"]):
        makers = {place for place, step in enumerate(steps) if at in step["writes"] + step["adds"]}
        terms = {term["step"] for term in one["chain"]}
        if len(one["chain"]) < 60 and None not in terms and terms:
            assert terms == makers and at in steps[max(makers)]["writes"], one["name"]
        else:
            assert terms - {None} <= makers, one["name"]


def _check_spans(data: Data) -> None:
    """Steps take all instructions between them, each once, but those that begin together."""
    live, instructions = data["memory"]["live"], [one["instruction"] for one in data["steps"]]
    assert instructions == sorted(instructions)
    begins = sorted(set(instructions))
    spans = {}
    for begin, end in pairwise([*begins, len(live)]):
        spans[begin] = range(begin if spans else min(begin, 1), end)
    assert not begins or sum(map(len, spans.values())) == len(live) - min(begins[0], 1)
    for one, after in zip_longest(data["steps"], instructions[1:]):
        span = spans[one["instruction"]]
        if after == one["instruction"]:  # the last of them takes the others
            span = range(span.start, after + 1)
        assert one["fullest_instruction"] in span
        assert one["live_nbytes"] == live[one["fullest_instruction"]]
        assert one["live_nbytes"] == max(live[number] for number in span)


def _check_memory(data: Data) -> None:
    memory, steps = data["memory"], data["steps"]
    assert set(memory) == MEMORY
    live = memory["live"]
    assert len(live) == memory["count"] + 1
    total = [0] * len(live)
    for one in memory["lives"]:
        assert set(one) == set("value inside label parts kind nbytes first last step".split())
        assert (one["step"] is None) == (not one["first"] or not steps)
        assert one["step"] is None or one["step"] in range(len(steps))
        for key in ("value", "inside"):
            assert one[key] is None or one[key] in range(len(data["values"]))
        assert one["label"] and not one["label"].startswith("%")
        for number in range(one["first"], one["last"] + 1):
            total[number] += one["nbytes"]
    for amounts in memory["rest"].values():
        total = [a + b for a, b in zip(total, amounts, strict=True)]
    assert total == live
    assert max(live) == live[memory["peak_instruction"]]
    if steps and memory["peak_instruction"]:
        peak = steps[memory["peak_step"]]
        assert peak["live_nbytes"] == max(live)
        assert peak["fullest_instruction"] == memory["peak_instruction"]
    for one in data["values"]:
        assert 0 <= one["made_at"] <= one["last_needed_at"] <= memory["count"]
        if one["life"] is not None:
            life = one["life"]
            assert 0 <= life["first"] <= life["last"] < len(memory["live"])
            assert one["last_needed_at"] <= life["last"], one["name"]
            assert life["reader"] is None or 0 <= life["reader"] < len(data["steps"])


def assert_agrees(data: Data, report: MemoryReport) -> None:
    """The memory of the page is that of the memory report."""
    memory, phase = data["memory"], report.main
    assert memory["executor"] == report.executor
    assert memory["live"] == [moment.live_nbytes for moment in phase.timeline]
    assert memory["peak_nbytes"] == phase.peak_nbytes
    assert memory["prediction_peak_nbytes"] == report.prediction.peak_nbytes
    assert memory["parts"] == {kind: nbytes for kind, nbytes in phase.parts.items() if nbytes}
    for one in data["values"]:
        value = report.values.get(one["name"])
        if value is not None:
            assert one["nbytes"] == value.nbytes
            assert one["stored"] == value.stored
            assert (one["made_at"], one["last_needed_at"]) == (value.made_at, value.last_needed_at)
            assert one["kept_because"] == value.kept_because
            assert _untimed(one["why"]) == _untimed(report.why(one["name"]))
        assert "instruction" not in one["why"], "a page counts steps"
        for number in re.findall(r"\bstep (\d+)", one["why"]):
            assert 1 <= int(number) <= len(data["steps"])


def _untimed(sentence: str) -> str:
    """Without the numbers, which count instructions in a report and steps in a page."""
    return re.sub(r"\b(instruction|step) \d+( to \d+)?|kept to \d+", "...", sentence)

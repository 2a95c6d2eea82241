"""The table: from the seconds of all rounds to what a person reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from cases.case import IMPLEMENTATIONS
from measure import Estimate, geometric_mean, median_estimate, paired_ratio

OURS = "chainrule"
DISTURBING_CPUS = 0.1  # the average number of CPUs busy with others that spoils a measurement
INSTRUCTIONS = {"all": "all instructions", "avx2": "AVX2 without AVX-512"}
PEERS = tuple(name for name in IMPLEMENTATIONS if name != OURS)


def table(found: Mapping[str, Any]) -> str:
    """All figures, as Markdown; also adds "summary" to each case of `found`, for the JSON."""
    notes: list[str] = []
    parts = [heading(found)]
    if found["cases"]:
        for case in found["cases"]:
            case["summary"] = summary(case)
        parts.append(times(found["cases"], notes))
        parts.append(means(found["cases"]))
        parts.append(disturbed(found["cases"]))
        parts.append(distances(found["cases"]))
        parts.append(ways(found["cases"]))
    if found["first_calls"]:
        for case in found["first_calls"]:
            case["summary"] = first_summary(case)
        parts.append(first_times(found["first_calls"], notes))
    parts.append("\n".join(notes))
    return "\n\n".join(part for part in parts if part)


def heading(found: Mapping[str, Any]) -> str:
    """Where and how."""
    versions: dict[str, str] = {}
    for case in found["cases"]:
        versions |= case["versions"]
    machine, how = found["machine"], found["plan"]
    beside = "".join(f", {name} installed" for name in found["beside"])
    return (
        f"{machine['cpu']}, {machine['cpus']} CPUs, {found['threads']} threads, "
        f"{INSTRUCTIONS[found['level']]}{beside}; "
        f"{how['processes']} processes of {how['rounds']} rounds; "
        f"chainrule runs by {found['executor']!r}.\n"
        + ", ".join(f"{name} {version}" for name, version in versions.items())
    ).rstrip()


def pooled(case: Mapping[str, Any], name: str) -> list[float]:
    """The seconds of all rounds of all processes that have the name."""
    return [second for process in case["processes"] for second in process.get(name, ())]


def ratio(case: Mapping[str, Any], theirs: str, ours: str) -> Estimate | None:
    """Of theirs / ours, paired by round; None where no process has both."""
    both = [process for process in case["processes"] if theirs in process and ours in process]
    if not both:
        return None
    return paired_ratio(
        [second for process in both for second in process[theirs]],
        [second for process in both for second in process[ours]],
    )


def summary(case: Mapping[str, Any]) -> dict[str, Any]:
    """Medians, ratios to chainrule, the fastest peer, and multiples of the yardsticks."""
    names = [*IMPLEMENTATIONS, *case["yardsticks"]]
    medians = {name: median(pooled(case, name)) for name in names if pooled(case, name)}
    peers = [name for name in PEERS if name in medians]
    ratios = {name: as_list(ratio(case, name, OURS)) for name in peers}
    return {
        "median_seconds": medians,
        "process_medians": {
            name: [median(process[name]) for process in case["processes"] if name in process]
            for name in medians
        },
        "ratio_to_chainrule": {name: value for name, value in ratios.items() if value},
        "fastest_peer": min(peers, key=medians.__getitem__, default=None),
        "multiples": {
            yardstick: {
                name: as_list(ratio(case, name, yardstick))
                for name in IMPLEMENTATIONS
                if name in medians and yardstick in medians
            }
            for yardstick in case["yardsticks"]
        },
    }


def as_list(estimate: Estimate | None) -> list[float | None] | None:
    return [estimate.median, estimate.low, estimate.high] if estimate else None


def times(cases: Iterable[Mapping[str, Any]], notes: list[str]) -> str:
    """One row a case: the time of each implementation, and the ratio of each peer to chainrule."""
    rows = []
    for case in cases:
        figures = case["summary"]
        cells = []
        for name in IMPLEMENTATIONS:
            if name not in figures["median_seconds"]:
                cells.append(note(reasons(case["absent"], name), notes))
                continue
            cell = duration(figures["median_seconds"][name])
            if name in figures["ratio_to_chainrule"]:
                cell += f" ({figures['ratio_to_chainrule'][name][0]:.2f}×)"
            cells.append(cell)
        fastest = figures["fastest_peer"]
        against = interval(figures["ratio_to_chainrule"].get(fastest))
        rows.append([case["title"], *cells, fastest or "none", against])
    head = ["case", *IMPLEMENTATIONS, "fastest peer", "its ratio [95 %]"]
    return (
        "Median time of a call, and in brackets the median of (peer's time / chainrule's).\n\n"
        + markdown(head, rows)
    )


def means(cases: Iterable[Mapping[str, Any]]) -> str:
    """The geometric mean of the ratios to the fastest peer."""
    ratios = []
    for case in cases:
        figures = case["summary"]
        value = figures["ratio_to_chainrule"].get(figures["fastest_peer"])
        if value:
            ratios.append(value[0])
    if not ratios:
        return ""
    return (
        f"Fastest peer / chainrule, geometric mean of {len(ratios)}: {geometric_mean(ratios):.2f}"
    )


def disturbed(cases: Iterable[Mapping[str, Any]]) -> str:
    """A warning with the cases during which other processes kept the CPUs busy."""
    names = []
    for case in cases:
        busiest = max((cpus or 0 for cpus in case["cpus_busy_elsewhere"]), default=0)
        if busiest > DISTURBING_CPUS:
            names.append(f"{case['name']} ({busiest:.2f})")
    if not names:
        return ""
    return "WARNING: other processes were busy (CPUs on average) during: " + ", ".join(names)


def distances(cases: Iterable[Mapping[str, Any]]) -> str:
    """Each time as a multiple of the case's yardsticks."""
    rows = []
    for case in cases:
        for yardstick, multiples in case["summary"]["multiples"].items():
            measured = case["summary"]["median_seconds"].get(yardstick)
            cells = [interval(multiples.get(name)) for name in IMPLEMENTATIONS]
            taken = duration(measured) if measured else reasons(case["absent"], yardstick)
            rows.append([case["title"], yardstick, taken, *cells])
    if not rows:
        return ""
    head = ["case", "yardstick", "its time", *IMPLEMENTATIONS]
    return "Times as multiples of a yardstick.\n\n" + markdown(head, rows)


def ways(cases: Iterable[Mapping[str, Any]]) -> str:
    """Which variant was the fastest, where there was a choice."""
    lines = []
    for case in cases:
        for name in IMPLEMENTATIONS:
            taken = [process[name] for process in case["variants"] if name in process]
            if any(name in tried for tried in case["tried"]):
                chosen = ", ".join(f"{way} ({taken.count(way)}×)" for way in dict.fromkeys(taken))
                lines.append(f"* {case['name']}, {name}: {chosen}")
    return "Where there were several ways, the fastest of each process:\n\n" + "\n".join(lines)


def first_summary(case: Mapping[str, Any]) -> dict[str, Any]:
    """Medians with intervals, and the medians of the imports before."""
    return {
        "seconds": {name: as_list(median_estimate(v)) for name, v in case["seconds"].items()},
        "import_seconds": {name: median(v) for name, v in case["import_seconds"].items()},
    }


def first_times(cases: Iterable[Mapping[str, Any]], notes: list[str]) -> str:
    """Seconds to the first result, and in brackets those of the imports before."""
    rows = []
    for case in cases:
        cells = []
        for name in IMPLEMENTATIONS:
            value = case["summary"]["seconds"].get(name)
            if value is None:
                cells.append(note(reasons(case["absent"], name), notes))
            else:
                imports = case["summary"]["import_seconds"][name]
                cells.append(f"{interval(value)} s (+ {imports:.2f})")
        rows.append([case["title"], *cells])
    return (
        "Seconds to the first result in a fresh process with empty caches, imports excluded "
        "(and those of the imports).\n\n" + markdown(["case", *IMPLEMENTATIONS], rows)
    )


def reasons(absent: Mapping[str, str], name: str) -> str:
    """Why there is no figure: of the implementation, or of each of its variants."""
    own = {key: why for key, why in absent.items() if key == name or key.startswith(f"{name}: ")}
    return "; ".join(dict.fromkeys((own or absent).values())) or "not measured"


def note(text: str, notes: list[str]) -> str:
    """A reference to the footnote with this text, which is added if it is new."""
    known = [line.split("] ", 1)[1] for line in notes]
    if text not in known:
        notes.append(f"[{len(notes) + 1}] {text}")
        known.append(text)
    return f"none [{known.index(text) + 1}]"


def duration(seconds: float) -> str:
    """Three digits, in µs, ms or s."""
    for unit, scale in (("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * scale:
            return f"{digits(seconds / scale)} {unit}"
    return f"{digits(seconds)} s"


def digits(value: float) -> str:
    """Three significant ones, without an exponent."""
    return (
        f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    )


def interval(value: list[float | None] | None) -> str:
    """ "1.23 [1.20, 1.26]"."""
    if value is None:
        return "none"
    middle, low, high = value
    assert middle is not None
    bounds = f" [{digits(low)}, {digits(high)}]" if low is not None and high is not None else ""
    return digits(middle) + bounds


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table with its columns aligned, readable as text."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"

    return "\n".join(
        [line(head), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(line, rows)]
    )

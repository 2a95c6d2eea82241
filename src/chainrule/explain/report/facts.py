"""The head of a page: which program at which sizes, and what it takes in a few numbers."""

from __future__ import annotations

from collections.abc import Iterator

from chainrule.explain.memory.run_memory import WORKSPACE, RunMemory
from chainrule.explain.reading.statements import Reading
from chainrule.explain.report.memory_view import part_of
from chainrule.explain.report.plain import size
from chainrule.explain.report.subject import Subject
from chainrule.graph.bytes_text import in_bytes
from chainrule.graph.graph import Graph
from chainrule.graph.sizes.sizes import Size


def subtitle_of(subject: Subject) -> str:
    """`model.py: objective · n = 1,797 · native executor`."""
    parts = [_place(subject.graph)]
    parts += [f"{name} = {number:,}" for name, number in subject.sizes.items()]
    if subject.memory is not None:
        parts.append(f"{subject.executor} executor")
    return " · ".join(part for part in parts if part)


def _place(graph: Graph) -> str:
    """The file and the function of the program."""
    for node in graph.nodes:
        code, scope = node.origin.code, node.origin.scope
        if code is not None and scope is None:
            file = code.co_filename.replace("\\", "/").rsplit("/", 1)[-1]
            return f"{file}: {code.co_name}"
    return graph.name


def facts_of(subject: Subject, reading: Reading) -> Iterator[tuple[str, str]]:
    """What a reader asks first, each with a label."""
    graph = subject.shown
    for label, names in (("Parameters", subject.parameters), ("Optimizer state", subject.state)):
        types = [graph.input(name).type for name in names]
        if types:
            yield label, _amount([one.size for one in types], [one.nbytes for one in types])
    report = subject.memory
    if report is not None:
        peak = "Peak of training" if report.training is not None else "Peak of a run"
        yield peak, in_bytes(report.main.peak_nbytes)
        if report.training is not None:
            yield "Peak of prediction", in_bytes(report.prediction.peak_nbytes)
        yield from _largest(report.main, reading)
    flops = sum((node.primitive.flops(node) for node in graph.nodes), 0)
    if isinstance(flops, int):
        yield "FLOPs", f"{flops:,}"
    yield "Nodes", f"{len(graph.nodes):,}"


def _largest(run: RunMemory, reading: Reading) -> Iterator[tuple[str, str]]:
    """What takes most bytes at the peak: a value, of several one that has a name, or workspace."""
    alive = [one for one in run.usage.alive_at(run.peak_instruction) if not one.in_place]
    most = max((one.nbytes for one in alive), default=0)
    several = [one.node for one in alive if one.nbytes == most]
    names = run.graph.name_of
    workspace = run.parts[WORKSPACE]
    if workspace > most:
        yield "Largest at the peak", f"{WORKSPACE}, {in_bytes(workspace)}"
    elif most:
        name = next((names[one] for one in several if one in names), part_of(reading, several[0]))
        yield "Largest at the peak", f"{name}, {in_bytes(most)}"


def _amount(counts: list[int | Size], nbytes: list[int | Size]) -> str:
    """`2,368 (9.25 KiB)`; a formula where sizes are named."""
    count, total = sum(counts, 0), sum(nbytes, 0)
    if isinstance(count, int) and isinstance(total, int):
        return f"{count:,} ({in_bytes(total)})"
    return str(size(count))

"""`report_data`: a graph, its values and its memory as plain data, which the page shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chainrule.errors import InputError
from chainrule.execute.executors import executor_named
from chainrule.execute.run import Keep
from chainrule.explain.memory.tradeoff import Tradeoff, refuse_without_budgets
from chainrule.explain.reading.statements import read_apart
from chainrule.explain.reading.symbols import Indices, notation_of
from chainrule.explain.report.advice import Advice, advice_data, checked_advice
from chainrule.explain.report.curves import History, curves_of
from chainrule.explain.report.facts import facts_of, subtitle_of
from chainrule.explain.report.layout_data import drawing_data
from chainrule.explain.report.memory_view import memory_data
from chainrule.explain.report.pictures import BUDGET, Pictures
from chainrule.explain.report.plain import text
from chainrule.explain.report.steps import steps_of
from chainrule.explain.report.subject import WALKED, SplitStep, Subject, subject_of
from chainrule.explain.report.tradeoff_view import tradeoff_data
from chainrule.explain.report.values import Values
from chainrule.graph.collector import without_collector
from chainrule.version import VERSION

SCHEMA = "chainrule.report/1"


@without_collector
def report_data(
    what: Any,
    inputs: Mapping[str, Any] | None = None,
    *,
    state: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    executor: str | None = None,
    keep: Keep = "outputs",
    history: History | None = None,
    title: str | None = None,
    indices: Indices = "subscript",
    symbols: Mapping[str, str] | None = None,
    tradeoff: bool = False,
    advice: Advice | Iterable[Advice] = (),
    picture_nbytes: int = BUDGET,
) -> dict[str, Any]:
    """What the page about `what` shows, as dicts and lists (docs/report_schema.md).

    `what` is a graph, forward alone or with a backward pass, a training step, or a run; of a step
    that is split over ranks it is the step itself, and what its ranks do beside it.  `inputs`
    are arrays by name, containers as they were traced; of a training step the parameters are among
    them, or in `state`.  With them the reference executor runs the graph once, and every value has
    its numbers; without, there are shapes, and bytes where `sizes` gives all named sizes.

    The memory view and the order of the steps are those of `executor`, when it keeps what `keep`
    says: "reference" computes forward and then backward, "native" in the order of its plan.  None
    is the executor of a training step, and the reference for a graph or a run.
    `history` is a JSON Lines file or dicts, one for each step of a training.  `indices` and
    `symbols` are as for equations.  With `tradeoff`, what less memory costs in time is planned, as
    `MemoryReport.tradeoff` does.  `advice` is what `cr.ways` and `cr.batch_study` gave.  All
    pictures of values together take at most `picture_nbytes` bytes.

    InputError for anything else, for arguments that do not go together, and for a damaged history;
    what the run raises.
    """
    if tradeoff:
        refuse_without_budgets(executor_named(executor or getattr(what, "executor", WALKED)))
    advised = checked_advice(advice)
    curves, notes = (None, []) if history is None else curves_of(history)
    split = what if isinstance(what, SplitStep) else None
    what = what if split is None else split.parts.whole
    subject = subject_of(what, inputs, state=state, sizes=sizes, executor=executor, keep=keep)
    found = _found(subject) if tradeoff else None
    graph = subject.shown
    reading = read_apart(graph)
    equations = subject.graph.equations(indices=indices, symbols=symbols)
    pictures = Pictures(picture_nbytes)
    values = Values(subject, reading, equations, notation_of(graph, indices, symbols), pictures)
    run = None if subject.memory is None else subject.memory.main
    steps = steps_of(subject.graph, run, values.ids, values.given, values.read_by)
    listed = values.data(steps)
    for value, one in enumerate(listed):
        one["life"] = steps.lives.get(value)
    memory = None
    if subject.memory is not None:
        memory = memory_data(subject.memory, reading, values.id_of, steps)
    ranks = None
    if split is not None and subject.memory is not None:
        ranks = split.ranks_data(subject.sizes)
    weighed = None
    if found is not None:
        pairs = zip(subject.graph.nodes, graph.nodes, strict=True)
        making = {node: steps.making[one] for one, node in pairs if one in steps.making}
        weighed = tradeoff_data(found, reading, values.id_of, making)
    notes = [*subject.notes, *notes, *values.notes()]
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "title": text(graph.name if title is None else str(title)),
        "subtitle": text(subtitle_of(subject)),
        "has_values": subject.values is not None,
        "facts": [[text(label), text(words)] for label, words in facts_of(subject, reading)],
        "notes": list(map(text, notes)),
        "sources": values.sources.data(),
        "values": listed,
        "steps": steps.data,
        "memory": memory,
        "tradeoff": weighed,
        "ranks": ranks,
        "advice": advice_data(advised) or None,
        "curves": curves,
        "drawing": drawing_data(graph, indices=indices, symbols=symbols),
    }


def _found(subject: Subject) -> Tradeoff:
    if subject.memory is None:
        missing = [name for name in subject.graph.sizes if name not in subject.sizes]
        example = ", ".join(f'"{name}": 256' for name in missing)
        raise InputError(
            f"tradeoff=True plans {subject.graph.name} for less and less memory, and its bytes are "
            f"not known: {', '.join(missing)} has no number",
            hint=f"give inputs, or sizes={{{example}}}",
        )
    return subject.memory.tradeoff()

"""Makes the graph that `file.py:function` and the options ask for, with gradients and update."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from chainrule.cli.program import Program
from chainrule.execute.executors import executor_named
from chainrule.graph.sizes import sizes
from chainrule.tracing import trace
from chainrule.train import Optimizer, TrainingStep, adam, adamw, sgd
from chainrule.train.loop.rows import roots_of
from chainrule.train.step.carried import returned_state
from chainrule.train.step.making import step_of as made_of
from chainrule.train.step.switch import forms_of
from chainrule.transforms import backward

if TYPE_CHECKING:
    from chainrule.graph.graph import Graph

OPTIMIZERS: Mapping[str, Callable[[], Optimizer]] = {
    "sgd": lambda: sgd(0.1),
    "momentum": lambda: sgd(0.1, momentum=0.9),
    "adam": adam,
    "adamw": adamw,
}


def sizes_of(dims: Sequence[str]) -> dict[str, int]:
    """`n=256` as the user wrote it, as a name and a number."""
    found = {}
    for name, number in pairs_of("--dim", dims, "n=256"):
        if not number.removeprefix("-").isdecimal():
            raise click.UsageError(f"--dim {name}={number} is not a size: write --dim n=256")
        found[name] = int(number)
    return found


def pairs_of(option: str, given: Sequence[str], example: str) -> list[tuple[str, str]]:
    """`name=value` as the user wrote it; a usage error where one of the two is missing."""
    found = []
    for one in given:
        name, _, value = one.partition("=")
        if not name.strip() or not value.strip():
            what = "size" if option == "--dim" else "pair"
            raise click.UsageError(f"{option} {one} is not a {what}: write {option} {example}")
        found.append((name.strip(), value.strip()))
    return found


def graph_of(
    program: Program, wrt: Sequence[str], of: str | None, optimizer: str | None = None
) -> Graph:
    """The graph of a program: forward, with `wrt` backward, or a training step."""
    if optimizer is not None:
        return step_of(program, wrt, of, optimizer).graph
    graph = program.traced_by(lambda function, types: trace(function, **types))
    if of is not None and not wrt:
        raise click.UsageError(
            f"--of {of} needs --wrt, the inputs to differentiate by\n"
            f"  try: --of {of} --wrt {graph.inputs[0].name if graph.inputs else 'W'}"
        )
    return backward(graph, wrt=_names(wrt), of=of) if wrt else graph


def step_of(
    program: Program,
    wrt: Sequence[str],
    of: str | None,
    optimizer: str,
    executor: str | None = None,
) -> TrainingStep:
    """The training step of a program; without `wrt`, of all that is trained.

    What a function returns as `J, {name: ...}`, by names of its arguments, is its state.
    """
    forms = program.traced_by(forms_of)
    graph = forms.training
    state = returned_state(graph)
    trained = _names(wrt) if wrt else _trained(graph, state)
    if trained == "all":
        floats = [item.name for item in graph.inputs if item.type.is_float]
        trained = tuple(name for name in floats if name not in _leaves(graph, state))
    return made_of(forms, trained, OPTIMIZERS[optimizer](), of, state, executor_named(executor))


def _leaves(graph: Graph, names: Sequence[str]) -> set[str]:
    """The inputs that these arguments are made of."""
    return {leaf for name in names for leaf in graph.structures[name].leaf_names}


def _names(wrt: Sequence[str]) -> Any:
    """`--wrt all` is a word, not a name."""
    return wrt[0] if len(wrt) == 1 else tuple(wrt)


def _trained(graph: Graph, state: Sequence[str]) -> tuple[str, ...]:
    """What is trained where nobody says it: the arrays of floats without the only named size.

    That size is then the number of examples.  With several named sizes, or none, nobody knows.
    """
    held = _leaves(graph, state)
    floats = [item for item in graph.inputs if item.type.is_float and item.default is None]
    floats = [item for item in floats if item.name not in held]
    alone = [item.name for item in floats if not any(_named(size) for size in item.type.shape)]
    if len(graph.sizes) == 1 and alone:
        return tuple(alone)
    root_of = roots_of(graph)
    examples = set(graph.sizes[:1])  # the size that is named first, most likely
    likely = [root_of[item.name] for item in floats if root_of[item.name] != item.name]
    likely = likely or [
        item.name
        for item in floats
        if examples and not any(examples & sizes.names(size) for size in item.type.shape)
    ]
    likely = likely or [item.name for item in floats[-1:]] or ["all"]
    raise click.UsageError(
        "say with --wrt which inputs to train, unless the number of "
        "examples is the only named size\n"
        f"  try: --wrt {','.join(dict.fromkeys(likely))}; the inputs of floats are: "
        f"{', '.join(dict.fromkeys(root_of[item.name] for item in floats)) or 'none'}"
    )


def _named(size: Any) -> bool:
    return not isinstance(size, int)

"""`Forward`: computes values of an objective batch by batch, without a backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chainrule.errors import InputError, MemoryLimitError
from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.random import fold_in
from chainrule.run import run_graph
from chainrule.run.run import bound_to, leaves_of
from chainrule.train.random_inputs import EVALUATION, Keys, key_inputs
from chainrule.train.rows import (
    batches_of,
    first_batches,
    refuse_other_rows,
    refuse_unknown,
    roots_of,
)
from chainrule.transforms.forward_only import evaluation_graph

REMEMBERED = 8  # lengths of batches whose code is kept at hand


class _Code:
    """The machine code of a graph for arguments of the types of these."""

    def __init__(self, graph: Graph, given: Mapping[str, Any]) -> None:
        from chainrule.run.native.launch import Launcher

        concrete, inputs = bound_to(graph, given)
        self._outputs = [node for _, node in concrete.outputs]
        self._launch = Launcher(concrete, self._outputs)
        self._nodes = [(x.name, x.node) for x in concrete.inputs if x.name in given]
        self._defaults = {x.node: inputs[x.node] for x in concrete.inputs if x.name not in given}

    def __call__(self, given: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
        """The outputs; None where there is not enough memory, or an index is out of range."""
        from chainrule.run.native.evaluate import given_value

        inputs = {node: given[name] for name, node in self._nodes}
        inputs |= self._defaults
        try:
            made = self._launch(inputs)
        except MemoryLimitError:
            return None
        if made is None:
            return None
        return [made[n] if n in made else given_value(n, inputs) for n in self._outputs]


def _types(given: Mapping[str, Any]) -> Any:
    """What has to be the same for the same code; None where something is no array."""
    if not all(type(array) is np.ndarray for array in given.values()):
        return None
    return tuple((name, array.dtype, array.shape) for name, array in given.items())


@dataclass(frozen=True, eq=False)
class Forward:
    """The values `names` of an objective's graph, ready to be computed batch by batch.

    `source` is the graph that knows the containers of arguments; `graph` has what the values need
    and nothing else.  `arrays` are the inputs that are not of a batch, by name; whoever changes
    them in place changes what is computed.
    """

    source: Graph
    graph: Graph
    names: tuple[str, ...]
    arrays: Mapping[str, Any]
    keys: Keys
    executor: str
    _codes: dict[Any, _Code] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        source: Graph,
        names: tuple[str, ...],
        arrays: Mapping[str, Any],
        key: np.ndarray,
        executor: str,
    ) -> Forward:
        """`arrays` may have more than is needed."""
        graph = evaluation_graph(source, names)
        inputs = {item.name for item in graph.inputs}
        needed = {name: array for name, array in arrays.items() if name in inputs}
        stream = fold_in(key, EVALUATION)
        return cls(source, graph, names, needed, Keys(key_inputs(graph, needed), stream), executor)

    def batches(self, data: Any, batch_size: int) -> Iterable[Mapping[str, Any]]:
        """What the values need of some data, in batches; see `batches_of`.

        InputError for names that the objective lacks, and where something is missing.
        """
        if not self._inputs - {*self.arrays, *self.keys.names}:
            raise InputError(
                f"{', '.join(self.names)} of {self.source.name} needs no data",
                hint="what is the same for all rows is computed once: graph.run(...)",
            )
        if isinstance(data, Mapping):
            chosen = self._chosen(data)
            refuse_other_rows(self.source, chosen)
            return batches_of(chosen, batch_size)
        return map(self._chosen, batches_of(data, batch_size))

    def check(self, data: Any, batch_size: int) -> None:
        """Raise at once what some data would raise for their names, types and sizes."""
        if isinstance(data, Mapping):
            chosen = self._chosen(data)
            refuse_other_rows(self.source, chosen)
            for batch in first_batches(chosen, batch_size):
                bound_to(self.graph, self._given(batch, 0))

    def run(self, batch: Mapping[str, Any], number: int) -> list[np.ndarray]:
        """The values on the batch with this number."""
        given = self._given(batch, number)
        is_plain = self.executor == "native" and not self.graph.guards
        types = _types(given) if is_plain else None
        found = self._codes[types](given) if types in self._codes else None
        if found is None:  # not known yet, or to be refused with reasons
            run = run_graph(self.graph, given, keep="outputs", flat=True, executor=self.executor)
            found = [run[name] for name in self.names]
            if types is not None and len(self._codes) < REMEMBERED:
                self._codes[types] = _Code(self.graph, given)
        return found

    def _given(self, batch: Mapping[str, Any], number: int) -> dict[str, Any]:
        """The inputs by name."""
        leaves = leaves_of(self.source, batch)
        own = {name: leaf for name, leaf in leaves.items() if name in self._inputs}
        return {**self.keys.at(number), **self.arrays, **own}

    @cached_property
    def _inputs(self) -> set[str]:
        return {item.name for item in self.graph.inputs}

    def _chosen(self, data: Mapping[str, Any]) -> dict[str, Any]:
        others = [name for name in self.source.arguments if name not in self.arrays]
        refuse_unknown(self.source, data, "the data", others)
        missing = [name for name in self._wanted if name not in data]
        if missing:
            raise InputError(
                f"the data lack {', '.join(missing)}, to compute {', '.join(self.names)} of "
                f"{self.source.name}",
                where=self.graph[self.names[0]].origin.describe(),
                hint=f"give {', '.join(f'{name}=...' for name in missing)}",
            )
        return {name: value for name, value in data.items() if name in self._taken}

    @cached_property
    def _taken(self) -> set[str]:
        """The arguments of which the values need something."""
        roots = roots_of(self.source)
        return {name for item in self.graph.inputs for name in (item.name, roots[item.name])}

    @cached_property
    def _wanted(self) -> list[str]:
        """The arguments that a batch has to have."""
        roots, own = roots_of(self.source), {*self.arrays, *self.keys.names}
        inputs = [x for x in self.graph.inputs if x.default is None and x.name not in own]
        return list(dict.fromkeys(roots[item.name] for item in inputs))

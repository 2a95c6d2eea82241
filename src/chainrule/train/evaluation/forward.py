"""`Forward`: computes values of an objective batch by batch, without a backward pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from chainrule.dataclass import dataclass, replace
from chainrule.errors import InputError
from chainrule.execute.arguments import bound_to
from chainrule.execute.executor import Program
from chainrule.execute.leaves import leaves_of
from chainrule.execute.prepared import Prepared
from chainrule.execute.run import prepared
from chainrule.graph.cached import cached_property
from chainrule.graph.graph import Graph
from chainrule.random import fold_in
from chainrule.train.loop.rows import (
    batches_of,
    first_batches,
    positions_of,
    refuse_other_rows,
    refuse_unknown,
    roots_of,
)
from chainrule.train.step.random_inputs import EVALUATION, Keys, key_inputs
from chainrule.transforms.forward_only import evaluation_graph
from chainrule.transforms.mistakes.batch_statistics import warn_of_batch_statistics


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
    held: frozenset[str] = frozenset()  # all that is not of a batch, needed or not

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
        warn_of_batch_statistics(graph)
        inputs = {item.name for item in graph.inputs}
        needed = {name: array for name, array in arrays.items() if name in inputs}
        stream = fold_in(key, EVALUATION)
        keys = Keys(key_inputs(graph, needed), stream)
        return cls(source, graph, names, needed, keys, executor, frozenset(arrays))

    def on(self, arrays: Mapping[str, Any]) -> Forward:
        """The same with the arrays of these names, compiled once."""
        other = replace(self, arrays={name: arrays[name] for name in self.arrays})
        vars(other)["_prepared"] = self._prepared
        return other

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
        arguments = positions_of(self.source, self.held)
        return map(self._chosen, batches_of(data, batch_size, arguments))

    def check(self, data: Any, batch_size: int) -> None:
        """Raise at once what some data would raise for their names, types and sizes."""
        if isinstance(data, Mapping):
            chosen = self._chosen(data)
            refuse_other_rows(self.source, chosen)
            for batch in first_batches(chosen, batch_size):
                bound_to(self.graph, self._given(batch, 0))

    def run(self, batch: Mapping[str, Any], number: int) -> list[np.ndarray]:
        """The values on the batch with this number."""
        program, values = self._prepared(self._given(batch, number))
        return [values[program.graph.names[name]] for name in self.names]

    @cached_property
    def _prepared(self) -> Prepared[Program]:
        return prepared(self.graph, "outputs", self.executor)

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

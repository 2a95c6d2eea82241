"""The executor `xla` as an object: its programs are compiled by JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chainrule.execute.executor import Executor, Traits
from chainrule.execute.xla.jax_here import refusal
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.execute.across import Across
    from chainrule.execute.xla.grid_program import GridProgram
    from chainrule.execute.xla.xla_program import XlaProgram


class XlaExecutor:
    """See `Executor`; JAX is imported when a program is first called."""

    name = "xla"
    traits = Traits(has_kernels=True, c_order_only=True, compiles_to_count=True)

    def refusal(self) -> str | None:
        """Why JAX cannot be used here."""
        return refusal()

    def within(self, memory_nbytes: int) -> Executor:
        """The executor whose runs need at most so many bytes, as XLA counts them."""
        from chainrule.execute.xla.within import XlaWithin  # where a budget is given

        return XlaWithin(memory_nbytes)

    def prepare(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
        *,
        traced: Graph | None = None,
    ) -> XlaProgram:
        """See `Executor.prepare`.  The first call raises UnsupportedError where JAX is missing."""
        from chainrule.execute.xla.xla_program import XlaProgram

        return XlaProgram(graph, results, overwrites, traced)

    def device_count(self) -> tuple[int, str]:
        """See `chainrule.execute.across`."""
        from chainrule.execute.xla.grid import device_count

        return device_count()

    def device_memory(self) -> int | None:
        """See `chainrule.execute.across`."""
        from chainrule.execute.xla.grid import device_memory

        return device_memory()

    def across(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
        lying: Across,
    ) -> GridProgram:
        """See `chainrule.execute.across`."""
        from chainrule.execute.xla.grid_program import GridProgram

        return GridProgram(graph, results, overwrites, lying)

    def join(self, address: str, rank: int, count: int, device: int) -> None:
        """See `chainrule.execute.across`."""
        from chainrule.execute.xla.processes import join

        join(address, rank, count, device)


XLA = XlaExecutor()

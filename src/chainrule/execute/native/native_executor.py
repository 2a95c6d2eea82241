"""The native executor as an object: its programs are plans compiled by LLVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chainrule.errors import UnsupportedError
from chainrule.execute.executor import Traits
from chainrule.graph.graph import Graph
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.execute.native.program import NativeProgram


class NativeExecutor:
    """See `Executor`; what compiles is imported when the first graph is prepared.

    With `placement_seconds` offsets in the one block of memory are searched for so long.
    """

    traits = Traits(has_kernels=True, one_block=True, c_order_only=True)

    def __init__(self, placement_seconds: float = 0.0) -> None:
        self.placement_seconds = placement_seconds
        self.name = "native"
        if placement_seconds:
            self.name += f" (offsets searched for {placement_seconds:g} s)"

    def searching(self, placement_seconds: float) -> NativeExecutor:
        """The same executor, with offsets that are searched for so long."""
        return NativeExecutor(placement_seconds)

    def refusal(self) -> str | None:
        """Why no native code can be made here."""
        from chainrule.machine_code.target import native_refusal

        return native_refusal()

    def prepare(
        self,
        graph: Graph,
        results: Sequence[Node],
        overwrites: Mapping[Node, Node],
        *,
        traced: Graph | None = None,
    ) -> NativeProgram:
        """See `Executor.prepare`."""
        try:
            from chainrule.execute.native.program import NativeProgram
        except ImportError as error:
            raise UnsupportedError(
                self.refusal() or str(error), hint='executor="reference" runs everywhere'
            ) from error
        return NativeProgram(
            graph, results, overwrites, traced=traced, placement_seconds=self.placement_seconds
        )


NATIVE = NativeExecutor()

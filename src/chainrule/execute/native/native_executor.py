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

    With `placement_seconds` offsets in the one block of memory are searched for so long; a run
    needs at most `memory_nbytes`, on at most `threads` (default: those of the process).
    """

    traits = Traits(has_kernels=True, one_block=True, c_order_only=True)

    def __init__(
        self,
        placement_seconds: float = 0.0,
        memory_nbytes: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.placement_seconds, self.memory_nbytes = placement_seconds, memory_nbytes
        self.threads = threads
        self.name = "native"
        if placement_seconds:
            self.name += f" (offsets searched for {placement_seconds:g} s)"
        if memory_nbytes is not None:
            self.name += f" (within {memory_nbytes:,} bytes)"
        if threads is not None:
            self.name += f" (on {threads} thread{'' if threads == 1 else 's'})"

    def searching(self, placement_seconds: float) -> NativeExecutor:
        """The same executor, with offsets that are searched for so long."""
        return NativeExecutor(placement_seconds, self.memory_nbytes, self.threads)

    def within(self, memory_nbytes: int) -> NativeExecutor:
        """The same executor, whose runs need at most so many bytes: values are computed again."""
        return NativeExecutor(self.placement_seconds, memory_nbytes, self.threads)

    def on_threads(self, threads: int) -> NativeExecutor:
        """The same executor, whose programs run on at most so many threads."""
        return NativeExecutor(self.placement_seconds, self.memory_nbytes, threads)

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
            graph,
            results,
            overwrites,
            traced=traced,
            placement_seconds=self.placement_seconds,
            memory_nbytes=self.memory_nbytes,
            threads=self.threads,
        )


NATIVE = NativeExecutor()

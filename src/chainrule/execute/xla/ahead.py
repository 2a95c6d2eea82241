"""Arrays that are on their way to the device while the run before theirs goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.execute.home import Home
from chainrule.execute.xla.jax_here import jax_here
from chainrule.graph.node import Node

if TYPE_CHECKING:
    from chainrule.execute.xla.xla_program import XlaProgram


class SentAhead:
    """The arrays of the next batch, by `home.ahead`, on the device of a program; on a CPU, whose
    memory they are in, they are only made."""

    def __init__(self, program: XlaProgram, order: Sequence[Node], home: Home) -> None:
        self.program, self.home = program, home
        own = set(order)
        self.inputs = {x.name: x.node for x in program.graph.inputs if x.node in own}

    def there(self, arrays: list[Any]) -> list[Any]:
        """The arguments, with what was sent ahead in place of arrays in memory."""
        sent = self.home.sent
        if not sent:
            return arrays
        return [sent[id(one)][1] if id(one) in sent else one for one in arrays]

    def send(self) -> None:
        """Make the next batch, and send it; what does not fit as it is, or on the device, is
        left to its own run."""
        if self.home.ahead is None:
            return
        coming = self.home.ahead()
        before, sent = self.home.sent, dict[int, Any]()
        is_sent = self.program.sends_ahead and has_own_memory()
        try:
            for name, array in coming.items() if is_sent else ():
                node = self.inputs.get(name)
                if node is not None and self._fits(node, array):
                    sent[id(array)] = before.get(id(array)) or (array, self._on_device(node, array))
        except jax_here().errors.JaxRuntimeError:
            sent.clear()  # the device has no memory for both: the run that takes them says so
        self.home.sent = sent

    def _fits(self, node: Node, array: Any) -> bool:
        is_plain = type(array) is np.ndarray and array.dtype == node.dtype
        return is_plain and array.shape == self.program.shape_given(node)

    def _on_device(self, node: Node, array: np.ndarray) -> Any:
        (ready,) = self.program.ready([node], [array])
        return self.program.sent(node, array) if ready is array else ready


def has_own_memory() -> bool:
    """Whether the device does not read the memory of this process."""
    return jax_here().default_backend() != "cpu"

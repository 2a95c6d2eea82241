"""Whether a kernel may write a value over one that it reads: only element by element."""

from __future__ import annotations

from collections.abc import Container, Iterable

from chainrule.graph.node import Node
from chainrule.schedule.virtual import rearranges


def rearranged_on_the_way(
    written: Iterable[Node], reads: Container[Node], sources: Container[Node]
) -> Node | None:
    """A node through which a kernel may need elements of the sources after they are overwritten.

    The kernel computes what is `written` from `reads`; a written value takes the bytes of the
    `sources`.  Rows that are reduced and then used again pass: that the kernel keeps a row until
    it has done with it cannot be seen here.
    """
    stack: list[tuple[Node, Node | None]] = [(node, None) for node in written]
    seen = {(node, True) for node, _ in stack}
    while stack:
        node, culprit = stack.pop()
        if node in sources and culprit is not None:
            return culprit
        if node in reads:
            continue
        if culprit is None and rearranges(node):
            culprit = node
        for parent in node.inputs:
            if (parent, culprit is None) not in seen:
                seen.add((parent, culprit is None))
                stack.append((parent, culprit))
    return None

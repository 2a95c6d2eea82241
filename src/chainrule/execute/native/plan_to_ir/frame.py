"""Where the values of a plan lie while its instructions are written."""

from __future__ import annotations

from collections.abc import Mapping

from chainrule.dataclass import dataclass, field
from chainrule.execute.native.plan_to_ir.emit import Operand
from chainrule.graph.node import Node
from chainrule.plan.planner import Plan
from chainrule.plan.roles import Role


@dataclass(frozen=True, eq=False)
class Frame:
    """A plan: that of the step, or of one iteration of a loop, for which pointers to its `arenas`
    are known; those of the step are in slots of the context."""

    plan: Plan
    roles: Mapping[Node, Role]
    arenas: Mapping[str, Operand] = field(default_factory=dict)

    @property
    def is_outermost(self) -> bool:
        """Whether it is that of the step."""
        return not self.arenas

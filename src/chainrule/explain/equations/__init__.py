"""The equations of a graph: what every named value is, and how every gradient comes about."""

from chainrule.explain.equations.equations import Equation, Equations, equations

__all__ = ["Equation", "Equations", "equations"]

"""Writes the equations of a graph: every named value and every gradient."""

from chainrule.explain.equations.equations import Equation, Equations, equations

__all__ = ["Equation", "Equations", "equations"]

"""Finds why elements of gradients are 0, and which units are dead."""

from chainrule.explain.zeros.find import Cause, DeadUnits, Why, ZeroElements, Zeros, zeros

__all__ = ["Cause", "DeadUnits", "Why", "ZeroElements", "Zeros", "zeros"]
